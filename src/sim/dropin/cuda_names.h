/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DROPIN_CUDA_NAMES_H
#define SIM_DROPIN_CUDA_NAMES_H

/*
 * What libcuda.so.1 has and the host platform has not: nothing here is found by
 * cuGetProcAddress()
 */

/* clang-format off */
#define CUDA_ABSENT_NAMES(X) \
	X(cuArray3DCreate_v2) X(cuArray3DGetDescriptor_v2) \
	X(cuArrayCreate_v2) X(cuArrayDestroy) X(cuArrayGetDescriptor_v2) \
	X(cuArrayGetMemoryRequirements) X(cuArrayGetPlane) \
	X(cuArrayGetSparseProperties) X(cuCoredumpGetAttribute) \
	X(cuCoredumpSetAttribute) X(cuCtxAttach) X(cuCtxDetach) \
	X(cuCtxFromGreenCtx) X(cuCtxGetDevResource) X(cuCtxGetExecAffinity) \
	X(cuCtxGetSharedMemConfig) X(cuCtxRecordEvent) \
	X(cuCtxResetPersistingL2Cache) X(cuCtxSetSharedMemConfig) \
	X(cuCtxWaitEvent) X(cuDestroyExternalMemory) \
	X(cuDestroyExternalSemaphore) X(cuDevResourceGenerateDesc) \
	X(cuDevSmResourceSplitByCount) X(cuDeviceGetDevResource) \
	X(cuDeviceGetExecAffinitySupport) X(cuDeviceGetGraphMemAttribute) \
	X(cuDeviceGetLuid) X(cuDeviceGetNvSciSyncAttributes) \
	X(cuDeviceGetProperties) X(cuDeviceGetTexture1DLinearMaxWidth) \
	X(cuDeviceGraphMemTrim) X(cuDeviceRegisterAsyncNotification) \
	X(cuDeviceSetGraphMemAttribute) \
	X(cuDeviceUnregisterAsyncNotification) \
	X(cuExternalMemoryGetMappedBuffer) \
	X(cuExternalMemoryGetMappedMipmappedArray) X(cuFuncGetModule) \
	X(cuFuncGetName) X(cuFuncGetParamInfo) X(cuFuncIsLoaded) \
	X(cuFuncLoad) X(cuFuncSetBlockShape) X(cuFuncSetSharedMemConfig) \
	X(cuFuncSetSharedSize) X(cuGetExportTable) \
	X(cuGraphAddBatchMemOpNode) X(cuGraphAddChildGraphNode) \
	X(cuGraphAddDependencies) X(cuGraphAddDependencies_v2) \
	X(cuGraphAddEmptyNode) X(cuGraphAddEventRecordNode) \
	X(cuGraphAddEventWaitNode) X(cuGraphAddExternalSemaphoresSignalNode) \
	X(cuGraphAddExternalSemaphoresWaitNode) X(cuGraphAddHostNode) \
	X(cuGraphAddKernelNode_v2) X(cuGraphAddMemAllocNode) \
	X(cuGraphAddMemFreeNode) X(cuGraphAddMemcpyNode) \
	X(cuGraphAddMemsetNode) X(cuGraphAddNode) X(cuGraphAddNode_v2) \
	X(cuGraphClone) X(cuGraphConditionalHandleCreate) \
	X(cuGraphDebugDotPrint) X(cuGraphDestroyNode) \
	X(cuGraphExecChildGraphNodeSetParams) \
	X(cuGraphExecHostNodeSetParams) X(cuGraphExecKernelNodeSetParams_v2) \
	X(cuGraphExecMemcpyNodeSetParams) X(cuGraphExecMemsetNodeSetParams) \
	X(cuGraphExecNodeSetParams) X(cuGraphExecUpdate_v2) \
	X(cuGraphGetEdges) X(cuGraphGetEdges_v2) X(cuGraphHostNodeGetParams) \
	X(cuGraphHostNodeSetParams) X(cuGraphInstantiateWithParams) \
	X(cuGraphKernelNodeCopyAttributes) X(cuGraphKernelNodeGetAttribute) \
	X(cuGraphKernelNodeGetParams_v2) X(cuGraphKernelNodeSetAttribute) \
	X(cuGraphKernelNodeSetParams_v2) X(cuGraphMemcpyNodeGetParams) \
	X(cuGraphMemcpyNodeSetParams) X(cuGraphMemsetNodeGetParams) \
	X(cuGraphMemsetNodeSetParams) X(cuGraphNodeFindInClone) \
	X(cuGraphNodeGetDependencies) X(cuGraphNodeGetDependencies_v2) \
	X(cuGraphNodeGetDependentNodes) X(cuGraphNodeGetDependentNodes_v2) \
	X(cuGraphNodeGetEnabled) X(cuGraphNodeSetEnabled) \
	X(cuGraphNodeSetParams) X(cuGraphReleaseUserObject) \
	X(cuGraphRemoveDependencies) X(cuGraphRemoveDependencies_v2) \
	X(cuGraphRetainUserObject) X(cuGraphicsMapResources) \
	X(cuGraphicsResourceGetMappedMipmappedArray) \
	X(cuGraphicsResourceGetMappedPointer_v2) \
	X(cuGraphicsResourceSetMapFlags_v2) \
	X(cuGraphicsSubResourceGetMappedArray) X(cuGraphicsUnmapResources) \
	X(cuGraphicsUnregisterResource) X(cuGreenCtxCreate) \
	X(cuGreenCtxDestroy) X(cuGreenCtxGetDevResource) \
	X(cuGreenCtxStreamCreate) X(cuImportExternalMemory) \
	X(cuImportExternalSemaphore) X(cuKernelGetAttribute) \
	X(cuKernelGetFunction) X(cuKernelGetLibrary) X(cuKernelGetName) \
	X(cuKernelGetParamInfo) X(cuKernelSetAttribute) \
	X(cuKernelSetCacheConfig) X(cuLaunch) \
	X(cuLaunchCooperativeKernelMultiDevice) X(cuLaunchGrid) \
	X(cuLaunchGridAsync) X(cuLibraryEnumerateKernels) \
	X(cuLibraryGetGlobal) X(cuLibraryGetKernel) \
	X(cuLibraryGetKernelCount) X(cuLibraryGetManaged) \
	X(cuLibraryGetModule) X(cuLibraryGetUnifiedFunction) \
	X(cuLibraryLoadData) X(cuLibraryLoadFromFile) X(cuLibraryUnload) \
	X(cuLinkAddData_v2) X(cuLinkAddFile_v2) X(cuLinkComplete) \
	X(cuLinkCreate_v2) X(cuLinkDestroy) X(cuMemGetHandleForAddressRange) \
	X(cuMemMapArrayAsync) X(cuMemPoolExportPointer) \
	X(cuMemPoolExportToShareableHandle) \
	X(cuMemPoolImportFromShareableHandle) X(cuMemPoolImportPointer) \
	X(cuMemRangeGetAttribute) X(cuMemRangeGetAttributes) \
	X(cuMemcpy3DAsync_v2) X(cuMemcpy3DBatchAsync) X(cuMemcpy3DPeer) \
	X(cuMemcpy3DPeerAsync) X(cuMemcpy3D_v2) X(cuMemcpyAtoA_v2) \
	X(cuMemcpyAtoD_v2) X(cuMemcpyAtoHAsync_v2) X(cuMemcpyAtoH_v2) \
	X(cuMemcpyBatchAsync) X(cuMemcpyDtoA_v2) X(cuMemcpyHtoAAsync_v2) \
	X(cuMemcpyHtoA_v2) X(cuMemsetD2D16Async) X(cuMemsetD2D16_v2) \
	X(cuMemsetD2D32Async) X(cuMemsetD2D32_v2) X(cuMipmappedArrayCreate) \
	X(cuMipmappedArrayDestroy) X(cuMipmappedArrayGetLevel) \
	X(cuMipmappedArrayGetMemoryRequirements) \
	X(cuMipmappedArrayGetSparseProperties) X(cuModuleEnumerateFunctions) \
	X(cuModuleGetFunction) X(cuModuleGetFunctionCount) \
	X(cuModuleGetGlobal_v2) X(cuModuleGetLoadingMode) \
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
	X(cuOccupancyMaxPotentialClusterSize) \
	X(cuSignalExternalSemaphoresAsync) X(cuStreamBeginCaptureToGraph) \
	X(cuSurfObjectCreate) X(cuSurfObjectDestroy) \
	X(cuSurfObjectGetResourceDesc) X(cuTensorMapEncodeIm2col) \
	X(cuTensorMapEncodeTiled) X(cuTensorMapReplaceAddress) \
	X(cuTexObjectCreate) X(cuTexObjectDestroy) \
	X(cuTexObjectGetResourceDesc) X(cuTexObjectGetResourceViewDesc) \
	X(cuTexObjectGetTextureDesc) X(cuUserObjectCreate) \
	X(cuUserObjectRelease) X(cuUserObjectRetain) \
	X(cuWaitExternalSemaphoresAsync)
/* clang-format on */

#endif
