/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_BUFFERS_H
#define SIM_NCCL_BUFFERS_H

/*
 * Checks the buffers of NCCL calls in strict mode
 *
 * A buffer that is missing, too small, freed or on another device, or that
 * overlaps another buffer, ends the program with a message that names the
 * buffer.  The checks skip a communicator that a scripted fault has hit,
 * because the fault might have changed its calls.
 */

#include "sim/exec/span.h"
#include "sim/nccl/nccl_comm.h"

/*
 * Check the buffers of a call that is about to be queued.  A buffer that the
 * rank uses must not be NULL, freed, too small or on another device, and
 * buffers may overlap only where NCCL allows it.  Memory that the simulator did
 * not allocate passes, because its size and device are unknown.
 */
void buffers_check_call(const struct ncclComm *comm, const struct call *call);

/* Check all calls of a launch, as buffers_check_call() does, and check that no
 * receive overlaps another buffer of the same launch. */
void buffers_check_launch(const struct launch *launch);

/* Check that the buffers of @launch were not freed after it was queued.  Called
 * when it is the launch's turn to run (rendezvous.c). */
void buffers_check_arrival(const struct launch *launch);

/* Functions that copy buffers which other processes cannot map, for
 * communicators that span several processes.  On a GPU, no such copy is needed,
 * because each kernel reads only buffers of its own process.  Used in every
 * mode, not only in strict mode. */
extern const struct bounce_ops buffers_bounce;

#endif
