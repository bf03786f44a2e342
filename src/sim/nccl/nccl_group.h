/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_GROUP_H
#define SIM_NCCL_NCCL_GROUP_H

/*
 * Implements ncclGroupStart() and ncclGroupEnd()
 *
 * The calls that a thread makes in a group are collected, and take effect at
 * the end of the outermost group: all of them, or none if one failed.  A call
 * outside a group is a group by itself.
 */

#include "sim/nccl/nccl_join.h"

typedef ncclResult_t (*group_job_fn)(struct ncclComm *comm);

struct job {
	group_job_fn fn;
	struct ncclComm *comm;
};

struct batch {
	struct launch *first, *last;
	struct join *joins;
	struct job *jobs;
	size_t job_count, job_room;
};

/* Run all work in a batch and empty the batch.  If @error is an error, only
 * empty it. */
ncclResult_t batch_run(struct batch *batch, ncclResult_t error);

void group_start(void);

ncclResult_t group_end(void);

/* End the group that a function opened for itself.  @result is the result of
 * the function so far.  Returns @result if it is an error, and the result of
 * the group otherwise. */
ncclResult_t group_end_call(ncclResult_t result);

/* Discard the open group of a thread that is about to exit. */
void group_drop(void);

/* If @result is an error, mark the open group as failed with it.  Store @text
 * for ncclGetLastError(), and return @result. */
ncclResult_t group_fail(ncclResult_t result, const char *text);

/* If @result is an error, mark the open group as failed with it.  Return
 * @result.  The caller has already called comm_error(). */
ncclResult_t group_record_error(ncclResult_t result);

bool group_is_open(void);

/* Return the launch of @comm in the open group, creating it if needed.  Return
 * NULL if out of memory. */
struct launch *group_launch(struct ncclComm *comm);

/* Let a rank join at the end of the open group.  Takes ownership of @join and
 * frees it on failure.  The communicators of a group's joins and jobs must be
 * all blocking or all nonblocking. */
ncclResult_t group_join(struct join *join);

/* Run @fn(@comm) at the end of the open group, after all launches.  The
 * communicators of a group's joins and jobs must be all blocking or all
 * nonblocking. */
ncclResult_t group_job(group_job_fn fn, struct ncclComm *comm);

/* Make the end of the open group wait until all of its work is done, even for
 * nonblocking communicators.  Used if the group releases a communicator, or if
 * the call that opened the group always waits. */
void group_block(void);

#endif
