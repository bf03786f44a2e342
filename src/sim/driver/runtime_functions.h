/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_RUNTIME_FUNCTIONS_H
#define SIM_DRIVER_RUNTIME_FUNCTIONS_H

/*
 * The functions of the driver that a function of the runtime does: as in
 * driver_functions.h, with the runtime's call behind the arguments
 * (driver_runtime.c).  CU_SAME(X, since, name, form, parameters, arguments) is
 * cu##name, for which cuda##name with these arguments is called.
 */

#include "sim/driver/driver_abi.h"

#define DRIVER_MEMORY(address) ((void *)(uintptr_t)(address))

/* clang-format off */
#define CU_SAME(X, since, name, form, parameters, arguments) \
	X(since, cu##name, cu##name, form, parameters, arguments, \
	  host_cuda##name arguments)

#define DRIVER_RUNTIME_FUNCTIONS(X) \
	DRIVER_RUNTIME_DEVICES(X) \
	DRIVER_RUNTIME_MEMORY(X) \
	DRIVER_RUNTIME_COPIES(X) \
	DRIVER_RUNTIME_POOLS(X) \
	DRIVER_RUNTIME_STREAMS(X) \
	DRIVER_RUNTIME_WORDS(X) \
	DRIVER_RUNTIME_CAPTURES(X) \
	DRIVER_RUNTIME_EVENTS(X) \
	DRIVER_RUNTIME_GRAPHS(X)

#define DRIVER_RUNTIME_DEVICES(X) \
	CU_SAME(X, 2020, DriverGetVersion, PLAIN, (int *version), (version)) \
	X(2000, cuDeviceGetCount, cuDeviceGetCount, PLAIN, \
	  (int *count), (count), host_cudaGetDeviceCount(count)) \
	CU_SAME(X, 4010, DeviceGetPCIBusId, PLAIN, \
	  (char *id, int length, CUdevice device), (id, length, device)) \
	CU_SAME(X, 4010, DeviceGetByPCIBusId, PLAIN, \
	  (CUdevice *device, const char *id), (device, id)) \
	CU_SAME(X, 4000, DeviceCanAccessPeer, PLAIN, \
	  (int *can, CUdevice device, CUdevice peer), (can, device, peer)) \
	CU_SAME(X, 8000, DeviceGetP2PAttribute, PLAIN, \
	  (int *value, enum cudaDeviceP2PAttr attribute, CUdevice from, \
	   CUdevice to), \
	  (value, attribute, from, to)) \
	X(2000, cuCtxSynchronize, cuCtxSynchronize, CONTEXT, (void), (), \
	  host_cudaDeviceSynchronize()) \
	X(3010, cuCtxSetLimit, cuCtxSetLimit, CONTEXT, \
	  (enum cudaLimit limit, size_t value), (limit, value), \
	  host_cudaDeviceSetLimit(limit, value)) \
	X(3010, cuCtxGetLimit, cuCtxGetLimit, CONTEXT, \
	  (size_t *value, enum cudaLimit limit), (value, limit), \
	  host_cudaDeviceGetLimit(value, limit)) \
	X(5050, cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, \
	  CONTEXT, (int *least, int *greatest), (least, greatest), \
	  host_cudaDeviceGetStreamPriorityRange(least, greatest))

#define DRIVER_RUNTIME_MEMORY(X) \
	X(3020, cuMemGetInfo, cuMemGetInfo_v2, CONTEXT, \
	  (size_t *free, size_t *total), (free, total), \
	  host_cudaMemGetInfo(free, total)) \
	X(3020, cuMemFree, cuMemFree_v2, CONTEXT, \
	  (CUdeviceptr memory), (memory), \
	  host_cudaFree(DRIVER_MEMORY(memory))) \
	X(11020, cuMemFreeAsync, cuMemFreeAsync, STREAM, \
	  (CUdeviceptr memory, CUstream stream), (memory, stream), \
	  host_cudaFreeAsync(DRIVER_MEMORY(memory), stream)) \
	X(3020, cuMemAllocHost, cuMemAllocHost_v2, CONTEXT, \
	  (void **memory, size_t bytes), (memory, bytes), \
	  host_cudaMallocHost(memory, bytes)) \
	X(2020, cuMemHostAlloc, cuMemHostAlloc, CONTEXT, \
	  (void **memory, size_t bytes, unsigned int flags), \
	  (memory, bytes, flags), \
	  host_cudaHostAlloc(memory, bytes, flags)) \
	X(2000, cuMemFreeHost, cuMemFreeHost, CONTEXT, \
	  (void *memory), (memory), host_cudaFreeHost(memory)) \
	X(6050, cuMemHostRegister, cuMemHostRegister_v2, CONTEXT, \
	  (void *memory, size_t bytes, unsigned int flags), \
	  (memory, bytes, flags), \
	  host_cudaHostRegister(memory, bytes, flags)) \
	X(4000, cuMemHostUnregister, cuMemHostUnregister, CONTEXT, \
	  (void *memory), (memory), host_cudaHostUnregister(memory)) \
	X(2030, cuMemHostGetFlags, cuMemHostGetFlags, CONTEXT, \
	  (unsigned int *flags, void *memory), (flags, memory), \
	  host_cudaHostGetFlags(flags, memory)) \
	X(8000, cuMemAdvise, cuMemAdvise, PLAIN, \
	  (CUdeviceptr memory, size_t bytes, enum cudaMemoryAdvise advice, \
	   CUdevice device), \
	  (memory, bytes, advice, device), \
	  host12_cudaMemAdvise(DRIVER_MEMORY(memory), bytes, advice, device)) \
	X(12020, cuMemAdvise, cuMemAdvise_v2, PLAIN, \
	  (CUdeviceptr memory, size_t bytes, enum cudaMemoryAdvise advice, \
	   struct cudaMemLocation location), \
	  (memory, bytes, advice, location), \
	  host_cudaMemAdvise(DRIVER_MEMORY(memory), bytes, advice, location)) \
	X(8000, cuMemPrefetchAsync, cuMemPrefetchAsync, STREAM, \
	  (CUdeviceptr memory, size_t bytes, CUdevice device, \
	   CUstream stream), \
	  (memory, bytes, device, stream), \
	  host12_cudaMemPrefetchAsync(DRIVER_MEMORY(memory), bytes, device, \
	                              stream)) \
	X(12020, cuMemPrefetchAsync, cuMemPrefetchAsync_v2, STREAM, \
	  (CUdeviceptr memory, size_t bytes, struct cudaMemLocation location, \
	   unsigned int flags, CUstream stream), \
	  (memory, bytes, location, flags, stream), \
	  host_cudaMemPrefetchAsync(DRIVER_MEMORY(memory), bytes, location, \
	                            flags, stream)) \
	X(4010, cuIpcGetMemHandle, cuIpcGetMemHandle, CONTEXT, \
	  (cudaIpcMemHandle_t *handle, CUdeviceptr memory), \
	  (handle, memory), \
	  host_cudaIpcGetMemHandle(handle, DRIVER_MEMORY(memory))) \
	X(4010, cuIpcCloseMemHandle, cuIpcCloseMemHandle, CONTEXT, \
	  (CUdeviceptr memory), (memory), \
	  host_cudaIpcCloseMemHandle(DRIVER_MEMORY(memory))) \
	CU_SAME(X, 4010, IpcGetEventHandle, CONTEXT, \
	  (cudaIpcEventHandle_t *handle, CUevent event), (handle, event)) \
	CU_SAME(X, 4010, IpcOpenEventHandle, CONTEXT, \
	  (CUevent *event, cudaIpcEventHandle_t handle), (event, handle))

#define DRIVER_COPY(dst, src) \
	host_cudaMemcpy(DRIVER_MEMORY(dst), DRIVER_MEMORY(src), bytes, \
	                cudaMemcpyDefault)
#define DRIVER_COPY_ASYNC(dst, src) \
	host_cudaMemcpyAsync(DRIVER_MEMORY(dst), DRIVER_MEMORY(src), bytes, \
	                     cudaMemcpyDefault, stream)
#define DRIVER_FILL(stream, wait) \
	copy_set(DRIVER_MEMORY(memory), value, count, sizeof(value), stream, \
	         wait)

/* One address space holds the memory of every context. */
#define DRIVER_RUNTIME_COPIES(X) \
	X(4000, cuMemcpy, cuMemcpy, WAITS, \
	  (CUdeviceptr dst, CUdeviceptr src, size_t bytes), \
	  (dst, src, bytes), DRIVER_COPY(dst, src)) \
	X(4000, cuMemcpyAsync, cuMemcpyAsync, STREAM, \
	  (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), \
	  (dst, src, bytes, stream), DRIVER_COPY_ASYNC(dst, src)) \
	X(3020, cuMemcpyHtoD, cuMemcpyHtoD_v2, WAITS, \
	  (CUdeviceptr dst, const void *src, size_t bytes), \
	  (dst, src, bytes), DRIVER_COPY(dst, src)) \
	X(3020, cuMemcpyDtoH, cuMemcpyDtoH_v2, WAITS, \
	  (void *dst, CUdeviceptr src, size_t bytes), \
	  (dst, src, bytes), DRIVER_COPY(dst, src)) \
	X(3020, cuMemcpyDtoD, cuMemcpyDtoD_v2, WAITS, \
	  (CUdeviceptr dst, CUdeviceptr src, size_t bytes), \
	  (dst, src, bytes), DRIVER_COPY(dst, src)) \
	X(3020, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, STREAM, \
	  (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream), \
	  (dst, src, bytes, stream), DRIVER_COPY_ASYNC(dst, src)) \
	X(3020, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, STREAM, \
	  (void *dst, CUdeviceptr src, size_t bytes, CUstream stream), \
	  (dst, src, bytes, stream), DRIVER_COPY_ASYNC(dst, src)) \
	X(3020, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, STREAM, \
	  (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), \
	  (dst, src, bytes, stream), DRIVER_COPY_ASYNC(dst, src)) \
	X(3020, cuMemsetD8, cuMemsetD8_v2, WAITS, \
	  (CUdeviceptr memory, unsigned char value, size_t count), \
	  (memory, value, count), \
	  host_cudaMemset(DRIVER_MEMORY(memory), value, count)) \
	X(3020, cuMemsetD8Async, cuMemsetD8Async, STREAM, \
	  (CUdeviceptr memory, unsigned char value, size_t count, \
	   CUstream stream), \
	  (memory, value, count, stream), \
	  host_cudaMemsetAsync(DRIVER_MEMORY(memory), value, count, stream)) \
	X(3020, cuMemsetD2D8, cuMemsetD2D8_v2, WAITS, \
	  (CUdeviceptr memory, size_t pitch, unsigned char value, \
	   size_t width, size_t height), \
	  (memory, pitch, value, width, height), \
	  host_cudaMemset2D(DRIVER_MEMORY(memory), pitch, value, width, \
	                    height)) \
	X(3020, cuMemsetD2D8Async, cuMemsetD2D8Async, STREAM, \
	  (CUdeviceptr memory, size_t pitch, unsigned char value, \
	   size_t width, size_t height, CUstream stream), \
	  (memory, pitch, value, width, height, stream), \
	  host_cudaMemset2DAsync(DRIVER_MEMORY(memory), pitch, value, width, \
	                         height, stream)) \
	X(3020, cuMemsetD16, cuMemsetD16_v2, WAITS, \
	  (CUdeviceptr memory, unsigned short value, size_t count), \
	  (memory, value, count), DRIVER_FILL(cudaStreamLegacy, true)) \
	X(3020, cuMemsetD32, cuMemsetD32_v2, WAITS, \
	  (CUdeviceptr memory, unsigned int value, size_t count), \
	  (memory, value, count), DRIVER_FILL(cudaStreamLegacy, true)) \
	X(3020, cuMemsetD16Async, cuMemsetD16Async, STREAM, \
	  (CUdeviceptr memory, unsigned short value, size_t count, \
	   CUstream stream), \
	  (memory, value, count, stream), DRIVER_FILL(stream, false)) \
	X(3020, cuMemsetD32Async, cuMemsetD32Async, STREAM, \
	  (CUdeviceptr memory, unsigned int value, size_t count, \
	   CUstream stream), \
	  (memory, value, count, stream), DRIVER_FILL(stream, false))

#define DRIVER_RUNTIME_POOLS(X) \
	CU_SAME(X, 11020, MemPoolCreate, PLAIN, \
	  (CUmemoryPool *pool, const struct cudaMemPoolProps *props), \
	  (pool, props)) \
	CU_SAME(X, 11020, MemPoolDestroy, PLAIN, (CUmemoryPool pool), (pool)) \
	CU_SAME(X, 11020, MemPoolTrimTo, PLAIN, \
	  (CUmemoryPool pool, size_t bytes), (pool, bytes)) \
	CU_SAME(X, 11020, MemPoolSetAttribute, PLAIN, \
	  (CUmemoryPool pool, enum cudaMemPoolAttr attribute, void *value), \
	  (pool, attribute, value)) \
	CU_SAME(X, 11020, MemPoolGetAttribute, PLAIN, \
	  (CUmemoryPool pool, enum cudaMemPoolAttr attribute, void *value), \
	  (pool, attribute, value)) \
	CU_SAME(X, 11020, MemPoolSetAccess, PLAIN, \
	  (CUmemoryPool pool, const CUmemAccessDesc *list, size_t count), \
	  (pool, list, count)) \
	CU_SAME(X, 11020, MemPoolGetAccess, PLAIN, \
	  (enum cudaMemAccessFlags *flags, CUmemoryPool pool, \
	   struct cudaMemLocation *location), \
	  (flags, pool, location)) \
	CU_SAME(X, 11020, DeviceGetDefaultMemPool, PLAIN, \
	  (CUmemoryPool *pool, CUdevice device), (pool, device)) \
	CU_SAME(X, 11020, DeviceGetMemPool, PLAIN, \
	  (CUmemoryPool *pool, CUdevice device), (pool, device)) \
	CU_SAME(X, 11020, DeviceSetMemPool, PLAIN, \
	  (CUdevice device, CUmemoryPool pool), (device, pool))

#define DRIVER_RUNTIME_STREAMS(X) \
	X(2000, cuStreamCreate, cuStreamCreate, CONTEXT, \
	  (CUstream *stream, unsigned int flags), (stream, flags), \
	  host_cudaStreamCreateWithFlags(stream, flags)) \
	CU_SAME(X, 5050, StreamCreateWithPriority, CONTEXT, \
	  (CUstream *stream, unsigned int flags, int priority), \
	  (stream, flags, priority)) \
	X(4000, cuStreamDestroy, cuStreamDestroy_v2, PLAIN, \
	  (CUstream stream), (stream), host_cudaStreamDestroy(stream)) \
	CU_SAME(X, 2000, StreamSynchronize, STREAM, (CUstream stream), \
	  (stream)) \
	CU_SAME(X, 2000, StreamQuery, STREAM, (CUstream stream), (stream)) \
	CU_SAME(X, 3020, StreamWaitEvent, STREAM, \
	  (CUstream stream, CUevent event, unsigned int flags), \
	  (stream, event, flags)) \
	X(5000, cuStreamAddCallback, cuStreamAddCallback, STREAM, \
	  (CUstream stream, CUstreamCallback fn, void *user, \
	   unsigned int flags), \
	  (stream, fn, user, flags), \
	  host_cudaStreamAddCallback( \
		  stream, (cudaStreamCallback_t)(void (*)(void))fn, user, \
		  flags)) \
	CU_SAME(X, 10000, LaunchHostFunc, STREAM, \
	  (CUstream stream, CUhostFn fn, void *user), (stream, fn, user)) \
	CU_SAME(X, 5050, StreamGetFlags, STREAM, \
	  (CUstream stream, unsigned int *flags), (stream, flags)) \
	CU_SAME(X, 5050, StreamGetPriority, STREAM, \
	  (CUstream stream, int *priority), (stream, priority)) \
	CU_SAME(X, 12000, StreamGetId, STREAM, \
	  (CUstream stream, unsigned long long *id), (stream, id)) \
	CU_SAME(X, 12080, StreamGetDevice, STREAM, \
	  (CUstream stream, CUdevice *device), (stream, device)) \
	CU_SAME(X, 11000, StreamCopyAttributes, STREAMS, \
	  (CUstream stream, CUstream src), (stream, src)) \
	CU_SAME(X, 11000, StreamGetAttribute, STREAM, \
	  (CUstream stream, cudaStreamAttrID id, cudaStreamAttrValue *value), \
	  (stream, id, value)) \
	CU_SAME(X, 11000, StreamSetAttribute, STREAM, \
	  (CUstream stream, cudaStreamAttrID id, \
	   const cudaStreamAttrValue *value), \
	  (stream, id, value)) \
	X(6000, cuStreamAttachMemAsync, cuStreamAttachMemAsync, STREAM, \
	  (CUstream stream, CUdeviceptr memory, size_t bytes, \
	   unsigned int flags), \
	  (stream, memory, bytes, flags), \
	  host_cudaStreamAttachMemAsync(stream, DRIVER_MEMORY(memory), bytes, \
	                                flags))

/* There are no remote writes that a wait could flush. */
#define DRIVER_RUNTIME_WORDS(X) \
	X(8000, cuStreamWriteValue32, cuStreamWriteValue32_v2, STREAM, \
	  (CUstream stream, CUdeviceptr address, uint32_t value, \
	   unsigned int flags), \
	  (stream, address, value, flags), \
	  flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER \
		  ? cudaErrorInvalidValue \
		  : stream_write_value(stream, address, value)) \
	X(8000, cuStreamWaitValue32, cuStreamWaitValue32_v2, STREAM, \
	  (CUstream stream, CUdeviceptr address, uint32_t value, \
	   unsigned int flags), \
	  (stream, address, value, flags), \
	  stream_wait_value(stream, address, value, \
	                    flags & ~CU_STREAM_WAIT_VALUE_FLUSH)) \
	X(9000, cuStreamWriteValue64, cuStreamWriteValue64_v2, STREAM, \
	  (CUstream stream, CUdeviceptr address, uint64_t value, \
	   unsigned int flags), \
	  (stream, address, value, flags), \
	  flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER \
		  ? cudaErrorInvalidValue \
		  : stream_write_wide_value(stream, address, value)) \
	X(9000, cuStreamWaitValue64, cuStreamWaitValue64_v2, STREAM, \
	  (CUstream stream, CUdeviceptr address, uint64_t value, \
	   unsigned int flags), \
	  (stream, address, value, flags), \
	  stream_wait_wide_value(stream, address, value, \
	                         flags & ~CU_STREAM_WAIT_VALUE_FLUSH))

#define DRIVER_RUNTIME_CAPTURES(X) \
	X(10000, cuStreamBeginCapture, cuStreamBeginCapture, STREAM, \
	  (CUstream stream), (stream), \
	  host_cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)) \
	X(10010, cuStreamBeginCapture, cuStreamBeginCapture_v2, STREAM, \
	  (CUstream stream, enum cudaStreamCaptureMode mode), \
	  (stream, mode), host_cudaStreamBeginCapture(stream, mode)) \
	CU_SAME(X, 10000, StreamEndCapture, STREAM, \
	  (CUstream stream, CUgraph *graph), (stream, graph)) \
	CU_SAME(X, 10000, StreamIsCapturing, STREAM, \
	  (CUstream stream, enum cudaStreamCaptureStatus *status), \
	  (stream, status)) \
	CU_SAME(X, 10010, ThreadExchangeStreamCaptureMode, PLAIN, \
	  (enum cudaStreamCaptureMode *mode), (mode)) \
	X(10010, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, STREAM, \
	  (CUstream stream, enum cudaStreamCaptureStatus *status, \
	   unsigned long long *id), \
	  (stream, status, id), \
	  host12_cudaStreamGetCaptureInfo(stream, status, id)) \
	X(11030, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, STREAM, \
	  (CUstream stream, enum cudaStreamCaptureStatus *status, \
	   unsigned long long *id, CUgraph *graph, \
	   const CUgraphNode **after, size_t *count), \
	  (stream, status, id, graph, after, count), \
	  host12_cudaStreamGetCaptureInfo_v2(stream, status, id, graph, after, \
	                                     count)) \
	X(12030, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, STREAM, \
	  (CUstream stream, enum cudaStreamCaptureStatus *status, \
	   unsigned long long *id, CUgraph *graph, \
	   const CUgraphNode **after, const cudaGraphEdgeData **edges, \
	   size_t *count), \
	  (stream, status, id, graph, after, edges, count), \
	  host_cudaStreamGetCaptureInfo(stream, status, id, graph, after, \
	                                edges, count)) \
	X(11030, cuStreamUpdateCaptureDependencies, \
	  cuStreamUpdateCaptureDependencies, STREAM, \
	  (CUstream stream, CUgraphNode *nodes, size_t count, \
	   unsigned int flags), \
	  (stream, nodes, count, flags), \
	  host12_cudaStreamUpdateCaptureDependencies(stream, nodes, count, \
	                                             flags)) \
	X(12030, cuStreamUpdateCaptureDependencies, \
	  cuStreamUpdateCaptureDependencies_v2, STREAM, \
	  (CUstream stream, CUgraphNode *nodes, \
	   const cudaGraphEdgeData *edges, size_t count, \
	   unsigned int flags), \
	  (stream, nodes, edges, count, flags), \
	  host_cudaStreamUpdateCaptureDependencies(stream, nodes, edges, \
	                                           count, flags))

