/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_DRIVER_FUNCTIONS_H
#define SIM_DRIVER_DRIVER_FUNCTIONS_H

/*
 * The list of CUDA driver functions: X(since, name, symbol, form, parameters,
 * arguments, ...)
 *
 * cuGetProcAddress() finds a function by @name, and libcuda.so.1 exports the
 * function as @symbol, which has the version suffix (such as _v2) of CUDA's
 * header, if any.  A name may be listed several times: @since is the first
 * version of CUDA in which the name means this symbol.  @form says which other
 * form of the function exists, and what the function needs:
 *
 * PLAIN   - no other form; needs no context
 * CONTEXT - no other form; needs a current context
 * STREAM  - symbol_ptsz() takes NULL for the thread's own stream; default
 *           streams need a context
 * CONFIG  - like STREAM, with the stream in the argument config
 * WAITS   - symbol_ptds() runs on the thread's own stream and waits for it
 *           (driver_names.c); needs a current context
 *
 * The functions in runtime_functions.h only call the runtime.  The functions
 * listed here have code of their own: driver_cuInit() implements cuInit().
 */

#include "sim/driver/driver_abi.h"
#include "sim/driver/runtime_functions.h"

/* clang-format off */
#define CU_FN(X, since, name, version, form, pairs) \
	X(since, name, name##version, form, FN_PARAMETERS pairs, \
	  FN_ARGUMENTS pairs)

#define DRIVER_OWN_FUNCTIONS(X) \
	DRIVER_OWN_DEVICES(X) \
	DRIVER_OWN_CONTEXTS(X) \
	DRIVER_OWN_MEMORY(X) \
	DRIVER_OWN_COPIES(X) \
	DRIVER_OWN_VIRTUAL(X) \
	DRIVER_OWN_WORDS(X) \
	DRIVER_OWN_LAUNCHES(X) \
	DRIVER_OWN_NAMES(X)

#define DRIVER_FUNCTIONS(X) \
	DRIVER_RUNTIME_FUNCTIONS(X) \
	DRIVER_OWN_FUNCTIONS(X)

/* DRIVER_FUNCTIONS(DRIVER_FORMS) expands to DRIVER_FORM(symbol, parameters,
 * arguments) for every function and for every other form of a function. */
#define DRIVER_FORMS(since, name, symbol, form, parameters, arguments, ...) \
	DRIVER_FORM(symbol, parameters, arguments) \
	DRIVER_OTHER_##form(symbol, parameters, arguments)
