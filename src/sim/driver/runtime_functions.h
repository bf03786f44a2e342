/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_RUNTIME_FUNCTIONS_H
#define SIM_DRIVER_RUNTIME_FUNCTIONS_H

/*
 * The functions of the driver that a function of the runtime does: as in
 * functions.h, with the runtime's call behind the arguments (runtime.c)
 */

#include "sim/driver/abi.h"

#define DRIVER_MEMORY(address) ((void *)(uintptr_t)(address))

/* clang-format off */
#define DRIVER_RUNTIME_FUNCTIONS(X) \
	DRIVER_RUNTIME_DEVICES(X) \
	DRIVER_RUNTIME_MEMORY(X) \
	DRIVER_RUNTIME_COPIES(X) \
	DRIVER_RUNTIME_POOLS(X) \
	DRIVER_RUNTIME_STREAMS(X) \
	DRIVER_RUNTIME_CAPTURES(X) \
	DRIVER_RUNTIME_EVENTS(X) \
	DRIVER_RUNTIME_GRAPHS(X)

#define DRIVER_RUNTIME_DEVICES(X) \
	X(2020, cuDriverGetVersion, cuDriverGetVersion, PLAIN, \
	  (int *version), (version), host_cudaDriverGetVersion(version)) \
	X(2000, cuDeviceGetCount, cuDeviceGetCount, PLAIN, \
	  (int *count), (count), host_cudaGetDeviceCount(count)) \
	X(4010, cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, PLAIN, \
	  (char *id, int length, CUdevice device), (id, length, device), \
	  host_cudaDeviceGetPCIBusId(id, length, device)) \
	X(4010, cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, PLAIN, \
	  (CUdevice *device, const char *id), (device, id), \
	  host_cudaDeviceGetByPCIBusId(device, id)) \
	X(4000, cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, PLAIN, \
	  (int *can, CUdevice device, CUdevice peer), (can, device, peer), \
	  host_cudaDeviceCanAccessPeer(can, device, peer)) \
	X(8000, cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, PLAIN, \
	  (int *value, enum cudaDeviceP2PAttr attribute, CUdevice from, \
	   CUdevice to), \
	  (value, attribute, from, to), \
	  host_cudaDeviceGetP2PAttribute(value, attribute, from, to)) \
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
	X(4010, cuIpcGetEventHandle, cuIpcGetEventHandle, CONTEXT, \
	  (cudaIpcEventHandle_t *handle, CUevent event), (handle, event), \
	  host_cudaIpcGetEventHandle(handle, event)) \
	X(4010, cuIpcOpenEventHandle, cuIpcOpenEventHandle, CONTEXT, \
	  (CUevent *event, cudaIpcEventHandle_t handle), (event, handle), \
	  host_cudaIpcOpenEventHandle(event, handle))

#define DRIVER_COPY(dst, src) \
	host_cudaMemcpy(DRIVER_MEMORY(dst), DRIVER_MEMORY(src), bytes, \
	                cudaMemcpyDefault)
#define DRIVER_COPY_ASYNC(dst, src) \
	host_cudaMemcpyAsync(DRIVER_MEMORY(dst), DRIVER_MEMORY(src), bytes, \
	                     cudaMemcpyDefault, stream)

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
	                         height, stream))

#define DRIVER_RUNTIME_POOLS(X) \
	X(11020, cuMemPoolCreate, cuMemPoolCreate, PLAIN, \
	  (CUmemoryPool *pool, const struct cudaMemPoolProps *props), \
	  (pool, props), host_cudaMemPoolCreate(pool, props)) \
	X(11020, cuMemPoolDestroy, cuMemPoolDestroy, PLAIN, \
	  (CUmemoryPool pool), (pool), host_cudaMemPoolDestroy(pool)) \
	X(11020, cuMemPoolTrimTo, cuMemPoolTrimTo, PLAIN, \
	  (CUmemoryPool pool, size_t bytes), (pool, bytes), \
	  host_cudaMemPoolTrimTo(pool, bytes)) \
	X(11020, cuMemPoolSetAttribute, cuMemPoolSetAttribute, PLAIN, \
	  (CUmemoryPool pool, enum cudaMemPoolAttr attribute, void *value), \
	  (pool, attribute, value), \
	  host_cudaMemPoolSetAttribute(pool, attribute, value)) \
	X(11020, cuMemPoolGetAttribute, cuMemPoolGetAttribute, PLAIN, \
	  (CUmemoryPool pool, enum cudaMemPoolAttr attribute, void *value), \
	  (pool, attribute, value), \
	  host_cudaMemPoolGetAttribute(pool, attribute, value)) \
	X(11020, cuMemPoolSetAccess, cuMemPoolSetAccess, PLAIN, \
	  (CUmemoryPool pool, const CUmemAccessDesc *list, size_t count), \
	  (pool, list, count), host_cudaMemPoolSetAccess(pool, list, count)) \
	X(11020, cuMemPoolGetAccess, cuMemPoolGetAccess, PLAIN, \
	  (enum cudaMemAccessFlags *flags, CUmemoryPool pool, \
	   struct cudaMemLocation *location), \
	  (flags, pool, location), \
	  host_cudaMemPoolGetAccess(flags, pool, location)) \
	X(11020, cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, PLAIN, \
	  (CUmemoryPool *pool, CUdevice device), (pool, device), \
	  host_cudaDeviceGetDefaultMemPool(pool, device)) \
	X(11020, cuDeviceGetMemPool, cuDeviceGetMemPool, PLAIN, \
	  (CUmemoryPool *pool, CUdevice device), (pool, device), \
	  host_cudaDeviceGetMemPool(pool, device)) \
	X(11020, cuDeviceSetMemPool, cuDeviceSetMemPool, PLAIN, \
	  (CUdevice device, CUmemoryPool pool), (device, pool), \
	  host_cudaDeviceSetMemPool(device, pool))

