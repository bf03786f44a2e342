/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_LAUNCH_QUEUE_H
#define SIM_NCCL_LAUNCH_QUEUE_H

/*
 * Queueing launches on their streams, or capturing them into graphs
 */

#include "platform/nccl_abi.h"
#include "sim/exec/rank_launch.h"

/* ncclInvalidUsage if a rank's sends to itself in a group do not match its
 * receives, or some of its streams are captured and others not, or into another
 * graph; ncclUnhandledCudaError if a capture has failed, or if a stream is not
 * of the communicator's device, on which nothing can be launched there. */
ncclResult_t launch_check(const struct launch *launch);

/* The part of this that is about captures. */
ncclResult_t launch_check_captures(const struct launch *launch);

/* Queue a launch on its stream, or capture it, and put it. */
void launch_queue(struct launch *launch);

/* Load the kernels of @launch that some device of its communicator has not used
 * yet, where the simulator waits as CUDA does when it loads one
 * (COHORT_HOST_SYNC=device, cuda/sync.h). */
void kernels_load(const struct launch *launch);

#endif
