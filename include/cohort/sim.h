/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_SIM_H
#define COHORT_SIM_H

/*
 * Settings of the host platform: number of devices and scripted faults
 *
 * Use these settings to test programs that use Cohort.  At an operation of your
 * choice, a rank can be missing or late, get an error, hang inside a native
 * call, or exit there.  The settings do not affect the gpu platform, unless it
 * runs on this project's drop-in libraries.  These libraries contain their own
 * host platform, to which the settings also apply.
 *
 * Strict mode
 *
 * If COHORT_HOST_STRICT in the environment is set to anything but 0 at the
 * first use of the host platform, the platform calls abort() when the program
 * uses NCCL in an undefined way.  A line on stderr names the function, the
 * communicator and the error:
 *
 *  - a communicator that is aborted or destroyed twice, used after it was
 *    freed, or entered by two threads;
 *  - a communicator that is freed while a thread is inside it or may use its
 *    buffers, or while a graph contains its calls;
 *  - a rank that is destroyed while another rank is aborted and work is in
 *    flight;
 *  - a split with work outstanding;
 *  - a thread that ends while its native group is open;
 *  - collectives that differ between ranks, or a send and a receive whose count
 *    or type differ;
 *  - a buffer that is NULL, freed, too small or on another device, or that
 *    overlaps another buffer and is not in place;
 *  - ranks that wait for each other in a cycle;
 *  - a program with one thread that waits for a call it has not made yet.
 *
 * The last four are not checked on communicators that a scripted fault has
 * affected.  In strict mode each freed communicator leaks a little memory.
 */

#include <stdint.h>

#include <cohort/cohort.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest number of devices of the host platform. */
#define COHORT_SIM_MAX_DEVICES 1024

/*
 * cohort_sim_set_devices - set the number of devices of the host platform
 * @n: 1 to COHORT_SIM_MAX_DEVICES
 *
 * Overrides COHORT_HOST_DEVICES in the environment; the default is 8.  Must be
 * called before the process first uses the host platform, to open a group or to
 * probe.  May be called from any thread; does not block.
 *
 * Returns:
 *   COHORT_OK       the platform has @n devices
 *   COHORT_INVALID  @n is out of range
 *   COHORT_STATE    the platform is in use with another number of devices
 */
COHORT_API int cohort_sim_set_devices(int n);

/*
 * Kinds of faults
 *
 * Some errors are *sticky*: CUDA returns the same error from every later call
 * on the device, and cudaGetLastError() does not clear it.  Sticky errors are
 * cudaErrorIllegalAddress, cudaErrorLaunchFailure and others that Cohort
 * reports as a lost device.  After a sticky error, calls that free something
 * still free it, and return the error.  Calls that run nothing on the device
 * still succeed: cudaSetDevice(), the attributes of devices and memory,
 * ncclCommAbort() and ncclCommDestroy().
 */
enum cohort_fault_kind {
	COHORT_FAULT_NEVER = 1, /* the call succeeds, the rank never arrives */
	COHORT_FAULT_DELAY = 2, /* the rank arrives @value nanoseconds late */

	/* The call fails with ncclResult_t @value and queues nothing. */
	COHORT_FAULT_ERROR = 3,

	/* The call does not return until its communicator is aborted, and then
	 * fails. */
	COHORT_FAULT_STUCK = 4,

	/* The calling thread ends inside the call, as by pthread_exit(). */
	COHORT_FAULT_DIE = 5,

	/* As COHORT_FAULT_NEVER.  From then on ncclCommGetAsyncError() of the
	 * communicator returns ncclResult_t @value. */
	COHORT_FAULT_ASYNC = 6,

	/* The call does not return, even after an abort, until
	 * cohort_sim_faults_clear(), and then fails. */
	COHORT_FAULT_HUNG = 7,

	/* The rank's init or split takes @value nanoseconds longer.  If @value
	 * is 0, the init or split lasts until cohort_sim_faults_clear(). */
	COHORT_FAULT_INIT = 8,

	/* The call fails because memory ran out, and queues nothing. */
	COHORT_FAULT_MEMORY = 9,

	/* The call is made with a count that is smaller by 1 (0 stays 0). */
	COHORT_FAULT_ARGUMENT = 10,

