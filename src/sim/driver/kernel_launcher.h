/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_KERNEL_LAUNCHER_H
#define SIM_DRIVER_KERNEL_LAUNCHER_H

/*
 * What runs kernels
 *
 * The simulator has no kernels of its own.  A library that has host functions
 * for the kernels of a program gives a launcher to libcohort-host.so: each
 * launch, by the driver's cuLaunchKernel() and cuLaunchKernelEx() or by the
 * runtime's cudaLaunchKernel(), then asks it which host function to queue.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/status.h>

#include "sim/driver/driver_abi.h"

/* What the program launches.  All of it is the caller's, and valid only until
 * the launcher returns. */
struct host_launch {
	/* The handle that the program passed, as the driver's CUfunction, or
	 * as the runtime's host function of the kernel. */
	const void *function;
	unsigned int grid[3], block[3]; /* x, y, z; none is 0 */
	unsigned int shared;            /* bytes */
	CUstream stream;                /* as the program passed it */
	int device;                     /* that the stream is on */

	/* The arguments: packed in one buffer (CU_LAUNCH_PARAM_BUFFER_POINTER
	 * and _SIZE), or a pointer to each, or neither (NULL) if there are
	 * none. */
	const void *arguments;
	size_t bytes; /* of arguments */
	void *const *pointers;

	/* The attributes, or NULL.  The launcher ignores events among them: the
	 * simulator records these when the stream reaches the launch or, a
	 * programmatic event that blocks trigger, when it is done. */
	const CUlaunchAttribute *attributes;
	unsigned int attribute_count;
};

/*
 * What to do for it.  The stream calls @run(@user) as a host function, once
 * for each time that the launch is run: a launch that is captured runs with
 * its graph, any number of times.  @run may take long and may block, but must
 * not call CUDA.  It returns CUDA_SUCCESS, or the error that the device has
 * failed with, which every later call on that device answers.  When it will
 * not be called again there is a call of @drop(@user), unless that is NULL, on
 * any thread; it must not call CUDA, either.
 */
struct host_kernel {
	CUresult (*run)(void *user);
	void (*drop)(void *user);
	void *user;
};

/* Fill @kernel, or return why there is no such launch, which the program is
 * told; then nothing is called.  Called on the thread that launches, with no
 * lock held; it must not call CUDA. */
typedef CUresult (*host_launcher)(const struct host_launch *launch,
                                  struct host_kernel *kernel);

/* True if a kernel may read [@p, @p + @bytes), or write there; if not, its
 * error is CUDA_ERROR_ILLEGAL_ADDRESS.  Memory of the program's own may be
 * used.  Any thread. */
COHORT_API bool cohort_host_may_use(const void *p, size_t bytes, bool write);

/* True if COHORT_HOST_QUIET asks that nothing is said of what is missing. */
static inline bool host_is_quiet(void)
{
	const char *text = getenv("COHORT_HOST_QUIET");

	return text && *text && strcmp(text, "0") != 0;
}

/* Let @launcher have the launches from now on; NULL: they fail.  Any thread. */
COHORT_API void cohort_host_set_launcher(host_launcher launcher);

#endif
