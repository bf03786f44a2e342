/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXPORTS_H
#define SIM_EXPORTS_H

/*
 * What the simulator has of the CUDA runtime beyond what the platform's table
 * needs: for foreign programs, through the drop-in libraries.  X(since, result,
 * name, parameters, arguments), as in platform/functions.h.
 */

/* clang-format off */
#define HOST_CUDA_FUNCTIONS(X) \
	X(0, cudaError_t, cudaGetDeviceProperties, \
	  (struct cudaDeviceProp *properties, int device), \
	  (properties, device)) \
	X(0, cudaError_t, cudaDeviceGetAttribute, \
	  (int *value, enum cudaDeviceAttr attribute, int device), \
	  (value, attribute, device)) \
	X(0, cudaError_t, cudaDeviceGetPCIBusId, \
	  (char *id, int length, int device), (id, length, device)) \
	X(0, cudaError_t, cudaDeviceGetByPCIBusId, \
	  (int *device, const char *id), (device, id)) \
	X(0, cudaError_t, cudaDeviceDisablePeerAccess, (int peer), (peer)) \
	X(0, cudaError_t, cudaDeviceGetP2PAttribute, \
	  (int *value, enum cudaDeviceP2PAttr attribute, int from, int to), \
	  (value, attribute, from, to)) \
	X(0, cudaError_t, cudaDeviceReset, (void), ()) \
	X(0, cudaError_t, cudaSetDeviceFlags, (unsigned int flags), (flags)) \
	X(0, cudaError_t, cudaGetDeviceFlags, (unsigned int *flags), (flags)) \
	X(0, cudaError_t, cudaInitDevice, \
	  (int device, unsigned int device_flags, unsigned int flags), \
	  (device, device_flags, flags)) \
	X(0, cudaError_t, cudaSetValidDevices, (int *devices, int count), \
	  (devices, count)) \
	X(0, cudaError_t, cudaChooseDevice, \
	  (int *device, const struct cudaDeviceProp *properties), \
	  (device, properties)) \
	X(0, cudaError_t, cudaDeviceGetStreamPriorityRange, \
	  (int *least, int *greatest), (least, greatest)) \
	X(0, cudaError_t, cudaDeviceSetLimit, \
	  (enum cudaLimit limit, size_t value), (limit, value)) \
	X(0, cudaError_t, cudaDeviceGetLimit, \
	  (size_t *value, enum cudaLimit limit), (value, limit)) \
	X(0, cudaError_t, cudaMemGetInfo, (size_t *free, size_t *total), \
	  (free, total)) \
	X(0, cudaError_t, cudaMallocManaged, \
	  (void **memory, size_t bytes, unsigned int flags), \
	  (memory, bytes, flags)) \
	X(0, cudaError_t, cudaMallocPitch, \
	  (void **memory, size_t *pitch, size_t width, size_t height), \
	  (memory, pitch, width, height)) \
	X(0, cudaError_t, cudaHostRegister, \
	  (void *memory, size_t bytes, unsigned int flags), \
	  (memory, bytes, flags)) \
	X(0, cudaError_t, cudaHostUnregister, (void *memory), (memory)) \
	X(0, cudaError_t, cudaHostGetDevicePointer, \
	  (void **device, void *host, unsigned int flags), \
	  (device, host, flags)) \
	X(0, cudaError_t, cudaHostGetFlags, \
	  (unsigned int *flags, void *host), (flags, host)) \
	X(13000, cudaError_t, cudaMemAdvise, \
	  (const void *memory, size_t bytes, enum cudaMemoryAdvise advice, \
	   struct cudaMemLocation location), \
	  (memory, bytes, advice, location)) \
	X(13000, cudaError_t, cudaMemPrefetchAsync, \
	  (const void *memory, size_t bytes, struct cudaMemLocation location, \
	   unsigned int flags, cudaStream_t stream), \
	  (memory, bytes, location, flags, stream)) \
	X(0, cudaError_t, cudaMallocAsync, \
	  (void **memory, size_t bytes, cudaStream_t stream), \
	  (memory, bytes, stream)) \
	X(0, cudaError_t, cudaFreeAsync, \
	  (void *memory, cudaStream_t stream), (memory, stream)) \
	X(0, cudaError_t, cudaMallocFromPoolAsync, \
	  (void **memory, size_t bytes, cudaMemPool_t pool, \
	   cudaStream_t stream), \
	  (memory, bytes, pool, stream)) \
	X(0, cudaError_t, cudaMemPoolCreate, \
	  (cudaMemPool_t *pool, const struct cudaMemPoolProps *props), \
	  (pool, props)) \
	X(0, cudaError_t, cudaMemPoolDestroy, (cudaMemPool_t pool), (pool)) \
	X(0, cudaError_t, cudaMemPoolTrimTo, \
	  (cudaMemPool_t pool, size_t bytes), (pool, bytes)) \
	X(0, cudaError_t, cudaMemPoolSetAttribute, \
	  (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value), \
	  (pool, attribute, value)) \
	X(0, cudaError_t, cudaMemPoolGetAttribute, \
	  (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value), \
	  (pool, attribute, value)) \
	X(0, cudaError_t, cudaMemPoolSetAccess, \
	  (cudaMemPool_t pool, const struct cudaMemAccessDesc *list, \
	   size_t count), \
	  (pool, list, count)) \
	X(0, cudaError_t, cudaMemPoolGetAccess, \
	  (enum cudaMemAccessFlags *flags, cudaMemPool_t pool, \
	   struct cudaMemLocation *location), \
	  (flags, pool, location)) \
	X(0, cudaError_t, cudaDeviceGetDefaultMemPool, \
	  (cudaMemPool_t *pool, int device), (pool, device)) \
	X(0, cudaError_t, cudaDeviceGetMemPool, \
	  (cudaMemPool_t *pool, int device), (pool, device)) \
	X(0, cudaError_t, cudaDeviceSetMemPool, \
	  (int device, cudaMemPool_t pool), (device, pool)) \
	X(0, cudaError_t, cudaMemcpy2D, \
	  (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, \
	   size_t width, size_t height, enum cudaMemcpyKind kind), \
	  (dst, dst_pitch, src, src_pitch, width, height, kind)) \
	X(0, cudaError_t, cudaMemcpy2DAsync, \
	  (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, \
	   size_t width, size_t height, enum cudaMemcpyKind kind, \
	   cudaStream_t stream), \
	  (dst, dst_pitch, src, src_pitch, width, height, kind, stream)) \
	X(0, cudaError_t, cudaMemset2D, \
	  (void *memory, size_t pitch, int value, size_t width, \
	   size_t height), \
	  (memory, pitch, value, width, height)) \
	X(0, cudaError_t, cudaMemset2DAsync, \
	  (void *memory, size_t pitch, int value, size_t width, \
	   size_t height, cudaStream_t stream), \
	  (memory, pitch, value, width, height, stream)) \
	X(0, cudaError_t, cudaMemcpyPeer, \
	  (void *dst, int dst_device, const void *src, int src_device, \
	   size_t bytes), \
	  (dst, dst_device, src, src_device, bytes)) \
	X(0, cudaError_t, cudaIpcGetMemHandle, \
	  (cudaIpcMemHandle_t *handle, void *memory), (handle, memory)) \
	X(0, cudaError_t, cudaIpcOpenMemHandle, \
	  (void **memory, cudaIpcMemHandle_t handle, unsigned int flags), \
	  (memory, handle, flags)) \
	X(0, cudaError_t, cudaIpcCloseMemHandle, (void *memory), (memory)) \
	X(0, cudaError_t, cudaIpcGetEventHandle, \
	  (cudaIpcEventHandle_t *handle, cudaEvent_t event), \
	  (handle, event)) \
	X(0, cudaError_t, cudaIpcOpenEventHandle, \
	  (cudaEvent_t *event, cudaIpcEventHandle_t handle), \
	  (event, handle)) \
	X(0, cudaError_t, cudaStreamGetFlags, \
	  (cudaStream_t stream, unsigned int *flags), (stream, flags)) \
	X(0, cudaError_t, cudaStreamGetPriority, \
	  (cudaStream_t stream, int *priority), (stream, priority)) \
	X(0, cudaError_t, cudaStreamGetId, \
	  (cudaStream_t stream, unsigned long long *id), (stream, id)) \
	X(0, cudaError_t, cudaStreamCopyAttributes, \
	  (cudaStream_t dst, cudaStream_t src), (dst, src)) \
	X(0, cudaError_t, cudaStreamGetAttribute, \
	  (cudaStream_t stream, cudaStreamAttrID id, \
	   cudaStreamAttrValue *value), \
	  (stream, id, value)) \
	X(0, cudaError_t, cudaStreamSetAttribute, \
	  (cudaStream_t stream, cudaStreamAttrID id, \
	   const cudaStreamAttrValue *value), \
	  (stream, id, value)) \
	X(0, cudaError_t, cudaStreamAddCallback, \
	  (cudaStream_t stream, cudaStreamCallback_t fn, void *user, \
	   unsigned int flags), \
	  (stream, fn, user, flags)) \
	X(0, cudaError_t, cudaStreamAttachMemAsync, \
	  (cudaStream_t stream, void *memory, size_t bytes, \
	   unsigned int flags), \
	  (stream, memory, bytes, flags)) \
	X(0, cudaError_t, cudaGetDriverEntryPoint, \
	  (const char *symbol, void **out, unsigned long long flags, \
	   enum cudaDriverEntryPointQueryResult *status), \
	  (symbol, out, flags, status)) \
	X(12050, cudaError_t, cudaGetDriverEntryPointByVersion, \
	  (const char *symbol, void **out, unsigned int version, \
	   unsigned long long flags, \
	   enum cudaDriverEntryPointQueryResult *status), \
	  (symbol, out, version, flags, status)) \
	X(0, cudaError_t, cudaEventRecordWithFlags, \
	  (cudaEvent_t event, cudaStream_t stream, unsigned int flags), \
	  (event, stream, flags)) \
	X(0, cudaError_t, cudaStreamBeginCapture, \
	  (cudaStream_t stream, enum cudaStreamCaptureMode mode), \
	  (stream, mode)) \
	X(0, cudaError_t, cudaStreamEndCapture, \
	  (cudaStream_t stream, cudaGraph_t *graph), (stream, graph)) \
	X(13000, cudaError_t, cudaStreamGetCaptureInfo, \
	  (cudaStream_t stream, enum cudaStreamCaptureStatus *status, \
	   unsigned long long *id, cudaGraph_t *graph, \
	   const cudaGraphNode_t **after, const cudaGraphEdgeData **edges, \
	   size_t *count), \
	  (stream, status, id, graph, after, edges, count)) \
	X(13000, cudaError_t, cudaStreamUpdateCaptureDependencies, \
	  (cudaStream_t stream, cudaGraphNode_t *nodes, \
	   const cudaGraphEdgeData *edges, size_t count, \
	   unsigned int flags), \
	  (stream, nodes, edges, count, flags)) \
	X(0, cudaError_t, cudaGraphCreate, \
	  (cudaGraph_t *graph, unsigned int flags), (graph, flags)) \
	X(0, cudaError_t, cudaGraphDestroy, (cudaGraph_t graph), (graph)) \
	X(0, cudaError_t, cudaGraphAddEventRecordNode, \
	  (cudaGraphNode_t *node, cudaGraph_t graph, \
	   const cudaGraphNode_t *after, size_t count, cudaEvent_t event), \
	  (node, graph, after, count, event)) \
	X(13000, cudaError_t, cudaGraphAddDependencies, \
	  (cudaGraph_t graph, const cudaGraphNode_t *from, \
	   const cudaGraphNode_t *to, const cudaGraphEdgeData *edges, \
	   size_t count), \
	  (graph, from, to, edges, count)) \
	X(0, cudaError_t, cudaUserObjectCreate, \
	  (cudaUserObject_t *object, void *user, cudaHostFn_t end, \
	   unsigned int uses, unsigned int flags), \
	  (object, user, end, uses, flags)) \
	X(0, cudaError_t, cudaUserObjectRetain, \
	  (cudaUserObject_t object, unsigned int count), (object, count)) \
	X(0, cudaError_t, cudaUserObjectRelease, \
	  (cudaUserObject_t object, unsigned int count), (object, count)) \
	X(0, cudaError_t, cudaGraphRetainUserObject, \
	  (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, \
	   unsigned int flags), \
	  (graph, object, count, flags)) \
	X(0, cudaError_t, cudaGraphReleaseUserObject, \
	  (cudaGraph_t graph, cudaUserObject_t object, unsigned int count), \
	  (graph, object, count)) \
	X(0, cudaError_t, cudaGraphGetNodes, \
	  (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), \
	  (graph, nodes, count)) \
	X(0, cudaError_t, cudaGraphGetRootNodes, \
	  (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), \
	  (graph, nodes, count)) \
	X(0, cudaError_t, cudaGraphNodeGetType, \
	  (cudaGraphNode_t node, enum cudaGraphNodeType *type), \
	  (node, type)) \
	X(0, cudaError_t, cudaGraphInstantiate, \
	  (cudaGraphExec_t *exec, cudaGraph_t graph, \
	   unsigned long long flags), \
	  (exec, graph, flags)) \
	X(0, cudaError_t, cudaGraphInstantiateWithFlags, \
	  (cudaGraphExec_t *exec, cudaGraph_t graph, \
	   unsigned long long flags), \
	  (exec, graph, flags)) \
	X(0, cudaError_t, cudaGraphExecGetFlags, \
	  (cudaGraphExec_t exec, unsigned long long *flags), (exec, flags)) \
	X(0, cudaError_t, cudaGraphExecDestroy, \
	  (cudaGraphExec_t exec), (exec)) \
	X(0, cudaError_t, cudaGraphLaunch, \
	  (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream)) \
	X(0, cudaError_t, cudaGraphUpload, \
	  (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))

