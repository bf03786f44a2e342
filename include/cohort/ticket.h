/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_TICKET_H
#define COHORT_TICKET_H

/*
 * Tickets: wait for an operation, in a thread or on a stream
 *
 * A ticket is a number that identifies an operation that a call has queued.
 */

#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_wait - wait until an operation is done, or until the group ends
 * @ticket:     from the call on this communicator that queued the operation
 * @timeout_ns: how long to wait, in nanoseconds; 0 only checks, COHORT_FOREVER
 *              waits without limit
 *
 * May be called from any thread, any number of times.  Blocks up to
 * @timeout_ns, but after a cause no longer than the abort deadline, counted
 * from the cause.  After COHORT_OK or a cause's status the result never
 * changes.
 *
 * Returns:
 *   COHORT_OK           the operation is done; its output is valid
 *   COHORT_TIMED_OUT    the operation is still running; its buffers are in use
 *   COHORT_WEDGED       an abort did not finish in time; never free its buffers
 *   COHORT_INVALID      @ticket was never issued, or @comm is NULL
 *   COHORT_UNSUPPORTED  @ticket is COHORT_CAPTURED
 *   a cause's status    the operation was cut short; its buffers are free, and
 *                       its output is undefined
 */
COHORT_API int cohort_wait(struct cohort_comm *comm, uint64_t ticket,
                           uint64_t timeout_ns);

/*
 * cohort_synchronize - wait until all operations of this rank are done
 * @timeout_ns: how long to wait, in nanoseconds; 0 only checks, COHORT_FOREVER
 *              waits without limit
 *
 * Waits as cohort_wait() does, for every ticket issued so far.
 *
 * Returns: the same as cohort_wait(), and
 *   COHORT_OK  all operations are done, or there is none
 */
COHORT_API int cohort_synchronize(struct cohort_comm *comm,
                                  uint64_t timeout_ns);

/*
 * cohort_stream_after - make a stream wait for an operation
 * @ticket: from the call on this communicator that queued the operation
 * @stream: stream of the rank's device.  Work that is queued on it after this
 *          call starts when the operation is done.  If the operation is the
 *          last one on the communicator's own stream, that work also waits for
 *          anything that the program has queued there since
 *
 * The stream continues even if the operation is cut short; cohort_wait()
 * reports that.  One thread at a time per communicator; does not block.
 *
 * Returns:
 *   COHORT_OK           the stream waits
 *   COHORT_INVALID      @ticket was never issued, or @stream is wrong
 *   COHORT_BUSY         another thread is inside the communicator
 *   COHORT_OWNER        the communicator is bound to another thread
 *   COHORT_STATE        the communicator is closed
 *   COHORT_STALE        the group was respawned or has abandoned this rank
 *   COHORT_UNSUPPORTED  @stream is being captured
 *   COHORT_CUDA         a call of the CUDA runtime failed; nothing is queued
 *   a cause's status    the group has ended
 */
COHORT_API int cohort_stream_after(struct cohort_comm *comm, uint64_t ticket,
                                   void *stream);

/*
 * cohort_after_stream - make the communicator's own stream wait for a stream
 * @stream: stream of the rank's device.  Work that is queued on
 *          cohort_comm_stream() after this call does not start until all work
 *          that was queued on @stream before this call is done
 *
 * One thread at a time per communicator; does not block.
 *
 * Returns: the same as cohort_stream_after(), and
 *   COHORT_INVALID  @stream is wrong
 */
COHORT_API int cohort_after_stream(struct cohort_comm *comm, void *stream);

/*
 * The ticket of a call that was captured into a CUDA graph
 * (options.allow_capture)
 *
 * No call can wait for this ticket.  All ranks must capture the call, and all
 * must launch the graph.  The library does not watch, record or compare
 * launches of a graph, and an abort ends them without a report.  Destroy graphs
 * before their group is closed, respawned or aborted.  Group-level calls and
 * copies are never captured.  See docs/gpu.md, "CUDA graphs".
 */
#define COHORT_CAPTURED UINT64_MAX

#ifdef __cplusplus
}
#endif

#endif
