/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the functions of the CUDA 13.0 driver that the host platform lacks,
 * as cudart_absent.c does for the runtime
 *
 * cuGetProcAddress() does not find these functions.
 */

#include "sim/dropin/unsupported.h"

/* clang-format off */
#define ABSENT_FROM_DRIVER(X) \
	X(cuArray3DCreate) X(cuArray3DCreate_v2) X(cuArray3DGetDescriptor) \
	X(cuArray3DGetDescriptor_v2) X(cuArrayCreate) X(cuArrayCreate_v2) \
	X(cuArrayDestroy) X(cuArrayGetDescriptor) X(cuArrayGetDescriptor_v2) \
	X(cuArrayGetMemoryRequirements) X(cuArrayGetPlane) \
	X(cuArrayGetSparseProperties) X(cuCheckpointProcessCheckpoint) \
	X(cuCheckpointProcessGetRestoreThreadId) \
	X(cuCheckpointProcessGetState) X(cuCheckpointProcessLock) \
	X(cuCheckpointProcessRestore) X(cuCheckpointProcessUnlock) \
	X(cuCoredumpGetAttribute) X(cuCoredumpGetAttributeGlobal) \
	X(cuCoredumpSetAttribute) X(cuCoredumpSetAttributeGlobal) \
	X(cuCtxAttach) X(cuCtxCreate) X(cuCtxDetach) X(cuCtxFromGreenCtx) \
	X(cuCtxGetDevResource) X(cuCtxGetExecAffinity) \
	X(cuCtxGetSharedMemConfig) X(cuCtxRecordEvent) \
	X(cuCtxResetPersistingL2Cache) X(cuCtxSetSharedMemConfig) \
	X(cuCtxWaitEvent) X(cuDestroyExternalMemory) \
	X(cuDestroyExternalSemaphore) X(cuDevResourceGenerateDesc) \
	X(cuDevSmResourceSplitByCount) X(cuDeviceGetDevResource) \
	X(cuDeviceGetExecAffinitySupport) X(cuDeviceGetGraphMemAttribute) \
	X(cuDeviceGetHostAtomicCapabilities) X(cuDeviceGetLuid) \
	X(cuDeviceGetNvSciSyncAttributes) X(cuDeviceGetP2PAtomicCapabilities) \
	X(cuDeviceGetProperties) X(cuDeviceGetTexture1DLinearMaxWidth) \
	X(cuDeviceGraphMemTrim) X(cuDeviceRegisterAsyncNotification) \
	X(cuDeviceSetGraphMemAttribute) X(cuDeviceTotalMem) \
	X(cuDeviceUnregisterAsyncNotification) \
	X(cuExternalMemoryGetMappedBuffer) \
	X(cuExternalMemoryGetMappedMipmappedArray) X(cuFuncGetModule) \
	X(cuFuncGetName) X(cuFuncGetParamInfo) X(cuFuncIsLoaded) X(cuFuncLoad) \
	X(cuFuncSetBlockShape) X(cuFuncSetSharedMemConfig) \
	X(cuFuncSetSharedSize) X(cuGraphAddBatchMemOpNode) \
	X(cuGraphAddChildGraphNode) X(cuGraphAddDependencies) \
	X(cuGraphAddDependencies_v2) X(cuGraphAddEmptyNode) \
	X(cuGraphAddEventRecordNode) X(cuGraphAddEventWaitNode) \
	X(cuGraphAddExternalSemaphoresSignalNode) \
	X(cuGraphAddExternalSemaphoresWaitNode) X(cuGraphAddHostNode) \
	X(cuGraphAddKernelNode) X(cuGraphAddKernelNode_v2) \
	X(cuGraphAddMemAllocNode) X(cuGraphAddMemFreeNode) \
	X(cuGraphAddMemcpyNode) X(cuGraphAddMemsetNode) X(cuGraphAddNode) \
	X(cuGraphAddNode_v2) X(cuGraphBatchMemOpNodeGetParams) \
	X(cuGraphBatchMemOpNodeSetParams) X(cuGraphChildGraphNodeGetGraph) \
	X(cuGraphClone) X(cuGraphConditionalHandleCreate) \
	X(cuGraphDebugDotPrint) X(cuGraphDestroyNode) \
	X(cuGraphEventRecordNodeGetEvent) X(cuGraphEventRecordNodeSetEvent) \
	X(cuGraphEventWaitNodeGetEvent) X(cuGraphEventWaitNodeSetEvent) \
	X(cuGraphExecBatchMemOpNodeSetParams) \
	X(cuGraphExecChildGraphNodeSetParams) \
	X(cuGraphExecEventRecordNodeSetEvent) \
	X(cuGraphExecEventWaitNodeSetEvent) \
	X(cuGraphExecExternalSemaphoresSignalNodeSetParams) \
	X(cuGraphExecExternalSemaphoresWaitNodeSetParams) \
	X(cuGraphExecHostNodeSetParams) X(cuGraphExecKernelNodeSetParams) \
	X(cuGraphExecKernelNodeSetParams_v2) X(cuGraphExecMemcpyNodeSetParams) \
	X(cuGraphExecMemsetNodeSetParams) X(cuGraphExecNodeSetParams) \
	X(cuGraphExecUpdate) X(cuGraphExecUpdate_v2) \
	X(cuGraphExternalSemaphoresSignalNodeGetParams) \
	X(cuGraphExternalSemaphoresSignalNodeSetParams) \
	X(cuGraphExternalSemaphoresWaitNodeGetParams) \
	X(cuGraphExternalSemaphoresWaitNodeSetParams) X(cuGraphGetEdges) \
	X(cuGraphGetEdges_v2) X(cuGraphHostNodeGetParams) \
	X(cuGraphHostNodeSetParams) X(cuGraphInstantiate) \
	X(cuGraphInstantiateWithParams) X(cuGraphInstantiateWithParams_ptsz) \
	X(cuGraphInstantiate_v2) X(cuGraphKernelNodeCopyAttributes) \
	X(cuGraphKernelNodeGetAttribute) X(cuGraphKernelNodeGetParams) \
	X(cuGraphKernelNodeGetParams_v2) X(cuGraphKernelNodeSetAttribute) \
	X(cuGraphKernelNodeSetParams) X(cuGraphKernelNodeSetParams_v2) \
	X(cuGraphMemAllocNodeGetParams) X(cuGraphMemFreeNodeGetParams) \
	X(cuGraphMemcpyNodeGetParams) X(cuGraphMemcpyNodeSetParams) \
	X(cuGraphMemsetNodeGetParams) X(cuGraphMemsetNodeSetParams) \
	X(cuGraphNodeFindInClone) X(cuGraphNodeGetDependencies) \
	X(cuGraphNodeGetDependencies_v2) X(cuGraphNodeGetDependentNodes) \
	X(cuGraphNodeGetDependentNodes_v2) X(cuGraphNodeGetEnabled) \
	X(cuGraphNodeSetEnabled) X(cuGraphNodeSetParams) \
	X(cuGraphReleaseUserObject) X(cuGraphRemoveDependencies) \
	X(cuGraphRemoveDependencies_v2) X(cuGraphRetainUserObject) \
	X(cuGraphicsMapResources) X(cuGraphicsMapResources_ptsz) \
	X(cuGraphicsResourceGetMappedMipmappedArray) \
	X(cuGraphicsResourceGetMappedPointer) \
	X(cuGraphicsResourceGetMappedPointer_v2) \
	X(cuGraphicsResourceSetMapFlags) X(cuGraphicsResourceSetMapFlags_v2) \
	X(cuGraphicsSubResourceGetMappedArray) X(cuGraphicsUnmapResources) \
	X(cuGraphicsUnmapResources_ptsz) X(cuGraphicsUnregisterResource) \
	X(cuGreenCtxCreate) X(cuGreenCtxDestroy) X(cuGreenCtxGetDevResource) \
	X(cuGreenCtxGetId) X(cuGreenCtxRecordEvent) X(cuGreenCtxStreamCreate) \
	X(cuGreenCtxWaitEvent) X(cuImportExternalMemory) \
	X(cuImportExternalSemaphore) X(cuIpcGetEventHandle) \
	X(cuIpcOpenEventHandle) X(cuKernelGetAttribute) \
	X(cuKernelGetFunction) X(cuKernelGetLibrary) X(cuKernelGetName) \
	X(cuKernelGetParamInfo) X(cuKernelSetAttribute) \
	X(cuKernelSetCacheConfig) X(cuLaunch) \
	X(cuLaunchCooperativeKernelMultiDevice) X(cuLaunchGrid) \
	X(cuLaunchGridAsync) X(cuLibraryEnumerateKernels) \
	X(cuLibraryGetGlobal) X(cuLibraryGetKernel) X(cuLibraryGetKernelCount) \
	X(cuLibraryGetManaged) X(cuLibraryGetModule) \
	X(cuLibraryGetUnifiedFunction) X(cuLibraryLoadData) \
	X(cuLibraryLoadFromFile) X(cuLibraryUnload) X(cuLinkAddData) \
	X(cuLinkAddData_v2) X(cuLinkAddFile) X(cuLinkAddFile_v2) \
	X(cuLinkComplete) X(cuLinkCreate) X(cuLinkCreate_v2) X(cuLinkDestroy) \
	X(cuLogsCurrent) X(cuLogsDumpToFile) X(cuLogsDumpToMemory) \
	X(cuLogsRegisterCallback) X(cuLogsUnregisterCallback) X(cuMemAlloc) \
	X(cuMemAllocHost) X(cuMemAllocPitch) X(cuMemBatchDecompressAsync) \
	X(cuMemBatchDecompressAsync_ptsz) X(cuMemDiscardAndPrefetchBatchAsync) \
	X(cuMemDiscardAndPrefetchBatchAsync_ptsz) X(cuMemDiscardBatchAsync) \
	X(cuMemDiscardBatchAsync_ptsz) X(cuMemFree) X(cuMemGetAddressRange) \
	X(cuMemGetDefaultMemPool) X(cuMemGetHandleForAddressRange) \
	X(cuMemGetInfo) X(cuMemGetMemPool) X(cuMemHostGetDevicePointer) \
	X(cuMemMapArrayAsync) X(cuMemMapArrayAsync_ptsz) \
	X(cuMemPoolExportPointer) X(cuMemPoolExportToShareableHandle) \
	X(cuMemPoolImportFromShareableHandle) X(cuMemPoolImportPointer) \
	X(cuMemPrefetchBatchAsync) X(cuMemPrefetchBatchAsync_ptsz) \
	X(cuMemRangeGetAttribute) X(cuMemRangeGetAttributes) \
	X(cuMemSetMemPool) X(cuMemcpy2D) X(cuMemcpy2DAsync) \
	X(cuMemcpy2DUnaligned) X(cuMemcpy3D) X(cuMemcpy3DAsync) \
	X(cuMemcpy3DAsync_v2) X(cuMemcpy3DAsync_v2_ptsz) \
	X(cuMemcpy3DBatchAsync) X(cuMemcpy3DBatchAsync_ptsz) \
	X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2_ptsz) \
	X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) X(cuMemcpy3DPeerAsync_ptsz) \
	X(cuMemcpy3DPeer_ptds) X(cuMemcpy3D_v2) X(cuMemcpy3D_v2_ptds) \
	X(cuMemcpyAtoA) X(cuMemcpyAtoA_v2) X(cuMemcpyAtoA_v2_ptds) \
	X(cuMemcpyAtoD) X(cuMemcpyAtoD_v2) X(cuMemcpyAtoD_v2_ptds) \
	X(cuMemcpyAtoH) X(cuMemcpyAtoHAsync) X(cuMemcpyAtoHAsync_v2) \
	X(cuMemcpyAtoHAsync_v2_ptsz) X(cuMemcpyAtoH_v2) \
	X(cuMemcpyAtoH_v2_ptds) X(cuMemcpyBatchAsync) \
	X(cuMemcpyBatchAsync_ptsz) X(cuMemcpyBatchAsync_v2) \
	X(cuMemcpyBatchAsync_v2_ptsz) X(cuMemcpyDtoA) X(cuMemcpyDtoA_v2) \
	X(cuMemcpyDtoA_v2_ptds) X(cuMemcpyDtoD) X(cuMemcpyDtoDAsync) \
	X(cuMemcpyDtoH) X(cuMemcpyDtoHAsync) X(cuMemcpyHtoA) \
	X(cuMemcpyHtoAAsync) X(cuMemcpyHtoAAsync_v2) \
	X(cuMemcpyHtoAAsync_v2_ptsz) X(cuMemcpyHtoA_v2) \
	X(cuMemcpyHtoA_v2_ptds) X(cuMemcpyHtoD) X(cuMemcpyHtoDAsync) \
	X(cuMemsetD16) X(cuMemsetD2D16) X(cuMemsetD2D16Async) \
	X(cuMemsetD2D16Async_ptsz) X(cuMemsetD2D16_v2) \
	X(cuMemsetD2D16_v2_ptds) X(cuMemsetD2D32) X(cuMemsetD2D32Async) \
	X(cuMemsetD2D32Async_ptsz) X(cuMemsetD2D32_v2) \
	X(cuMemsetD2D32_v2_ptds) X(cuMemsetD2D8) X(cuMemsetD32) X(cuMemsetD8) \
	X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy) \
	X(cuMipmappedArrayGetLevel) X(cuMipmappedArrayGetMemoryRequirements) \
	X(cuMipmappedArrayGetSparseProperties) X(cuModuleEnumerateFunctions) \
	X(cuModuleGetFunction) X(cuModuleGetFunctionCount) \
	X(cuModuleGetGlobal) X(cuModuleGetGlobal_v2) X(cuModuleGetLoadingMode) \
	X(cuModuleGetSurfRef) X(cuModuleGetTexRef) X(cuModuleLoad) \
	X(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuModuleLoadFatBinary) \
	X(cuModuleUnload) X(cuMulticastAddDevice) X(cuMulticastBindAddr) \
	X(cuMulticastBindMem) X(cuMulticastCreate) \
	X(cuMulticastGetGranularity) X(cuMulticastUnbind) \
	X(cuOccupancyAvailableDynamicSMemPerBlock) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
	X(cuOccupancyMaxActiveClusters) X(cuOccupancyMaxPotentialBlockSize) \
	X(cuOccupancyMaxPotentialBlockSizeWithFlags) \
	X(cuOccupancyMaxPotentialClusterSize) X(cuParamSetSize) \
	X(cuParamSetTexRef) X(cuParamSetf) X(cuParamSeti) X(cuParamSetv) \
	X(cuProfilerInitialize) X(cuSignalExternalSemaphoresAsync) \
	X(cuSignalExternalSemaphoresAsync_ptsz) X(cuStreamBeginCaptureToGraph) \
	X(cuStreamBeginCaptureToGraph_ptsz) X(cuStreamCopyAttributes) \
	X(cuStreamCopyAttributes_ptsz) X(cuStreamGetAttribute) \
	X(cuStreamGetAttribute_ptsz) X(cuStreamGetGreenCtx) \
	X(cuStreamSetAttribute) X(cuStreamSetAttribute_ptsz) \
	X(cuSurfObjectCreate) X(cuSurfObjectDestroy) \
	X(cuSurfObjectGetResourceDesc) X(cuSurfRefGetArray) \
	X(cuSurfRefSetArray) X(cuTensorMapEncodeIm2col) \
	X(cuTensorMapEncodeIm2colWide) X(cuTensorMapEncodeTiled) \
	X(cuTensorMapReplaceAddress) X(cuTexObjectCreate) \
	X(cuTexObjectDestroy) X(cuTexObjectGetResourceDesc) \
	X(cuTexObjectGetResourceViewDesc) X(cuTexObjectGetTextureDesc) \
	X(cuTexRefCreate) X(cuTexRefDestroy) X(cuTexRefGetAddress) \
	X(cuTexRefGetAddressMode) X(cuTexRefGetAddress_v2) X(cuTexRefGetArray) \
	X(cuTexRefGetBorderColor) X(cuTexRefGetFilterMode) X(cuTexRefGetFlags) \
	X(cuTexRefGetFormat) X(cuTexRefGetMaxAnisotropy) \
	X(cuTexRefGetMipmapFilterMode) X(cuTexRefGetMipmapLevelBias) \
	X(cuTexRefGetMipmapLevelClamp) X(cuTexRefGetMipmappedArray) \
	X(cuTexRefSetAddress) X(cuTexRefSetAddress2D) \
	X(cuTexRefSetAddress2D_v2) X(cuTexRefSetAddress2D_v3) \
	X(cuTexRefSetAddressMode) X(cuTexRefSetAddress_v2) X(cuTexRefSetArray) \
	X(cuTexRefSetBorderColor) X(cuTexRefSetFilterMode) X(cuTexRefSetFlags) \
	X(cuTexRefSetFormat) X(cuTexRefSetMaxAnisotropy) \
	X(cuTexRefSetMipmapFilterMode) X(cuTexRefSetMipmapLevelBias) \
	X(cuTexRefSetMipmapLevelClamp) X(cuTexRefSetMipmappedArray) \
	X(cuUserObjectCreate) X(cuUserObjectRelease) X(cuUserObjectRetain) \
	X(cuWaitExternalSemaphoresAsync) X(cuWaitExternalSemaphoresAsync_ptsz)
/* clang-format on */

ABSENT_FROM_DRIVER(ABSENT)
