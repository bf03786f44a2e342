/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the properties of the simulated devices
 *
 * A device reports compute capability 9.0, but cannot run kernels.  Its memory
 * is an equal share of the host's memory.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "sim/cuda/arena.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/host.h"

#define HUGE_TEXTURE 131072
#define LAYERS 2048

static size_t share_of_pages(int name)
{
	long pages = sysconf(name), bytes = sysconf(_SC_PAGESIZE);

	return pages > 0
	               ? (size_t)pages * (size_t)bytes / (size_t)device_count()
	               : 0;
}

size_t device_memory_bytes(void)
{
	return share_of_pages(_SC_PHYS_PAGES);
}

static void fill_compute(struct cudaDeviceProp12 *p)
{
	p->major = 9;
	p->minor = 0;
	p->sharedMemPerBlock = 48 * 1024;
	p->sharedMemPerBlockOptin = 227 * 1024;
	p->sharedMemPerMultiprocessor = 228 * 1024;
	p->reservedSharedMemPerBlock = 1024;
	p->regsPerBlock = p->regsPerMultiprocessor = 65536;
	p->warpSize = 32;
	p->maxThreadsPerBlock = 1024;
	p->maxThreadsPerMultiProcessor = 2048;
	p->maxBlocksPerMultiProcessor = 32;
	p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
	p->maxThreadsDim[2] = 64;
	p->maxGridSize[0] = 2147483647;
	p->maxGridSize[1] = p->maxGridSize[2] = 65535;
	p->totalConstMem = 64 * 1024;
	p->memPitch = 2147483647;
	p->textureAlignment = p->surfaceAlignment = 512;
	p->texturePitchAlignment = 32;
	p->singleToDoublePrecisionPerfRatio = 2;
	p->globalL1CacheSupported = p->localL1CacheSupported = 1;
}

static void set2(int *sizes, int a, int b)
{
	sizes[0] = a;
	sizes[1] = b;
}

static void set3(int *sizes, int a, int b, int c)
{
	set2(sizes, a, b);
	sizes[2] = c;
}

static void fill_textures(struct cudaDeviceProp12 *p)
{
	p->maxTexture1D = p->maxSurface1D = HUGE_TEXTURE / 4;
	p->maxTexture1DMipmap = HUGE_TEXTURE / 4;
	p->maxTexture1DLinear = 268435456;
	p->maxTextureCubemap = p->maxSurfaceCubemap = HUGE_TEXTURE / 4;
	set2(p->maxTexture2D, HUGE_TEXTURE, HUGE_TEXTURE / 2);
	set2(p->maxSurface2D, HUGE_TEXTURE, HUGE_TEXTURE / 2);
	set2(p->maxTexture2DMipmap, HUGE_TEXTURE / 4, HUGE_TEXTURE / 4);
	set2(p->maxTexture2DGather, HUGE_TEXTURE / 4, HUGE_TEXTURE / 4);
	set2(p->maxTexture1DLayered, HUGE_TEXTURE / 4, LAYERS);
	set2(p->maxSurface1DLayered, HUGE_TEXTURE / 4, LAYERS);
	set2(p->maxTextureCubemapLayered, HUGE_TEXTURE / 4, LAYERS - 2);
	set2(p->maxSurfaceCubemapLayered, HUGE_TEXTURE / 4, LAYERS - 2);
	set3(p->maxTexture2DLinear, HUGE_TEXTURE, 65000, 2097120);
	set3(p->maxTexture2DLayered, HUGE_TEXTURE / 4, HUGE_TEXTURE / 4,
	     LAYERS);
	set3(p->maxSurface2DLayered, HUGE_TEXTURE / 4, HUGE_TEXTURE / 4,
	     LAYERS);
	set3(p->maxTexture3D, 16384, 16384, 16384);
	set3(p->maxSurface3D, 16384, 16384, 16384);
	set3(p->maxTexture3DAlt, 8192, 8192, 32768);
}

/* Set the properties that follow from using host memory as device memory. */
static void fill_memory(struct cudaDeviceProp12 *p)
{
	p->totalGlobalMem = device_memory_bytes();
	p->memoryBusWidth = 64;
	p->memoryClockRate = 1000000;
	p->canMapHostMemory = 1;
	p->unifiedAddressing = 1;
	p->managedMemory = 1;
	p->concurrentManagedAccess = 1;
	p->directManagedMemAccessFromHost = 1;
	p->pageableMemoryAccess = 1;
	p->pageableMemoryAccessUsesHostPageTables = 1;
	p->hostNativeAtomicSupported = 1;
	p->hostRegisterSupported = 1;
	p->hostRegisterReadOnlySupported = 1;
	p->canUseHostPointerForRegisteredMem = 1;
	p->memoryPoolsSupported = 1;
}

