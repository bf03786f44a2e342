/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_DRIVER_FUNCTIONS_H
#define SIM_DRIVER_DRIVER_FUNCTIONS_H

/*
 * The functions of the CUDA driver, once: X(since, name, symbol, form,
 * parameters, arguments, ...)
 *
 * cuGetProcAddress() knows a function by its name, and libcuda.so.1 exports it
 * as symbol: with a version behind it where CUDA's header has one there.  The
 * list may have a name several times; @since is the first version of CUDA that
 * takes it for that symbol.  @form says what else there is, and what the
 * function needs:
 *
 * PLAIN   - no other form, no context
 * CONTEXT - no other form; a current context
 * STREAM  - symbol_ptsz() takes NULL for the thread's own stream; default
 *           streams need a context
 * STREAMS - as STREAM, and so is a second one, src
 * CONFIG  - as STREAM, where the stream is in @config
 * WAITS   - symbol_ptds(), which runs on the thread's own stream alone and
 *           waits for it (driver_names.c); a current context
 *
 * The functions in runtime_functions.h call the runtime's.  Those here are
 * written out: driver_cuInit() stands for cuInit().
 */

#include "sim/driver/driver_abi.h"
#include "sim/driver/runtime_functions.h"

/* clang-format off */
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

/* DRIVER_FUNCTIONS(DRIVER_FORMS) is DRIVER_FORM(symbol, parameters, arguments)
 * for every function, and for every other form of one. */
#define DRIVER_FORMS(since, name, symbol, form, parameters, arguments, ...) \
	DRIVER_FORM(symbol, parameters, arguments) \
	DRIVER_OTHER_##form(symbol, parameters, arguments)
