/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_STRICT_CALLS_H
#define SIM_STRICT_STRICT_CALLS_H

/*
 * Strict mode, of calls and their buffers: what NCCL would hang on, or do with
 * memory that is not there, ends the program and is named
 *
 * For use in strict mode only.  A communicator that a scripted fault has struck is
 * not looked at: its calls may have changed, or be out of step with the others'.
 */

#include "sim/nccl/comm.h"

/*
 * A call is about to be queued: of its buffers that the rank uses none is NULL,
 * freed, too small or memory of another device, and they overlap only where NCCL
 * says so.  What the platform did not give out is the program's own, of which
 * nothing is known.
 */
void strict_check_call(const struct ncclComm *comm, const struct call *call);

/* The same of all in a launch, and that no receive of it overlaps its other
 * buffers. */
void strict_check_launch(const struct launch *launch);

/* With the world's lock held: a launch arrives, whose memory may have been freed
 * since; the ranks' next collectives differ; two ends of a message differ. */
void strict_check_arrival_locked(const struct launch *launch);
void strict_check_round_locked(const struct world *world, size_t same);
void strict_check_message_locked(const struct transfer *send);

/* With the world's lock held: launches that have arrived wait for each other in a
 * circle, which can not be broken, as each rank's next calls come after. */
void strict_check_circle_locked(const struct launch *launch);

/*
 * The calling thread waits for @stream since @since_ns.  If it is the only one of
 * the program, and a rank that the stream's first work needs has called nothing,
 * then it waits for itself: one thread may speak for several ranks only in groups.
 * Where there are other threads nothing is said, as any of them might make the
 * call.
 */
void strict_check_wait(struct stream *stream, uint64_t since_ns);

#endif
