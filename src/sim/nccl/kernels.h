/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_KERNELS_H
#define SIM_NCCL_KERNELS_H

/*
 * The kernels that launches need, where the simulator waits as CUDA does when it loads
 * one (COHORT_HOST_SYNC=device, cuda/sync.h)
 */

struct launch;

/* Load the kernels of @launch that some device of its communicator has not used yet. */
void kernels_load(const struct launch *launch);

#endif
