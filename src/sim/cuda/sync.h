/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_SYNC_H
#define SIM_CUDA_SYNC_H

/*
 * Simulates how CUDA calls wait for the devices of a process
 * (COHORT_HOST_SYNC=device)
 *
 * Devices that access one another's memory share an address map.  A call that
 * changes the map can wait for all earlier work on every device of the process,
 * and other calls into the driver block until then.  CUDA's documentation does
 * not say when it waits; this mode always waits.
 *
 * These calls wait:
 *  - cudaMalloc(), cudaMallocPitch(), cudaMallocManaged(), cudaHostAlloc(),
 *    cudaMallocHost(), cudaFree(), cudaFreeHost(), cudaHostRegister(),
 *    cudaHostUnregister(), cudaDeviceReset(), and
 *    cudaDeviceEnablePeerAccess() and cudaDeviceDisablePeerAccess() if they
 *    change something
 *  - ncclMemAlloc(), ncclMemFree(), ncclCommRegister() and
 *    ncclCommWindowRegister() of a range that is not mapped yet, and the last
 *    ncclCommDeregister() or ncclCommWindowDeregister() of a range
 *  - the first collective on registered memory, which completes the
 *    registration
 *  - NCCL's own allocations: when a rank is initialized or split, and when the
 *    last rank of a communicator is released
 *  - synchronous copies, and copies from or to pageable memory
 *  - the first use of a collective's kernel on a device, which loads it
 *
 * While a call waits, launches by other threads block.  Copies and kernel loads
 * block launches on their own device; the other calls block launches on all
 * devices or, with COHORT_HOST_SYNC=memory, on the current device.  A launch is
 * a collective, send, receive, copy, memset, host function, stream memory
 * operation, or graph.
 *
 * Work that was launched earlier does not block, on any stream.  As on a GPU,
 * the wait ends when all running kernels have finished, which requires that
 * their peers were launched, or when an abort has ended them.
 *
 * CUDA loads a kernel at its first use on each device.  In NCCL, no rank loads
 * a kernel after another rank has launched: NCCL's init loads its kernels by
 * querying their attributes, and all ranks wait for one another while they
 * connect a ring, which is before the first launch.  (Connecting a tree does
 * not make all ranks wait.)  In the simulator, the first rank to launch loads
 * the missing kernels on all devices of the communicator.
 *
 * Not simulated: stream-ordered allocations and frees, which grow a pool
 * occasionally; cudaMemset(); creation of streams and events; event calls that
 * block on the driver; and kernels in graphs, which are loaded when the graph
 * is created.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

/* Atomic; whether calls wait, and whether copies wait (never with
 * COHORT_HOST_SYNC=memory).  Set once by sync_init().  Relaxed, because they
 * never change afterwards. */
extern atomic_bool sync_on, sync_on_copies;

static inline bool sync_is_on(void)
{
	return load_relaxed(&sync_on);
}

/* Read the mode from COHORT_HOST_SYNC, once; the default is none.  Return
 * COHORT_INVALID with a message if the value is bad. */
int sync_init(void);

/* Wait for all earlier work on every device.  During the wait, launches on
 * @device block. */
void sync_wait(int device);

/* Wait as sync_wait() does, for a memory function.  During the wait, launches
 * block on all devices or, with COHORT_HOST_SYNC=memory, on the current
 * device. */
void sync_wait_memory(void);

/* Wait for all devices, if the mode makes memory functions wait. */
static inline void sync_memory(void)
{
	if (sync_is_on())
		sync_wait_memory();
}

/* Wait for all devices, if the mode makes copies wait. */
static inline void sync_copy(int device)
{
	if (load_relaxed(&sync_on_copies))
		sync_wait(device);
}

/* Wait until no call blocks launches on @device. */
void sync_gate(int device);

/* Return true if a call blocks launches on @device. */
bool sync_is_held(int device);

/* Wait until launches on @device are allowed, if the mode ever blocks them. */
static inline void sync_launch(int device)
{
	if (sync_is_on())
		sync_gate(device);
}

/* Load @kernels, a bit set, on each of @devices where they are missing, before
 * a launch on @device.  The caller defines which bit stands for which
 * kernel. */
void sync_load(int device, const int *devices, int n, uint32_t kernels);

/* Mark all kernels as not loaded on @device. */
void sync_unload(int device);

#endif
