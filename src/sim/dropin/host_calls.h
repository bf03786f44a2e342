/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DROPIN_HOST_CALLS_H
#define SIM_DROPIN_HOST_CALLS_H

/*
 * The drop-in libraries: the host platform under the names of NCCL and CUDA
 *
 * libcohort-host.so contains the host platform.  It exports only
 * cohort_host_calls(), which returns a table of the platform's functions;
 * cohort_host_knobs(); and cohort_host_set_launcher() and cohort_host_may_use()
 * (driver/kernel_launcher.h).
 *
 * The other libraries only forward calls through this table, so they share one
 * platform: libnccl.so.2 (libnccl.c), libcudart.so.13 and .12 (libcudart.c,
 * cudart_kernels.c), libcuda.so.1 (libcuda.c) and libnvidia-ml.so.1
 * (libnvidia_ml.c).  A process can also contain the platform that is built into
 * libcohort; the two platforms are independent.
 *
 * Functions of NCCL and CUDA are listed in platform/functions.h, sim/exports.h
 * and driver/driver_functions.h.
 */

#include "platform/drop_in.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

/* CUDA major version for which libcudart's files are compiled; the Makefile
 * passes -DCUDART=12 or -DCUDART=13. */
#ifndef CUDART
#define CUDART 13
#endif

struct host_calls {
	/* True if calls are refused: in a forked child, as in CUDA, and if the
	 * platform could not be opened, which is reported on stderr.  Only
	 * functions that return strings may then be called. */
	bool refused;

#define CALLS_ENTRY(since, result, name, parameters, arguments)                \
	result(*name) parameters;
	NCCL_FUNCTIONS(CALLS_ENTRY)
	CUDA_FUNCTIONS(CALLS_ENTRY)
	HOST_CUDA_FUNCTIONS(CALLS_ENTRY)
#undef CALLS_ENTRY

	/* Functions with the signature of CUDA 12. */
#define CALLS_ENTRY(since, result, name, parameters, arguments)                \
	result(*name##_12) parameters;
	HOST_CUDA12_FUNCTIONS(CALLS_ENTRY)
#undef CALLS_ENTRY

#define DRIVER_FORM(symbol, parameters, arguments) CUresult(*symbol) parameters;
	DRIVER_FUNCTIONS(DRIVER_FORMS)
#undef DRIVER_FORM

	/* Launch a kernel for the runtime; see driver/driver.h. */
	CUresult (*launch)(const struct host_launch *launch);

	/* Store @error as the thread's last CUDA error, and return it. */
	cudaError_t (*fail)(cudaError_t error);
};

/* Return the functions of this process's drop-in platform.  The first call sets
 * the platform up from COHORT_HOST_DEVICES, COHORT_HOST_STRICT,
 * COHORT_HOST_SYNC and COHORT_FAULTS.  The result is constant and never NULL.
 * May be called from any thread. */
COHORT_API const struct host_calls *cohort_host_calls(void);

/* Return the functions that control the drop-in platform.  The result is
 * constant and never NULL.  May be called from any thread. */
COHORT_API const struct host_knobs *cohort_host_knobs(void);

/* Return the version of cohort to which the library belongs.  Each drop-in
 * library exports this function; NVIDIA's libraries do not. */
COHORT_API const char *cohort_drop_in(void);

/* Declare an exported function and start its definition. */
#define EXPORT(result, name, parameters)                                       \
	COHORT_API result name parameters;                                     \
	result name parameters

/* Body of a function that forwards to the platform.  If the platform refuses
 * calls, the function is forwarded only if it returns a string; otherwise, it
 * returns an error. */
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
