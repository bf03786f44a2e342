/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_FUNCTIONS_H
#define PLATFORM_FUNCTIONS_H

/*
 * The functions of a platform: X(since, result, name, parameters, arguments)
 *
 * @since is the first version that has the function, in terms of
 * ncclGetVersion() or cudaRuntimeGetVersion().  It is 0 if the oldest supported
 * version has the function.  A function with a version is optional: if it is
 * missing, the table's entry returns an error.
 *
 * These lists generate the table (platform.h), the code that fills it from the
 * real libraries (load.c) and from the host platform (sim/host.c), the tables
 * with which tests intercept calls, and the check of every signature against
 * the real headers (tests/system/abi).  No types are declared here, so that the
 * lists can be used with our ABI headers and with the real ones.
 */

#include "platform/signatures.h"

/* clang-format off */
#define NCCL_FUNCTIONS(X) \
	NCCL_FN(X, 0, ncclGetVersion, (int *, version)) \
	NCCL_FN(X, 0, ncclGetUniqueId, (ncclUniqueId *, id)) \
	NCCL_FN(X, 0, ncclCommInitRank, \
	  (ncclComm_t *, comm, int, nranks, ncclUniqueId, id, int, rank)) \
	NCCL_FN(X, 0, ncclCommInitAll, \
	  (ncclComm_t *, comms, int, ndev, const int *, devlist)) \
	NCCL_FN(X, 0, ncclCommFinalize, (ncclComm_t, comm)) \
	NCCL_FN(X, 0, ncclCommDestroy, (ncclComm_t, comm)) \
	NCCL_FN(X, 0, ncclCommAbort, (ncclComm_t, comm)) \
	FN(X, 0, const char *, ncclGetErrorString, (ncclResult_t, result)) \
	FN(X, 0, const char *, ncclGetLastError, (ncclComm_t, comm)) \
	NCCL_FN(X, 0, ncclCommGetAsyncError, \
	  (ncclComm_t, comm, ncclResult_t *, async)) \
	NCCL_FN(X, 0, ncclCommCount, (const ncclComm_t, comm, int *, count)) \
	NCCL_FN(X, 0, ncclCommCuDevice, \
	  (const ncclComm_t, comm, int *, device)) \
	NCCL_FN(X, 0, ncclCommUserRank, (const ncclComm_t, comm, int *, rank)) \
	NCCL_FN(X, 0, ncclReduce, \
	  (const void *, send, void *, recv, size_t, count, \
	   ncclDataType_t, type, ncclRedOp_t, op, int, root, ncclComm_t, comm, \
	   cudaStream_t, stream)) \
	NCCL_FN(X, 0, ncclBroadcast, \
	  (const void *, send, void *, recv, size_t, count, \
	   ncclDataType_t, type, int, root, ncclComm_t, comm, \
	   cudaStream_t, stream)) \
	NCCL_FN(X, 0, ncclAllReduce, \
	  (const void *, send, void *, recv, size_t, count, \
	   ncclDataType_t, type, ncclRedOp_t, op, ncclComm_t, comm, \
	   cudaStream_t, stream)) \
	NCCL_FN(X, 0, ncclReduceScatter, \
	  (const void *, send, void *, recv, size_t, count, \
	   ncclDataType_t, type, ncclRedOp_t, op, ncclComm_t, comm, \
	   cudaStream_t, stream)) \
	NCCL_FN(X, 0, ncclAllGather, \
	  (const void *, send, void *, recv, size_t, count, \
	   ncclDataType_t, type, ncclComm_t, comm, cudaStream_t, stream)) \
	NCCL_FN(X, 0, ncclCommInitRankConfig, \
	  (ncclComm_t *, comm, int, nranks, ncclUniqueId, id, int, rank, \
	   ncclConfig_t *, config)) \
	NCCL_FN(X, 0, ncclCommInitRankScalable, \
	  (ncclComm_t *, comm, int, nranks, int, rank, int, id_count, \
	   ncclUniqueId *, ids, ncclConfig_t *, config)) \
	NCCL_FN(X, 0, ncclCommSplit, \
	  (ncclComm_t, comm, int, color, int, key, ncclComm_t *, child, \
	   ncclConfig_t *, config)) \
	NCCL_FN(X, 22703, ncclCommShrink, \
	  (ncclComm_t, comm, int *, excluded, int, excluded_count, \
	   ncclComm_t *, child, ncclConfig_t *, config, int, flags)) \
	NCCL_FN(X, 22807, ncclCommRevoke, (ncclComm_t, comm, int, flags)) \
	NCCL_FN(X, 0, ncclMemAlloc, (void **, memory, size_t, bytes)) \
	NCCL_FN(X, 0, ncclMemFree, (void *, memory)) \
	NCCL_FN(X, 0, ncclCommRegister, \
	  (const ncclComm_t, comm, void *, memory, size_t, bytes, \
	   void **, handle)) \
	NCCL_FN(X, 0, ncclCommDeregister, \
	  (const ncclComm_t, comm, void *, handle)) \
	NCCL_FN(X, 22703, ncclCommWindowRegister, \
	  (ncclComm_t, comm, void *, memory, size_t, bytes, \
	   ncclWindow_t *, window, int, flags)) \
	NCCL_FN(X, 22703, ncclCommWindowDeregister, \
	  (ncclComm_t, comm, ncclWindow_t, window)) \
	NCCL_FN(X, 0, ncclRedOpCreatePreMulSum, \
	  (ncclRedOp_t *, op, void *, scalar, ncclDataType_t, type, \
	   ncclScalarResidence_t, residence, ncclComm_t, comm)) \
	NCCL_FN(X, 0, ncclRedOpDestroy, (ncclRedOp_t, op, ncclComm_t, comm)) \
	NCCL_FN(X, 0, ncclBcast, \
	  (void *, memory, size_t, count, ncclDataType_t, type, int, root, \
	   ncclComm_t, comm, cudaStream_t, stream)) \
	NCCL_FN(X, 22803, ncclAlltoAll, \
	  (const void *, send, void *, recv, size_t, count, \
	   ncclDataType_t, type, ncclComm_t, comm, cudaStream_t, stream)) \
	NCCL_FN(X, 22803, ncclGather, \
	  (const void *, send, void *, recv, size_t, count, \
	   ncclDataType_t, type, int, root, ncclComm_t, comm, \
	   cudaStream_t, stream)) \
	NCCL_FN(X, 22803, ncclScatter, \
	  (const void *, send, void *, recv, size_t, count, \
	   ncclDataType_t, type, int, root, ncclComm_t, comm, \
	   cudaStream_t, stream)) \
	NCCL_FN(X, 0, ncclSend, \
	  (const void *, send, size_t, count, ncclDataType_t, type, int, peer, \
	   ncclComm_t, comm, cudaStream_t, stream)) \
	NCCL_FN(X, 0, ncclRecv, \
	  (void *, recv, size_t, count, ncclDataType_t, type, int, peer, \
	   ncclComm_t, comm, cudaStream_t, stream)) \
	NCCL_FN(X, 0, ncclGroupSimulateEnd, (ncclSimInfo_t *, info)) \
	NCCL_FN(X, 0, ncclGroupStart, ()) \
	NCCL_FN(X, 0, ncclGroupEnd, ())

