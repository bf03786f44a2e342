/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_H
#define CUDA_H

/*
 * A minimal header of the CUDA driver for tests/system/programs, where the real
 * one is missing. It declares the functions of the project's list.
 */

#include "sim/driver/driver_functions.h"

#define CUDA_VERSION 13000

#define CUDA_DECLARE(since, name, symbol, form, parameters, arguments, ...)    \
	CUresult symbol parameters;
DRIVER_FUNCTIONS(CUDA_DECLARE)

/* Symbols for which these names stand */
#define cuCtxCreate cuCtxCreate_v4
#define cuCtxDestroy cuCtxDestroy_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuEventElapsedTime cuEventElapsedTime_v2
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#define cuMemAdvise cuMemAdvise_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemAllocPitch cuMemAllocPitch_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetAddressRange cuMemGetAddressRange_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
#define cuMemHostRegister cuMemHostRegister_v2
#define cuMemPrefetchAsync cuMemPrefetchAsync_v2
#define cuMemcpy2D cuMemcpy2D_v2
#define cuMemcpy2DAsync cuMemcpy2DAsync_v2
#define cuMemcpy2DUnaligned cuMemcpy2DUnaligned_v2
#define cuMemcpyDtoD cuMemcpyDtoD_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemsetD16 cuMemsetD16_v2
#define cuMemsetD2D8 cuMemsetD2D8_v2
#define cuMemsetD32 cuMemsetD32_v2
#define cuMemsetD8 cuMemsetD8_v2
#define cuStreamBatchMemOp cuStreamBatchMemOp_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v3
#define cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2
#define cuStreamWaitValue32 cuStreamWaitValue32_v2
#define cuStreamWaitValue64 cuStreamWaitValue64_v2
#define cuStreamWriteValue32 cuStreamWriteValue32_v2
#define cuStreamWriteValue64 cuStreamWriteValue64_v2

/* Types and values that the project declares under the runtime's names */
typedef unsigned long long cuuint64_t;
typedef cudaGraphEdgeData CUgraphEdgeData;
typedef enum cudaGraphNodeType CUgraphNodeType;
typedef cudaIpcMemHandle_t CUipcMemHandle;
typedef enum cudaLimit CUlimit;
typedef enum cudaMemAccessFlags CUmemAccess_flags;
typedef enum cudaMemoryAdvise CUmem_advise;
typedef struct cudaMemLocation CUmemLocation;
typedef struct cudaMemPoolProps CUmemPoolProps;
typedef enum cudaMemPoolAttr CUmemPool_attribute;
typedef enum cudaStreamCaptureMode CUstreamCaptureMode;
typedef enum cudaStreamCaptureStatus CUstreamCaptureStatus;
typedef enum cudaDeviceP2PAttr CUdevice_P2PAttribute;

#define CU_CTX_SCHED_BLOCKING_SYNC 4
#define CU_CTX_SCHED_SPIN 1
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR 75
#define CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT 16
#define CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED cudaDevP2PAttrAccessSupported
#define CU_EVENT_DISABLE_TIMING cudaEventDisableTiming
#define CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY                          \
	cudaGraphInstantiateFlagUseNodePriority
#define CU_GRAPH_NODE_TYPE_BATCH_MEM_OP 12
#define CU_GRAPH_NODE_TYPE_HOST cudaGraphNodeTypeHost
#define CU_GRAPH_NODE_TYPE_MEMSET cudaGraphNodeTypeMemset
#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS cudaIpcMemLazyEnablePeerAccess
#define CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH cudaLimitDevRuntimeSyncDepth
#define CU_LIMIT_MAX_L2_FETCH_GRANULARITY cudaLimitMaxL2FetchGranularity
#define CU_LIMIT_STACK_SIZE cudaLimitStackSize
#define CU_MEMHOSTALLOC_PORTABLE cudaHostAllocPortable
#define CU_MEMHOSTREGISTER_PORTABLE cudaHostRegisterPortable
#define CU_MEMPOOL_ATTR_RELEASE_THRESHOLD cudaMemPoolAttrReleaseThreshold
#define CU_MEMPOOL_ATTR_USED_MEM_CURRENT cudaMemPoolAttrUsedMemCurrent
#define CU_MEMPOOL_ATTR_USED_MEM_HIGH cudaMemPoolAttrUsedMemHigh
#define CU_MEM_ADVISE_SET_PREFERRED_LOCATION cudaMemAdviseSetPreferredLocation
#define CU_MEM_ADVISE_SET_READ_MOSTLY cudaMemAdviseSetReadMostly
#define CU_MEM_ATTACH_GLOBAL cudaMemAttachGlobal
#define CU_MEM_ATTACH_SINGLE cudaMemAttachSingle
#define CU_MEM_ACCESS_FLAGS_PROT_READ cudaMemAccessFlagsProtRead
#define CU_MEM_ACCESS_FLAGS_PROT_READWRITE cudaMemAccessFlagsProtReadWrite
#define CU_MEM_ALLOCATION_TYPE_PINNED cudaMemAllocationTypePinned
#define CU_MEM_HANDLE_TYPE_FABRIC cudaMemHandleTypeFabric
#define CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR                               \
	cudaMemHandleTypePosixFileDescriptor
#define CU_MEM_LOCATION_TYPE_DEVICE cudaMemLocationTypeDevice
#define CU_STREAM_CAPTURE_MODE_RELAXED cudaStreamCaptureModeRelaxed
#define CU_STREAM_CAPTURE_MODE_GLOBAL cudaStreamCaptureModeGlobal
#define CU_STREAM_CAPTURE_STATUS_ACTIVE cudaStreamCaptureStatusActive
#define CU_STREAM_CAPTURE_STATUS_NONE cudaStreamCaptureStatusNone
#define CU_STREAM_NON_BLOCKING cudaStreamNonBlocking
#define CU_STREAM_PER_THREAD cudaStreamPerThread
#define CU_STREAM_SET_CAPTURE_DEPENDENCIES cudaStreamSetCaptureDependencies
#define CU_STREAM_WAIT_VALUE_EQ 1
#define CU_STREAM_WAIT_VALUE_GEQ 0

#endif
