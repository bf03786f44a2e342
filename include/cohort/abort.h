/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_ABORT_H
#define COHORT_ABORT_H

/*
 * Abort handles: end a group from any thread or from a signal handler, even
 * while the group is being opened or closed
 *
 * If the group is known to be open, cohort_group_abort() is enough.  A rank
 * that cannot continue calls cohort_comm_fail().
 */

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;
struct cohort_abort;

/*
 * cohort_comm_abort_handle - acquire a handle that can end a communicator's
 *                            group
 *
 * Firing the handle of one rank ends all ranks of that communicator's
 * generation.  A handle may outlive the communicator and the group.  Release it
 * with cohort_abort_put().  May be called from any thread; does not block.
 *
 * Returns: a handle, or NULL if @comm is NULL or in the child of a fork
 */
COHORT_API struct cohort_abort *
cohort_comm_abort_handle(struct cohort_comm *comm);

/*
 * cohort_abort_create - create a handle for a group that is not open yet
 *
 * Set options.abort to the handle for cohort_group_open(), or for
 * cohort_comm_join() by each rank of this process.  The effect of
 * cohort_abort_fire() depends on the state of the group:
 *
 *  - Before the group is opened: the open fails with COHORT_ABORTED.
 *  - While the open waits for other processes or for NCCL: the open returns
 *    COHORT_ABORTED within milliseconds.
 *  - While the group is open: the group ends.
 *
 * If the open failed for another reason, the handle can be used again.  Release
 * the handle with cohort_abort_put().  May be called from any thread; does not
 * block.
 *
 * Returns: a handle, or NULL if out of memory or in the child of a fork
 */
COHORT_API struct cohort_abort *cohort_abort_create(void);

/*
 * cohort_abort_fire - end all operations and communicators of a group
 * @handle: its group may be opening, open, closing, ended or closed
 * @reason: for diagnostics only, copied (up to 200 bytes); NULL for none
 *
 * Like cohort_group_abort(), but may also be called from a signal handler, and
 * at any time.  The call takes no lock, allocates no memory, uses no
 * thread-local storage, and sets no text for cohort_last_error().  The cause
 * names no rank, so to respawn after a verdict, save the verdict's missing set
 * before this call.  May be called from any thread, any number of times; does
 * not block.
 *
 * Returns:
 *   COHORT_OK       this call has set the cause
 *   COHORT_ALREADY  there was a cause, or the group was closed
 */
COHORT_API int cohort_abort_fire(struct cohort_abort *handle,
                                 const char *reason);

/*
 * cohort_abort_fired - return whether a handle's group has a cause
 *
 * May be called from any thread and from a signal handler; does not block.
 *
 * Returns: 1 if the group has a cause, even if another call set it; 0 if the
 * group has none, even if it was closed
 */
COHORT_API int cohort_abort_fired(const struct cohort_abort *handle);

/*
 * cohort_abort_put - release an abort handle
 * @handle: no call may use it afterwards; NULL is allowed and does nothing
 *
 * May be called from any thread, but not from a signal handler; does not block.
 */
COHORT_API void cohort_abort_put(struct cohort_abort *handle);

#ifdef __cplusplus
}
#endif

#endif