#define DRIVER_OTHER_PLAIN(symbol, parameters, arguments)
#define DRIVER_OTHER_CONTEXT(symbol, parameters, arguments)
#define DRIVER_OTHER_STREAM(symbol, parameters, arguments) \
	DRIVER_FORM(symbol##_ptsz, parameters, arguments)
#define DRIVER_OTHER_CONFIG DRIVER_OTHER_STREAM
#define DRIVER_OTHER_WAITS(symbol, parameters, arguments) \
	DRIVER_FORM(symbol##_ptds, parameters, arguments)

#define DRIVER_OWN_DEVICES(X) \
	CU_FN(X, 2000, cuInit, , PLAIN, (unsigned int, flags)) \
	CU_FN(X, 2000, cuDeviceGet, , PLAIN, \
	  (CUdevice *, device, int, number)) \
	CU_FN(X, 2000, cuDeviceGetName, , PLAIN, \
	  (char *, name, int, length, CUdevice, device)) \
	CU_FN(X, 9020, cuDeviceGetUuid, , PLAIN, \
	  (CUuuid *, uuid, CUdevice, device)) \
	CU_FN(X, 11040, cuDeviceGetUuid, _v2, PLAIN, \
	  (CUuuid *, uuid, CUdevice, device)) \
	CU_FN(X, 3020, cuDeviceTotalMem, _v2, PLAIN, \
	  (size_t *, bytes, CUdevice, device)) \
	CU_FN(X, 2000, cuDeviceGetAttribute, , PLAIN, \
	  (int *, value, int, attribute, CUdevice, device)) \
	CU_FN(X, 2000, cuDeviceComputeCapability, , PLAIN, \
	  (int *, major, int *, minor, CUdevice, device)) \
	CU_FN(X, 6000, cuGetErrorString, , PLAIN, \
	  (CUresult, error, const char **, text)) \
	CU_FN(X, 6000, cuGetErrorName, , PLAIN, \
	  (CUresult, error, const char **, text)) \
	CU_FN(X, 4000, cuProfilerStart, , PLAIN, ()) \
	CU_FN(X, 4000, cuProfilerStop, , PLAIN, ()) \
	CU_FN(X, 11030, cuFlushGPUDirectRDMAWrites, , PLAIN, \
	  (int, target, int, scope))

#define DRIVER_OWN_CONTEXTS(X) \
	CU_FN(X, 7000, cuDevicePrimaryCtxRetain, , PLAIN, \
	  (CUcontext *, context, CUdevice, device)) \
	CU_FN(X, 7000, cuDevicePrimaryCtxRelease, _v2, PLAIN, \
	  (CUdevice, device)) \
	CU_FN(X, 7000, cuDevicePrimaryCtxSetFlags, _v2, PLAIN, \
	  (CUdevice, device, unsigned int, flags)) \
	CU_FN(X, 7000, cuDevicePrimaryCtxGetState, , PLAIN, \
	  (CUdevice, device, unsigned int *, flags, int *, active)) \
	CU_FN(X, 7000, cuDevicePrimaryCtxReset, _v2, PLAIN, \
	  (CUdevice, device)) \
	CU_FN(X, 3020, cuCtxCreate, _v2, PLAIN, \
	  (CUcontext *, context, unsigned int, flags, CUdevice, device)) \
	CU_FN(X, 11040, cuCtxCreate, _v3, PLAIN, \
	  (CUcontext *, context, CUexecAffinityParam *, params, int, count, \
	   unsigned int, flags, CUdevice, device)) \
	CU_FN(X, 12050, cuCtxCreate, _v4, PLAIN, \
	  (CUcontext *, context, CUctxCreateParams *, params, \
	   unsigned int, flags, CUdevice, device)) \
	CU_FN(X, 4000, cuCtxDestroy, _v2, PLAIN, (CUcontext, context)) \
	CU_FN(X, 4000, cuCtxPushCurrent, _v2, PLAIN, (CUcontext, context)) \
	CU_FN(X, 4000, cuCtxPopCurrent, _v2, PLAIN, (CUcontext *, context)) \
	CU_FN(X, 4000, cuCtxSetCurrent, , PLAIN, (CUcontext, context)) \
	CU_FN(X, 4000, cuCtxGetCurrent, , PLAIN, (CUcontext *, context)) \
	CU_FN(X, 2000, cuCtxGetDevice, , PLAIN, (CUdevice *, device)) \
	CU_FN(X, 13000, cuCtxGetDevice, _v2, PLAIN, \
	  (CUdevice *, device, CUcontext, context)) \
	CU_FN(X, 13000, cuCtxSynchronize, _v2, PLAIN, (CUcontext, context)) \
	CU_FN(X, 7000, cuCtxGetFlags, , PLAIN, (unsigned int *, flags)) \
	CU_FN(X, 12010, cuCtxSetFlags, , PLAIN, (unsigned int, flags)) \
	CU_FN(X, 12000, cuCtxGetId, , PLAIN, \
	  (CUcontext, context, unsigned long long *, id)) \
	CU_FN(X, 3020, cuCtxGetApiVersion, , PLAIN, \
	  (CUcontext, context, unsigned int *, version)) \
	CU_FN(X, 3020, cuCtxGetCacheConfig, , PLAIN, (CUfunc_cache *, config)) \
	CU_FN(X, 3020, cuCtxSetCacheConfig, , PLAIN, (CUfunc_cache, config)) \
	CU_FN(X, 4000, cuCtxEnablePeerAccess, , PLAIN, \
	  (CUcontext, peer, unsigned int, flags)) \
	CU_FN(X, 4000, cuCtxDisablePeerAccess, , PLAIN, (CUcontext, peer)) \
	CU_FN(X, 9020, cuStreamGetCtx, , STREAM, \
	  (CUstream, stream, CUcontext *, context)) \
	CU_FN(X, 12050, cuStreamGetCtx, _v2, STREAM, \
	  (CUstream, stream, CUcontext *, context, CUgreenCtx *, green))

#define DRIVER_OWN_MEMORY(X) \
	CU_FN(X, 3020, cuMemGetAddressRange, _v2, PLAIN, \
	  (CUdeviceptr *, start, size_t *, bytes, CUdeviceptr, memory)) \
	CU_FN(X, 4000, cuPointerGetAttribute, , PLAIN, \
	  (void *, value, CUpointer_attribute, attribute, \
	   CUdeviceptr, memory)) \
	CU_FN(X, 7000, cuPointerGetAttributes, , PLAIN, \
	  (unsigned int, count, CUpointer_attribute *, attributes, \
	   void **, values, CUdeviceptr, memory)) \
	CU_FN(X, 6000, cuPointerSetAttribute, , PLAIN, \
	  (const void *, value, CUpointer_attribute, attribute, \
	   CUdeviceptr, memory))

#define DRIVER_OWN_COPIES(X) \
	CU_FN(X, 3020, cuMemcpy2D, _v2, WAITS, (const CUDA_MEMCPY2D *, copy)) \
	CU_FN(X, 3020, cuMemcpy2DUnaligned, _v2, WAITS, \
	  (const CUDA_MEMCPY2D *, copy)) \
	CU_FN(X, 3020, cuMemcpy2DAsync, _v2, STREAM, \
	  (const CUDA_MEMCPY2D *, copy, CUstream, stream))

#define DRIVER_OWN_VIRTUAL(X) \
	CU_FN(X, 10020, cuMemAddressReserve, , PLAIN, \
	  (CUdeviceptr *, start, size_t, bytes, size_t, alignment, \
	   CUdeviceptr, wanted, unsigned long long, flags)) \
	CU_FN(X, 10020, cuMemAddressFree, , PLAIN, \
	  (CUdeviceptr, start, size_t, bytes)) \
	CU_FN(X, 10020, cuMemCreate, , PLAIN, \
	  (CUmemGenericAllocationHandle *, handle, size_t, bytes, \
	   const CUmemAllocationProp *, prop, unsigned long long, flags)) \
	CU_FN(X, 10020, cuMemRelease, , PLAIN, \
	  (CUmemGenericAllocationHandle, handle)) \
	CU_FN(X, 10020, cuMemMap, , PLAIN, \
	  (CUdeviceptr, start, size_t, bytes, size_t, offset, \
	   CUmemGenericAllocationHandle, handle, unsigned long long, flags)) \
	CU_FN(X, 10020, cuMemUnmap, , PLAIN, \
	  (CUdeviceptr, start, size_t, bytes)) \
	CU_FN(X, 10020, cuMemSetAccess, , PLAIN, \
	  (CUdeviceptr, start, size_t, bytes, const CUmemAccessDesc *, list, \
	   size_t, count)) \
	CU_FN(X, 10020, cuMemGetAccess, , PLAIN, \
	  (unsigned long long *, flags, \
	   const struct cudaMemLocation *, location, CUdeviceptr, memory)) \
	CU_FN(X, 11000, cuMemRetainAllocationHandle, , PLAIN, \
	  (CUmemGenericAllocationHandle *, handle, void *, memory)) \
	CU_FN(X, 10020, cuMemGetAllocationGranularity, , PLAIN, \
	  (size_t *, bytes, const CUmemAllocationProp *, prop, \
	   CUmemAllocationGranularity_flags, flags)) \
	CU_FN(X, 10020, cuMemGetAllocationPropertiesFromHandle, , PLAIN, \
	  (CUmemAllocationProp *, prop, CUmemGenericAllocationHandle, handle)) \
	CU_FN(X, 10020, cuMemExportToShareableHandle, , PLAIN, \
	  (void *, shareable, CUmemGenericAllocationHandle, handle, \
	   enum cudaMemAllocationHandleType, type, unsigned long long, flags)) \
	CU_FN(X, 10020, cuMemImportFromShareableHandle, , PLAIN, \
	  (CUmemGenericAllocationHandle *, handle, void *, shareable, \
	   enum cudaMemAllocationHandleType, type))

#define DRIVER_OWN_WORDS(X) \
	CU_FN(X, 8000, cuStreamBatchMemOp, _v2, STREAM, \
	  (CUstream, stream, unsigned int, count, \
	   CUstreamBatchMemOpParams *, list, unsigned int, flags))

#define DRIVER_OWN_LAUNCHES(X) \
	CU_FN(X, 4000, cuLaunchKernel, , STREAM, \
	  (CUfunction, function, unsigned int, grid_x, unsigned int, grid_y, \
	   unsigned int, grid_z, unsigned int, block_x, unsigned int, block_y, \
	   unsigned int, block_z, unsigned int, shared, CUstream, stream, \
	   void **, pointers, void **, extra)) \
	CU_FN(X, 9000, cuLaunchCooperativeKernel, , STREAM, \
	  (CUfunction, function, unsigned int, grid_x, unsigned int, grid_y, \
	   unsigned int, grid_z, unsigned int, block_x, unsigned int, block_y, \
	   unsigned int, block_z, unsigned int, shared, CUstream, stream, \
	   void **, pointers)) \
	CU_FN(X, 11060, cuLaunchKernelEx, , CONFIG, \
	  (const CUlaunchConfig *, config, CUfunction, function, \
	   void **, pointers, void **, extra)) \
	CU_FN(X, 2020, cuFuncGetAttribute, , PLAIN, \
	  (int *, value, CUfunction_attribute, attribute, \
	   CUfunction, function)) \
	CU_FN(X, 9000, cuFuncSetAttribute, , PLAIN, \
	  (CUfunction, function, CUfunction_attribute, attribute, int, value)) \
	CU_FN(X, 3000, cuFuncSetCacheConfig, , PLAIN, \
	  (CUfunction, function, CUfunc_cache, config))

#define DRIVER_OWN_NAMES(X) \
	CU_FN(X, 3000, cuGetExportTable, , PLAIN, \
	  (const void **, table, const CUuuid *, id)) \
	CU_FN(X, 11030, cuGetProcAddress, , PLAIN, \
	  (const char *, name, void **, out, int, version, uint64_t, flags)) \
	CU_FN(X, 12000, cuGetProcAddress, _v2, PLAIN, \
	  (const char *, name, void **, out, int, version, uint64_t, flags, \
	   CUdriverProcAddressQueryResult *, status))

/* Other names under which cuGetProcAddress() finds a symbol: X(since, name,
 * symbol). */
#define DRIVER_ALIASES(X) \
	X(12000, cuGraphInstantiate, cuGraphInstantiateWithFlags)
/* clang-format on */

#endif
