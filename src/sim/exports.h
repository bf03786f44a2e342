/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXPORTS_H
#define SIM_EXPORTS_H

/*
 * CUDA runtime functions that the simulator offers only to programs that call
 * CUDA directly, through the drop-in libraries: X(since, result, name,
 * parameters, arguments)
 *
 * The functions that Cohort itself calls are in platform/functions.h.
 */

#include "platform/functions.h"

/* clang-format off */
#define HOST_CUDA_FUNCTIONS(X) \
	CUDA_FN(X, 0, cudaGetDeviceProperties, \
	  (struct cudaDeviceProp *, properties, int, device)) \
	CUDA_FN(X, 0, cudaDeviceGetAttribute, \
	  (int *, value, enum cudaDeviceAttr, attribute, int, device)) \
	CUDA_FN(X, 0, cudaDeviceGetPCIBusId, \
	  (char *, id, int, length, int, device)) \
	CUDA_FN(X, 0, cudaDeviceGetByPCIBusId, \
	  (int *, device, const char *, id)) \
	CUDA_FN(X, 0, cudaDeviceDisablePeerAccess, (int, peer)) \
	CUDA_FN(X, 0, cudaDeviceGetP2PAttribute, \
	  (int *, value, enum cudaDeviceP2PAttr, attribute, int, from, \
	   int, to)) \
	CUDA_FN(X, 0, cudaDeviceReset, ()) \
	CUDA_FN(X, 0, cudaSetDeviceFlags, (unsigned int, flags)) \
	CUDA_FN(X, 0, cudaGetDeviceFlags, (unsigned int *, flags)) \
	CUDA_FN(X, 0, cudaInitDevice, \
	  (int, device, unsigned int, device_flags, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaSetValidDevices, (int *, devices, int, count)) \
	CUDA_FN(X, 0, cudaChooseDevice, \
	  (int *, device, const struct cudaDeviceProp *, properties)) \
	CUDA_FN(X, 0, cudaDeviceGetStreamPriorityRange, \
	  (int *, least, int *, greatest)) \
	CUDA_FN(X, 0, cudaDeviceSetLimit, \
	  (enum cudaLimit, limit, size_t, value)) \
	CUDA_FN(X, 0, cudaDeviceGetLimit, \
	  (size_t *, value, enum cudaLimit, limit)) \
	CUDA_FN(X, 0, cudaMemGetInfo, (size_t *, free, size_t *, total)) \
	CUDA_FN(X, 0, cudaMallocManaged, \
	  (void **, memory, size_t, bytes, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaMallocPitch, \
	  (void **, memory, size_t *, pitch, size_t, width, size_t, height)) \
	CUDA_FN(X, 0, cudaHostRegister, \
	  (void *, memory, size_t, bytes, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaHostUnregister, (void *, memory)) \
	CUDA_FN(X, 0, cudaHostGetDevicePointer, \
	  (void **, device, void *, host, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaHostGetFlags, (unsigned int *, flags, void *, host)) \
	CUDA_FN(X, 13000, cudaMemAdvise, \
	  (const void *, memory, size_t, bytes, enum cudaMemoryAdvise, advice, \
	   struct cudaMemLocation, location)) \
	CUDA_FN(X, 13000, cudaMemPrefetchAsync, \
	  (const void *, memory, size_t, bytes, \
	   struct cudaMemLocation, location, unsigned int, flags, \
	   cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaMallocAsync, \
	  (void **, memory, size_t, bytes, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaFreeAsync, (void *, memory, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaMallocFromPoolAsync, \
	  (void **, memory, size_t, bytes, cudaMemPool_t, pool, \
	   cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaMemPoolCreate, \
	  (cudaMemPool_t *, pool, const struct cudaMemPoolProps *, props)) \
	CUDA_FN(X, 0, cudaMemPoolDestroy, (cudaMemPool_t, pool)) \
	CUDA_FN(X, 0, cudaMemPoolTrimTo, (cudaMemPool_t, pool, size_t, bytes)) \
	CUDA_FN(X, 0, cudaMemPoolSetAttribute, \
	  (cudaMemPool_t, pool, enum cudaMemPoolAttr, attribute, \
	   void *, value)) \
	CUDA_FN(X, 0, cudaMemPoolGetAttribute, \
	  (cudaMemPool_t, pool, enum cudaMemPoolAttr, attribute, \
	   void *, value)) \
	CUDA_FN(X, 0, cudaMemPoolSetAccess, \
	  (cudaMemPool_t, pool, const struct cudaMemAccessDesc *, list, \
	   size_t, count)) \
	CUDA_FN(X, 0, cudaMemPoolGetAccess, \
	  (enum cudaMemAccessFlags *, flags, cudaMemPool_t, pool, \
	   struct cudaMemLocation *, location)) \
	CUDA_FN(X, 0, cudaDeviceGetDefaultMemPool, \
	  (cudaMemPool_t *, pool, int, device)) \
	CUDA_FN(X, 0, cudaDeviceGetMemPool, \
	  (cudaMemPool_t *, pool, int, device)) \
	CUDA_FN(X, 0, cudaDeviceSetMemPool, \
	  (int, device, cudaMemPool_t, pool)) \
	CUDA_FN(X, 0, cudaMemcpy2D, \
	  (void *, dst, size_t, dst_pitch, const void *, src, \
	   size_t, src_pitch, size_t, width, size_t, height, \
	   enum cudaMemcpyKind, kind)) \
	CUDA_FN(X, 0, cudaMemcpy2DAsync, \
	  (void *, dst, size_t, dst_pitch, const void *, src, \
	   size_t, src_pitch, size_t, width, size_t, height, \
	   enum cudaMemcpyKind, kind, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaMemset2D, \
	  (void *, memory, size_t, pitch, int, value, size_t, width, \
	   size_t, height)) \
	CUDA_FN(X, 0, cudaMemset2DAsync, \
	  (void *, memory, size_t, pitch, int, value, size_t, width, \
	   size_t, height, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaMemcpyPeer, \
	  (void *, dst, int, dst_device, const void *, src, int, src_device, \
	   size_t, bytes)) \
	CUDA_FN(X, 0, cudaIpcGetMemHandle, \
	  (cudaIpcMemHandle_t *, handle, void *, memory)) \
	CUDA_FN(X, 0, cudaIpcOpenMemHandle, \
	  (void **, memory, cudaIpcMemHandle_t, handle, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaIpcCloseMemHandle, (void *, memory)) \
	CUDA_FN(X, 0, cudaStreamGetFlags, \
	  (cudaStream_t, stream, unsigned int *, flags)) \
	CUDA_FN(X, 0, cudaStreamGetPriority, \
	  (cudaStream_t, stream, int *, priority)) \
	CUDA_FN(X, 0, cudaStreamGetId, \
	  (cudaStream_t, stream, unsigned long long *, id)) \
	CUDA_FN(X, 0, cudaStreamAddCallback, \
	  (cudaStream_t, stream, cudaStreamCallback_t, fn, void *, user, \
	   unsigned int, flags)) \
	CUDA_FN(X, 0, cudaStreamAttachMemAsync, \
	  (cudaStream_t, stream, void *, memory, size_t, bytes, \
	   unsigned int, flags)) \
	CUDA_FN(X, 0, cudaGetDriverEntryPoint, \
	  (const char *, symbol, void **, out, unsigned long long, flags, \
	   enum cudaDriverEntryPointQueryResult *, status)) \
	CUDA_FN(X, 12050, cudaGetDriverEntryPointByVersion, \
	  (const char *, symbol, void **, out, unsigned int, version, \
	   unsigned long long, flags, \
	   enum cudaDriverEntryPointQueryResult *, status)) \
	CUDA_FN(X, 0, cudaEventRecordWithFlags, \
	  (cudaEvent_t, event, cudaStream_t, stream, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaStreamBeginCapture, \
	  (cudaStream_t, stream, enum cudaStreamCaptureMode, mode)) \
	CUDA_FN(X, 0, cudaStreamEndCapture, \
	  (cudaStream_t, stream, cudaGraph_t *, graph)) \
	CUDA_FN(X, 13000, cudaStreamGetCaptureInfo, \
	  (cudaStream_t, stream, enum cudaStreamCaptureStatus *, status, \
	   unsigned long long *, id, cudaGraph_t *, graph, \
	   const cudaGraphNode_t **, after, const cudaGraphEdgeData **, edges, \
	   size_t *, count)) \
	CUDA_FN(X, 13000, cudaStreamUpdateCaptureDependencies, \
	  (cudaStream_t, stream, cudaGraphNode_t *, nodes, \
	   const cudaGraphEdgeData *, edges, size_t, count, \
	   unsigned int, flags)) \
	CUDA_FN(X, 0, cudaGraphCreate, \
	  (cudaGraph_t *, graph, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaGraphDestroy, (cudaGraph_t, graph)) \
	CUDA_FN(X, 0, cudaGraphAddEventRecordNode, \
	  (cudaGraphNode_t *, node, cudaGraph_t, graph, \
	   const cudaGraphNode_t *, after, size_t, count, cudaEvent_t, event)) \
	CUDA_FN(X, 13000, cudaGraphAddDependencies, \
	  (cudaGraph_t, graph, const cudaGraphNode_t *, from, \
	   const cudaGraphNode_t *, to, const cudaGraphEdgeData *, edges, \
	   size_t, count)) \
	CUDA_FN(X, 0, cudaUserObjectCreate, \
	  (cudaUserObject_t *, object, void *, user, cudaHostFn_t, end, \
	   unsigned int, uses, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaUserObjectRetain, \
	  (cudaUserObject_t, object, unsigned int, count)) \
	CUDA_FN(X, 0, cudaUserObjectRelease, \
	  (cudaUserObject_t, object, unsigned int, count)) \
	CUDA_FN(X, 0, cudaGraphRetainUserObject, \
	  (cudaGraph_t, graph, cudaUserObject_t, object, unsigned int, count, \
	   unsigned int, flags)) \
	CUDA_FN(X, 0, cudaGraphReleaseUserObject, \
	  (cudaGraph_t, graph, cudaUserObject_t, object, unsigned int, count)) \
	CUDA_FN(X, 0, cudaGraphGetNodes, \
	  (cudaGraph_t, graph, cudaGraphNode_t *, nodes, size_t *, count)) \
	CUDA_FN(X, 0, cudaGraphGetRootNodes, \
	  (cudaGraph_t, graph, cudaGraphNode_t *, nodes, size_t *, count)) \
	CUDA_FN(X, 0, cudaGraphNodeGetType, \
	  (cudaGraphNode_t, node, enum cudaGraphNodeType *, type)) \
	CUDA_FN(X, 0, cudaGraphInstantiate, \
	  (cudaGraphExec_t *, exec, cudaGraph_t, graph, \
	   unsigned long long, flags)) \
	CUDA_FN(X, 0, cudaGraphInstantiateWithFlags, \
	  (cudaGraphExec_t *, exec, cudaGraph_t, graph, \
	   unsigned long long, flags)) \
	CUDA_FN(X, 0, cudaGraphExecGetFlags, \
	  (cudaGraphExec_t, exec, unsigned long long *, flags)) \
	CUDA_FN(X, 0, cudaGraphExecDestroy, (cudaGraphExec_t, exec)) \
	CUDA_FN(X, 0, cudaGraphLaunch, \
	  (cudaGraphExec_t, exec, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaGraphUpload, \
	  (cudaGraphExec_t, exec, cudaStream_t, stream))

/*
 * CUDA 12 versions of functions whose signature or name CUDA 13 changed.  For
 * example, host12_cudaMemAdvise() implements the cudaMemAdvise() of
 * libcudart.so.12.
 */
#define HOST_CUDA12_FUNCTIONS(X) \
	CUDA_FN(X, 0, cudaGetDeviceProperties, \
	  (struct cudaDeviceProp12 *, properties, int, device)) \
	CUDA_FN(X, 0, cudaGetDeviceProperties_v2, \
	  (struct cudaDeviceProp12 *, properties, int, device)) \
	CUDA_FN(X, 0, cudaPointerGetAttributes, \
	  (struct cudaPointerAttributes *, attributes, const void *, memory)) \
	CUDA_FN(X, 0, cudaMemAdvise, \
	  (const void *, memory, size_t, bytes, enum cudaMemoryAdvise, advice, \
	   int, device)) \
	CUDA_FN(X, 0, cudaMemPrefetchAsync, \
	  (const void *, memory, size_t, bytes, int, device, \
	   cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaStreamGetCaptureInfo, \
	  (cudaStream_t, stream, enum cudaStreamCaptureStatus *, status, \
	   unsigned long long *, id)) \
	CUDA_FN(X, 0, cudaStreamGetCaptureInfo_v2, \
	  (cudaStream_t, stream, enum cudaStreamCaptureStatus *, status, \
	   unsigned long long *, id, cudaGraph_t *, graph, \
	   const cudaGraphNode_t **, after, size_t *, count)) \
	CUDA_FN(X, 0, cudaStreamUpdateCaptureDependencies, \
	  (cudaStream_t, stream, cudaGraphNode_t *, nodes, size_t, count, \
	   unsigned int, flags)) \
	CUDA_FN(X, 0, cudaGraphAddDependencies, \
	  (cudaGraph_t, graph, const cudaGraphNode_t *, from, \
	   const cudaGraphNode_t *, to, size_t, count))
/* clang-format on */

#endif