#define DRIVER_RUNTIME_STREAMS(X) \
	X(2000, cuStreamCreate, cuStreamCreate, CONTEXT, \
	  (CUstream *stream, unsigned int flags), (stream, flags), \
	  host_cudaStreamCreateWithFlags(stream, flags)) \
	X(5050, cuStreamCreateWithPriority, cuStreamCreateWithPriority, \
	  CONTEXT, (CUstream *stream, unsigned int flags, int priority), \
	  (stream, flags, priority), \
	  host_cudaStreamCreateWithPriority(stream, flags, priority)) \
	X(4000, cuStreamDestroy, cuStreamDestroy_v2, PLAIN, \
	  (CUstream stream), (stream), host_cudaStreamDestroy(stream)) \
	X(2000, cuStreamSynchronize, cuStreamSynchronize, STREAM, \
	  (CUstream stream), (stream), host_cudaStreamSynchronize(stream)) \
	X(2000, cuStreamQuery, cuStreamQuery, STREAM, \
	  (CUstream stream), (stream), host_cudaStreamQuery(stream)) \
	X(3020, cuStreamWaitEvent, cuStreamWaitEvent, STREAM, \
	  (CUstream stream, CUevent event, unsigned int flags), \
	  (stream, event, flags), \
	  host_cudaStreamWaitEvent(stream, event, flags)) \
	X(5000, cuStreamAddCallback, cuStreamAddCallback, STREAM, \
	  (CUstream stream, CUstreamCallback fn, void *user, \
	   unsigned int flags), \
	  (stream, fn, user, flags), \
	  host_cudaStreamAddCallback( \
		  stream, (cudaStreamCallback_t)(void (*)(void))fn, user, \
		  flags)) \
	X(10000, cuLaunchHostFunc, cuLaunchHostFunc, STREAM, \
	  (CUstream stream, CUhostFn fn, void *user), (stream, fn, user), \
	  host_cudaLaunchHostFunc(stream, fn, user)) \
	X(5050, cuStreamGetFlags, cuStreamGetFlags, STREAM, \
	  (CUstream stream, unsigned int *flags), (stream, flags), \
	  host_cudaStreamGetFlags(stream, flags)) \
	X(5050, cuStreamGetPriority, cuStreamGetPriority, STREAM, \
	  (CUstream stream, int *priority), (stream, priority), \
	  host_cudaStreamGetPriority(stream, priority)) \
	X(12000, cuStreamGetId, cuStreamGetId, STREAM, \
	  (CUstream stream, unsigned long long *id), (stream, id), \
	  host_cudaStreamGetId(stream, id)) \
	X(12080, cuStreamGetDevice, cuStreamGetDevice, STREAM, \
	  (CUstream stream, CUdevice *device), (stream, device), \
	  host_cudaStreamGetDevice(stream, device)) \
	X(11000, cuStreamCopyAttributes, cuStreamCopyAttributes, STREAMS, \
	  (CUstream stream, CUstream src), (stream, src), \
	  host_cudaStreamCopyAttributes(stream, src)) \
	X(11000, cuStreamGetAttribute, cuStreamGetAttribute, STREAM, \
	  (CUstream stream, cudaStreamAttrID id, \
	   cudaStreamAttrValue *value), \
	  (stream, id, value), \
	  host_cudaStreamGetAttribute(stream, id, value)) \
	X(11000, cuStreamSetAttribute, cuStreamSetAttribute, STREAM, \
	  (CUstream stream, cudaStreamAttrID id, \
	   const cudaStreamAttrValue *value), \
	  (stream, id, value), \
	  host_cudaStreamSetAttribute(stream, id, value)) \
	X(6000, cuStreamAttachMemAsync, cuStreamAttachMemAsync, STREAM, \
	  (CUstream stream, CUdeviceptr memory, size_t bytes, \
	   unsigned int flags), \
	  (stream, memory, bytes, flags), \
	  host_cudaStreamAttachMemAsync(stream, DRIVER_MEMORY(memory), bytes, \
	                                flags))

