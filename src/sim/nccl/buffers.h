/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_BUFFERS_H
#define SIM_NCCL_BUFFERS_H

/*
 * Strict mode: buffers of calls that are not there, too small, or overlap, end
 * the program and are named
 *
 * For use in strict mode only.  A communicator that a scripted fault has struck
 * is not looked at: its calls may have changed.
 */

#include "sim/exec/span.h"
#include "sim/nccl/nccl_comm.h"

/*
 * A call is about to be queued: of its buffers that the rank uses none is NULL,
 * freed, too small or memory of another device, and they overlap only where
 * NCCL says so.  What the simulator did not give out is the program's own, of
 * which nothing is known.
 */
void buffers_check_call(const struct ncclComm *comm, const struct call *call);

/* As buffers_check_call(), for all calls of a launch; also, no receive of the
 * launch overlaps its other buffers. */
void buffers_check_launch(const struct launch *launch);

/* A launch arrives: its memory must not have been freed since it was queued. */
void buffers_check_arrival(const struct launch *launch);

/* Not in strict mode only: for worlds of several processes, copies of what
 * others cannot map.  Real kernels read their own process's buffers, whatever
 * these are. */
extern const struct span_lender buffers_lender;

#endif
