/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_BATCH_H
#define SIM_NCCL_BATCH_H

/*
 * What is done at the end of a group
 */

#include "sim/nccl/join.h"

typedef ncclResult_t (*group_job_fn)(struct ncclComm *comm);

struct job {
	group_job_fn fn;
	struct ncclComm *comm;
};

/* What is to be done at the end of a group. */
struct batch {
	struct launch *first, *last;
	struct join *joins;
	struct job *jobs;
	size_t job_count, job_room;
};

/* Do all of a batch, nothing of it if @error is an error, and forget the
 * batch. */
ncclResult_t batch_run(struct batch *batch, ncclResult_t error);

/* As batch_run().  If @info is not NULL nothing is queued, and it stores what
 * the launches would take. */
ncclResult_t batch_finish(struct batch *batch, ncclResult_t error,
                          ncclSimInfo_t *info);

#endif