#define DRIVER_RUNTIME_EVENTS(X) \
	X(2000, cuEventCreate, cuEventCreate, CONTEXT, \
	  (CUevent *event, unsigned int flags), (event, flags), \
	  host_cudaEventCreateWithFlags(event, flags)) \
	X(4000, cuEventDestroy, cuEventDestroy_v2, PLAIN, \
	  (CUevent event), (event), host_cudaEventDestroy(event)) \
	CU_SAME(X, 2000, EventRecord, STREAM, \
	  (CUevent event, CUstream stream), (event, stream)) \
	CU_SAME(X, 11010, EventRecordWithFlags, STREAM, \
	  (CUevent event, CUstream stream, unsigned int flags), \
	  (event, stream, flags)) \
	CU_SAME(X, 2000, EventQuery, PLAIN, (CUevent event), (event)) \
	CU_SAME(X, 2000, EventSynchronize, PLAIN, (CUevent event), (event)) \
	CU_SAME(X, 2000, EventElapsedTime, PLAIN, \
	  (float *ms, CUevent start, CUevent end), (ms, start, end)) \
	X(12080, cuEventElapsedTime, cuEventElapsedTime_v2, PLAIN, \
	  (float *ms, CUevent start, CUevent end), (ms, start, end), \
	  host_cudaEventElapsedTime(ms, start, end))

