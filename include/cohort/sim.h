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
 * project's drop-in libraries, which hold a host platform of their own.  Then
 * all that is set here is set there, too, even what was set before they were
 * opened.
 *
 * Strict mode
 *
 * With COHORT_HOST_STRICT=1 in the environment (anything but empty or 0) at the
 * first use of the host platform, what NCCL leaves undefined ends the program
 * by abort(), with a line on stderr that names the function, the communicator
 * and what is wrong:
 *
 *  - a communicator aborted or destroyed twice, used after it was freed, or
 *    with two threads inside;
 *  - a communicator that is freed while a thread is inside or may touch its
 *    buffers, or while a graph has calls of it;
 *  - one rank destroyed and another aborted while work is in flight;
 *  - a split with work outstanding;
 *  - a thread that ends with its group open;
 *  - ranks whose collectives differ, or whose messages differ in count or type;
 *  - a buffer that is NULL, freed, too small, memory of another device, or
 *    overlaps another but as in place;
 *  - ranks that wait for each other in a circle;
 *  - a program of one thread that waits for what it has yet to call.
 *
 * Communicators that a scripted fault has struck are spared the last four.  In
 * strict mode each freed communicator costs a little memory, for good.
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
	/* cudaFree() for the work of its device, the others for nothing. */
	COHORT_SIM_SYNC_NONE = 1,

	/* All of them for everything that was launched before, on every device
	 * of the process. */
	COHORT_SIM_SYNC_DEVICE = 2,

	/* As with COHORT_SIM_SYNC_DEVICE, but for copies, which wait for their own
	 * stream alone. */
	COHORT_SIM_SYNC_MEMORY = 3,
};

/*
 * cohort_sim_set_sync - how unforgiving the devices of the host platform are
 * @sync: an enum cohort_sim_sync
 *
 * With COHORT_SIM_SYNC_DEVICE the host platform waits wherever real devices of
 * one process may wait.  These calls wait for everything that was launched
 * before, on every device: those that allocate, free, register or map memory,
 * of CUDA and of NCCL; peer access; copies that are synchronous or pageable;
 * the init, the split and the last release of a communicator; and the first use
 * of a collective's kernel on a device.  While such a call waits, launches of
 * other threads block: on its device for a copy or a first use, on all devices
 * for the others.  A program that would deadlock on GPUs in this way deadlocks
 * here as well, until an abort ends the collective.
 *
 * With COHORT_SIM_SYNC_MEMORY copies do not wait, and the others block launches
 * on the current device.
 *
 * Overrides COHORT_HOST_SYNC of the environment, which is "device", "memory" or
 * "none"; the default is none, and memory under cohort run --nccl.  Only before
 * the first use of the host platform in the process.  Any thread; does not
 * block.
 *
 * COHORT_OK; COHORT_INVALID with the value; COHORT_STATE once the platform is
 * in use (unless it is in that mode already).
 */
COHORT_API int cohort_sim_set_sync(int sync);

/*
 * Kinds of faults
 *
 * Sticky errors are those after which CUDA answers every later call on the
 * device with the same error: cudaErrorIllegalAddress, cudaErrorLaunchFailure
 * and the others that cohort names a lost device.  cudaGetLastError() does not
 * clear them.  Calls that give something back do that and answer the error.
 * What needs no work of the device answers as ever: cudaSetDevice(), the
 * attributes of devices and memory, and NCCL's ncclCommAbort() and
 * ncclCommDestroy().
 */
enum cohort_fault_kind {
	COHORT_FAULT_NEVER = 1, /* the call succeeds, the rank never arrives */
	COHORT_FAULT_DELAY = 2, /* it arrives @value nanoseconds late */

	/* The call fails with ncclResult_t @value and queues nothing. */
	COHORT_FAULT_ERROR = 3,

	/* The call does not return until an abort of its communicator, then
	 * fails. */
	COHORT_FAULT_STUCK = 4,

	/* The calling thread ends inside the call, as by pthread_exit(). */
	COHORT_FAULT_DIE = 5,

	/* As NEVER, and from then on ncclCommGetAsyncError() of the
	 * communicator answers ncclResult_t @value. */
	COHORT_FAULT_ASYNC = 6,

