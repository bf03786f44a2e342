/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_LAUNCH_QUEUE_H
#define SIM_NCCL_LAUNCH_QUEUE_H

/* Queues launches on their streams, or captures them into graphs */

#include "platform/nccl_abi.h"
#include "sim/exec/rank_launch.h"

/*
 * launch_check - check that a launch can be queued
 *
 * Returns:
 *   ncclSuccess             the launch can be queued
 *   ncclInvalidUsage        the group's sends from the rank to itself do not
 *                           match its receives, or its streams are not all in
 *                           the same capture
 *   ncclUnhandledCudaError  a capture has failed, the device has failed, or a
 *                           stream belongs to another device
 */
ncclResult_t launch_check(const struct launch *launch);

/* Check only that either all streams of @launch are being captured into one
 * graph or none is being captured.  Returns the codes of launch_check(). */
ncclResult_t launch_check_captures(const struct launch *launch);

/* Queue a launch on its stream, or capture it into the stream's graph.
 * Consumes the caller's reference. */
void launch_queue(struct launch *launch);

/* Load the kernels of @launch on those devices of its communicator that do not
 * have them yet.  As on a GPU, loading a kernel waits for the work in flight
 * (COHORT_HOST_SYNC=device, see cuda/sync.h). */
void kernels_load(const struct launch *launch);

#endif
