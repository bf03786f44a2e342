/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_SIM_H
#define COHORT_SIM_H

/*
 * Knobs of the host platform: how many devices it has, scripted faults, and how
 * strict it is
 *
 * For tests of programs that use cohort: a rank that never comes, comes late,
 * gets an error, is stuck inside a native call or ends in it, at an operation
 * you name.  Nothing here touches the gpu platform, unless that stands on this
 * project's drop-in libraries, which hold a host platform of their own: all that
 * is said here is said to that, too, also what was said before they were opened.
 *
 * With COHORT_HOST_STRICT=1 in the environment (anything but empty or 0) at the
 * first use of the host platform, what NCCL leaves undefined ends the program by
 * abort(), with a line on stderr that names the function, the communicator and
 * what is wrong: a communicator aborted or destroyed twice, used after it was
 * freed, or with two threads inside; one that is freed while a thread is inside or may
 * touch its buffers, or while a graph has calls of it; one rank destroyed and another
 * aborted while work is in flight; a split with work outstanding; a thread that ends
 * with its group open; ranks whose collectives differ, or whose
 * messages differ in count or type; a buffer that is NULL, freed, too small, memory
 * of another device, or overlaps another but as in place; ranks that wait for each
 * other in a circle; and a program of one thread that waits for what it has yet to
 * call.  Communicators that a scripted fault has struck are spared the last four.
 * Freed communicators then cost a little memory each, for good.
 */

#include <stdint.h>

#include <cohort/cohort.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most devices the host platform can have. */
#define COHORT_SIM_MAX_DEVICES 1024

/*
 * cohort_sim_set_devices - how many devices the host platform has
 * @n: 1 to COHORT_SIM_MAX_DEVICES
 *
 * Overrides COHORT_HOST_DEVICES of the environment; the default is 8.  Only
 * before the first use of the host platform in the process (a group opened on
 * it, or a probe of it).  Any thread; does not block.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_STATE once the platform is in use (unless
 * it has @n devices already).
 */
COHORT_API int cohort_sim_set_devices(int n);

/* What the host platform's memory functions wait for. */
enum cohort_sim_sync {
	COHORT_SIM_SYNC_NONE = 1, /* cudaFree() for the work of its device, the
	                               others for nothing */
	COHORT_SIM_SYNC_DEVICE =
		2, /* for all that was launched before, on every
	                               device of the process */
};

/*
 * cohort_sim_set_sync - how unforgiving the devices of the host platform are
 * @sync: an enum cohort_sim_sync
 *
 * With COHORT_SIM_SYNC_DEVICE the host platform waits wherever real devices of one
 * process may wait.  These calls wait for everything that was launched before, on
 * every device: those that allocate, free, register or map memory, of CUDA and of
 * NCCL; peer access; copies that are synchronous or pageable; the init, the split
 * and the last release of a communicator; and the first use of a collective's
 * kernel on a device.  While such a call waits, launches of other threads on its
 * device block.  A program that deadlocks on GPUs so deadlocks here, too, until an
 * abort ends the collective that is waited for.
 *
 * Overrides COHORT_HOST_SYNC of the environment, which is "device" or "none"; the
 * default is none.  Only before the first use of the host platform in the process.
 * Any thread; does not block.
 *
 * COHORT_OK; COHORT_INVALID with the value; COHORT_STATE once the platform is in
 * use (unless it is in that mode already).
 */
COHORT_API int cohort_sim_set_sync(int sync);

enum cohort_fault_kind {
	COHORT_FAULT_NEVER = 1,  /* the call succeeds, the rank never arrives */
	COHORT_FAULT_DELAY = 2,  /* it arrives @value nanoseconds late */
	COHORT_FAULT_ERROR = 3,  /* the call fails with ncclResult_t @value and
	                           queues nothing */
	COHORT_FAULT_STUCK = 4,  /* the call does not return until an abort of
	                           its communicator, then fails */
	COHORT_FAULT_DIE = 5,    /* the calling thread ends inside the call, as
	                           by pthread_exit() */
	COHORT_FAULT_ASYNC = 6,  /* as NEVER, and from then on
	                           ncclCommGetAsyncError() of the communicator
	                           answers ncclResult_t @value */
	COHORT_FAULT_HUNG = 7,   /* the call does not return, also not on an
	                           abort, until cohort_sim_faults_clear(),
	                           then fails */
	COHORT_FAULT_INIT = 8,   /* the rank's init, or split, not a collective,
	                           takes @value nanoseconds longer; 0: until
	                           cohort_sim_faults_clear() */
	COHORT_FAULT_MEMORY = 9, /* the call fails for want of memory and
	                            queues nothing */
	COHORT_FAULT_ARGUMENT = 10,   /* the call goes out with a count that is
	                               one less than asked for (0 stays 0) */
	COHORT_FAULT_INIT_ERROR = 11, /* the rank's init, or split, fails with
	                                 ncclResult_t @value */
	COHORT_FAULT_DEVICE = 12,     /* as NEVER, and from then on what asks of
	                                 work of the rank's device, or waits for
	                                 it (cudaEventQuery, cudaStreamQuery,
	                                 cudaEventSynchronize,
	                                 cudaStreamSynchronize,
	                                 cudaDeviceSynchronize), answers
	                                 cudaError_t @value, until
	                                 cohort_sim_faults_clear(); with errors
	                                 that are sticky, every later CUDA
	                                 call on that device does, and NCCL's
	                                 fail, see below */
};

/*
 * Sticky errors are those after which CUDA answers every later call on the device with
 * the same error: cudaErrorIllegalAddress, cudaErrorLaunchFailure and the others that
 * cohort names a lost device.  cudaGetLastError() does not clear them.  Calls that give
 * something back do that and answer the error.  What needs no work of the device
 * answers as ever: cudaSetDevice(), the attributes of devices and memory, and NCCL's
 * ncclCommAbort() and ncclCommDestroy().
 */

/* One scripted fault.  It strikes once.  Later versions add kinds, not fields. */
struct cohort_fault {
	int rank;           /* of the communicator; -1: any */
	uint64_t operation; /* the rank's native collectives, sends and
	                       receives on a communicator are numbered from
	                       0 in the order called, each tensor of a list
	                       is one; those with count 0, for which nobody
	                       arrives, are counted too; of INIT and
	                       INIT_ERROR 0 is an init, 1 a split */
	int kind;           /* enum cohort_fault_kind */
	uint64_t value;     /* see the kinds */
};

/*
 * cohort_sim_fault_add    - script a fault, at most 64 at a time
 * cohort_sim_faults_clear - forget those that have not struck, let go who is held
 *                           by HUNG or INIT, and make devices well again; other
 *                           ranks stay held
 *
 * Applies to every communicator of the host platform in the process.  The
 * environment variable COHORT_FAULTS adds faults at first use, as a list like
 * "2@10:never,1@0:delay=5ms,0@3:error=3,*@7:stuck" (rank@operation:kind; times
 * in ns, us, ms or s); the others are die, async=CODE, hung, init, init=TIME,
 * memory, argument, init-error=CODE and device=CODE.  A list that cannot be read makes
 * opening the platform fail and names the part.  Any thread; neither blocks.
 *
 * COHORT_OK; COHORT_INVALID with the field and its value; COHORT_NO_MEMORY
 * when 64 are waiting.
 */
COHORT_API int cohort_sim_fault_add(const struct cohort_fault *fault);
COHORT_API void cohort_sim_faults_clear(void);

#ifdef __cplusplus
}
#endif

#endif
