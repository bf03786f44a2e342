/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_FUNCTIONS_H
#define PLATFORM_FUNCTIONS_H

/*
 * The functions of a platform, once: X(result, name, parameters, arguments).
 *
 * From these lists come the table (platform.h), its filling from the real
 * libraries (gpu.c) and from the host platform (host/host.c), the tables that
 * tests put in between, and the check of every signature against the real
 * headers (tests/abi).  No types are declared here: the list means the same
 * after our ABI headers and after the real ones.
 */

/* clang-format off */
#define NCCL_FUNCTIONS(X) \
	X(ncclResult_t, ncclGetVersion, (int *version), (version)) \
	X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *id), (id)) \
	X(ncclResult_t, ncclCommInitRank, \
	  (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank), \
	  (comm, nranks, id, rank)) \
	X(ncclResult_t, ncclCommInitAll, \
	  (ncclComm_t *comms, int ndev, const int *devlist), \
	  (comms, ndev, devlist)) \
	X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm), (comm)) \
	X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm)) \
	X(ncclResult_t, ncclCommAbort, (ncclComm_t comm), (comm)) \
	X(const char *, ncclGetErrorString, (ncclResult_t result), (result)) \
	X(const char *, ncclGetLastError, (ncclComm_t comm), (comm)) \
	X(ncclResult_t, ncclCommGetAsyncError, \
	  (ncclComm_t comm, ncclResult_t *async), (comm, async)) \
	X(ncclResult_t, ncclCommCount, \
	  (const ncclComm_t comm, int *count), (comm, count)) \
	X(ncclResult_t, ncclCommCuDevice, \
	  (const ncclComm_t comm, int *device), (comm, device)) \
	X(ncclResult_t, ncclCommUserRank, \
	  (const ncclComm_t comm, int *rank), (comm, rank)) \
	X(ncclResult_t, ncclReduce, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, op, root, comm, stream)) \
	X(ncclResult_t, ncclBroadcast, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   int root, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, root, comm, stream)) \
	X(ncclResult_t, ncclAllReduce, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, op, comm, stream)) \
	X(ncclResult_t, ncclReduceScatter, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, op, comm, stream)) \
	X(ncclResult_t, ncclAllGather, \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, \
	   ncclComm_t comm, cudaStream_t stream), \
	  (send, recv, count, type, comm, stream)) \
	X(ncclResult_t, ncclGroupStart, (void), ()) \
	X(ncclResult_t, ncclGroupEnd, (void), ())

#define CUDA_FUNCTIONS(X) \
	X(cudaError_t, cudaRuntimeGetVersion, (int *version), (version)) \
	X(cudaError_t, cudaDriverGetVersion, (int *version), (version)) \
	X(cudaError_t, cudaGetDeviceCount, (int *count), (count)) \
	X(cudaError_t, cudaGetDevice, (int *device), (device)) \
	X(cudaError_t, cudaSetDevice, (int device), (device)) \
	X(cudaError_t, cudaDeviceSynchronize, (void), ()) \
	X(cudaError_t, cudaMalloc, (void **memory, size_t bytes), \
	  (memory, bytes)) \
	X(cudaError_t, cudaFree, (void *memory), (memory)) \
	X(cudaError_t, cudaHostAlloc, \
	  (void **memory, size_t bytes, unsigned int flags), \
	  (memory, bytes, flags)) \
	X(cudaError_t, cudaMallocHost, (void **memory, size_t bytes), \
	  (memory, bytes)) \
	X(cudaError_t, cudaFreeHost, (void *memory), (memory)) \
	X(cudaError_t, cudaMemcpy, \
	  (void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind), \
	  (dst, src, bytes, kind)) \
	X(cudaError_t, cudaMemcpyAsync, \
	  (void *dst, const void *src, size_t bytes, \
	   enum cudaMemcpyKind kind, cudaStream_t stream), \
	  (dst, src, bytes, kind, stream)) \
	X(cudaError_t, cudaMemset, (void *memory, int value, size_t bytes), \
	  (memory, value, bytes)) \
	X(cudaError_t, cudaMemsetAsync, \
	  (void *memory, int value, size_t bytes, cudaStream_t stream), \
	  (memory, value, bytes, stream)) \
	X(cudaError_t, cudaStreamCreate, (cudaStream_t *stream), (stream)) \
	X(cudaError_t, cudaStreamCreateWithFlags, \
	  (cudaStream_t *stream, unsigned int flags), (stream, flags)) \
	X(cudaError_t, cudaStreamDestroy, (cudaStream_t stream), (stream)) \
	X(cudaError_t, cudaStreamSynchronize, (cudaStream_t stream), (stream)) \
	X(cudaError_t, cudaStreamQuery, (cudaStream_t stream), (stream)) \
	X(cudaError_t, cudaStreamWaitEvent, \
	  (cudaStream_t stream, cudaEvent_t event, unsigned int flags), \
	  (stream, event, flags)) \
	X(cudaError_t, cudaLaunchHostFunc, \
	  (cudaStream_t stream, cudaHostFn_t fn, void *user), \
	  (stream, fn, user)) \
	X(cudaError_t, cudaEventCreate, (cudaEvent_t *event), (event)) \
	X(cudaError_t, cudaEventCreateWithFlags, \
	  (cudaEvent_t *event, unsigned int flags), (event, flags)) \
	X(cudaError_t, cudaEventDestroy, (cudaEvent_t event), (event)) \
	X(cudaError_t, cudaEventRecord, \
	  (cudaEvent_t event, cudaStream_t stream), (event, stream)) \
	X(cudaError_t, cudaEventQuery, (cudaEvent_t event), (event)) \
	X(cudaError_t, cudaEventSynchronize, (cudaEvent_t event), (event)) \
	X(cudaError_t, cudaEventElapsedTime, \
	  (float *ms, cudaEvent_t start, cudaEvent_t end), (ms, start, end)) \
	X(const char *, cudaGetErrorName, (cudaError_t error), (error)) \
	X(const char *, cudaGetErrorString, (cudaError_t error), (error)) \
	X(cudaError_t, cudaGetLastError, (void), ()) \
	X(cudaError_t, cudaPeekAtLastError, (void), ())
/* clang-format on */

#endif