#define DRIVER_RUNTIME_GRAPHS(X) \
	CU_SAME(X, 10000, GraphCreate, PLAIN, \
	  (CUgraph *graph, unsigned int flags), (graph, flags)) \
	CU_SAME(X, 10000, GraphDestroy, PLAIN, (CUgraph graph), (graph)) \
	CU_SAME(X, 10000, GraphGetNodes, PLAIN, \
	  (CUgraph graph, CUgraphNode *nodes, size_t *count), \
	  (graph, nodes, count)) \
	CU_SAME(X, 10000, GraphGetRootNodes, PLAIN, \
	  (CUgraph graph, CUgraphNode *nodes, size_t *count), \
	  (graph, nodes, count)) \
	CU_SAME(X, 10000, GraphNodeGetType, PLAIN, \
	  (CUgraphNode node, enum cudaGraphNodeType *type), (node, type)) \
	CU_SAME(X, 11040, GraphInstantiateWithFlags, CONTEXT, \
	  (CUgraphExec *exec, CUgraph graph, unsigned long long flags), \
	  (exec, graph, flags)) \
	CU_SAME(X, 10000, GraphExecDestroy, PLAIN, (CUgraphExec exec), \
	  (exec)) \
	CU_SAME(X, 12000, GraphExecGetFlags, PLAIN, \
	  (CUgraphExec exec, unsigned long long *flags), (exec, flags)) \
	CU_SAME(X, 10000, GraphLaunch, STREAM, \
	  (CUgraphExec exec, CUstream stream), (exec, stream)) \
	CU_SAME(X, 11010, GraphUpload, STREAM, \
	  (CUgraphExec exec, CUstream stream), (exec, stream))
/* clang-format on */

#endif
