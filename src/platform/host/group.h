/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_GROUP_H
#define HOST_GROUP_H

/*
 * ncclGroupStart() and ncclGroupEnd(): what a thread calls in between is
 * collected and takes effect at the outermost end, all of it, or none if any
 * call failed.  Every call is a group of its own when none is open.
 */

#include "platform/host/join.h"

typedef ncclResult_t (*group_job_fn)(struct ncclComm *comm);

/* As the functions of NCCL. */
void group_start(void);
ncclResult_t group_end(void);

/* Forget the open group of a thread that ends. */
void group_drop(void);

/* Note that a call inside the group failed, and return @result. */
ncclResult_t group_fail(ncclResult_t result, const char *text);

/* The open group's launch on @comm; NULL without memory. */
struct launch *group_launch(struct ncclComm *comm);

/* Let a rank join at the end of the open group, which owns @join then. */
void group_join(struct join *join);

/* Run @fn(@comm) at the end of the open group, after all launches. */
ncclResult_t group_job(group_job_fn fn, struct ncclComm *comm);

#endif
