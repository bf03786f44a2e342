/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_BATCH_H
#define COHORT_BATCH_H

/*
 * Batches: several collectives, sends and receives as one operation
 */

#include <stdint.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_batch_begin - start collecting calls into a batch
 *
 * Until cohort_batch_end() the library only checks and stores the collectives,
 * sends and receives of this communicator.  The @ticket of these calls must be
 * NULL, and their @stream either NULL or the stream of cohort_batch_end().  A
 * call that is refused returns its error immediately, and cohort_batch_end()
 * returns that error again.  A batch cannot contain cohort_copy() or another
 * batch.  Calls that involve no other rank work as usual.
 *
 * The thread that begins a batch must end it; until then, calls of other
 * threads return COHORT_OWNER.  An open batch is dropped by
 * cohort_comm_close(), by cohort_group_close(), and by the return of a worker
 * of cohort_group_run().  Memory for the calls of the largest batch is kept
 * until the group is closed.  One thread at a time per communicator; blocks
 * only as a collective does (cohort_all_reduce()).
 *
 * Returns:
 *   COHORT_OK         a batch is open
 *   COHORT_STATE      a batch is already open, or the communicator is closed
 *   COHORT_NO_MEMORY  out of memory
 *   COHORT_BUSY       another thread is inside the communicator
 *   COHORT_OWNER      the communicator is bound to another thread
 *   COHORT_STALE      the group was respawned or has abandoned this rank
 *   a cause's status  the group has ended
 */
COHORT_API int cohort_batch_begin(struct cohort_comm *comm);

/*
 * cohort_batch_end - launch all calls of a batch, or none of them
 * @stream: stream of the rank's device to queue the batch on; NULL for the
 *          legacy default stream
 * @ticket: set to one ticket for the whole batch; may be NULL
 *
 * The batch is compared, recorded and launched as one operation, in one native
 * group.  The collectives of the batch, in their order, are one call in the
 * sequence that all ranks must make; each of its sends and receives pairs with
 * a call of its peer (cohort/p2p.h).  If any call does not match, nothing in
 * the batch is launched (COHORT_MISMATCH).  All calls of a batch can run at the
 * same time and in any order, so no call may write memory that another call
 * reads or writes.  An empty batch is done when @stream reaches it.
 *
 * After any error except COHORT_BUSY and COHORT_OWNER, no batch is open.
 * Threads and blocking are as for cohort_all_reduce().
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK     the batch is queued
 *   COHORT_STATE  no batch is open, or the communicator is closed
 *   other codes   a call in the batch was refused; the error text says which
 *                 one, counted from 1
 */
COHORT_API int cohort_batch_end(struct cohort_comm *comm, void *stream,
                                uint64_t *ticket);

#ifdef __cplusplus
}
#endif

#endif
