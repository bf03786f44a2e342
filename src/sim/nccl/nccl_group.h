/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_GROUP_H
#define SIM_NCCL_NCCL_GROUP_H

/*
 * ncclGroupStart() and ncclGroupEnd(): what a thread calls in between is
 * collected and takes effect at the outermost end, all of it, or none if any
 * call failed.  Every call is a group of its own when none is open.
 */

#include "sim/nccl/nccl_join.h"

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

/* What ncclGroupStart() and ncclGroupEnd() do. */
void group_start(void);
ncclResult_t group_end(void);

/* End the group that a function has opened for itself: returns @result, that of
 * the function, or if it is no error the end's. */
ncclResult_t group_end_call(ncclResult_t result);

/* Forget the open group of a thread that ends. */
void group_drop(void);

/* Note that a call inside the group failed, and return @result. */
ncclResult_t group_fail(ncclResult_t result, const char *text);

/* As group_fail(), for a call that has left its text with comm_error(). */
ncclResult_t group_note(ncclResult_t result);

/* True if a group is open. */
bool group_is_open(void);

/* The launch of the open group on @comm; NULL without memory. */
struct launch *group_launch(struct ncclComm *comm);

/*
 * group_join - let a rank join at the end of the open group
 * group_job  - run @fn(@comm) at the end of the open group, after all launches
 *
 * The communicators that do so in one group have to be all blocking or all not,
 * and the group's end is done accordingly.  A join that is refused is freed.
 */
ncclResult_t group_join(struct join *join);
ncclResult_t group_job(group_job_fn fn, struct ncclComm *comm);

/* From now on the end of the open group returns only when all of it is done,
 * whatever is in it: a communicator is released in it, or a call that always
 * waits has made it. */
void group_block(void);

#endif