	/* The rank's init or split fails with ncclResult_t @value. */
	COHORT_FAULT_INIT_ERROR = 11,

	/* As COHORT_FAULT_NEVER.  From then on, until
	 * cohort_sim_faults_clear(), calls that query or wait for work of the
	 * rank's device return cudaError_t @value (cudaEventQuery,
	 * cudaStreamQuery, cudaEventSynchronize, cudaStreamSynchronize,
	 * cudaDeviceSynchronize).  If the error is sticky, every later CUDA
	 * call on that device returns it, and NCCL's calls fail. */
	COHORT_FAULT_DEVICE = 12,

	/*
	 * The path between two devices is dead, although CUDA says that they
	 * reach each other.  @rank and @operation are the device numbers, not
	 * -1; for copies, in any order.  If @value is 0, copies between the
	 * devices never finish, and the rank on the device @operation never
	 * arrives.  Otherwise copies fail with cudaError_t @value, and a call
	 * of the rank on the device @operation, on a communicator that has both
	 * devices, makes that device fail, as with COHORT_FAULT_DEVICE.  A copy
	 * whose error is sticky also makes the device fail.
	 *
	 * Until cohort_sim_faults_clear(), the fault affects one-dimensional
	 * copies over the path, but not two-dimensional ones
	 * (cudaMemcpy2DAsync()).  It also affects calls of a communicator that
	 * has both devices, unless NCCL_P2P_DISABLE is 1 in the environment.
	 * If both numbers name the same device, the fault affects copies within
	 * its memory and between its memory and the host's, and the
	 * communicator calls of its rank.  If NVIDIA's NCCL runs on the
	 * simulator, only copies are affected.
	 */
	COHORT_FAULT_PATH = 13,

	/* The path between two devices damages data: a copy arrives with its
	 * first bit flipped, and a call first flips the first bit of the send
	 * buffer of the rank on the device @operation.  @rank, @operation, and
	 * the copies and calls that are affected are as for
	 * COHORT_FAULT_PATH. */
	COHORT_FAULT_GARBLE = 14,
};

/* One scripted fault.  A fault of a path between two devices strikes on every
 * use of the path, all others only once.  Later versions add kinds, not
 * fields. */
struct cohort_fault {
	int rank; /* rank in the communicator; -1 for any */

	/* Number of the call, counted from 0 among the rank's native
	 * collectives, sends and receives on a communicator.  Each tensor of a
	 * list counts as one call.  A call with a count of 0 also counts,
	 * although it never waits for peers.  For COHORT_FAULT_INIT and
	 * COHORT_FAULT_INIT_ERROR, 0 is an init and 1 a split.  For
	 * COHORT_FAULT_PATH and COHORT_FAULT_GARBLE, @operation and @rank are
	 * device numbers. */
	uint64_t operation;
	int kind;       /* enum cohort_fault_kind */
	uint64_t value; /* depends on the kind */
};

/*
 * cohort_sim_fault_add - script a fault
 * @fault: borrowed for the call
 *
 * A fault applies to every communicator of the host platform in the process.
 * Up to 64 faults can be pending.  May be called from any thread; does not
 * block.
 *
 * COHORT_FAULTS in the environment adds faults at first use of the platform, as
 * a list such as "2@10:never,1@0:delay=5ms,0@3:error=3,*@7:stuck"
 * (rank@operation:kind; times in ns, us, ms or s).  docs/simulator.md,
 * "Faults", lists all kinds.  If an entry is wrong, opening the platform fails
 * with an error that names the entry.
 *
 * Returns:
 *   COHORT_OK         the fault will strike
 *   COHORT_INVALID    a field is wrong; the error text has its value
 *   COHORT_NO_MEMORY  64 faults are pending
 */
COHORT_API int cohort_sim_fault_add(const struct cohort_fault *fault);

/*
 * cohort_sim_faults_clear - drop all faults that have not struck
 *
 * Also releases the ranks that COHORT_FAULT_HUNG or COHORT_FAULT_INIT holds,
 * but not ranks held by other faults, and repairs devices and paths.  May be
 * called from any thread; does not block.
 */
COHORT_API void cohort_sim_faults_clear(void);

#ifdef __cplusplus
}
#endif

#endif
