/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_ABORT_H
#define COHORT_ABORT_H

/*
 * Abort handles: end a group from any thread, or from a signal handler, also
 * while the group is being closed
 *
 * Where the group is known to be open, cohort_group_abort() does.  A rank that
 * gives up for a reason of its own calls cohort_comm_fail().
 */

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;
struct cohort_abort;

/*
 * cohort_comm_abort_handle - a handle that ends the communicators of the group
 *
 * A reference, to be given back by cohort_abort_put(); it may outlive the
 * communicator and the group.  Any handle of any rank ends all ranks of this
 * generation: the others could never finish.  NULL for a NULL @comm, and in the
 * child of a fork.  Any thread; does not block.
 */
COHORT_API struct cohort_abort *
cohort_comm_abort_handle(struct cohort_comm *comm);

/*
 * cohort_abort_create - a handle for a group that is still to be opened
 *
 * Set options.abort to it for cohort_group_open(), or for cohort_comm_join() by
 * each rank of this process: then cohort_abort_fire() ends that call while it
 * waits for other processes or for NCCL, within some milliseconds, with
 * COHORT_ABORTED and the reason, and afterwards ends the group.  A handle that
 * was fired before lets nothing be opened; one whose open has failed for
 * another reason can be used again.
 *
 * A reference, to be given back by cohort_abort_put().  NULL without memory, and
 * in the child of a fork.  Any thread; does not block.
 */
COHORT_API struct cohort_abort *cohort_abort_create(void);

/*
 * cohort_abort_fire - end every operation and communicator of the group
 * @handle: may be of a group that is being opened, has ended or was closed
 * @reason: for people, copied (up to 200 bytes); NULL: none
 *
 * As cohort_group_abort(), from any thread, also while the group is being
 * closed or was, any number of times, and from a signal handler: takes no lock,
 * no memory, no thread-local storage, and leaves no text for
 * cohort_last_error().  Does not block.
 *
 * The cause names no rank (its rank is -1).  To go on without the ranks that a
 * verdict named, keep its missing set.
 *
 * COHORT_OK for the call that set the cause; COHORT_ALREADY if there was one,
 * or the group had been closed; COHORT_INVALID for NULL.
 */
COHORT_API int cohort_abort_fire(struct cohort_abort *handle,
                                 const char *reason);

/*
 * cohort_abort_fired - 1 if the group has a cause, whoever set it, else 0
 *
 * An orderly close is no cause.  Any thread, and a signal handler; does not
 * block.
 */
COHORT_API int cohort_abort_fired(const struct cohort_abort *handle);

/*
 * cohort_abort_put - give a handle back
 *
 * No call may use it afterwards.  NULL is allowed and does nothing.  Any
 * thread, not a signal handler; does not block.
 */
COHORT_API void cohort_abort_put(struct cohort_abort *handle);

#ifdef __cplusplus
}
#endif

#endif
