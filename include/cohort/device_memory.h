/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_DEVICE_MEMORY_H
#define COHORT_DEVICE_MEMORY_H

/*
 * Device memory: allocate, register and copy it, and keep a program's own
 * memory operations apart from the launches of collectives
 */

#include <stddef.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_alloc - memory on the rank's device
 * cohort_free  - give it back; NULL is allowed and does nothing
 * @bytes: at least 1
 *
 * cudaMalloc() and cudaFree() on the rank's device, in a form with which one
 * program runs on both platforms.  Memory must not be freed while an operation
 * uses it.  Both work after the group has ended with a cause, so that a worker
 * can clean up.
 *
 * cohort_free() may block as cudaFree() may: on work of the device.  Both wait
 * while a collective is being launched, as cohort_quiet_begin() does.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_NO_MEMORY; COHORT_CUDA; COHORT_BUSY;
 * COHORT_OWNER; COHORT_STATE.
 */
COHORT_API int cohort_alloc(struct cohort_comm *comm, size_t bytes,
                            void **memory);
COHORT_API int cohort_free(struct cohort_comm *comm, void *memory);

/*
 * cohort_quiet_begin - keep collectives of this process from being launched
 * cohort_quiet_end   - let them be launched again
 *
 * For a program's own memory operations while ranks are at work in other
 * threads: cudaMalloc(), cudaFree(), cudaHostAlloc(),
 * cudaDeviceEnablePeerAccess(), a copy of pageable memory, the first launch of
 * a kernel.  On one device they may wait for kernels on all devices of the
 * process.  Between the launches of a collective's first and last rank such a
 * wait would never end.  The library keeps its own memory operations out of
 * that time, and these two keep the program's out:
 *
 *	cohort_quiet_begin();
 *	cudaFree(old);
 *	cohort_quiet_end();
 *
 * They are for threads that are no rank's, and for those of ranks where several
 * groups work on a device (see "Launching together" in cohort/options.h).  They
 * nest, and any number of threads may be between them.  Each thread ends what
 * it began; its exit ends all of that.  Groups with options.launch `ahead` are
 * not kept from launching, nor are sends and receives alone.
 *
 * Between them keep it short, and wait for no other thread, nor for work of a
 * device that does so: before a copy of pageable memory, wait for what its
 * stream has to do.  Calls of the library that would wait for the end are
 * refused with COHORT_STATE, and nothing has happened: collectives, also in a
 * batch, cohort_comm_split(), _join() and _close(), cohort_group_open(),
 * _run(), _respawn() and _close(), cohort_deregister() and cohort_free() of
 * registered memory after an abort, and what waits for the launch of a call with
 * host memory that has timed out.  The library waits at most 30 s for an end.
 *
 * Begin blocks while a collective is being launched, or pairs of ranks are being
 * connected in an open, a respawn or a split (COHORT_CONNECT=all), which is
 * short; if one of these hangs, until its group is aborted, a minute and a half
 * at most.
 *
 * COHORT_OK; end: COHORT_STATE without a begin of this thread.
 */
COHORT_API int cohort_quiet_begin(void);
COHORT_API int cohort_quiet_end(void);

/*
 * cohort_alloc_registered - memory of NCCL's own, registered with the
 *                           communicator
 * cohort_register         - register memory that the caller has
 * cohort_deregister       - the end of that
 * @memory: @bytes on the rank's device, which is not to be freed before it was
 *          deregistered, or the group was closed
 * @registration: for cohort_deregister()
 *
 * Collectives on registered memory may go without copies in between.  The calls
 * are ncclMemAlloc() and ncclCommRegister(); cohort_free() deregisters what
 * cohort_alloc_registered() gave, and gives it back.
 *
 * Warning: as NVIDIA documents, memory of cudaMalloc() (and so of
 * cohort_alloc()) that is registered is not safe: operations may hang, and a
 * failure or an abort may crash.  Register what comes from ncclMemAlloc(), or
 * use cohort_alloc_registered().  Windows (ncclCommWindowRegister()) are not
 * offered: in NCCL 2.28 the kernels that use symmetric windows do not see an
 * abort, and could never be ended.
 *
 * An abort deregisters this memory.  cohort_deregister(), and cohort_free() of
 * such memory, wait for that up to the abort deadline, then return
 * COHORT_WEDGED, and the memory stays.  One submitting thread at a time;
 * otherwise no call blocks but as cudaMalloc() and cudaFree() may.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value; COHORT_NO_MEMORY;
 * COHORT_CUDA, COHORT_NCCL (nothing has changed); COHORT_BUSY; COHORT_OWNER;
 * COHORT_STATE if closed, by cohort_free() for memory that is registered
 * otherwise, and by free and deregister after an abort in a quiet section;
 * COHORT_WEDGED, see above; alloc and register: the cause, or COHORT_STALE, as
 * the collectives do.
 */
COHORT_API int cohort_alloc_registered(struct cohort_comm *comm, size_t bytes,
                                       void **memory);
COHORT_API int cohort_register(struct cohort_comm *comm, void *memory,
                               size_t bytes, void **registration);
COHORT_API int cohort_deregister(struct cohort_comm *comm, void *registration);

/*
 * cohort_copy - copy bytes, in stream order
 * @dst, @src: @bytes of host memory or of the rank's device, each; @src is
 *             borrowed until the copy is done
 *
 * cudaMemcpyAsync() with the direction found from the pointers.  The copy has a
 * ticket that is not handed out but that cohort_synchronize() waits for.  With
 * pageable host memory it may block as CUDA says, and in a program with several
 * groups wants a quiet section (see "Launching together" in cohort/options.h).
 *
 * Results as for the collectives, except that peers are not involved: on
 * COHORT_CUDA and COHORT_NO_MEMORY nothing was copied and the group goes on,
 * unless only the ticket has failed, behind the copy.
 */
COHORT_API int cohort_copy(struct cohort_comm *comm, void *dst, const void *src,
                           size_t bytes, void *stream);

#ifdef __cplusplus
}
#endif

#endif
