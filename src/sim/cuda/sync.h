/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_SYNC_H
#define SIM_CUDA_SYNC_H

/*
 * COHORT_HOST_SYNC=device: the waits that devices of one process impose
 *
 * Devices that reach each other's memory share a map of it.  A call that
 * changes the map may wait for everything that was launched before it, on every
 * device of the process, and holds the driver meanwhile.  CUDA promises neither
 * that it waits nor that it does not; this mode always waits.
 *
 * What waits:
 *  - cudaMalloc(), cudaMallocPitch(), cudaMallocManaged(), cudaHostAlloc(),
 *    cudaMallocHost(), cudaFree(), cudaFreeHost(), cudaHostRegister(),
 *    cudaHostUnregister(), cudaDeviceEnablePeerAccess() and
 *    cudaDeviceDisablePeerAccess() where they change something,
 *    cudaDeviceReset();
 *  - ncclMemAlloc(), ncclMemFree(); ncclCommRegister() and
 *    ncclCommWindowRegister() of a range that is not mapped yet, and the last
 *    ncclCommDeregister() or ncclCommWindowDeregister() of one;
 *  - the first collective on registered memory, which completes the
 *  registration;
 *  - what NCCL allocates and frees itself: the init and the split of a rank,
 *    and the release of a communicator's last rank;
 *  - copies that are synchronous, or go through pageable memory;
 *  - the first use of a collective's kernel on a device, which loads it.
 *
 * What is held: other threads' launches block until the wait is over.  Copies
 * and loads of kernels block launches on their own device; the other calls
 * block them on all devices or, with COHORT_HOST_SYNC=memory, on the current
 * one.  A launch is a collective, a send or receive, a copy, a memset, a host
 * function, a memory operation of a stream, or a graph.
 *
 * CUDA loads a kernel on each device at its first use there, but no rank of a
 * communicator comes to that after another has launched: NCCL's init asks for
 * the attributes of its kernels, which loads them, and when the first
 * collective connects the ranks of a ring, which allocates, all ranks meet
 * before one of them launches.  (Those of a tree do not.)  So here the first
 * rank to launch loads what is not loaded yet on any device of the
 * communicator.
 *
 * What goes on: work that was launched before, on every stream.  So the wait
 * ends where it ends on a device: when the kernels have met their peers, or the
 * abort flag of their communicator has ended them.
 *
 * Not modelled: allocations and frees in the order of a stream, which grow a
 * pool now and then; cudaMemset(); the creation of streams and events; that a
 * call that records, waits for or asks about an event may block behind the
 * driver, too; and kernels in graphs, which are loaded when the graph is made.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

/* Atomic; written once by sync_init(): whether calls wait, and whether copies
 * are among them, but for COHORT_HOST_SYNC=memory.  Relaxed: constants after
 * that. */
extern atomic_bool sync_on, sync_on_copies;

static inline bool sync_is_on(void)
{
	return load_relaxed(&sync_on);
}

/* What cohort_sim_set_sync() does in this process's simulator alone (knobs.c);
 * and what it was told before the first use, or 0. */
int sync_want(int sync);
int sync_wanted(void);

/* Settle the mode: sync_want(), else COHORT_HOST_SYNC, else none.
 * COHORT_INVALID names a bad value. */
int sync_init(void);

/* Wait for all that was launched before, on every device.  Until then launches
 * on @device block; for a memory function on all devices, or on the current
 * one, as the mode says. */
void sync_wait(int device);
void sync_wait_memory(void);

/* sync_wait_memory(), if the mode is on. */
static inline void sync_memory(void)
{
	if (sync_is_on())
		sync_wait_memory();
}

/* sync_wait(), if a copy waits. */
static inline void sync_copy(int device)
{
	if (load_relaxed(&sync_on_copies))
		sync_wait(device);
}

/* Wait until no call holds launches on @device; and true if one does. */
void sync_gate(int device);
bool sync_is_held(int device);

/* sync_gate(), if the mode is on. */
static inline void sync_launch(int device)
{
	if (sync_is_on())
		sync_gate(device);
}

/* For a launch on @device: load those of @kernels, a set of bits, that are not
 * loaded on each of @devices.  Which bit is which kernel is the caller's
 * choice. */
void sync_load(int device, const int *devices, int n, uint32_t kernels);

/* From now on no kernel is loaded on @device. */
void sync_unload(int device);

#endif