#define CUDA_FUNCTIONS(X) \
	CUDA_FN(X, 0, cudaRuntimeGetVersion, (int *, version)) \
	CUDA_FN(X, 0, cudaDriverGetVersion, (int *, version)) \
	CUDA_FN(X, 0, cudaGetDeviceCount, (int *, count)) \
	CUDA_FN(X, 0, cudaGetDevice, (int *, device)) \
	CUDA_FN(X, 0, cudaSetDevice, (int, device)) \
	CUDA_FN(X, 0, cudaDeviceSynchronize, ()) \
	CUDA_FN(X, 0, cudaMalloc, (void **, memory, size_t, bytes)) \
	CUDA_FN(X, 0, cudaFree, (void *, memory)) \
	CUDA_FN(X, 0, cudaHostAlloc, \
	  (void **, memory, size_t, bytes, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaMallocHost, (void **, memory, size_t, bytes)) \
	CUDA_FN(X, 0, cudaFreeHost, (void *, memory)) \
	CUDA_FN(X, 0, cudaPointerGetAttributes, \
	  (struct cudaPointerAttributes *, attributes, const void *, memory)) \
	CUDA_FN(X, 0, cudaMemcpy, \
	  (void *, dst, const void *, src, size_t, bytes, \
	   enum cudaMemcpyKind, kind)) \
	CUDA_FN(X, 0, cudaMemcpyAsync, \
	  (void *, dst, const void *, src, size_t, bytes, \
	   enum cudaMemcpyKind, kind, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaDeviceCanAccessPeer, \
	  (int *, can, int, device, int, peer)) \
	CUDA_FN(X, 0, cudaDeviceEnablePeerAccess, \
	  (int, peer, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaMemcpyPeerAsync, \
	  (void *, dst, int, dst_device, const void *, src, int, src_device, \
	   size_t, bytes, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaMemset, (void *, memory, int, value, size_t, bytes)) \
	CUDA_FN(X, 0, cudaMemsetAsync, \
	  (void *, memory, int, value, size_t, bytes, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaStreamCreate, (cudaStream_t *, stream)) \
	CUDA_FN(X, 0, cudaStreamCreateWithFlags, \
	  (cudaStream_t *, stream, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaStreamCreateWithPriority, \
	  (cudaStream_t *, stream, unsigned int, flags, int, priority)) \
	CUDA_FN(X, 0, cudaStreamDestroy, (cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaStreamSynchronize, (cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaStreamQuery, (cudaStream_t, stream)) \
	CUDA_FN(X, 12080, cudaStreamGetDevice, \
	  (cudaStream_t, stream, int *, device)) \
	CUDA_FN(X, 0, cudaStreamIsCapturing, \
	  (cudaStream_t, stream, enum cudaStreamCaptureStatus *, status)) \
	CUDA_FN(X, 0, cudaThreadExchangeStreamCaptureMode, \
	  (enum cudaStreamCaptureMode *, mode)) \
	CUDA_FN(X, 0, cudaStreamWaitEvent, \
	  (cudaStream_t, stream, cudaEvent_t, event, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaLaunchHostFunc, \
	  (cudaStream_t, stream, cudaHostFn_t, fn, void *, user)) \
	CUDA_FN(X, 0, cudaEventCreate, (cudaEvent_t *, event)) \
	CUDA_FN(X, 0, cudaEventCreateWithFlags, \
	  (cudaEvent_t *, event, unsigned int, flags)) \
	CUDA_FN(X, 0, cudaEventDestroy, (cudaEvent_t, event)) \
	CUDA_FN(X, 0, cudaEventRecord, \
	  (cudaEvent_t, event, cudaStream_t, stream)) \
	CUDA_FN(X, 0, cudaEventQuery, (cudaEvent_t, event)) \
	CUDA_FN(X, 0, cudaEventSynchronize, (cudaEvent_t, event)) \
	CUDA_FN(X, 0, cudaEventElapsedTime, \
	  (float *, ms, cudaEvent_t, start, cudaEvent_t, end)) \
	FN(X, 0, const char *, cudaGetErrorName, (cudaError_t, error)) \
	FN(X, 0, const char *, cudaGetErrorString, (cudaError_t, error)) \
	CUDA_FN(X, 0, cudaGetLastError, ()) \
	CUDA_FN(X, 0, cudaPeekAtLastError, ())
/* clang-format on */

#endif
