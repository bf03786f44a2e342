/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_DEVICE_MEMORY_H
#define COHORT_DEVICE_MEMORY_H

/*
 * Device memory: allocate, register and copy it, and keep the program's own
 * memory operations apart from the launches of collectives
 */

#include <stddef.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_alloc - allocate memory on the rank's device
 * @bytes:  size, 1 or more
 * @memory: set to the memory, to be freed by cohort_free()
 *
 * Calls cudaMalloc() on the gpu platform, and its equivalent on the host
 * platform, even after the group has ended with a cause.  One thread at a time
 * per communicator; blocks while a collective is being launched, as
 * cohort_quiet_begin() does, and as cudaMalloc() may.
 *
 * Returns:
 *   COHORT_OK         @memory is set
 *   COHORT_INVALID    an argument is wrong; the error text has its value
 *   COHORT_NO_MEMORY  the device is out of memory
 *   COHORT_CUDA       a call of the CUDA runtime failed
 *   COHORT_BUSY       another thread is inside the communicator
 *   COHORT_OWNER      the communicator is bound to another thread
 *   COHORT_STATE      the communicator is closed
 */
COHORT_API int cohort_alloc(struct cohort_comm *comm, size_t bytes,
                            void **memory);

/*
 * cohort_free - free memory on the rank's device
 * @memory: from cohort_alloc(), cohort_alloc_registered() or
 *          cohort_group_alloc(), not in use by any operation; NULL is allowed
 *          and does nothing
 *
 * Works even after the group has ended with a cause, so that a worker can clean
 * up.  One thread at a time per communicator; blocks while a collective is
 * being launched and, like cudaFree(), perhaps until the device is idle.
 *
 * Memory of cohort_alloc_registered() is deregistered first.  An abort also
 * deregisters it; during an abort this call waits until that is done, up to the
 * abort deadline.
 *
 * Returns:
 *   COHORT_OK       the memory is free
 *   COHORT_INVALID  @memory is not from one of these calls
 *   COHORT_CUDA     a call of the CUDA runtime failed; the memory remains
 *   COHORT_NCCL     a call of NCCL failed; the memory remains
 *   COHORT_BUSY     another thread is inside the communicator
 *   COHORT_OWNER    the communicator is bound to another thread
 *   COHORT_STATE    the communicator is closed, the memory is registered by
 *                   cohort_register(), or it is registered and the thread is in
 *                   a quiet section after an abort
 *   COHORT_WEDGED   an abort did not deregister the memory in time; the memory
 *                   remains
 */
COHORT_API int cohort_free(struct cohort_comm *comm, void *memory);

/*
 * cohort_quiet_begin - keep this process from launching collectives
 *
 * Put the program's own memory operations into a quiet section while ranks work
 * in other threads: cudaMalloc(), cudaFree(), cudaHostAlloc(),
 * cudaDeviceEnablePeerAccess(), copies of pageable memory, and first launches
 * of a kernel.  Otherwise they can deadlock with a collective that only some
 * ranks have launched.
 *
 * Needed in threads that do not belong to a rank, and in threads of ranks if
 * several groups share a device (docs/gpu.md, "Quiet sections").  Sections
 * nest, and any number of threads may be in one.  The exit of a thread ends its
 * sections.  Groups with COHORT_LAUNCH_AHEAD, and sends and receives that are
 * not in a batch with a collective, launch even during a section.
 *
 * Keep a section short: after 30 s launches resume.  Inside it, do not wait for
 * another thread, or for device work that depends on another thread.  These
 * calls return COHORT_STATE inside a section, and have no effect: collectives,
 * cohort_comm_split(), cohort_comm_join(), cohort_comm_close(),
 * cohort_group_open(), cohort_group_run(), cohort_group_respawn(),
 * cohort_group_close(), calls that must wait for an earlier host-memory call
 * that timed out, and, after an abort, cohort_deregister() and cohort_free() of
 * registered memory.
 *
 * May be called from any thread.  Blocks briefly while a collective is being
 * launched or pairs of ranks are being connected.  If a launch or a connection
 * hangs, blocks until its group is aborted, but at most 90 s.
 *
 * Returns: COHORT_OK
 */