	/* The call does not return, also not on an abort, until
	 * cohort_sim_faults_clear(), then fails. */
	COHORT_FAULT_HUNG = 7,

	/* The rank's init, or split, not a collective, takes @value nanoseconds
	 * longer; 0: until cohort_sim_faults_clear(). */
	COHORT_FAULT_INIT = 8,

	/* The call fails for want of memory and queues nothing. */
	COHORT_FAULT_MEMORY = 9,

	/* The call goes out with a count that is one less than asked for (0
	 * stays 0). */
	COHORT_FAULT_ARGUMENT = 10,

	/* The rank's init, or split, fails with ncclResult_t @value. */
	COHORT_FAULT_INIT_ERROR = 11,

	/* As NEVER, and from then on, until cohort_sim_faults_clear(), what
	 * asks about work of the rank's device, or waits for it, answers
	 * cudaError_t @value (cudaEventQuery, cudaStreamQuery,
	 * cudaEventSynchronize, cudaStreamSynchronize, cudaDeviceSynchronize).
	 * With errors that are sticky every later CUDA call on that device
	 * does, and NCCL's fail; see above. */
	COHORT_FAULT_DEVICE = 12,

	/*
	 * The next two are of a path between two devices, @rank and @operation
	 * (device numbers, in any order, not -1).  They strike all that crosses
	 * the path, until cohort_sim_faults_clear(): plain copies (not those of
	 * rows) between the two devices' memory, and the calls of a
	 * communicator that has both devices, unless NCCL_P2P_DISABLE is 1 in
	 * the environment.  If both are the same device, they strike copies
	 * from, to and within its memory, and its calls on communicators.
	 * Where NVIDIA's NCCL runs on the simulator, they strike copies alone.
	 */

	/* The path is dead, although CUDA says that the devices reach each
	 * other.  @value 0: copies never finish, and the rank on the device
	 * @operation never arrives.  Else copies fail with cudaError_t @value,
	 * and a call makes that rank's device fail, as with DEVICE; so does a
	 * copy whose error is sticky. */
	COHORT_FAULT_PATH = 13,

	/* The path damages data: a copy arrives with its first bit flipped, and
	 * a call begins by flipping the first bit of what the rank on the device
	 * @operation sends, in its buffer. */
	COHORT_FAULT_GARBLE = 14,
};

/* One scripted fault.  It strikes once, but for those of paths.  Later versions
 * add kinds, not fields. */
struct cohort_fault {
	int rank; /* of the communicator; -1: any */

	/* The rank's native collectives, sends and receives on a communicator
	 * are numbered from 0 in the order called.  Each tensor of a list is
	 * one; those with count 0, for which nobody arrives, are counted, too.
	 * For INIT and INIT_ERROR 0 is an init, 1 a split; for PATH and GARBLE
	 * it is a device, and so is @rank. */
	uint64_t operation;
	int kind;       /* enum cohort_fault_kind */
	uint64_t value; /* see the kinds */
};

/*
 * cohort_sim_fault_add    - script a fault, at most 64 at a time
 * cohort_sim_faults_clear - forget the faults that have not struck, let ranks
 *                           go that HUNG or INIT holds, and make devices well
 *                           again; other ranks stay held
 *
 * A fault applies to every communicator of the host platform in the process.
 * The environment variable COHORT_FAULTS adds faults at first use, as a list
 * like "2@10:never,1@0:delay=5ms,0@3:error=3,*@7:stuck" (rank@operation:kind;
 * times in ns, us, ms or s).  The other kinds are die, async=CODE, hung, init,
 * init=TIME, memory, argument, init-error=CODE, device=CODE, and for a path
 * (device@device:kind) path, path=CODE and garble.  If the list cannot be read,
 * opening the platform fails and names the part.  Any thread; neither blocks.
 *
 * COHORT_OK; COHORT_INVALID with the field and its value; COHORT_NO_MEMORY when
 * 64 are waiting.
 */
COHORT_API int cohort_sim_fault_add(const struct cohort_fault *fault);
COHORT_API void cohort_sim_faults_clear(void);

#ifdef __cplusplus
}
#endif

#endif