#define DRIVER_OTHER_PLAIN(symbol, parameters, arguments)
#define DRIVER_OTHER_CONTEXT(symbol, parameters, arguments)
#define DRIVER_OTHER_STREAM(symbol, parameters, arguments) \
	DRIVER_FORM(symbol##_ptsz, parameters, arguments)
#define DRIVER_OTHER_STREAMS DRIVER_OTHER_STREAM
#define DRIVER_OTHER_CONFIG DRIVER_OTHER_STREAM
#define DRIVER_OTHER_WAITS(symbol, parameters, arguments) \
	DRIVER_FORM(symbol##_ptds, parameters, arguments)

#define DRIVER_OWN_DEVICES(X) \
	X(2000, cuInit, cuInit, PLAIN, (unsigned int flags), (flags)) \
	X(2000, cuDeviceGet, cuDeviceGet, PLAIN, \
	  (CUdevice *device, int number), (device, number)) \
	X(2000, cuDeviceGetName, cuDeviceGetName, PLAIN, \
	  (char *name, int length, CUdevice device), \
	  (name, length, device)) \
	X(9020, cuDeviceGetUuid, cuDeviceGetUuid, PLAIN, \
	  (CUuuid *uuid, CUdevice device), (uuid, device)) \
	X(11040, cuDeviceGetUuid, cuDeviceGetUuid_v2, PLAIN, \
	  (CUuuid *uuid, CUdevice device), (uuid, device)) \
	X(3020, cuDeviceTotalMem, cuDeviceTotalMem_v2, PLAIN, \
	  (size_t *bytes, CUdevice device), (bytes, device)) \
	X(2000, cuDeviceGetAttribute, cuDeviceGetAttribute, PLAIN, \
	  (int *value, int attribute, CUdevice device), \
	  (value, attribute, device)) \
	X(2000, cuDeviceComputeCapability, cuDeviceComputeCapability, PLAIN, \
	  (int *major, int *minor, CUdevice device), (major, minor, device)) \
	X(6000, cuGetErrorString, cuGetErrorString, PLAIN, \
	  (CUresult error, const char **text), (error, text)) \
	X(6000, cuGetErrorName, cuGetErrorName, PLAIN, \
	  (CUresult error, const char **text), (error, text)) \
	X(4000, cuProfilerStart, cuProfilerStart, PLAIN, (void), ()) \
	X(4000, cuProfilerStop, cuProfilerStop, PLAIN, (void), ()) \
	X(11030, cuFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites, \
	  PLAIN, (int target, int scope), (target, scope))

#define DRIVER_OWN_CONTEXTS(X) \
	X(7000, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, PLAIN, \
	  (CUcontext *context, CUdevice device), (context, device)) \
	X(7000, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, \
	  PLAIN, (CUdevice device), (device)) \
	X(7000, cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, \
	  PLAIN, (CUdevice device, unsigned int flags), (device, flags)) \
	X(7000, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, \
	  PLAIN, (CUdevice device, unsigned int *flags, int *active), \
	  (device, flags, active)) \
	X(7000, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, PLAIN, \
	  (CUdevice device), (device)) \
	X(3020, cuCtxCreate, cuCtxCreate_v2, PLAIN, \
	  (CUcontext *context, unsigned int flags, CUdevice device), \
	  (context, flags, device)) \
	X(11040, cuCtxCreate, cuCtxCreate_v3, PLAIN, \
	  (CUcontext *context, CUexecAffinityParam *params, int count, \
	   unsigned int flags, CUdevice device), \
	  (context, params, count, flags, device)) \
	X(12050, cuCtxCreate, cuCtxCreate_v4, PLAIN, \
	  (CUcontext *context, CUctxCreateParams *params, \
	   unsigned int flags, CUdevice device), \
	  (context, params, flags, device)) \
	X(4000, cuCtxDestroy, cuCtxDestroy_v2, PLAIN, \
	  (CUcontext context), (context)) \
	X(4000, cuCtxPushCurrent, cuCtxPushCurrent_v2, PLAIN, \
	  (CUcontext context), (context)) \
	X(4000, cuCtxPopCurrent, cuCtxPopCurrent_v2, PLAIN, \
	  (CUcontext *context), (context)) \
	X(4000, cuCtxSetCurrent, cuCtxSetCurrent, PLAIN, \
	  (CUcontext context), (context)) \
	X(4000, cuCtxGetCurrent, cuCtxGetCurrent, PLAIN, \
	  (CUcontext *context), (context)) \
	X(2000, cuCtxGetDevice, cuCtxGetDevice, PLAIN, \
	  (CUdevice *device), (device)) \
	X(13000, cuCtxGetDevice, cuCtxGetDevice_v2, PLAIN, \
	  (CUdevice *device, CUcontext context), (device, context)) \
	X(13000, cuCtxSynchronize, cuCtxSynchronize_v2, PLAIN, \
	  (CUcontext context), (context)) \
	X(7000, cuCtxGetFlags, cuCtxGetFlags, PLAIN, \
	  (unsigned int *flags), (flags)) \
	X(12010, cuCtxSetFlags, cuCtxSetFlags, PLAIN, \
	  (unsigned int flags), (flags)) \
	X(12000, cuCtxGetId, cuCtxGetId, PLAIN, \
	  (CUcontext context, unsigned long long *id), (context, id)) \
	X(3020, cuCtxGetApiVersion, cuCtxGetApiVersion, PLAIN, \
	  (CUcontext context, unsigned int *version), (context, version)) \
	X(3020, cuCtxGetCacheConfig, cuCtxGetCacheConfig, PLAIN, \
	  (CUfunc_cache *config), (config)) \
	X(3020, cuCtxSetCacheConfig, cuCtxSetCacheConfig, PLAIN, \
	  (CUfunc_cache config), (config)) \
	X(4000, cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, PLAIN, \
	  (CUcontext peer, unsigned int flags), (peer, flags)) \
	X(4000, cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, PLAIN, \
	  (CUcontext peer), (peer)) \
	X(9020, cuStreamGetCtx, cuStreamGetCtx, STREAM, \
	  (CUstream stream, CUcontext *context), (stream, context)) \
	X(12050, cuStreamGetCtx, cuStreamGetCtx_v2, STREAM, \
	  (CUstream stream, CUcontext *context, CUgreenCtx *green), \
	  (stream, context, green))

#define DRIVER_OWN_MEMORY(X) \
	X(3020, cuMemAlloc, cuMemAlloc_v2, PLAIN, \
	  (CUdeviceptr *memory, size_t bytes), (memory, bytes)) \
	X(3020, cuMemAllocPitch, cuMemAllocPitch_v2, PLAIN, \
	  (CUdeviceptr *memory, size_t *pitch, size_t width, size_t height, \
	   unsigned int element), \
	  (memory, pitch, width, height, element)) \
	X(6000, cuMemAllocManaged, cuMemAllocManaged, PLAIN, \
	  (CUdeviceptr *memory, size_t bytes, unsigned int flags), \
	  (memory, bytes, flags)) \
	X(11020, cuMemAllocAsync, cuMemAllocAsync, STREAM, \
	  (CUdeviceptr *memory, size_t bytes, CUstream stream), \
	  (memory, bytes, stream)) \
	X(11020, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, STREAM, \
	  (CUdeviceptr *memory, size_t bytes, CUmemoryPool pool, \
	   CUstream stream), \
	  (memory, bytes, pool, stream)) \
	X(3020, cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, \
	  PLAIN, (CUdeviceptr *memory, void *host, unsigned int flags), \
	  (memory, host, flags)) \
	X(3020, cuMemGetAddressRange, cuMemGetAddressRange_v2, PLAIN, \
	  (CUdeviceptr *start, size_t *bytes, CUdeviceptr memory), \
	  (start, bytes, memory)) \
	X(4010, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, PLAIN, \
	  (CUdeviceptr *memory, cudaIpcMemHandle_t handle, \
	   unsigned int flags), \
	  (memory, handle, flags)) \
	X(4000, cuPointerGetAttribute, cuPointerGetAttribute, PLAIN, \
	  (void *value, CUpointer_attribute attribute, CUdeviceptr memory), \
	  (value, attribute, memory)) \
	X(7000, cuPointerGetAttributes, cuPointerGetAttributes, PLAIN, \
	  (unsigned int count, CUpointer_attribute *attributes, \
	   void **values, CUdeviceptr memory), \
	  (count, attributes, values, memory)) \
	X(6000, cuPointerSetAttribute, cuPointerSetAttribute, PLAIN, \
	  (const void *value, CUpointer_attribute attribute, \
	   CUdeviceptr memory), \
	  (value, attribute, memory))

#define DRIVER_OWN_COPIES(X) \
	X(4000, cuMemcpyPeer, cuMemcpyPeer, WAITS, \
	  (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, \
	   size_t bytes), \
	  (dst, to, src, from, bytes)) \
	X(4000, cuMemcpyPeerAsync, cuMemcpyPeerAsync, STREAM, \
	  (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, \
	   size_t bytes, CUstream stream), \
	  (dst, to, src, from, bytes, stream)) \
	X(3020, cuMemcpy2D, cuMemcpy2D_v2, WAITS, \
	  (const CUDA_MEMCPY2D *copy), (copy)) \
	X(3020, cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, WAITS, \
	  (const CUDA_MEMCPY2D *copy), (copy)) \
	X(3020, cuMemcpy2DAsync, cuMemcpy2DAsync_v2, STREAM, \
	  (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream))

#define DRIVER_OWN_VIRTUAL(X) \
	X(10020, cuMemAddressReserve, cuMemAddressReserve, PLAIN, \
	  (CUdeviceptr *start, size_t bytes, size_t alignment, \
	   CUdeviceptr wanted, unsigned long long flags), \
	  (start, bytes, alignment, wanted, flags)) \
	X(10020, cuMemAddressFree, cuMemAddressFree, PLAIN, \
	  (CUdeviceptr start, size_t bytes), (start, bytes)) \
	X(10020, cuMemCreate, cuMemCreate, PLAIN, \
	  (CUmemGenericAllocationHandle *handle, size_t bytes, \
	   const CUmemAllocationProp *prop, unsigned long long flags), \
	  (handle, bytes, prop, flags)) \
	X(10020, cuMemRelease, cuMemRelease, PLAIN, \
	  (CUmemGenericAllocationHandle handle), (handle)) \
	X(10020, cuMemMap, cuMemMap, PLAIN, \
	  (CUdeviceptr start, size_t bytes, size_t offset, \
	   CUmemGenericAllocationHandle handle, unsigned long long flags), \
	  (start, bytes, offset, handle, flags)) \
	X(10020, cuMemUnmap, cuMemUnmap, PLAIN, \
	  (CUdeviceptr start, size_t bytes), (start, bytes)) \
	X(10020, cuMemSetAccess, cuMemSetAccess, PLAIN, \
	  (CUdeviceptr start, size_t bytes, const CUmemAccessDesc *list, \
	   size_t count), \
	  (start, bytes, list, count)) \
	X(10020, cuMemGetAccess, cuMemGetAccess, PLAIN, \
	  (unsigned long long *flags, const struct cudaMemLocation *location, \
	   CUdeviceptr memory), \
	  (flags, location, memory)) \
	X(11000, cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, \
	  PLAIN, (CUmemGenericAllocationHandle *handle, void *memory), \
	  (handle, memory)) \
	X(10020, cuMemGetAllocationGranularity, \
	  cuMemGetAllocationGranularity, PLAIN, \
	  (size_t *bytes, const CUmemAllocationProp *prop, \
	   CUmemAllocationGranularity_flags flags), \
	  (bytes, prop, flags)) \
	X(10020, cuMemGetAllocationPropertiesFromHandle, \
	  cuMemGetAllocationPropertiesFromHandle, PLAIN, \
	  (CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle), \
	  (prop, handle)) \
	X(10020, cuMemExportToShareableHandle, cuMemExportToShareableHandle, \
	  PLAIN, \
	  (void *shareable, CUmemGenericAllocationHandle handle, \
	   enum cudaMemAllocationHandleType type, unsigned long long flags), \
	  (shareable, handle, type, flags)) \
	X(10020, cuMemImportFromShareableHandle, \
	  cuMemImportFromShareableHandle, PLAIN, \
	  (CUmemGenericAllocationHandle *handle, void *shareable, \
	   enum cudaMemAllocationHandleType type), \
	  (handle, shareable, type))

#define DRIVER_OWN_WORDS(X) \
	X(8000, cuStreamBatchMemOp, cuStreamBatchMemOp_v2, STREAM, \
	  (CUstream stream, unsigned int count, \
	   CUstreamBatchMemOpParams *list, unsigned int flags), \
	  (stream, count, list, flags))

#define DRIVER_OWN_LAUNCHES(X) \
	X(4000, cuLaunchKernel, cuLaunchKernel, STREAM, \
	  (CUfunction function, unsigned int grid_x, unsigned int grid_y, \
	   unsigned int grid_z, unsigned int block_x, unsigned int block_y, \
	   unsigned int block_z, unsigned int shared, CUstream stream, \
	   void **pointers, void **extra), \
	  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, \
	   shared, stream, pointers, extra)) \
	X(9000, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, STREAM, \
	  (CUfunction function, unsigned int grid_x, unsigned int grid_y, \
	   unsigned int grid_z, unsigned int block_x, unsigned int block_y, \
	   unsigned int block_z, unsigned int shared, CUstream stream, \
	   void **pointers), \
	  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, \
	   shared, stream, pointers)) \
	X(11060, cuLaunchKernelEx, cuLaunchKernelEx, CONFIG, \
	  (const CUlaunchConfig *config, CUfunction function, \
	   void **pointers, void **extra), \
	  (config, function, pointers, extra)) \
	X(2020, cuFuncGetAttribute, cuFuncGetAttribute, PLAIN, \
	  (int *value, CUfunction_attribute attribute, CUfunction function), \
	  (value, attribute, function)) \
	X(9000, cuFuncSetAttribute, cuFuncSetAttribute, PLAIN, \
	  (CUfunction function, CUfunction_attribute attribute, int value), \
	  (function, attribute, value)) \
	X(3000, cuFuncSetCacheConfig, cuFuncSetCacheConfig, PLAIN, \
	  (CUfunction function, CUfunc_cache config), (function, config))

#define DRIVER_OWN_NAMES(X) \
	X(11030, cuGetProcAddress, cuGetProcAddress, PLAIN, \
	  (const char *name, void **out, int version, uint64_t flags), \
	  (name, out, version, flags)) \
	X(12000, cuGetProcAddress, cuGetProcAddress_v2, PLAIN, \
	  (const char *name, void **out, int version, uint64_t flags, \
	   CUdriverProcAddressQueryResult *status), \
	  (name, out, version, flags, status))

/* Other names that cuGetProcAddress() takes for a symbol: X(since, name,
 * symbol). */
#define DRIVER_ALIASES(X) \
	X(12000, cuGraphInstantiate, cuGraphInstantiateWithFlags)
/* clang-format on */

#endif