static void fill_12(struct cudaDeviceProp12 *p, int device)
{
	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "Cohort host device");
	snprintf(p->uuid.bytes, sizeof(p->uuid.bytes), "cohort host");
	p->uuid.bytes[15] = (char)device;
	p->pciBusID = DEVICE_PCI_BUS(device);
	p->clockRate = 1000000;
	/* as in the H100, which has compute capability 9.0 */
	p->multiProcessorCount = 132;
	p->deviceOverlap = p->asyncEngineCount = 1;
	p->concurrentKernels = 1;
	p->streamPrioritiesSupported = 1;
	fill_compute(p);
	fill_textures(p);
	fill_memory(p);
}

/* Convert properties from CUDA 12 to CUDA 13, which has dropped some fields. */
static void fill_13(struct cudaDeviceProp *q, const struct cudaDeviceProp12 *p)
{
	memset(q, 0, sizeof(*q));
#define FILL(type, field, dimensions)                                          \
	memcpy(&q->field, &p->field, sizeof(q->field));
#define DROP(type, field, dimensions)
	CUDA_DEVICE_PROPERTIES(FILL, DROP)
#undef FILL
#undef DROP
	q->deviceNumaId = q->hostNumaId = -1;
}

static cudaError_t get_12(struct cudaDeviceProp12 *out, size_t bytes,
                          int device)
{
	struct cudaDeviceProp12 p;

	if (!out)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(device))
		return device_error(cudaErrorInvalidDevice);
	fill_12(&p, device);
	memcpy(out, &p, bytes);
	return cudaSuccess;
}

cudaError_t host12_cudaGetDeviceProperties_v2(struct cudaDeviceProp12 *p,
                                              int device)
{
	return get_12(p, sizeof(*p), device);
}

/* Get the properties in CUDA 11's structure, which is a prefix of CUDA 12's. */
cudaError_t host12_cudaGetDeviceProperties(struct cudaDeviceProp12 *p,
                                           int device)
{
	return get_12(p,
	              offsetof(struct cudaDeviceProp12, hostRegisterSupported),
	              device);
}

cudaError_t host_cudaGetDeviceProperties(struct cudaDeviceProp *properties,
                                         int device)
{
	struct cudaDeviceProp12 p;

	if (!properties)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(device))
		return device_error(cudaErrorInvalidDevice);
	fill_12(&p, device);
	fill_13(properties, &p);
	return cudaSuccess;
}

bool device_attribute(int *value, int attribute, int device)
{
	struct cudaDeviceProp12 properties12;
	const struct cudaDeviceProp12 *const p = &properties12;
	struct cudaDeviceProp properties;
	const struct cudaDeviceProp *const q = &properties;

	fill_12(&properties12, device);
	fill_13(&properties, p);
	switch (attribute) {
#define VALUE(name, number, expression)                                        \
	case name:                                                             \
		*value = (int)(expression);                                    \
		return true;
		CUDA_ATTRIBUTES(VALUE)
#undef VALUE
	default:
		return false;
	}
}

cudaError_t host_cudaDeviceGetAttribute(int *value,
                                        enum cudaDeviceAttr attribute,
                                        int device)
{
	if (!value)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(device))
		return device_error(cudaErrorInvalidDevice);
	return device_attribute(value, (int)attribute, device)
	               ? cudaSuccess
	               : device_error(cudaErrorInvalidValue);
}

/* Choose any device.  All devices are alike, so the properties do not
 * matter. */
cudaError_t host_cudaChooseDevice(int *device,
                                  const struct cudaDeviceProp *properties)
{
	if (!device || !properties)
		return device_error(cudaErrorInvalidValue);
	*device = 0;
	return cudaSuccess;
}

/* Store the current device's free memory, which is at most its share of the
 * host's free memory, and the size of its memory. */
cudaError_t host_cudaMemGetInfo(size_t *free, size_t *total)
{
	size_t unused;

	if (!free || !total)
		return device_error(cudaErrorInvalidValue);
	unused = memory_unused(device_current());
	*free = share_of_pages(_SC_AVPHYS_PAGES);
	*free = MIN(*free, unused);
	*total = device_memory_bytes();
	return cudaSuccess;
}