COHORT_API int cohort_quiet_begin(void);

/*
 * cohort_quiet_end - end the last quiet section of this thread
 *
 * Must be called by the thread that began the section; does not block.
 *
 * Returns:
 *   COHORT_OK     the section has ended
 *   COHORT_STATE  this thread is not in a quiet section
 */
COHORT_API int cohort_quiet_end(void);

/*
 * cohort_alloc_registered - allocate memory that is registered with NCCL
 * @bytes:  size, 1 or more
 * @memory: set to the memory, to be freed by cohort_free()
 *
 * Collectives on registered memory may avoid copies.  The memory is allocated
 * with ncclMemAlloc(), because only such memory is safe to register
 * (docs/gpu.md, "Registered memory").  An abort deregisters it.  One thread at
 * a time per communicator; blocks only as cudaMalloc() may.
 *
 * Returns: the same as cohort_alloc(), and
 *   COHORT_NCCL       a call of NCCL failed; nothing has changed
 *   COHORT_STALE      the group was respawned or has abandoned this rank
 *   a cause's status  the group has ended
 */
COHORT_API int cohort_alloc_registered(struct cohort_comm *comm, size_t bytes,
                                       void **memory);

/*
 * cohort_register - register memory with NCCL
 * @memory:       @bytes on the rank's device, from ncclMemAlloc().  Must not be
 *                freed before it is deregistered or the group is closed
 * @bytes:        size of the memory
 * @registration: set to a handle for cohort_deregister()
 *
 * Warning: NVIDIA documents that registering memory from cudaMalloc(), and so
 * from cohort_alloc(), is not safe: operations may hang, and a failure or an
 * abort may crash.  An abort deregisters the memory.  One thread at a time per
 * communicator; blocks only as cudaMalloc() may.
 *
 * Returns: the same as cohort_alloc_registered(), and
 *   COHORT_OK  the memory is registered
 */
COHORT_API int cohort_register(struct cohort_comm *comm, void *memory,
                               size_t bytes, void **registration);

/*
 * cohort_deregister - undo cohort_register()
 * @registration: from cohort_register()
 *
 * One thread at a time per communicator; blocks as cudaFree() may, and after
 * an abort up to the abort deadline.
 *
 * Returns: the same as cohort_free(), and
 *   COHORT_OK       the memory is no longer registered
 *   COHORT_INVALID  @registration is not a registration of this communicator
 *   COHORT_STATE    the communicator is closed, or the thread is in a quiet
 *                   section after an abort
 */
COHORT_API int cohort_deregister(struct cohort_comm *comm, void *registration);

/*
 * cohort_copy - copy bytes, in stream order
 * @dst:    @bytes of host memory or of the rank's device, written
 * @src:    @bytes of host memory or of the rank's device, read; borrowed until
 *          the copy is done
 * @bytes:  size
 * @stream: stream of the rank's device; NULL for the legacy default stream
 *
 * Calls cudaMemcpyAsync(), with the direction derived from the pointers.  Other
 * ranks are not involved.  cohort_synchronize() waits for the copy.  One thread
 * at a time per communicator.  A copy of pageable host memory may block, as
 * CUDA documents; if several groups share a device, call cohort_copy() for it
 * inside a quiet section (cohort_quiet_begin()).
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK         the copy is queued
 *   COHORT_CUDA       a call of the CUDA runtime failed.  If it failed after
 *                     the copy was queued, the group ends; otherwise nothing is
 *                     copied and the group continues
 *   COHORT_NO_MEMORY  a call of the CUDA runtime ran out of memory; otherwise
 *                     as COHORT_CUDA
 */
COHORT_API int cohort_copy(struct cohort_comm *comm, void *dst, const void *src,
                           size_t bytes, void *stream);

#ifdef __cplusplus
}
#endif

#endif