/*
 * Functions that libcudart.so.12 has with another signature, or under another
 * name, too: host12_cudaMemAdvise() stands for the cudaMemAdvise() of CUDA 12.
 */
#define HOST_CUDA12_FUNCTIONS(X) \
	X(0, cudaError_t, cudaGetDeviceProperties, \
	  (struct cudaDeviceProp12 *properties, int device), \
	  (properties, device)) \
	X(0, cudaError_t, cudaGetDeviceProperties_v2, \
	  (struct cudaDeviceProp12 *properties, int device), \
	  (properties, device)) \
	X(0, cudaError_t, cudaPointerGetAttributes, \
	  (struct cudaPointerAttributes *attributes, const void *memory), \
	  (attributes, memory)) \
	X(0, cudaError_t, cudaMemAdvise, \
	  (const void *memory, size_t bytes, enum cudaMemoryAdvise advice, \
	   int device), \
	  (memory, bytes, advice, device)) \
	X(0, cudaError_t, cudaMemPrefetchAsync, \
	  (const void *memory, size_t bytes, int device, \
	   cudaStream_t stream), \
	  (memory, bytes, device, stream)) \
	X(0, cudaError_t, cudaStreamGetCaptureInfo, \
	  (cudaStream_t stream, enum cudaStreamCaptureStatus *status, \
	   unsigned long long *id), \
	  (stream, status, id)) \
	X(0, cudaError_t, cudaStreamGetCaptureInfo_v2, \
	  (cudaStream_t stream, enum cudaStreamCaptureStatus *status, \
	   unsigned long long *id, cudaGraph_t *graph, \
	   const cudaGraphNode_t **after, size_t *count), \
	  (stream, status, id, graph, after, count)) \
	X(0, cudaError_t, cudaStreamUpdateCaptureDependencies, \
	  (cudaStream_t stream, cudaGraphNode_t *nodes, size_t count, \
	   unsigned int flags), \
	  (stream, nodes, count, flags)) \
	X(0, cudaError_t, cudaGraphAddDependencies, \
	  (cudaGraph_t graph, const cudaGraphNode_t *from, \
	   const cudaGraphNode_t *to, size_t count), \
	  (graph, from, to, count))
/* clang-format on */

#endif
