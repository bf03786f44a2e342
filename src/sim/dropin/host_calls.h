/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DROPIN_HOST_CALLS_H
#define SIM_DROPIN_HOST_CALLS_H

/*
 * The drop-in libraries: the host platform under the names of NCCL and the CUDA
 * runtime
 *
 * libcohort-host.so holds the host platform and hides all of it but
 * cohort_host_calls(), which hands out its functions as one table,
 * cohort_host_knobs(), and cohort_host_set_launcher() and cohort_host_may_use()
 * (driver/kernel_launcher.h).  libnccl.so.2 (libnccl.c), libcudart.so.13 and
 * .12 (libcudart.c, cudart_kernels.c), libcuda.so.1 (libcuda.c) and
 * libnvidia-ml.so.1 (libnvidia_ml.c) hold nothing but functions that forward
 * through that table, so that all share one platform, and so that a process may
 * have the one built into libcohort beside it: the two know nothing of each
 * other.
 *
 * What is exported follows from the lists of functions, platform/functions.h,
 * sim/exports.h, driver/driver_functions.h and nvml_abi.h.
 */

#include "platform/drop_in.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

/* Which of CUDA's majors a file of libcudart is compiled for: the Makefile says
 * -DCUDART=12 and -DCUDART=13. */
#ifndef CUDART
#define CUDART 13
#endif

struct host_calls {
	/* Set if the environment could not be read, which is said on stderr
	 * then, and in the child of a fork, as CUDA has it: nothing but the
	 * functions that give texts may be called. */
	bool refused;

#define CALLS_ENTRY(since, result, name, parameters, arguments)                \
	result(*name) parameters;
	NCCL_FUNCTIONS(CALLS_ENTRY)
	CUDA_FUNCTIONS(CALLS_ENTRY)
	HOST_CUDA_FUNCTIONS(CALLS_ENTRY)
#undef CALLS_ENTRY

	/* As CUDA 12 has them. */
#define CALLS_ENTRY(since, result, name, parameters, arguments)                \
	result(*name##_12) parameters;
	HOST_CUDA12_FUNCTIONS(CALLS_ENTRY)
#undef CALLS_ENTRY

#define DRIVER_FORM(symbol, parameters, arguments) CUresult(*symbol) parameters;
	DRIVER_FUNCTIONS(DRIVER_FORMS)
#undef DRIVER_FORM

	/* A launch by the runtime, see driver/driver.h. */
	CUresult (*launch)(const struct host_launch *launch);

	/* Remember @error as the thread's last CUDA error, and return it. */
	cudaError_t (*fail)(cudaError_t error);
};

/* The functions of this process's drop-in platform, which is set up by the
 * first call: from COHORT_HOST_DEVICES, COHORT_HOST_STRICT, COHORT_HOST_SYNC
 * and COHORT_FAULTS.  Never NULL, constant.  Any thread. */
COHORT_API const struct host_calls *cohort_host_calls(void);

/* Never NULL, constant.  Any thread. */
COHORT_API const struct host_knobs *cohort_host_knobs(void);

/* In each of the drop-in libraries: the version of cohort that it is of.  Tells
 * it from the real one. */
COHORT_API const char *cohort_drop_in(void);

/* The head of an exported function. */
#define EXPORT(result, name, parameters)                                       \
	COHORT_API result name parameters;                                     \
	result name parameters

/* A text where a function that gives texts is called, an error of the right
 * kind where another one is and the platform was refused. */
#define CALLS_FORWARD(result, name, arguments)                                 \
	const struct host_calls *calls = cohort_host_calls();                  \
                                                                               \
	if (calls->refused && CALLS_MAY_REFUSE(result))                        \
		return (result)CALLS_REFUSAL(result);                          \
	return calls->name arguments;

/* clang-format off */
#define CALLS_MAY_REFUSE(result) \
	_Generic((result)0, const char *: false, default: true)
#define CALLS_REFUSAL(result) \
	_Generic((result)0, ncclResult_t: ncclUnhandledCudaError, \
	         cudaError_t: cudaErrorInitializationError, \
	         CUresult: CUDA_ERROR_NOT_INITIALIZED, \
	         const char *: NULL)
/* clang-format on */

#endif