#define DRIVER_RUNTIME_CAPTURES(X) \
	X(10000, cuStreamBeginCapture, cuStreamBeginCapture, STREAM, \
	  (CUstream stream), (stream), \
	  host_cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)) \
	X(10010, cuStreamBeginCapture, cuStreamBeginCapture_v2, STREAM, \
	  (CUstream stream, enum cudaStreamCaptureMode mode), \
	  (stream, mode), host_cudaStreamBeginCapture(stream, mode)) \
	X(10000, cuStreamEndCapture, cuStreamEndCapture, STREAM, \
	  (CUstream stream, CUgraph *graph), (stream, graph), \
	  host_cudaStreamEndCapture(stream, graph)) \
	X(10000, cuStreamIsCapturing, cuStreamIsCapturing, STREAM, \
	  (CUstream stream, enum cudaStreamCaptureStatus *status), \
	  (stream, status), host_cudaStreamIsCapturing(stream, status)) \
	X(10010, cuThreadExchangeStreamCaptureMode, \
	  cuThreadExchangeStreamCaptureMode, PLAIN, \
	  (enum cudaStreamCaptureMode *mode), (mode), \
	  host_cudaThreadExchangeStreamCaptureMode(mode)) \
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
	X(2000, cuEventRecord, cuEventRecord, STREAM, \
	  (CUevent event, CUstream stream), (event, stream), \
	  host_cudaEventRecord(event, stream)) \
	X(11010, cuEventRecordWithFlags, cuEventRecordWithFlags, STREAM, \
	  (CUevent event, CUstream stream, unsigned int flags), \
	  (event, stream, flags), \
	  host_cudaEventRecordWithFlags(event, stream, flags)) \
	X(2000, cuEventQuery, cuEventQuery, PLAIN, \
	  (CUevent event), (event), host_cudaEventQuery(event)) \
	X(2000, cuEventSynchronize, cuEventSynchronize, PLAIN, \
	  (CUevent event), (event), host_cudaEventSynchronize(event)) \
	X(2000, cuEventElapsedTime, cuEventElapsedTime, PLAIN, \
	  (float *ms, CUevent start, CUevent end), (ms, start, end), \
	  host_cudaEventElapsedTime(ms, start, end)) \
	X(12080, cuEventElapsedTime, cuEventElapsedTime_v2, PLAIN, \
	  (float *ms, CUevent start, CUevent end), (ms, start, end), \
	  host_cudaEventElapsedTime(ms, start, end))

#define DRIVER_RUNTIME_GRAPHS(X) \
	X(10000, cuGraphCreate, cuGraphCreate, PLAIN, \
	  (CUgraph *graph, unsigned int flags), (graph, flags), \
	  host_cudaGraphCreate(graph, flags)) \
	X(10000, cuGraphDestroy, cuGraphDestroy, PLAIN, \
	  (CUgraph graph), (graph), host_cudaGraphDestroy(graph)) \
	X(10000, cuGraphGetNodes, cuGraphGetNodes, PLAIN, \
	  (CUgraph graph, CUgraphNode *nodes, size_t *count), \
	  (graph, nodes, count), host_cudaGraphGetNodes(graph, nodes, count)) \
	X(10000, cuGraphGetRootNodes, cuGraphGetRootNodes, PLAIN, \
	  (CUgraph graph, CUgraphNode *nodes, size_t *count), \
	  (graph, nodes, count), \
	  host_cudaGraphGetRootNodes(graph, nodes, count)) \
	X(10000, cuGraphNodeGetType, cuGraphNodeGetType, PLAIN, \
	  (CUgraphNode node, enum cudaGraphNodeType *type), (node, type), \
	  host_cudaGraphNodeGetType(node, type)) \
	X(11040, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, \
	  CONTEXT, \
	  (CUgraphExec *exec, CUgraph graph, unsigned long long flags), \
	  (exec, graph, flags), \
	  host_cudaGraphInstantiateWithFlags(exec, graph, flags)) \
	X(10000, cuGraphExecDestroy, cuGraphExecDestroy, PLAIN, \
	  (CUgraphExec exec), (exec), host_cudaGraphExecDestroy(exec)) \
	X(12000, cuGraphExecGetFlags, cuGraphExecGetFlags, PLAIN, \
	  (CUgraphExec exec, unsigned long long *flags), (exec, flags), \
	  host_cudaGraphExecGetFlags(exec, flags)) \
	X(10000, cuGraphLaunch, cuGraphLaunch, STREAM, \
	  (CUgraphExec exec, CUstream stream), (exec, stream), \
	  host_cudaGraphLaunch(exec, stream)) \
	X(11010, cuGraphUpload, cuGraphUpload, STREAM, \
	  (CUgraphExec exec, CUstream stream), (exec, stream), \
	  host_cudaGraphUpload(exec, stream))
/* clang-format on */

#endif
