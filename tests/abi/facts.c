/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a set of headers says about the ABI
 *
 * Compiled twice: with ABI_OURS against the project's own ABI headers, and
 * with ABI_REAL against NCCL's and CUDA's.  Every constant and the size of
 * every type go into an array that main.c compares.  Signatures need no
 * running: after the real headers, every function of the platform's lists is
 * declared once more, and a disagreement does not compile.
 *
 * With ABI_NO_DRIVER the facts of CUDA's driver are left out: the headers that are
 * installed for programs of the simulator (src/sim/include) stand for the real ones
 * then, and have no cuda.h.
 */

#include "facts.h"

#if defined(ABI_OURS)
#include "platform/cuda_abi.h"
#include "platform/nccl_abi.h"
#include "sim/driver/abi.h"
#define ABI_FACTS abi_ours
#define ABI_COUNT abi_ours_count
#elif defined(ABI_REAL)
#ifndef ABI_NO_DRIVER
#include <cuda.h>
#endif
#include <cuda_runtime_api.h>
#include <nccl.h>
#define ABI_FACTS abi_real
#define ABI_COUNT abi_real_count
#else
#error "define ABI_OURS or ABI_REAL"
#endif

#include "platform/cuda_attributes.h"
#include "platform/cuda_errors.h"
#include "platform/cuda_properties.h"
#include "platform/functions.h"
#include "sim/driver/results.h"
#include "sim/exports.h"

