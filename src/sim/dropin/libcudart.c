/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements libcudart.so.13 or, if CUDART is 12, libcudart.so.12
 *
 * Every function in the lists is exported under its own name and forwards to
 * the host platform.  A function that uses a stream also has a variant, with
 * the suffix _ptsz or _ptds, that CUDA's header substitutes in programs
 * compiled for per-thread default streams.
 */

#include "sim/dropin/host_calls.h"

/* Define a function that forwards to @entry of struct host_calls. */
#define PLAIN(result, name, entry, parameters, arguments)                      \
	EXPORT(result, name, parameters)                                       \
	{                                                                      \
		CALLS_FORWARD(result, entry, arguments)                        \
	}

/* Define a function and its _ptsz variant (for per-thread default streams),
 * which first runs the statements after @arguments. */
#define AFTER(result, name, entry, parameters, arguments, ...)                 \
	PLAIN(result, name, entry, parameters, arguments)                      \
	EXPORT(result, name##_ptsz, parameters)                                \
	{                                                                      \
		__VA_ARGS__;                                                   \
		CALLS_FORWARD(result, entry, arguments)                        \
	}

/* Define a function with a stream.  In its _ptsz variant, a NULL stream is the
 * thread's own default stream. */
#define OWN_STREAM(stream) stream = stream ? stream : cudaStreamPerThread
#define STREAM(result, name, entry, parameters, arguments)                     \
	AFTER(result, name, entry, parameters, arguments, OWN_STREAM(stream))

/* Define a function that uses the default stream and waits for it.  Its _ptds
 * variant calls the "Async" function on the thread's own default stream. */
#define WAITS(result, name, entry, parameters, arguments)                      \
	PLAIN(result, name, entry, parameters, arguments)                      \
	EXPORT(result, name##_ptds, parameters)                                \
	{                                                                      \
		const struct host_calls *calls = cohort_host_calls();          \
		result error = cudaErrorInitializationError;                   \
                                                                               \
		if (!calls->refused)                                           \
			error = calls->name##Async(BARE arguments,             \
			                           cudaStreamPerThread);       \
		return error == cudaSuccess ? calls->cudaStreamSynchronize(    \
						      cudaStreamPerThread)     \
		                            : error;                           \
	}
#define BARE(...) __VA_ARGS__

/* Define a function that looks up driver functions.  Its _ptsz variant finds
 * the variants for per-thread default streams. */
#define DRIVER(result, name, entry, parameters, arguments)                     \
	AFTER(result, name, entry, parameters, arguments,                      \
	      flags = flags == cudaEnableDefault                               \
	                      ? cudaEnablePerThreadDefaultStream               \
	                      : flags)

/* Define a function with its CUDA 13 signature, under the name that CUDA 12
 * uses for this signature. */
#define V2(result, name, entry, ...)                                           \
	PLAIN(result, name##_v2, entry, __VA_ARGS__)
#define V2_STREAM(result, name, entry, ...)                                    \
	STREAM(result, name##_v2, entry, __VA_ARGS__)
#define V3_STREAM(result, name, entry, ...)                                    \
	STREAM(result, name##_v3, entry, __VA_ARGS__)

/* Define nothing, because the function is written out below. */
#define OWN(result, name, entry, parameters, arguments)

/*
 * The form of each function.  FORM_name expands to a comma and the macro to
 * use; if it is not defined, the function uses PLAIN.
 */
#define FORM_cudaEventRecord , STREAM
#define FORM_cudaEventRecordWithFlags , STREAM
#define FORM_cudaFreeAsync , STREAM
#define FORM_cudaGetDriverEntryPoint , DRIVER
#define FORM_cudaGetDriverEntryPointByVersion , DRIVER
#define FORM_cudaGraphLaunch , STREAM
#define FORM_cudaGraphUpload , STREAM
#define FORM_cudaLaunchHostFunc , STREAM
#define FORM_cudaMallocAsync , STREAM
#define FORM_cudaMallocFromPoolAsync , STREAM
#define FORM_cudaMemPrefetchAsync , STREAM
#define FORM_cudaMemcpy , WAITS
#define FORM_cudaMemcpy2D , WAITS
#define FORM_cudaMemcpy2DAsync , STREAM
#define FORM_cudaMemcpyAsync , STREAM
#define FORM_cudaMemset , WAITS
#define FORM_cudaMemset2D , WAITS
#define FORM_cudaMemset2DAsync , STREAM
#define FORM_cudaMemsetAsync , STREAM
#define FORM_cudaStreamAddCallback , STREAM
#define FORM_cudaStreamAttachMemAsync , STREAM
#define FORM_cudaStreamBeginCapture , STREAM
#define FORM_cudaStreamEndCapture , STREAM
#define FORM_cudaStreamGetCaptureInfo , STREAM
#define FORM_cudaStreamGetDevice , STREAM
#define FORM_cudaStreamGetFlags , STREAM
#define FORM_cudaStreamGetId , STREAM
#define FORM_cudaStreamGetPriority , STREAM
#define FORM_cudaStreamIsCapturing , STREAM
#define FORM_cudaStreamQuery , STREAM
#define FORM_cudaStreamSynchronize , STREAM
#define FORM_cudaStreamUpdateCaptureDependencies , STREAM
#define FORM_cudaStreamWaitEvent , STREAM
#if CUDART == 12
#define FORM_cudaRuntimeGetVersion , OWN
#undef FORM_cudaGetDriverEntryPoint
#define FORM_cudaGetDriverEntryPoint , OWN
#define FORM_cudaGetDeviceProperties , OWN
#define FORM_cudaPointerGetAttributes , OWN
#define FORM_cudaGraphAddDependencies , V2
#define FORM_cudaMemAdvise , V2
#undef FORM_cudaMemPrefetchAsync
#define FORM_cudaMemPrefetchAsync , V2_STREAM
#undef FORM_cudaStreamGetCaptureInfo
#define FORM_cudaStreamGetCaptureInfo , V3_STREAM
#undef FORM_cudaStreamUpdateCaptureDependencies
#define FORM_cudaStreamUpdateCaptureDependencies , V2_STREAM
#endif

#define SECOND(first, second, ...) second
#define CHOOSE(...) SECOND(__VA_ARGS__)
#define FORWARD(since, result, name, parameters, arguments)                    \
	CHOOSE(FORM_##name, PLAIN, )(result, name, name, parameters, arguments)

CUDA_FUNCTIONS(FORWARD)
HOST_CUDA_FUNCTIONS(FORWARD)

#if CUDART == 12
#define FORM_12_cudaMemPrefetchAsync , STREAM
#define FORM_12_cudaStreamGetCaptureInfo , STREAM
#define FORM_12_cudaStreamGetCaptureInfo_v2 , STREAM
#define FORM_12_cudaStreamUpdateCaptureDependencies , STREAM
#define FORWARD_12(since, result, name, parameters, arguments)                 \
	CHOOSE(FORM_12_##name, PLAIN, )                                        \
	(result, name, name##_12, parameters, arguments)

HOST_CUDA12_FUNCTIONS(FORWARD_12)

COHORT_API extern __typeof__(cudaEventElapsedTime) cudaEventElapsedTime_v2
	__attribute__((alias("cudaEventElapsedTime")));

/* version 12.9, the last release of CUDA 12 */
#define CUDART_VERSION 12090

EXPORT(cudaError_t, cudaRuntimeGetVersion, (int *version))
{
	const struct host_calls *calls = cohort_host_calls();

	if (calls->refused)
		return cudaErrorInitializationError;
	if (!version)
		return calls->fail(cudaErrorInvalidValue);
	*version = CUDART_VERSION;
	return cudaSuccess;
}

/* Look up the variant of a driver function for this version of the runtime. */
EXPORT(cudaError_t, cudaGetDriverEntryPoint,
       (const char *symbol, void **out, unsigned long long flags,
        enum cudaDriverEntryPointQueryResult *status))
{
	return cudaGetDriverEntryPointByVersion(symbol, out, CUDART_VERSION,
	                                        flags, status);
}

EXPORT(cudaError_t, cudaGetDriverEntryPoint_ptsz,
       (const char *symbol, void **out, unsigned long long flags,
        enum cudaDriverEntryPointQueryResult *status))
{
	return cudaGetDriverEntryPointByVersion_ptsz(
		symbol, out, CUDART_VERSION, flags, status);
}
#endif
