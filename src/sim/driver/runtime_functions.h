/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_RUNTIME_FUNCTIONS_H
#define SIM_DRIVER_RUNTIME_FUNCTIONS_H

/*
 * Lists the driver functions that only call a function of the runtime
 *
 * Each entry has the format of driver_functions.h, followed by the runtime's
 * call (driver_runtime.c).
 */

#include "platform/functions.h"
#include "sim/driver/driver_abi.h"

#define DRIVER_MEMORY(address) ((void *)(uintptr_t)(address))

/* clang-format off */
/* Entry for driver function name##version, implemented by the expression
 * @call. */
#define CU_VIA(X, since, name, version, form, pairs, call) \
	X(since, name, name##version, form, FN_PARAMETERS pairs, \
	  FN_ARGUMENTS pairs, call)

/* Entry for driver function name##version, which calls @runtime with the same
 * arguments. */
#define CU_AS(X, since, name, version, form, runtime, pairs) \
	CU_VIA(X, since, name, version, form, pairs, \
	       runtime FN_ARGUMENTS pairs)

/* Entry for driver function cu##name, which calls cuda##name with the same
 * arguments. */
#define CU_SAME(X, since, name, form, pairs) \
	CU_AS(X, since, cu##name, , form, host_cuda##name, pairs)

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
	CU_SAME(X, 2020, DriverGetVersion, PLAIN, (int *, version)) \
	CU_AS(X, 2000, cuDeviceGetCount, , PLAIN, host_cudaGetDeviceCount, \
	  (int *, count)) \
	CU_SAME(X, 4010, DeviceGetPCIBusId, PLAIN, \
	  (char *, id, int, length, CUdevice, device)) \
	CU_SAME(X, 4010, DeviceGetByPCIBusId, PLAIN, \
	  (CUdevice *, device, const char *, id)) \
	CU_SAME(X, 4000, DeviceCanAccessPeer, PLAIN, \
	  (int *, can, CUdevice, device, CUdevice, peer)) \
	CU_SAME(X, 8000, DeviceGetP2PAttribute, PLAIN, \
	  (int *, value, enum cudaDeviceP2PAttr, attribute, CUdevice, from, \
	   CUdevice, to)) \
	CU_AS(X, 2000, cuCtxSynchronize, , CONTEXT, \
	  host_cudaDeviceSynchronize, ()) \
	CU_AS(X, 3010, cuCtxSetLimit, , CONTEXT, host_cudaDeviceSetLimit, \
	  (enum cudaLimit, limit, size_t, value)) \
	CU_AS(X, 3010, cuCtxGetLimit, , CONTEXT, host_cudaDeviceGetLimit, \
	  (size_t *, value, enum cudaLimit, limit)) \
	CU_AS(X, 5050, cuCtxGetStreamPriorityRange, , CONTEXT, \
	  host_cudaDeviceGetStreamPriorityRange, \
	  (int *, least, int *, greatest))

/* Store in *memory the address that @call stores in got.  Make the call only if
 * @valid is true. */
#define DRIVER_GIVE(valid, call) \
	memory && (valid) ? driver_give(memory, call, &got) \
	                  : cudaErrorInvalidValue

#define DRIVER_RUNTIME_MEMORY(X) \
	CU_VIA(X, 3020, cuMemAlloc, _v2, CONTEXT, \
	  (CUdeviceptr *, memory, size_t, bytes), \
	  DRIVER_GIVE(bytes, host_cudaMalloc(&got, bytes))) \
	CU_VIA(X, 3020, cuMemAllocPitch, _v2, CONTEXT, \
	  (CUdeviceptr *, memory, size_t *, pitch, size_t, width, \
	   size_t, height, unsigned int, element), \
	  DRIVER_GIVE(width && height && (element == 4 || element == 8 || \
	                                  element == 16), \
	              host_cudaMallocPitch(&got, pitch, width, height))) \
	CU_VIA(X, 6000, cuMemAllocManaged, , CONTEXT, \
	  (CUdeviceptr *, memory, size_t, bytes, unsigned int, flags), \
	  DRIVER_GIVE(bytes, host_cudaMallocManaged(&got, bytes, flags))) \
	CU_VIA(X, 11020, cuMemAllocAsync, , STREAM, \
	  (CUdeviceptr *, memory, size_t, bytes, CUstream, stream), \
	  DRIVER_GIVE(true, host_cudaMallocAsync(&got, bytes, stream))) \
	CU_VIA(X, 11020, cuMemAllocFromPoolAsync, , STREAM, \
	  (CUdeviceptr *, memory, size_t, bytes, CUmemoryPool, pool, \
	   CUstream, stream), \
	  DRIVER_GIVE(true, host_cudaMallocFromPoolAsync(&got, bytes, pool, \
	                                                 stream))) \
	CU_VIA(X, 3020, cuMemHostGetDevicePointer, _v2, CONTEXT, \
	  (CUdeviceptr *, memory, void *, host, unsigned int, flags), \
	  DRIVER_GIVE(true, host_cudaHostGetDevicePointer(&got, host, \
	                                                  flags))) \
	CU_VIA(X, 4010, cuIpcOpenMemHandle, _v2, CONTEXT, \
	  (CUdeviceptr *, memory, cudaIpcMemHandle_t, handle, \
	   unsigned int, flags), \
	  DRIVER_GIVE(true, host_cudaIpcOpenMemHandle(&got, handle, \
	                                              flags))) \
	CU_AS(X, 3020, cuMemGetInfo, _v2, CONTEXT, host_cudaMemGetInfo, \
	  (size_t *, free, size_t *, total)) \
	CU_VIA(X, 3020, cuMemFree, _v2, CONTEXT, (CUdeviceptr, memory), \
	  host_cudaFree(DRIVER_MEMORY(memory))) \
	CU_VIA(X, 11020, cuMemFreeAsync, , STREAM, \
	  (CUdeviceptr, memory, CUstream, stream), \
	  host_cudaFreeAsync(DRIVER_MEMORY(memory), stream)) \
	CU_AS(X, 3020, cuMemAllocHost, _v2, CONTEXT, host_cudaMallocHost, \
	  (void **, memory, size_t, bytes)) \
	CU_AS(X, 2020, cuMemHostAlloc, , CONTEXT, host_cudaHostAlloc, \
	  (void **, memory, size_t, bytes, unsigned int, flags)) \
	CU_AS(X, 2000, cuMemFreeHost, , CONTEXT, host_cudaFreeHost, \
	  (void *, memory)) \
	CU_AS(X, 6050, cuMemHostRegister, _v2, CONTEXT, host_cudaHostRegister, \
	  (void *, memory, size_t, bytes, unsigned int, flags)) \
	CU_AS(X, 4000, cuMemHostUnregister, , CONTEXT, \
	  host_cudaHostUnregister, (void *, memory)) \
	CU_AS(X, 2030, cuMemHostGetFlags, , CONTEXT, host_cudaHostGetFlags, \
	  (unsigned int *, flags, void *, memory)) \
	CU_VIA(X, 8000, cuMemAdvise, , PLAIN, \
	  (CUdeviceptr, memory, size_t, bytes, enum cudaMemoryAdvise, advice, \
	   CUdevice, device), \
	  host12_cudaMemAdvise(DRIVER_MEMORY(memory), bytes, advice, device)) \
	CU_VIA(X, 12020, cuMemAdvise, _v2, PLAIN, \
	  (CUdeviceptr, memory, size_t, bytes, enum cudaMemoryAdvise, advice, \
	   struct cudaMemLocation, location), \
	  host_cudaMemAdvise(DRIVER_MEMORY(memory), bytes, advice, location)) \
	CU_VIA(X, 8000, cuMemPrefetchAsync, , STREAM, \
	  (CUdeviceptr, memory, size_t, bytes, CUdevice, device, \
	   CUstream, stream), \
	  host12_cudaMemPrefetchAsync(DRIVER_MEMORY(memory), bytes, device, \
	                              stream)) \
	CU_VIA(X, 12020, cuMemPrefetchAsync, _v2, STREAM, \
	  (CUdeviceptr, memory, size_t, bytes, \
	   struct cudaMemLocation, location, unsigned int, flags, \
	   CUstream, stream), \
	  host_cudaMemPrefetchAsync(DRIVER_MEMORY(memory), bytes, location, \
	                            flags, stream)) \
	CU_VIA(X, 4010, cuIpcGetMemHandle, , CONTEXT, \
	  (cudaIpcMemHandle_t *, handle, CUdeviceptr, memory), \
	  host_cudaIpcGetMemHandle(handle, DRIVER_MEMORY(memory))) \
	CU_VIA(X, 4010, cuIpcCloseMemHandle, , CONTEXT, (CUdeviceptr, memory), \
	  host_cudaIpcCloseMemHandle(DRIVER_MEMORY(memory)))

#define DRIVER_COPY_ASYNC \
	host_cudaMemcpyAsync(DRIVER_MEMORY(dst), DRIVER_MEMORY(src), bytes, \
	                     cudaMemcpyDefault, stream)
#define DRIVER_FILL(stream, wait) \
	copy_set(DRIVER_MEMORY(memory), value, count, sizeof(value), stream, \
	         wait)

/* Entries for a copy function and its asynchronous variant. */
#define CU_COPY(X, since, name, version, to, from) \
	CU_VIA(X, since, name, version, WAITS, \
	  (to, dst, from, src, size_t, bytes), \
	  host_cudaMemcpy(DRIVER_MEMORY(dst), DRIVER_MEMORY(src), bytes, \
	                  cudaMemcpyDefault)) \
	CU_VIA(X, since, name##Async, version, STREAM, \
	  (to, dst, from, src, size_t, bytes, CUstream, stream), \
	  DRIVER_COPY_ASYNC)

/* Entries for a function that fills memory with values of @type, and for its
 * asynchronous variant. */
#define CU_SET(X, name, type) \
	CU_VIA(X, 3020, name, _v2, WAITS, \
	  (CUdeviceptr, memory, type, value, size_t, count), \
	  DRIVER_FILL(cudaStreamLegacy, true)) \
	CU_VIA(X, 3020, name##Async, , STREAM, \
	  (CUdeviceptr, memory, type, value, size_t, count, \
	   CUstream, stream), \
	  DRIVER_FILL(stream, false))

/* Evaluate to @call or, if one of the contexts "to" and "from" is invalid, to
 * an error. */
#define DRIVER_PEERS(call) \
	(driver_device_of(to) >= 0 && driver_device_of(from) >= 0 \
		 ? (call) : cudaErrorDeviceUninitialized)

#define DRIVER_RUNTIME_COPIES(X) \
	CU_COPY(X, 4000, cuMemcpy, , CUdeviceptr, CUdeviceptr) \
	CU_COPY(X, 3020, cuMemcpyHtoD, _v2, CUdeviceptr, const void *) \
	CU_COPY(X, 3020, cuMemcpyDtoH, _v2, void *, CUdeviceptr) \
	CU_COPY(X, 3020, cuMemcpyDtoD, _v2, CUdeviceptr, CUdeviceptr) \
	CU_VIA(X, 4000, cuMemcpyPeer, , WAITS, \
	  (CUdeviceptr, dst, CUcontext, to, CUdeviceptr, src, CUcontext, from, \
	   size_t, bytes), \
	  DRIVER_PEERS(host_cudaMemcpyPeer( \
		  DRIVER_MEMORY(dst), driver_device_of(to), \
		  DRIVER_MEMORY(src), driver_device_of(from), bytes))) \
	CU_VIA(X, 4000, cuMemcpyPeerAsync, , STREAM, \
	  (CUdeviceptr, dst, CUcontext, to, CUdeviceptr, src, CUcontext, from, \
	   size_t, bytes, CUstream, stream), DRIVER_PEERS(DRIVER_COPY_ASYNC)) \
	CU_SET(X, cuMemsetD8, unsigned char) \
	CU_SET(X, cuMemsetD16, unsigned short) \
	CU_SET(X, cuMemsetD32, unsigned int) \
	CU_VIA(X, 3020, cuMemsetD2D8, _v2, WAITS, \
	  (CUdeviceptr, memory, size_t, pitch, unsigned char, value, \
	   size_t, width, size_t, height), \
	  host_cudaMemset2D(DRIVER_MEMORY(memory), pitch, value, width, \
	                    height)) \
	CU_VIA(X, 3020, cuMemsetD2D8Async, , STREAM, \
	  (CUdeviceptr, memory, size_t, pitch, unsigned char, value, \
	   size_t, width, size_t, height, CUstream, stream), \
	  host_cudaMemset2DAsync(DRIVER_MEMORY(memory), pitch, value, width, \
	                         height, stream))

#define DRIVER_RUNTIME_POOLS(X) \
	CU_SAME(X, 11020, MemPoolCreate, PLAIN, \
	  (CUmemoryPool *, pool, const struct cudaMemPoolProps *, props)) \
	CU_SAME(X, 11020, MemPoolDestroy, PLAIN, (CUmemoryPool, pool)) \
	CU_SAME(X, 11020, MemPoolTrimTo, PLAIN, \
	  (CUmemoryPool, pool, size_t, bytes)) \
	CU_SAME(X, 11020, MemPoolSetAttribute, PLAIN, \
	  (CUmemoryPool, pool, enum cudaMemPoolAttr, attribute, \
	   void *, value)) \
	CU_SAME(X, 11020, MemPoolGetAttribute, PLAIN, \
	  (CUmemoryPool, pool, enum cudaMemPoolAttr, attribute, \
	   void *, value)) \
	CU_SAME(X, 11020, MemPoolSetAccess, PLAIN, \
	  (CUmemoryPool, pool, const CUmemAccessDesc *, list, size_t, count)) \
	CU_SAME(X, 11020, MemPoolGetAccess, PLAIN, \
	  (enum cudaMemAccessFlags *, flags, CUmemoryPool, pool, \
	   struct cudaMemLocation *, location)) \
	CU_SAME(X, 11020, DeviceGetDefaultMemPool, PLAIN, \
	  (CUmemoryPool *, pool, CUdevice, device)) \
	CU_SAME(X, 11020, DeviceGetMemPool, PLAIN, \
	  (CUmemoryPool *, pool, CUdevice, device)) \
	CU_SAME(X, 11020, DeviceSetMemPool, PLAIN, \
	  (CUdevice, device, CUmemoryPool, pool))

#define DRIVER_RUNTIME_STREAMS(X) \
	CU_AS(X, 2000, cuStreamCreate, , CONTEXT, \
	  host_cudaStreamCreateWithFlags, \
	  (CUstream *, stream, unsigned int, flags)) \
	CU_SAME(X, 5050, StreamCreateWithPriority, CONTEXT, \
	  (CUstream *, stream, unsigned int, flags, int, priority)) \
	CU_AS(X, 4000, cuStreamDestroy, _v2, PLAIN, host_cudaStreamDestroy, \
	  (CUstream, stream)) \
	CU_SAME(X, 2000, StreamSynchronize, STREAM, (CUstream, stream)) \
	CU_SAME(X, 2000, StreamQuery, STREAM, (CUstream, stream)) \
	CU_SAME(X, 3020, StreamWaitEvent, STREAM, \
	  (CUstream, stream, CUevent, event, unsigned int, flags)) \
	CU_VIA(X, 5000, cuStreamAddCallback, , STREAM, \
	  (CUstream, stream, CUstreamCallback, fn, void *, user, \
	   unsigned int, flags), \
	  host_cudaStreamAddCallback( \
		  stream, (cudaStreamCallback_t)(void (*)(void))fn, user, \
		  flags)) \
	CU_SAME(X, 10000, LaunchHostFunc, STREAM, \
	  (CUstream, stream, CUhostFn, fn, void *, user)) \
	CU_SAME(X, 5050, StreamGetFlags, STREAM, \
	  (CUstream, stream, unsigned int *, flags)) \
	CU_SAME(X, 5050, StreamGetPriority, STREAM, \
	  (CUstream, stream, int *, priority)) \
	CU_SAME(X, 12000, StreamGetId, STREAM, \
	  (CUstream, stream, unsigned long long *, id)) \
	CU_SAME(X, 12080, StreamGetDevice, STREAM, \
	  (CUstream, stream, CUdevice *, device)) \
	CU_VIA(X, 6000, cuStreamAttachMemAsync, , STREAM, \
	  (CUstream, stream, CUdeviceptr, memory, size_t, bytes, \
	   unsigned int, flags), \
	  host_cudaStreamAttachMemAsync(stream, DRIVER_MEMORY(memory), bytes, \
	                                flags))

/* Entries for a write of a word, and for a wait for a word.  A wait ignores the
 * flag that asks for a flush of remote writes, because there are none. */
#define CU_WORD(X, since, bits) \
	CU_VIA(X, since, cuStreamWriteValue##bits, _v2, STREAM, \
	  (CUstream, stream, CUdeviceptr, address, uint##bits##_t, value, \
	   unsigned int, flags), \
	  flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER \
		  ? cudaErrorInvalidValue \
		  : stream_write_value(stream, DRIVER_MEMORY(address), value, \
	                               bits)) \
	CU_VIA(X, since, cuStreamWaitValue##bits, _v2, STREAM, \
	  (CUstream, stream, CUdeviceptr, address, uint##bits##_t, value, \
	   unsigned int, flags), \
	  stream_wait_value(stream, DRIVER_MEMORY(address), value, bits, \
	                    flags & ~CU_STREAM_WAIT_VALUE_FLUSH))

#define DRIVER_RUNTIME_WORDS(X) \
	CU_WORD(X, 8000, 32) \
	CU_WORD(X, 9000, 64)

#define DRIVER_RUNTIME_CAPTURES(X) \
	CU_VIA(X, 10000, cuStreamBeginCapture, , STREAM, (CUstream, stream), \
	  host_cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)) \
	CU_AS(X, 10010, cuStreamBeginCapture, _v2, STREAM, \
	  host_cudaStreamBeginCapture, \
	  (CUstream, stream, enum cudaStreamCaptureMode, mode)) \
	CU_SAME(X, 10000, StreamEndCapture, STREAM, \
	  (CUstream, stream, CUgraph *, graph)) \
	CU_SAME(X, 10000, StreamIsCapturing, STREAM, \
	  (CUstream, stream, enum cudaStreamCaptureStatus *, status)) \
	CU_SAME(X, 10010, ThreadExchangeStreamCaptureMode, PLAIN, \
	  (enum cudaStreamCaptureMode *, mode)) \
	CU_AS(X, 10010, cuStreamGetCaptureInfo, , STREAM, \
	  host12_cudaStreamGetCaptureInfo, \
	  (CUstream, stream, enum cudaStreamCaptureStatus *, status, \
	   unsigned long long *, id)) \
	CU_AS(X, 11030, cuStreamGetCaptureInfo, _v2, STREAM, \
	  host12_cudaStreamGetCaptureInfo_v2, \
	  (CUstream, stream, enum cudaStreamCaptureStatus *, status, \
	   unsigned long long *, id, CUgraph *, graph, \
	   const CUgraphNode **, after, size_t *, count)) \
	CU_AS(X, 12030, cuStreamGetCaptureInfo, _v3, STREAM, \
	  host_cudaStreamGetCaptureInfo, \
	  (CUstream, stream, enum cudaStreamCaptureStatus *, status, \
	   unsigned long long *, id, CUgraph *, graph, \
	   const CUgraphNode **, after, const cudaGraphEdgeData **, edges, \
	   size_t *, count)) \
	CU_AS(X, 11030, cuStreamUpdateCaptureDependencies, , STREAM, \
	  host12_cudaStreamUpdateCaptureDependencies, \
	  (CUstream, stream, CUgraphNode *, nodes, size_t, count, \
	   unsigned int, flags)) \
	CU_AS(X, 12030, cuStreamUpdateCaptureDependencies, _v2, STREAM, \
	  host_cudaStreamUpdateCaptureDependencies, \
	  (CUstream, stream, CUgraphNode *, nodes, \
	   const cudaGraphEdgeData *, edges, size_t, count, \
	   unsigned int, flags))