#if defined(ABI_REAL)
/*
 * The first line fails for a function that the real headers lack, the second
 * for one that they declare differently.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define ABI_DECLARE(since, result, name, parameters, arguments)                \
	typedef __typeof__(name) abi_type_of_##name;                           \
	extern result name parameters;
NCCL_FUNCTIONS(ABI_DECLARE)
CUDA_FUNCTIONS(ABI_DECLARE)
HOST_CUDA_FUNCTIONS(ABI_DECLARE)
#undef ABI_DECLARE
#endif

/* clang-format off */
#define ABI_NAMED(name, value) { name, (long long)(value) }
#define ABI_VALUE(name) ABI_NAMED(#name, name)
#define ABI_HANDLE(name) ABI_NAMED(#name, (size_t)(name))
#define ABI_SIZE(type) ABI_NAMED("sizeof(" #type ")", sizeof(type))
#define ABI_OFFSET(type, field)                                                \
	ABI_NAMED("offsetof(" #type ", " #field ")", offsetof(type, field))
/* clang-format on */

const struct abi_fact ABI_FACTS[] = {
	ABI_SIZE(ncclComm_t),
	ABI_SIZE(ncclUniqueId),
	ABI_SIZE(ncclResult_t),
	ABI_SIZE(ncclDataType_t),
	ABI_SIZE(ncclRedOp_t),
	ABI_SIZE(cudaStream_t),
	ABI_SIZE(cudaEvent_t),
	ABI_SIZE(cudaHostFn_t),
	ABI_SIZE(cudaError_t),
	ABI_SIZE(enum cudaMemcpyKind),

	ABI_VALUE(NCCL_UNIQUE_ID_BYTES),

	ABI_VALUE(ncclSuccess),
	ABI_VALUE(ncclUnhandledCudaError),
	ABI_VALUE(ncclSystemError),
	ABI_VALUE(ncclInternalError),
	ABI_VALUE(ncclInvalidArgument),
	ABI_VALUE(ncclInvalidUsage),
	ABI_VALUE(ncclRemoteError),
	ABI_VALUE(ncclInProgress),

	ABI_VALUE(ncclInt8),
	ABI_VALUE(ncclUint8),
	ABI_VALUE(ncclInt32),
	ABI_VALUE(ncclUint32),
	ABI_VALUE(ncclInt64),
	ABI_VALUE(ncclUint64),
	ABI_VALUE(ncclFloat16),
	ABI_VALUE(ncclFloat32),
	ABI_VALUE(ncclFloat64),
	ABI_VALUE(ncclBfloat16),
	ABI_VALUE(ncclFloat8e4m3),
	ABI_VALUE(ncclFloat8e5m2),
	ABI_VALUE(ncclNumTypes),

	ABI_VALUE(ncclSum),
	ABI_VALUE(ncclProd),
	ABI_VALUE(ncclMax),
	ABI_VALUE(ncclMin),
	ABI_VALUE(ncclAvg),
	ABI_VALUE(ncclNumOps),

#define ABI_ERROR(name, value, text) ABI_VALUE(name),
	CUDA_ERRORS(ABI_ERROR)
#undef ABI_ERROR

		ABI_VALUE(cudaMemcpyHostToHost),
	ABI_VALUE(cudaMemcpyHostToDevice),
	ABI_VALUE(cudaMemcpyDeviceToHost),
	ABI_VALUE(cudaMemcpyDeviceToDevice),
	ABI_VALUE(cudaMemcpyDefault),

	ABI_VALUE(cudaStreamDefault),
	ABI_VALUE(cudaStreamNonBlocking),
	ABI_HANDLE(cudaStreamLegacy),
	ABI_HANDLE(cudaStreamPerThread),
	ABI_VALUE(cudaEventDefault),
	ABI_VALUE(cudaEventBlockingSync),
	ABI_VALUE(cudaEventDisableTiming),
	ABI_VALUE(cudaHostAllocDefault),
	ABI_VALUE(cudaHostAllocPortable),
	ABI_VALUE(cudaHostAllocMapped),
	ABI_VALUE(cudaHostAllocWriteCombined),

	ABI_VALUE(cudaEventInterprocess),
	ABI_VALUE(cudaEventRecordDefault),
	ABI_VALUE(cudaEventRecordExternal),
	ABI_VALUE(cudaEventWaitDefault),
	ABI_VALUE(cudaEventWaitExternal),
	ABI_VALUE(cudaHostRegisterDefault),
	ABI_VALUE(cudaHostRegisterPortable),
	ABI_VALUE(cudaHostRegisterMapped),
	ABI_VALUE(cudaHostRegisterIoMemory),
	ABI_VALUE(cudaHostRegisterReadOnly),
	ABI_VALUE(cudaMemAttachGlobal),
	ABI_VALUE(cudaMemAttachHost),
	ABI_VALUE(cudaMemAttachSingle),
	ABI_VALUE(cudaPeerAccessDefault),
	ABI_VALUE(cudaDeviceScheduleAuto),
	ABI_VALUE(cudaDeviceScheduleSpin),
	ABI_VALUE(cudaDeviceScheduleYield),
	ABI_VALUE(cudaDeviceScheduleBlockingSync),
	ABI_VALUE(cudaDeviceScheduleMask),
	ABI_VALUE(cudaDeviceMapHost),
	ABI_VALUE(cudaDeviceLmemResizeToMax),
	ABI_VALUE(cudaDeviceSyncMemops),
	ABI_VALUE(cudaInitDeviceFlagsAreValid),
	ABI_VALUE(cudaCpuDeviceId),
	ABI_VALUE(cudaInvalidDeviceId),
	ABI_VALUE(cudaMemoryTypeUnregistered),
	ABI_VALUE(cudaMemoryTypeHost),
	ABI_VALUE(cudaMemoryTypeDevice),
	ABI_VALUE(cudaMemoryTypeManaged),
	ABI_VALUE(cudaMemAdviseSetReadMostly),
	ABI_VALUE(cudaMemAdviseUnsetReadMostly),
	ABI_VALUE(cudaMemAdviseSetPreferredLocation),
	ABI_VALUE(cudaMemAdviseUnsetPreferredLocation),
	ABI_VALUE(cudaMemAdviseSetAccessedBy),
	ABI_VALUE(cudaMemAdviseUnsetAccessedBy),
	ABI_VALUE(cudaMemLocationTypeInvalid),
	ABI_VALUE(cudaMemLocationTypeDevice),
	ABI_VALUE(cudaMemLocationTypeHost),
	ABI_VALUE(cudaMemLocationTypeHostNuma),
	ABI_VALUE(cudaMemLocationTypeHostNumaCurrent),
	ABI_VALUE(cudaMemAccessFlagsProtNone),
	ABI_VALUE(cudaMemAccessFlagsProtRead),
	ABI_VALUE(cudaMemAccessFlagsProtReadWrite),
	ABI_VALUE(cudaMemAllocationTypeInvalid),
	ABI_VALUE(cudaMemAllocationTypePinned),
	ABI_VALUE(cudaMemAllocationTypeManaged),
	ABI_VALUE(cudaMemHandleTypeNone),
	ABI_VALUE(cudaMemHandleTypePosixFileDescriptor),
	ABI_VALUE(cudaMemHandleTypeWin32),
	ABI_VALUE(cudaMemHandleTypeWin32Kmt),
	ABI_VALUE(cudaMemHandleTypeFabric),
	ABI_VALUE(cudaMemPoolReuseFollowEventDependencies),
	ABI_VALUE(cudaMemPoolReuseAllowOpportunistic),
	ABI_VALUE(cudaMemPoolReuseAllowInternalDependencies),
	ABI_VALUE(cudaMemPoolAttrReleaseThreshold),
	ABI_VALUE(cudaMemPoolAttrReservedMemCurrent),
	ABI_VALUE(cudaMemPoolAttrReservedMemHigh),
	ABI_VALUE(cudaMemPoolAttrUsedMemCurrent),
	ABI_VALUE(cudaMemPoolAttrUsedMemHigh),
	ABI_VALUE(CUDA_IPC_HANDLE_SIZE),
	ABI_VALUE(cudaIpcMemLazyEnablePeerAccess),
	ABI_VALUE(cudaLimitStackSize),
	ABI_VALUE(cudaLimitPrintfFifoSize),
	ABI_VALUE(cudaLimitMallocHeapSize),
	ABI_VALUE(cudaLimitDevRuntimeSyncDepth),
	ABI_VALUE(cudaLimitDevRuntimePendingLaunchCount),
	ABI_VALUE(cudaLimitMaxL2FetchGranularity),
	ABI_VALUE(cudaLimitPersistingL2CacheSize),
	ABI_VALUE(cudaDevP2PAttrPerformanceRank),
	ABI_VALUE(cudaDevP2PAttrAccessSupported),
	ABI_VALUE(cudaDevP2PAttrNativeAtomicSupported),
	ABI_VALUE(cudaDevP2PAttrCudaArrayAccessSupported),
	ABI_VALUE(cudaDevP2PAttrOnlyPartialNativeAtomicSupported),
	ABI_VALUE(cudaStreamCaptureStatusNone),
	ABI_VALUE(cudaStreamCaptureStatusActive),
	ABI_VALUE(cudaStreamCaptureStatusInvalidated),
	ABI_VALUE(cudaStreamCaptureModeGlobal),
	ABI_VALUE(cudaStreamCaptureModeThreadLocal),
	ABI_VALUE(cudaStreamCaptureModeRelaxed),
	ABI_VALUE(cudaSyncPolicyAuto),
	ABI_VALUE(cudaSyncPolicySpin),
	ABI_VALUE(cudaSyncPolicyYield),
	ABI_VALUE(cudaSyncPolicyBlockingSync),
	ABI_VALUE(cudaAccessPropertyNormal),
	ABI_VALUE(cudaAccessPropertyStreaming),
	ABI_VALUE(cudaAccessPropertyPersisting),
	ABI_VALUE(cudaLaunchMemSyncDomainDefault),
	ABI_VALUE(cudaLaunchMemSyncDomainRemote),
	ABI_VALUE(cudaLaunchAttributeIgnore),
	ABI_VALUE(cudaLaunchAttributeAccessPolicyWindow),
	ABI_VALUE(cudaLaunchAttributeSynchronizationPolicy),
	ABI_VALUE(cudaLaunchAttributePriority),
	ABI_VALUE(cudaLaunchAttributeMemSyncDomainMap),
	ABI_VALUE(cudaLaunchAttributeMemSyncDomain),
	ABI_VALUE(cudaGraphNodeTypeKernel),
	ABI_VALUE(cudaGraphNodeTypeMemcpy),
	ABI_VALUE(cudaGraphNodeTypeMemset),
	ABI_VALUE(cudaGraphNodeTypeHost),
	ABI_VALUE(cudaGraphNodeTypeGraph),
	ABI_VALUE(cudaGraphNodeTypeEmpty),
	ABI_VALUE(cudaGraphNodeTypeWaitEvent),
	ABI_VALUE(cudaGraphNodeTypeEventRecord),
	ABI_VALUE(cudaUserObjectNoDestructorSync),
	ABI_VALUE(cudaGraphUserObjectMove),
	ABI_VALUE(cudaGraphInstantiateFlagAutoFreeOnLaunch),
	ABI_VALUE(cudaGraphInstantiateFlagUpload),
	ABI_VALUE(cudaGraphInstantiateFlagDeviceLaunch),
	ABI_VALUE(cudaGraphInstantiateFlagUseNodePriority),
	ABI_VALUE(cudaStreamAddCaptureDependencies),
	ABI_VALUE(cudaStreamSetCaptureDependencies),
	ABI_VALUE(cudaEnableDefault),
	ABI_VALUE(cudaEnableLegacyStream),
	ABI_VALUE(cudaEnablePerThreadDefaultStream),
	ABI_VALUE(cudaDriverEntryPointSuccess),
	ABI_VALUE(cudaDriverEntryPointSymbolNotFound),
	ABI_VALUE(cudaDriverEntryPointVersionNotSufficent),

	ABI_SIZE(struct cudaPointerAttributes),
	ABI_SIZE(struct cudaMemLocation),
	ABI_SIZE(struct cudaMemAccessDesc),
	ABI_SIZE(struct cudaMemPoolProps),
	ABI_SIZE(cudaIpcEventHandle_t),
	ABI_SIZE(cudaIpcMemHandle_t),
	ABI_SIZE(struct cudaDeviceProp),
	ABI_SIZE(cudaUUID_t),
	ABI_SIZE(cudaMemPool_t),
	ABI_SIZE(cudaGraph_t),
	ABI_SIZE(cudaGraphNode_t),
	ABI_SIZE(cudaGraphExec_t),
	ABI_SIZE(cudaUserObject_t),
	ABI_SIZE(struct cudaFuncAttributes),
	ABI_SIZE(cudaStreamCallback_t),
	ABI_SIZE(struct cudaAccessPolicyWindow),
	ABI_SIZE(cudaLaunchMemSyncDomainMap),
	ABI_SIZE(cudaStreamAttrValue),
	ABI_SIZE(cudaStreamAttrID),
	ABI_SIZE(cudaGraphEdgeData),
	ABI_SIZE(enum cudaDeviceAttr),

	ABI_OFFSET(struct cudaFuncAttributes, maxThreadsPerBlock),
	ABI_OFFSET(struct cudaFuncAttributes, maxDynamicSharedSizeBytes),
	ABI_OFFSET(struct cudaFuncAttributes, preferredShmemCarveout),
	ABI_OFFSET(struct cudaPointerAttributes, type),
	ABI_OFFSET(struct cudaPointerAttributes, device),
	ABI_OFFSET(struct cudaPointerAttributes, devicePointer),
	ABI_OFFSET(struct cudaPointerAttributes, hostPointer),
	ABI_OFFSET(struct cudaPointerAttributes, reserved),
	ABI_OFFSET(struct cudaMemPoolProps, allocType),
	ABI_OFFSET(struct cudaMemPoolProps, handleTypes),
	ABI_OFFSET(struct cudaMemPoolProps, location),
	ABI_OFFSET(struct cudaMemPoolProps, win32SecurityAttributes),
	ABI_OFFSET(struct cudaMemPoolProps, maxSize),
	ABI_OFFSET(struct cudaMemPoolProps, usage),
	ABI_OFFSET(struct cudaMemPoolProps, reserved),
	ABI_OFFSET(struct cudaAccessPolicyWindow, base_ptr),
	ABI_OFFSET(struct cudaAccessPolicyWindow, num_bytes),
	ABI_OFFSET(struct cudaAccessPolicyWindow, hitRatio),
	ABI_OFFSET(struct cudaAccessPolicyWindow, hitProp),
	ABI_OFFSET(struct cudaAccessPolicyWindow, missProp),
	ABI_OFFSET(struct cudaMemAccessDesc, location),
	ABI_OFFSET(struct cudaMemAccessDesc, flags),
	ABI_OFFSET(cudaGraphEdgeData, from_port),
	ABI_OFFSET(cudaGraphEdgeData, to_port),
	ABI_OFFSET(cudaGraphEdgeData, type),
	ABI_OFFSET(cudaGraphEdgeData, reserved),

#define ABI_ATTRIBUTE(name, value, expression) ABI_VALUE(name),
	CUDA_ATTRIBUTES(ABI_ATTRIBUTE)
#undef ABI_ATTRIBUTE

#ifndef ABI_NO_DRIVER
#define ABI_RESULT(name, value) ABI_VALUE(name),
		CU_RESULTS(ABI_RESULT)
#undef ABI_RESULT

			ABI_VALUE(
				CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	ABI_VALUE(
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED),
	ABI_VALUE(
		CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	ABI_VALUE(CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED),
	ABI_VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX),
	ABI_VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
	ABI_VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES),
	ABI_VALUE(CU_FUNC_CACHE_PREFER_NONE),
	ABI_VALUE(CU_FUNC_CACHE_PREFER_SHARED),
	ABI_VALUE(CU_FUNC_CACHE_PREFER_L1),
	ABI_VALUE(CU_FUNC_CACHE_PREFER_EQUAL),
	ABI_VALUE(CU_MEMORYTYPE_HOST),
	ABI_VALUE(CU_MEMORYTYPE_DEVICE),
	ABI_VALUE(CU_MEMORYTYPE_ARRAY),
	ABI_VALUE(CU_MEMORYTYPE_UNIFIED),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_CONTEXT),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_POINTER),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_HOST_POINTER),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_BUFFER_ID),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_IS_MANAGED),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_RANGE_SIZE),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_MAPPED),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_MAPPING_SIZE),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID),
	ABI_VALUE(CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE),
	ABI_VALUE(CU_MEM_ALLOC_GRANULARITY_MINIMUM),
	ABI_VALUE(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
	ABI_VALUE(CU_STREAM_MEM_OP_WAIT_VALUE_32),
	ABI_VALUE(CU_STREAM_MEM_OP_WRITE_VALUE_32),
	ABI_VALUE(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES),
	ABI_VALUE(CU_STREAM_MEM_OP_WAIT_VALUE_64),
	ABI_VALUE(CU_STREAM_MEM_OP_WRITE_VALUE_64),
	ABI_VALUE(CU_STREAM_MEM_OP_BARRIER),
	ABI_VALUE(CU_GET_PROC_ADDRESS_SUCCESS),
	ABI_VALUE(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND),
	ABI_VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_NUM_REGS),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_PTX_VERSION),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_BINARY_VERSION),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
	ABI_VALUE(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_IGNORE),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_COOPERATIVE),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_PRIORITY),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN),
	ABI_VALUE(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT),
	ABI_VALUE(CU_CTX_SCHED_MASK),
	ABI_VALUE(CU_CTX_MAP_HOST),
	ABI_VALUE(CU_CTX_FLAGS_MASK),
	ABI_VALUE(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
	ABI_VALUE(CU_STREAM_WAIT_VALUE_FLUSH),
	ABI_VALUE(CU_GET_PROC_ADDRESS_DEFAULT),
	ABI_VALUE(CU_GET_PROC_ADDRESS_LEGACY_STREAM),
	ABI_VALUE(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
	ABI_HANDLE(CU_LAUNCH_PARAM_END),
	ABI_HANDLE(CU_LAUNCH_PARAM_BUFFER_POINTER),
	ABI_HANDLE(CU_LAUNCH_PARAM_BUFFER_SIZE),

	ABI_SIZE(CUdeviceptr),
	ABI_SIZE(CUmemGenericAllocationHandle),
	ABI_SIZE(CUlaunchConfig),
	ABI_SIZE(CUlaunchAttribute),
	ABI_SIZE(CUlaunchAttributeValue),
	ABI_SIZE(CUDA_MEMCPY2D),
	ABI_SIZE(CUmemAllocationProp),
	ABI_SIZE(CUmemAccessDesc),
	ABI_SIZE(CUstreamBatchMemOpParams),
	ABI_OFFSET(CUlaunchConfig, sharedMemBytes),
	ABI_OFFSET(CUlaunchConfig, hStream),
	ABI_OFFSET(CUlaunchConfig, attrs),
	ABI_OFFSET(CUlaunchConfig, numAttrs),
	ABI_OFFSET(CUlaunchAttribute, id),
	ABI_OFFSET(CUlaunchAttribute, value),
	ABI_OFFSET(CUlaunchAttributeValue, launchCompletionEvent.event),
	ABI_OFFSET(CUlaunchAttributeValue, launchCompletionEvent.flags),
	ABI_OFFSET(CUlaunchAttributeValue, programmaticEvent.event),
	ABI_OFFSET(CUlaunchAttributeValue, programmaticEvent.flags),
	ABI_OFFSET(CUDA_MEMCPY2D, srcHost),
	ABI_OFFSET(CUDA_MEMCPY2D, srcPitch),
	ABI_OFFSET(CUDA_MEMCPY2D, dstMemoryType),
	ABI_OFFSET(CUDA_MEMCPY2D, dstDevice),
	ABI_OFFSET(CUDA_MEMCPY2D, Height),
	ABI_OFFSET(CUctxCreateParams, numExecAffinityParams),
	ABI_OFFSET(CUctxCreateParams, cigParams),
	ABI_OFFSET(CUmemAllocationProp, requestedHandleTypes),
	ABI_OFFSET(CUmemAllocationProp, location),
	ABI_OFFSET(CUmemAllocationProp, allocFlags),
#endif

#define ABI_FIELD(type, name, dimensions)                                      \
	ABI_OFFSET(struct cudaDeviceProp, name),
#define ABI_DROPPED(type, name, dimensions)
	CUDA_DEVICE_PROPERTIES(ABI_FIELD, ABI_DROPPED)
		CUDA_DEVICE_PROPERTIES_13(ABI_FIELD)
			ABI_FIELD(int, reserved, [56])
#undef ABI_FIELD
#undef ABI_DROPPED
};

const size_t ABI_COUNT = sizeof(ABI_FACTS) / sizeof(ABI_FACTS[0]);
