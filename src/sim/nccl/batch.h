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

/* Do it, or if @error is one nothing of it, and forget it. */
ncclResult_t batch_run(struct batch *batch, ncclResult_t error);

/* The same; @info: NULL, or where to store what the launches would take if they were
 * queued, which they are not then. */
ncclResult_t batch_finish(struct batch *batch, ncclResult_t error,
                          ncclSimInfo_t *info);

#endif
