/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_TICKET_H
#define COHORT_TICKET_H

/*
 * Tickets: wait for an operation, in the thread or on a stream
 *
 * A ticket is a number that a call gives for what it has queued.
 */

#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_wait - wait for a ticket
 * @ticket:     of this communicator
 * @timeout_ns: how long; 0: only test; COHORT_FOREVER
 *
 * Any thread, any number of times; once it was COHORT_OK or a cause, the answer
 * stays the same.  Blocks up to @timeout_ns; while an abort is under way, at
 * most for the rest of the abort deadline beyond that cause.
 *
 * COHORT_OK: done, the output may be read; the status of the cause: cut short,
 * outputs are undefined, no buffer can be touched any more; COHORT_WEDGED: an
 * abort did not complete, the buffers must not be freed; COHORT_TIMED_OUT:
 * nothing changed, ask again; COHORT_INVALID for a ticket that was never given
 * out; COHORT_UNSUPPORTED for COHORT_CAPTURED.
 */
COHORT_API int cohort_wait(struct cohort_comm *comm, uint64_t ticket,
                           uint64_t timeout_ns);

/*
 * cohort_synchronize - wait for everything submitted so far on this rank
 *
 * As cohort_wait() on the last ticket and every one before it; COHORT_OK if
 * there is none.
 */
COHORT_API int cohort_synchronize(struct cohort_comm *comm,
                                  uint64_t timeout_ns);

/*
 * cohort_stream_after - a stream waits for a ticket, on the device
 * @ticket: of this communicator
 * @stream: of the rank's device; what is queued on it from now on starts after
 *          the operation of @ticket is done; and if that is the last one, on
 *          the communicator's own stream, also after what the program has
 *          queued there behind it
 *
 * The calling thread does not wait.  If the operation is cut short, the stream
 * goes on: the ticket tells.  One submitting thread at a time.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_BUSY; COHORT_OWNER; COHORT_STATE; the cause
 * if the group has one, or COHORT_STALE, as for the collectives;
 * COHORT_UNSUPPORTED for a stream that is being captured; COHORT_CUDA (nothing
 * was queued).
 */
COHORT_API int cohort_stream_after(struct cohort_comm *comm, uint64_t ticket,
                                   void *stream);

/*
 * cohort_after_stream - the communicator's own stream waits for a stream
 * @stream: of the rank's device; what is queued on cohort_comm_stream() from
 *          now on starts after what is queued on @stream now
 *
 * Threads, blocking and results as for cohort_stream_after().
 */
COHORT_API int cohort_after_stream(struct cohort_comm *comm, void *stream);

/*
 * CUDA graphs
 *
 * A call on a stream that is being captured answers COHORT_UNSUPPORTED, and
 * nothing has happened to the capture; so do cohort_stream_after() and
 * cohort_after_stream().  With options.allow_capture the call becomes part of
 * the graph, and its ticket is COHORT_CAPTURED, which cannot be waited for:
 * nothing tells when the call runs, or how often.  All ranks must capture it,
 * and all launch the graph.  The call is compared with those of the other ranks
 * when it is captured, and not again.  Group-level calls and copies of all
 * ranks are never captured.
 *
 * A launch of the graph is not watched, recorded or counted:
 *
 *  - No deadline holds for a launch, and a hang in one has no verdict.
 *  - A cause does not say that the buffers are free: a launch that was queued
 *    before may still write to them.  Wait for the streams of all launches
 *    before you free.
 *  - An abort ends launches that run, without a word about it: what they leave
 *    in their outputs is undefined, and looks complete.
 *  - A launch after an abort, a close or a respawn is undefined.
 *
 * Destroy graphs before their group is closed, respawned or aborted: the end of
 * NCCL's communicators waits for that.  NVIDIA advises against graphs of
 * collectives on several GPUs of one process: the launches of graphs are not
 * ordered between devices, and may wait for each other for ever.
 */
#define COHORT_CAPTURED UINT64_MAX

#ifdef __cplusplus
}
#endif

#endif
