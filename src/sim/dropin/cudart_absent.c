/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the functions of the CUDA runtime that the host platform lacks:
 * functions of 13.0, and functions of 12 that 13.0 has dropped
 *
 * A program that is linked against such a function can start.  If the program
 * calls the function, a message names it.
 */

#include "sim/dropin/unsupported.h"

/* clang-format off */
#define ABSENT_13(X) \
	X(__cudaGetProcAddress) X(__cudaRegisterUnifiedTable) \
	X(cudaArrayGetInfo) X(cudaArrayGetMemoryRequirements) \
	X(cudaArrayGetPlane) X(cudaArrayGetSparseProperties) \
	X(cudaCreateChannelDesc) X(cudaCreateSurfaceObject) \
	X(cudaCreateTextureObject) X(cudaCtxResetPersistingL2Cache) \
	X(cudaDestroyExternalMemory) X(cudaDestroyExternalSemaphore) \
	X(cudaDestroySurfaceObject) X(cudaDestroyTextureObject) \
	X(cudaDeviceFlushGPUDirectRDMAWrites) X(cudaDeviceGetCacheConfig) \
	X(cudaDeviceGetGraphMemAttribute) \
	X(cudaDeviceGetHostAtomicCapabilities) \
	X(cudaDeviceGetNvSciSyncAttributes) \
	X(cudaDeviceGetP2PAtomicCapabilities) X(cudaDeviceGetSharedMemConfig) \
	X(cudaDeviceGetTexture1DLinearMaxWidth) X(cudaDeviceGraphMemTrim) \
	X(cudaDeviceRegisterAsyncNotification) X(cudaDeviceSetCacheConfig) \
	X(cudaDeviceSetGraphMemAttribute) X(cudaDeviceSetSharedMemConfig) \
	X(cudaDeviceUnregisterAsyncNotification) \
	X(cudaEGLStreamConsumerAcquireFrame) X(cudaEGLStreamConsumerConnect) \
	X(cudaEGLStreamConsumerConnectWithFlags) \
	X(cudaEGLStreamConsumerDisconnect) \
	X(cudaEGLStreamConsumerReleaseFrame) X(cudaEGLStreamProducerConnect) \
	X(cudaEGLStreamProducerDisconnect) \
	X(cudaEGLStreamProducerPresentFrame) \
	X(cudaEGLStreamProducerReturnFrame) X(cudaEventCreateFromEGLSync) \
	X(cudaExternalMemoryGetMappedBuffer) \
	X(cudaExternalMemoryGetMappedMipmappedArray) X(cudaFreeArray) \
	X(cudaFreeMipmappedArray) X(cudaFuncGetParamInfo) X(cudaGLGetDevices) \
	X(cudaGLMapBufferObject) X(cudaGLMapBufferObjectAsync) \
	X(cudaGLRegisterBufferObject) X(cudaGLSetBufferObjectMapFlags) \
	X(cudaGLSetGLDevice) X(cudaGLUnmapBufferObject) \
	X(cudaGLUnmapBufferObjectAsync) X(cudaGLUnregisterBufferObject) \
	X(cudaGetChannelDesc) X(cudaGetExportTable) X(cudaGetFuncBySymbol) \
	X(cudaGetKernel) X(cudaGetMipmappedArrayLevel) \
	X(cudaGetSurfaceObjectResourceDesc) X(cudaGetSymbolAddress) \
	X(cudaGetSymbolSize) X(cudaGetTextureObjectResourceDesc) \
	X(cudaGetTextureObjectResourceViewDesc) \
	X(cudaGetTextureObjectTextureDesc) X(cudaGraphAddChildGraphNode) \
	X(cudaGraphAddEmptyNode) X(cudaGraphAddEventWaitNode) \
	X(cudaGraphAddExternalSemaphoresSignalNode) \
	X(cudaGraphAddExternalSemaphoresWaitNode) X(cudaGraphAddHostNode) \
	X(cudaGraphAddKernelNode) X(cudaGraphAddMemAllocNode) \
	X(cudaGraphAddMemFreeNode) X(cudaGraphAddMemcpyNode) \
	X(cudaGraphAddMemcpyNode1D) X(cudaGraphAddMemcpyNodeFromSymbol) \
	X(cudaGraphAddMemcpyNodeToSymbol) X(cudaGraphAddMemsetNode) \
	X(cudaGraphAddNode) X(cudaGraphChildGraphNodeGetGraph) \
	X(cudaGraphClone) X(cudaGraphConditionalHandleCreate) \
	X(cudaGraphDebugDotPrint) X(cudaGraphDestroyNode) \
	X(cudaGraphEventRecordNodeGetEvent) \
	X(cudaGraphEventRecordNodeSetEvent) X(cudaGraphEventWaitNodeGetEvent) \
	X(cudaGraphEventWaitNodeSetEvent) \
	X(cudaGraphExecChildGraphNodeSetParams) \
	X(cudaGraphExecEventRecordNodeSetEvent) \
	X(cudaGraphExecEventWaitNodeSetEvent) \
	X(cudaGraphExecExternalSemaphoresSignalNodeSetParams) \
	X(cudaGraphExecExternalSemaphoresWaitNodeSetParams) \
	X(cudaGraphExecHostNodeSetParams) X(cudaGraphExecKernelNodeSetParams) \
	X(cudaGraphExecMemcpyNodeSetParams) \
	X(cudaGraphExecMemcpyNodeSetParams1D) \
	X(cudaGraphExecMemcpyNodeSetParamsFromSymbol) \
	X(cudaGraphExecMemcpyNodeSetParamsToSymbol) \
	X(cudaGraphExecMemsetNodeSetParams) X(cudaGraphExecNodeSetParams) \
	X(cudaGraphExecUpdate) \
	X(cudaGraphExternalSemaphoresSignalNodeGetParams) \
	X(cudaGraphExternalSemaphoresSignalNodeSetParams) \
	X(cudaGraphExternalSemaphoresWaitNodeGetParams) \
	X(cudaGraphExternalSemaphoresWaitNodeSetParams) X(cudaGraphGetEdges) \
	X(cudaGraphHostNodeGetParams) X(cudaGraphHostNodeSetParams) \
	X(cudaGraphInstantiateWithParams) \
	X(cudaGraphInstantiateWithParams_ptsz) \
	X(cudaGraphKernelNodeCopyAttributes) \
	X(cudaGraphKernelNodeGetAttribute) X(cudaGraphKernelNodeGetParams) \
	X(cudaGraphKernelNodeSetAttribute) X(cudaGraphKernelNodeSetParams) \
	X(cudaGraphMemAllocNodeGetParams) X(cudaGraphMemFreeNodeGetParams) \
	X(cudaGraphMemcpyNodeGetParams) X(cudaGraphMemcpyNodeSetParams) \
	X(cudaGraphMemcpyNodeSetParams1D) \
	X(cudaGraphMemcpyNodeSetParamsFromSymbol) \
	X(cudaGraphMemcpyNodeSetParamsToSymbol) \
	X(cudaGraphMemsetNodeGetParams) X(cudaGraphMemsetNodeSetParams) \
	X(cudaGraphNodeFindInClone) X(cudaGraphNodeGetDependencies) \
	X(cudaGraphNodeGetDependentNodes) X(cudaGraphNodeGetEnabled) \
	X(cudaGraphNodeSetEnabled) X(cudaGraphNodeSetParams) \
	X(cudaGraphRemoveDependencies) X(cudaGraphicsEGLRegisterImage) \
	X(cudaGraphicsGLRegisterBuffer) X(cudaGraphicsGLRegisterImage) \
	X(cudaGraphicsMapResources) X(cudaGraphicsResourceGetMappedEglFrame) \
	X(cudaGraphicsResourceGetMappedMipmappedArray) \
	X(cudaGraphicsResourceGetMappedPointer) \
	X(cudaGraphicsResourceSetMapFlags) \
	X(cudaGraphicsSubResourceGetMappedArray) X(cudaGraphicsUnmapResources) \
	X(cudaGraphicsUnregisterResource) \
	X(cudaGraphicsVDPAURegisterOutputSurface) \
	X(cudaGraphicsVDPAURegisterVideoSurface) X(cudaImportExternalMemory) \
	X(cudaImportExternalSemaphore) X(cudaIpcGetEventHandle) \
	X(cudaIpcOpenEventHandle) X(cudaKernelSetAttributeForDevice) \
	X(cudaLibraryEnumerateKernels) X(cudaLibraryGetGlobal) \
	X(cudaLibraryGetKernel) X(cudaLibraryGetKernelCount) \
	X(cudaLibraryGetManaged) X(cudaLibraryGetUnifiedFunction) \
	X(cudaLibraryLoadData) X(cudaLibraryLoadFromFile) X(cudaLibraryUnload) \
	X(cudaLogsCurrent) X(cudaLogsDumpToFile) X(cudaLogsDumpToMemory) \
	X(cudaLogsRegisterCallback) X(cudaLogsUnregisterCallback) \
	X(cudaMalloc3D) X(cudaMalloc3DArray) X(cudaMallocArray) \
	X(cudaMallocMipmappedArray) X(cudaMemDiscardAndPrefetchBatchAsync) \
	X(cudaMemDiscardAndPrefetchBatchAsync_ptsz) \
	X(cudaMemDiscardBatchAsync) X(cudaMemDiscardBatchAsync_ptsz) \
	X(cudaMemGetDefaultMemPool) X(cudaMemGetMemPool) \
	X(cudaMemPoolExportPointer) X(cudaMemPoolExportToShareableHandle) \
	X(cudaMemPoolImportFromShareableHandle) X(cudaMemPoolImportPointer) \
	X(cudaMemPrefetchBatchAsync) X(cudaMemPrefetchBatchAsync_ptsz) \
	X(cudaMemRangeGetAttribute) X(cudaMemRangeGetAttributes) \
	X(cudaMemSetMemPool) X(cudaMemcpy2DArrayToArray) \
	X(cudaMemcpy2DArrayToArray_ptds) X(cudaMemcpy2DFromArray) \
	X(cudaMemcpy2DFromArrayAsync) X(cudaMemcpy2DFromArrayAsync_ptsz) \
	X(cudaMemcpy2DFromArray_ptds) X(cudaMemcpy2DToArray) \
	X(cudaMemcpy2DToArrayAsync) X(cudaMemcpy2DToArrayAsync_ptsz) \
	X(cudaMemcpy2DToArray_ptds) X(cudaMemcpy3D) X(cudaMemcpy3DAsync) \
	X(cudaMemcpy3DAsync_ptsz) X(cudaMemcpy3DBatchAsync) \
	X(cudaMemcpy3DBatchAsync_ptsz) X(cudaMemcpy3DPeer) \
	X(cudaMemcpy3DPeerAsync) X(cudaMemcpy3DPeerAsync_ptsz) \
	X(cudaMemcpy3DPeer_ptds) X(cudaMemcpy3D_ptds) \
	X(cudaMemcpyArrayToArray) X(cudaMemcpyArrayToArray_ptds) \
	X(cudaMemcpyBatchAsync) X(cudaMemcpyBatchAsync_ptsz) \
	X(cudaMemcpyFromArray) X(cudaMemcpyFromArrayAsync) \
	X(cudaMemcpyFromArrayAsync_ptsz) X(cudaMemcpyFromArray_ptds) \
	X(cudaMemcpyFromSymbol) X(cudaMemcpyFromSymbolAsync) \
	X(cudaMemcpyFromSymbolAsync_ptsz) X(cudaMemcpyFromSymbol_ptds) \
	X(cudaMemcpyToArray) X(cudaMemcpyToArrayAsync) \
	X(cudaMemcpyToArrayAsync_ptsz) X(cudaMemcpyToArray_ptds) \
	X(cudaMemcpyToSymbol) X(cudaMemcpyToSymbolAsync) \
	X(cudaMemcpyToSymbolAsync_ptsz) X(cudaMemcpyToSymbol_ptds) \
	X(cudaMemset3D) X(cudaMemset3DAsync) X(cudaMemset3DAsync_ptsz) \
	X(cudaMemset3D_ptds) X(cudaMipmappedArrayGetMemoryRequirements) \
	X(cudaMipmappedArrayGetSparseProperties) \
	X(cudaSignalExternalSemaphoresAsync) \
	X(cudaSignalExternalSemaphoresAsync_ptsz) \
	X(cudaStreamBeginCaptureToGraph) X(cudaStreamBeginCaptureToGraph_ptsz) \
	X(cudaStreamCopyAttributes) X(cudaStreamCopyAttributes_ptsz) \
	X(cudaStreamGetAttribute) X(cudaStreamGetAttribute_ptsz) \
	X(cudaStreamSetAttribute) X(cudaStreamSetAttribute_ptsz) \
	X(cudaVDPAUGetDevice) X(cudaVDPAUSetVDPAUDevice) \
	X(cudaWaitExternalSemaphoresAsync) \
	X(cudaWaitExternalSemaphoresAsync_ptsz)

#define ABSENT_12(X) \
	ABSENT_13(X) \
	X(cudaGraphAddNode_v2) X(cudaGraphGetEdges_v2) \
	X(cudaGraphNodeGetDependencies_v2) \
	X(cudaGraphNodeGetDependentNodes_v2) X(cudaGraphRemoveDependencies_v2) \
	X(cudaLaunchCooperativeKernelMultiDevice) X(cudaSetDoubleForDevice) \
	X(cudaSetDoubleForHost) X(cudaSignalExternalSemaphoresAsync_v2) \
	X(cudaSignalExternalSemaphoresAsync_v2_ptsz) X(cudaThreadExit) \
	X(cudaThreadGetCacheConfig) X(cudaThreadGetLimit) \
	X(cudaThreadSetCacheConfig) X(cudaThreadSetLimit) \
	X(cudaThreadSynchronize) X(cudaWaitExternalSemaphoresAsync_v2) \
	X(cudaWaitExternalSemaphoresAsync_v2_ptsz)
/* clang-format on */

#if CUDART == 12
ABSENT_12(ABSENT)
#else
ABSENT_13(ABSENT)
#endif
