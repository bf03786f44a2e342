/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_KERNEL_LAUNCHER_H
#define SIM_DRIVER_KERNEL_LAUNCHER_H

/*
 * Launchers, which run the kernels of a program
 *
 * The simulator itself cannot run kernels.  A library that has CPU functions
 * for a program's kernels passes a launcher to libcohort-host.so.  For each
 * launch, by the driver's cuLaunchKernel() and cuLaunchKernelEx() or by the
 * runtime's cudaLaunchKernel(), the simulator calls the launcher, which returns
 * the function to queue.
 */

#include <stdbool.h>
#include <stddef.h>

#include <cohort/status.h>

#include "sim/driver/driver_abi.h"

/* One launch of the program.  The caller owns all of the data, which is valid
 * only until the launcher returns. */
struct host_launch {
	/* The kernel's handle as the program passed it: the driver's
	 * CUfunction, or the runtime's host function of the kernel. */
	const void *function;
	unsigned int grid[3], block[3]; /* x, y and z sizes; none is 0 */
	unsigned int shared;            /* bytes of dynamic shared memory */
	/* the stream as the program passed it */
	CUstream stream;
	int device; /* the stream's device */

	/* The arguments, either packed in one buffer
	 * (CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE) or as an array of
	 * pointers.  Both are NULL if there are no arguments. */
	const void *arguments;
	size_t bytes; /* size of the packed arguments */
	void *const *pointers;

	/* The attributes, or NULL.  The launcher must ignore attributes that
	 * name events, because the simulator records these events: when the
	 * launch is done if they are programmatic events without
	 * triggerAtBlockStart, otherwise when the stream reaches the launch. */
	const CUlaunchAttribute *attributes;
	unsigned int attribute_count;
};

/*
 * host_kernel - the function that a launcher returns for a launch
 *
 * The stream calls @run(@user) as a host function each time that the launch
 * runs.  A captured launch runs each time that its graph runs.  @run may take a
 * long time and may block.  It returns CUDA_SUCCESS or an error.  An error
 * makes the device fail, and every later call on the device returns the error.
 *
 * After the last run, @drop(@user) is called on any thread, unless @drop is
 * NULL.  Neither function may call CUDA.
 */
struct host_kernel {
	CUresult (*run)(void *user);
	void (*drop)(void *user);
	void *user;
};

/*
 * host_launcher - choose the function to run for a launch
 * @launch: the program's launch
 * @kernel: filled in on success
 *
 * Called on the thread that launches, with no lock held.  Must not call CUDA.
 *
 * Returns:
 *   CUDA_SUCCESS   @kernel is filled in
 *   another code   the launch is refused; the program's call returns this
 *                  code, and neither @run nor @drop is called
 */
typedef CUresult (*host_launcher)(const struct host_launch *launch,
                                  struct host_kernel *kernel);

/* Return true if a kernel may read [@p, @p + @bytes) or, if @write, write
 * there.  If not, the kernel must fail with CUDA_ERROR_ILLEGAL_ADDRESS.  Memory
 * that CUDA did not allocate may always be used.  May be called from any
 * thread. */
COHORT_API bool cohort_host_may_use(const void *p, size_t bytes, bool write);

/* Pass all launches to @launcher from now on; if it is NULL, launches fail.
 * May be called from any thread. */
COHORT_API void cohort_host_set_launcher(host_launcher launcher);

#endif
