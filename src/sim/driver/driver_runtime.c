/* SPDX-License-Identifier: Apache-2.0 */

/* Implements the driver functions that only call functions of the runtime */

#include "sim/cuda/copy.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/handle_mark.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

/* Lowest error code that has the same meaning in the driver and in the runtime.
 * Lower codes have different meanings. */
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

/* Copy to *@memory the address that a call of the runtime stored in *@got, if
 * the result of the call, @error, is cudaSuccess.  Return @error. */
static cudaError_t driver_give(CUdeviceptr *memory, cudaError_t error,
                               void *const *got)
{
	if (error == cudaSuccess)
		*memory = (CUdeviceptr)(uintptr_t)*got;
	return error;
}

#define MAY_PLAIN true
#define MAY_CONTEXT driver_has_context()
#define MAY_STREAM driver_can_use(stream)
#define MAY_WAITS driver_has_context()

#define OVER_RUNTIME(since, name, symbol, form, parameters, arguments, call)   \
	CUresult driver_##symbol parameters                                    \
	{                                                                      \
		const cudaError_t last = *device_last_error();                 \
		void *got __attribute__((unused)) = NULL;                      \
                                                                               \
		if (!(MAY_##form))                                             \
			return CUDA_ERROR_INVALID_CONTEXT;                     \
		return driver_result(last, call);                              \
	}

DRIVER_RUNTIME_FUNCTIONS(OVER_RUNTIME)

/* ---- lists of operations in which a stream writes or awaits words ------ */

static CUresult do_one(CUstream stream, const CUstreamBatchMemOpParams *p)
{
	/* The structures for waits and writes have the same layout. */
	const struct CUstreamMemOpValueParams_st *v = &p->waitValue;

	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return driver_cuStreamWaitValue32_v2(stream, v->address,
		                                     v->value, v->flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return driver_cuStreamWriteValue32_v2(stream, v->address,
		                                      v->value, v->flags);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return driver_cuStreamWaitValue64_v2(stream, v->address,
		                                     v->value64, v->flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return driver_cuStreamWriteValue64_v2(stream, v->address,
		                                      v->value64, v->flags);
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Queue the operations of @list, up to the first invalid one. */
CUresult driver_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                      CUstreamBatchMemOpParams *list,
                                      unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;
	unsigned int i;

	if (!driver_can_use(stream))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (flags || (count && !list) || count > 256)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = do_one(stream, &list[i]);
	return result;
}
