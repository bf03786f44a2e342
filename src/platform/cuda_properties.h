/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_CUDA_PROPERTIES_H
#define PLATFORM_CUDA_PROPERTIES_H

/*
 * The fields of cudaDeviceProp in the layouts of CUDA 13 and CUDA 12, where the
 * layout of CUDA 12 is the one that cudaGetDeviceProperties_v2() fills in.  No
 * types are declared here, so that the lists can also be used with the real
 * headers.
 *
 * Both layouts have the same fields in the same order, but CUDA 13 has dropped
 * some: FIELD(type, name, dimensions), or DROPPED(...) for a field that only
 * CUDA 12 has.  The space after these fields was reserved in CUDA 12 and is
 * partly used in CUDA 13.
 */

/* clang-format off */
#define CUDA_DEVICE_PROPERTIES(FIELD, DROPPED) \
	FIELD(char, name, [256]) \
	FIELD(cudaUUID_t, uuid, ) \
	FIELD(char, luid, [8]) \
	FIELD(unsigned int, luidDeviceNodeMask, ) \
	FIELD(size_t, totalGlobalMem, ) \
	FIELD(size_t, sharedMemPerBlock, ) \
	FIELD(int, regsPerBlock, ) \
	FIELD(int, warpSize, ) \
	FIELD(size_t, memPitch, ) \
	FIELD(int, maxThreadsPerBlock, ) \
	FIELD(int, maxThreadsDim, [3]) \
	FIELD(int, maxGridSize, [3]) \
	DROPPED(int, clockRate, ) \
	FIELD(size_t, totalConstMem, ) \
	FIELD(int, major, ) \
	FIELD(int, minor, ) \
	FIELD(size_t, textureAlignment, ) \
	FIELD(size_t, texturePitchAlignment, ) \
	DROPPED(int, deviceOverlap, ) \
	FIELD(int, multiProcessorCount, ) \
	DROPPED(int, kernelExecTimeoutEnabled, ) \
	FIELD(int, integrated, ) \
	FIELD(int, canMapHostMemory, ) \
	DROPPED(int, computeMode, ) \
	FIELD(int, maxTexture1D, ) \
	FIELD(int, maxTexture1DMipmap, ) \
	DROPPED(int, maxTexture1DLinear, ) \
	FIELD(int, maxTexture2D, [2]) \
	FIELD(int, maxTexture2DMipmap, [2]) \
	FIELD(int, maxTexture2DLinear, [3]) \
	FIELD(int, maxTexture2DGather, [2]) \
	FIELD(int, maxTexture3D, [3]) \
	FIELD(int, maxTexture3DAlt, [3]) \
	FIELD(int, maxTextureCubemap, ) \
	FIELD(int, maxTexture1DLayered, [2]) \
	FIELD(int, maxTexture2DLayered, [3]) \
	FIELD(int, maxTextureCubemapLayered, [2]) \
	FIELD(int, maxSurface1D, ) \
	FIELD(int, maxSurface2D, [2]) \
	FIELD(int, maxSurface3D, [3]) \
	FIELD(int, maxSurface1DLayered, [2]) \
	FIELD(int, maxSurface2DLayered, [3]) \
	FIELD(int, maxSurfaceCubemap, ) \
	FIELD(int, maxSurfaceCubemapLayered, [2]) \
	FIELD(size_t, surfaceAlignment, ) \
	FIELD(int, concurrentKernels, ) \
	FIELD(int, ECCEnabled, ) \
	FIELD(int, pciBusID, ) \
	FIELD(int, pciDeviceID, ) \
	FIELD(int, pciDomainID, ) \
	FIELD(int, tccDriver, ) \
	FIELD(int, asyncEngineCount, ) \
	FIELD(int, unifiedAddressing, ) \
	DROPPED(int, memoryClockRate, ) \
	FIELD(int, memoryBusWidth, ) \
	FIELD(int, l2CacheSize, ) \
	FIELD(int, persistingL2CacheMaxSize, ) \
	FIELD(int, maxThreadsPerMultiProcessor, ) \
	FIELD(int, streamPrioritiesSupported, ) \
	FIELD(int, globalL1CacheSupported, ) \
	FIELD(int, localL1CacheSupported, ) \
	FIELD(size_t, sharedMemPerMultiprocessor, ) \
	FIELD(int, regsPerMultiprocessor, ) \
	FIELD(int, managedMemory, ) \
	FIELD(int, isMultiGpuBoard, ) \
	FIELD(int, multiGpuBoardGroupID, ) \
	FIELD(int, hostNativeAtomicSupported, ) \
	DROPPED(int, singleToDoublePrecisionPerfRatio, ) \
	FIELD(int, pageableMemoryAccess, ) \
	FIELD(int, concurrentManagedAccess, ) \
	FIELD(int, computePreemptionSupported, ) \
	FIELD(int, canUseHostPointerForRegisteredMem, ) \
	FIELD(int, cooperativeLaunch, ) \
	DROPPED(int, cooperativeMultiDeviceLaunch, ) \
	FIELD(size_t, sharedMemPerBlockOptin, ) \
	FIELD(int, pageableMemoryAccessUsesHostPageTables, ) \
	FIELD(int, directManagedMemAccessFromHost, ) \
	FIELD(int, maxBlocksPerMultiProcessor, ) \
	FIELD(int, accessPolicyMaxWindowSize, ) \
	FIELD(size_t, reservedSharedMemPerBlock, ) \
	FIELD(int, hostRegisterSupported, ) \
	FIELD(int, sparseCudaArraySupported, ) \
	FIELD(int, hostRegisterReadOnlySupported, ) \
	FIELD(int, timelineSemaphoreInteropSupported, ) \
	FIELD(int, memoryPoolsSupported, ) \
	FIELD(int, gpuDirectRDMASupported, ) \
	FIELD(unsigned int, gpuDirectRDMAFlushWritesOptions, ) \
	FIELD(int, gpuDirectRDMAWritesOrdering, ) \
	FIELD(unsigned int, memoryPoolSupportedHandleTypes, ) \
	FIELD(int, deferredMappingCudaArraySupported, ) \
	FIELD(int, ipcEventSupported, ) \
	FIELD(int, clusterLaunch, ) \
	FIELD(int, unifiedFunctionPointers, )

/* Fields that only CUDA 13 has.  They follow those of
 * CUDA_DEVICE_PROPERTIES. */
#define CUDA_DEVICE_PROPERTIES_13(FIELD) \
	FIELD(int, deviceNumaConfig, ) \
	FIELD(int, deviceNumaId, ) \
	FIELD(int, mpsEnabled, ) \
	FIELD(int, hostNumaId, ) \
	FIELD(unsigned int, gpuPciDeviceID, ) \
	FIELD(unsigned int, gpuPciSubsystemID, ) \
	FIELD(int, hostNumaMultinodeIpcSupported, )
/* clang-format on */

#endif
