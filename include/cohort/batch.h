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
 * cohort_batch_begin - what is called on @comm from now on belongs together
 * cohort_batch_end   - launch it: all or nothing
 * @stream: where to queue it all
 * @ticket: one for all; may be NULL
 *
 * In between, collectives, sends and receives of this communicator are checked
 * and kept.  Their @ticket must be NULL, and their @stream NULL or the @stream
 * of the end, where all of the batch goes.  The end makes one operation of
 * them: compared, recorded, launched as one native group, with one ticket.  The
 * batch's collectives, in their order, are one call in the sequence that all
 * ranks must make; its sends and receives find their peers each by itself.  If
 * one of them does not fit the peer's call, nothing of the batch is launched
 * (COHORT_MISMATCH, see cohort/p2p.h).  All these may be carried out in any
 * order, and at the same time: none may write what another of them reads or
 * writes.  An empty batch is done when @stream comes to it.
 *
 * A call that is refused says so at once, and the end says it again with the
 * number of the call.  Then nothing was launched and no batch is open, as after
 * every other error of the end but COHORT_BUSY and COHORT_OWNER.  If an abort
 * comes meanwhile, the end tells it, too.
 *
 * The thread that has begun must also end: to other threads these calls answer
 * COHORT_OWNER until then.  There is no batch in a batch, and cohort_copy() is
 * none of its calls; calls that queue nothing for peers go on as ever.  An open
 * batch is forgotten when a worker of cohort_group_run() returns, and by
 * cohort_comm_close() and cohort_group_close().  Memory for as many calls as
 * the largest batch so far is kept until the group is closed.
 *
 * Neither blocks otherwise than a collective does.
 *
 * Begin: COHORT_OK; COHORT_STATE if one is open; COHORT_NO_MEMORY,
 * COHORT_OWNER, COHORT_BUSY, COHORT_STALE, COHORT_INVALID, the cause, as for
 * the collectives.  End: as a collective; and COHORT_STATE without a begin.
 */
COHORT_API int cohort_batch_begin(struct cohort_comm *comm);
COHORT_API int cohort_batch_end(struct cohort_comm *comm, void *stream,
                                uint64_t *ticket);

#ifdef __cplusplus
}
#endif

#endif
