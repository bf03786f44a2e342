/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_FUNCTIONS_H
#define PLATFORM_FUNCTIONS_H

/*
 * The functions of a platform, once: X(since, result, name, parameters,
 * arguments).
 *
 * @since is the first version (as ncclGetVersion() and cudaRuntimeGetVersion()
 * give it) that has the function, or 0 for those that the oldest version that
 * is accepted has: a function with a version is optional, and where it is
 * missing the table's entry answers that it is.
 *
 * From these lists come the table (platform.h), its filling from the real
 * libraries (load.c) and from the host platform (host/host.c), the tables that
 * tests put in between, and the check of every signature against the real
 * headers (tests/system/abi).  No types are declared here: the list means the
 * same after our ABI headers and after the real ones.
 */

/* clang-format off */
#define NCCL_FUNCTIONS(X) \
	X(0, ncclResult_t, ncclGetVersion, (int *version), (version)) \
	X(0, ncclResult_t, ncclGetUniqueId, (ncclUniqueId *id), (id)) \
	X(0, ncclResult_t, ncclCommInitRank, \
	  (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank), \
	  (comm, nranks, id, rank)) \
	X(0, ncclResult_t, ncclCommInitAll, \
	  (ncclComm_t *comms, int ndev, const int *devlist), \
	  (comms, ndev, devlist)) \
	X(0, ncclResult_t, ncclCommFinalize, (ncclComm_t comm), (comm)) \
	X(0, ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm)) \
	X(0, ncclResult_t, ncclCommAbort, (ncclComm_t comm), (comm)) \
	X(0, const char *, ncclGetErrorString, (ncclResult_t result), (result)) \
	X(0, const char *, ncclGetLastError, (ncclComm_t comm), (comm)) \
	X(0, ncclResult_t, ncclCommGetAsyncError, \
	  (ncclComm_t comm, ncclResult_t *async), (comm, async)) \
	X(0, ncclResult_t, ncclCommCount, \
	  (const ncclComm_t comm, int *count), (comm, count)) \
	X(0, ncclResult_t, ncclCommCuDevice, \
	  (const ncclComm_t comm, int *device), (comm, device)) \
	X(0, ncclResult_t, ncclCommUserRank, \
	  (const ncclComm_t comm, int *rank), (comm, rank)) \
	X(0, ncclResult_t, ncclReduce, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, op, root, comm, stream)) \
	X(0, ncclResult_t, ncclBroadcast, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   int root, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, root, comm, stream)) \
	X(0, ncclResult_t, ncclAllReduce, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, op, comm, stream)) \
	X(0, ncclResult_t, ncclReduceScatter, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, op, comm, stream)) \
	X(0, ncclResult_t, ncclAllGather, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, comm, stream)) \
	X(0, ncclResult_t, ncclCommInitRankConfig, \
	  (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, \
	   ncclConfig_t *config), \
	  (comm, nranks, id, rank, config)) \
	X(0, ncclResult_t, ncclCommInitRankScalable, \
	  (ncclComm_t *comm, int nranks, int rank, int id_count, \
	   ncclUniqueId *ids, ncclConfig_t *config), \
	  (comm, nranks, rank, id_count, ids, config)) \
	X(0, ncclResult_t, ncclCommSplit, \
	  (ncclComm_t comm, int color, int key, ncclComm_t *child, \
	   ncclConfig_t *config), \
	  (comm, color, key, child, config)) \
	X(22703, ncclResult_t, ncclCommShrink, \
	  (ncclComm_t comm, int *excluded, int excluded_count, \
	   ncclComm_t *child, ncclConfig_t *config, int flags), \
	  (comm, excluded, excluded_count, child, config, flags)) \
	X(22807, ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags), \
	  (comm, flags)) \
	X(0, ncclResult_t, ncclMemAlloc, (void **memory, size_t bytes), \
	  (memory, bytes)) \
	X(0, ncclResult_t, ncclMemFree, (void *memory), (memory)) \
	X(0, ncclResult_t, ncclCommRegister, \
	  (const ncclComm_t comm, void *memory, size_t bytes, void **handle), \
	  (comm, memory, bytes, handle)) \
	X(0, ncclResult_t, ncclCommDeregister, \
	  (const ncclComm_t comm, void *handle), (comm, handle)) \
	X(22703, ncclResult_t, ncclCommWindowRegister, \
	  (ncclComm_t comm, void *memory, size_t bytes, \
	   ncclWindow_t *window, int flags), \
	  (comm, memory, bytes, window, flags)) \
	X(22703, ncclResult_t, ncclCommWindowDeregister, \
	  (ncclComm_t comm, ncclWindow_t window), (comm, window)) \
	X(0, ncclResult_t, ncclRedOpCreatePreMulSum, \
	  (ncclRedOp_t *op, void *scalar, ncclDataType_t type, \
	   ncclScalarResidence_t residence, ncclComm_t comm), \
	  (op, scalar, type, residence, comm)) \
	X(0, ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), \
	  (op, comm)) \
	X(0, ncclResult_t, ncclBcast, \
	  (void *memory, size_t count, ncclDataType_t type, int root, \
	   ncclComm_t comm, cudaStream_t stream), \
	  (memory, count, type, root, comm, stream)) \
	X(22803, ncclResult_t, ncclAlltoAll, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, comm, stream)) \
	X(22803, ncclResult_t, ncclGather, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   int root, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, root, comm, stream)) \
	X(22803, ncclResult_t, ncclScatter, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   int root, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, root, comm, stream)) \
	X(0, ncclResult_t, ncclSend, \
	  (const void *send, size_t count, ncclDataType_t type, int peer, \
	   ncclComm_t comm, cudaStream_t stream), \
	  (send, count, type, peer, comm, stream)) \
	X(0, ncclResult_t, ncclRecv, \
	  (void *recv, size_t count, ncclDataType_t type, int peer, \
	   ncclComm_t comm, cudaStream_t stream), \
	  (recv, count, type, peer, comm, stream)) \
	X(0, ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t *info), (info)) \
	X(0, ncclResult_t, ncclGroupStart, (void), ()) \
	X(0, ncclResult_t, ncclGroupEnd, (void), ())