#define DRIVER_RUNTIME_EVENTS(X) \
	CU_AS(X, 2000, cuEventCreate, , CONTEXT, \
	  host_cudaEventCreateWithFlags, \
	  (CUevent *, event, unsigned int, flags)) \
	CU_AS(X, 4000, cuEventDestroy, _v2, PLAIN, host_cudaEventDestroy, \
	  (CUevent, event)) \
	CU_SAME(X, 2000, EventRecord, STREAM, \
	  (CUevent, event, CUstream, stream)) \
	CU_SAME(X, 11010, EventRecordWithFlags, STREAM, \
	  (CUevent, event, CUstream, stream, unsigned int, flags)) \
	CU_SAME(X, 2000, EventQuery, PLAIN, (CUevent, event)) \
	CU_SAME(X, 2000, EventSynchronize, PLAIN, (CUevent, event)) \
	CU_SAME(X, 2000, EventElapsedTime, PLAIN, \
	  (float *, ms, CUevent, start, CUevent, end)) \
	CU_AS(X, 12080, cuEventElapsedTime, _v2, PLAIN, \
	  host_cudaEventElapsedTime, \
	  (float *, ms, CUevent, start, CUevent, end))

#define DRIVER_RUNTIME_GRAPHS(X) \
	CU_SAME(X, 10000, GraphCreate, PLAIN, \
	  (CUgraph *, graph, unsigned int, flags)) \
	CU_SAME(X, 10000, GraphDestroy, PLAIN, (CUgraph, graph)) \
	CU_SAME(X, 10000, GraphGetNodes, PLAIN, \
	  (CUgraph, graph, CUgraphNode *, nodes, size_t *, count)) \
	CU_SAME(X, 10000, GraphGetRootNodes, PLAIN, \
	  (CUgraph, graph, CUgraphNode *, nodes, size_t *, count)) \
	CU_SAME(X, 10000, GraphNodeGetType, PLAIN, \
	  (CUgraphNode, node, enum cudaGraphNodeType *, type)) \
	CU_SAME(X, 11040, GraphInstantiateWithFlags, CONTEXT, \
	  (CUgraphExec *, exec, CUgraph, graph, unsigned long long, flags)) \
	CU_SAME(X, 10000, GraphExecDestroy, PLAIN, (CUgraphExec, exec)) \
	CU_SAME(X, 12000, GraphExecGetFlags, PLAIN, \
	  (CUgraphExec, exec, unsigned long long *, flags)) \
	CU_SAME(X, 10000, GraphLaunch, STREAM, \
	  (CUgraphExec, exec, CUstream, stream)) \
	CU_SAME(X, 11010, GraphUpload, STREAM, \
	  (CUgraphExec, exec, CUstream, stream))
/* clang-format on */

#endif
