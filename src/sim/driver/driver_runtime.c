/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The functions of the driver that a function of the runtime does
 */

#include "sim/cuda/copy.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/handle_mark.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

/* Above these numbers the driver and the runtime have the same codes. */
#define FIRST_SHARED_CODE 100

CUresult driver_code(cudaError_t error)
{
	switch ((int)error) {
#define KNOWN(runtime, value, name, text) case value:
		CU_RESULTS(KNOWN)
#undef KNOWN
		return (CUresult)error;
	default:
		return (int)error < FIRST_SHARED_CODE ? CUDA_ERROR_INVALID_VALUE
		                                      : CUDA_ERROR_UNKNOWN;
	}
}

CUresult driver_result(cudaError_t last, cudaError_t error)
{
	*device_last_error() = last;
	return driver_code(error);
}

#define MAY_PLAIN true
#define MAY_CONTEXT driver_has_context()
#define MAY_STREAM driver_can_use(stream)
#define MAY_STREAMS (driver_can_use(stream) && driver_can_use(src))
#define MAY_WAITS driver_has_context()

#define OVER_RUNTIME(since, name, symbol, form, parameters, arguments, call)   \
	CUresult driver_##symbol parameters                                    \
	{                                                                      \
		const cudaError_t last = *device_last_error();                 \
                                                                               \
		if (!(MAY_##form))                                             \
			return CUDA_ERROR_INVALID_CONTEXT;                     \
		return driver_result(last, call);                              \
	}

DRIVER_RUNTIME_FUNCTIONS(OVER_RUNTIME)