#define CUDA_FUNCTIONS(X) \
	X(0, cudaError_t, cudaRuntimeGetVersion, (int *version), (version)) \
	X(0, cudaError_t, cudaDriverGetVersion, (int *version), (version)) \
	X(0, cudaError_t, cudaGetDeviceCount, (int *count), (count)) \
	X(0, cudaError_t, cudaGetDevice, (int *device), (device)) \
	X(0, cudaError_t, cudaSetDevice, (int device), (device)) \
	X(0, cudaError_t, cudaDeviceSynchronize, (void), ()) \
	X(0, cudaError_t, cudaMalloc, (void **memory, size_t bytes), \
	  (memory, bytes)) \
	X(0, cudaError_t, cudaFree, (void *memory), (memory)) \
	X(0, cudaError_t, cudaHostAlloc, \
	  (void **memory, size_t bytes, unsigned int flags), \
	  (memory, bytes, flags)) \
	X(0, cudaError_t, cudaMallocHost, (void **memory, size_t bytes), \
	  (memory, bytes)) \
	X(0, cudaError_t, cudaFreeHost, (void *memory), (memory)) \
	X(0, cudaError_t, cudaPointerGetAttributes, \
	  (struct cudaPointerAttributes *attributes, const void *memory), \
	  (attributes, memory)) \
	X(0, cudaError_t, cudaMemcpy, \
	  (void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind), \
	  (dst, src, bytes, kind)) \
	X(0, cudaError_t, cudaMemcpyAsync, \
	  (void *dst, const void *src, size_t bytes, \
	   enum cudaMemcpyKind kind, cudaStream_t stream), \
	  (dst, src, bytes, kind, stream)) \
	X(0, cudaError_t, cudaDeviceCanAccessPeer, \
	  (int *can, int device, int peer), (can, device, peer)) \
	X(0, cudaError_t, cudaDeviceEnablePeerAccess, \
	  (int peer, unsigned int flags), (peer, flags)) \
	X(0, cudaError_t, cudaMemcpyPeerAsync, \
	  (void *dst, int dst_device, const void *src, int src_device, \
	   size_t bytes, cudaStream_t stream), \
	  (dst, dst_device, src, src_device, bytes, stream)) \
	X(0, cudaError_t, cudaMemset, (void *memory, int value, size_t bytes), \
	  (memory, value, bytes)) \
	X(0, cudaError_t, cudaMemsetAsync, \
	  (void *memory, int value, size_t bytes, cudaStream_t stream), \
	  (memory, value, bytes, stream)) \
	X(0, cudaError_t, cudaStreamCreate, (cudaStream_t *stream), (stream)) \
	X(0, cudaError_t, cudaStreamCreateWithFlags, \
	  (cudaStream_t *stream, unsigned int flags), (stream, flags)) \
	X(0, cudaError_t, cudaStreamCreateWithPriority, \
	  (cudaStream_t *stream, unsigned int flags, int priority), \
	  (stream, flags, priority)) \
	X(0, cudaError_t, cudaStreamDestroy, (cudaStream_t stream), (stream)) \
	X(0, cudaError_t, cudaStreamSynchronize, (cudaStream_t stream), (stream)) \
	X(0, cudaError_t, cudaStreamQuery, (cudaStream_t stream), (stream)) \
	X(12080, cudaError_t, cudaStreamGetDevice, \
	  (cudaStream_t stream, int *device), (stream, device)) \
	X(0, cudaError_t, cudaStreamIsCapturing, \
	  (cudaStream_t stream, enum cudaStreamCaptureStatus *status), \
	  (stream, status)) \
	X(0, cudaError_t, cudaThreadExchangeStreamCaptureMode, \
	  (enum cudaStreamCaptureMode *mode), (mode)) \
	X(0, cudaError_t, cudaStreamWaitEvent, \
	  (cudaStream_t stream, cudaEvent_t event, unsigned int flags), \
	  (stream, event, flags)) \
	X(0, cudaError_t, cudaLaunchHostFunc, \
	  (cudaStream_t stream, cudaHostFn_t fn, void *user), \
	  (stream, fn, user)) \
	X(0, cudaError_t, cudaEventCreate, (cudaEvent_t *event), (event)) \
	X(0, cudaError_t, cudaEventCreateWithFlags, \
	  (cudaEvent_t *event, unsigned int flags), (event, flags)) \
	X(0, cudaError_t, cudaEventDestroy, (cudaEvent_t event), (event)) \
	X(0, cudaError_t, cudaEventRecord, \
	  (cudaEvent_t event, cudaStream_t stream), (event, stream)) \
	X(0, cudaError_t, cudaEventQuery, (cudaEvent_t event), (event)) \
	X(0, cudaError_t, cudaEventSynchronize, (cudaEvent_t event), (event)) \
	X(0, cudaError_t, cudaEventElapsedTime, \
	  (float *ms, cudaEvent_t start, cudaEvent_t end), (ms, start, end)) \
	X(0, const char *, cudaGetErrorName, (cudaError_t error), (error)) \
	X(0, const char *, cudaGetErrorString, (cudaError_t error), (error)) \
	X(0, cudaError_t, cudaGetLastError, (void), ()) \
	X(0, cudaError_t, cudaPeekAtLastError, (void), ())
/* clang-format on */

#endif
