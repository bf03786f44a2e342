/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls of the CUDA driver that driver.c does not make: contexts, devices,
 * peers, pools, kinds of memory, addresses, copies, and unsupported functions
 */

#include <cuda.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "driver.h"

/* clang-format off */
#define FUNCTIONS(X) \
	X(cuInit) X(cuDeviceGetCount) X(cuDeviceGetAttribute) \
	X(cuDeviceCanAccessPeer) \
	X(cuDeviceGetP2PAttribute) X(cuGetErrorName) X(cuGetErrorString) \
	X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) \
	X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxSetFlags) \
	X(cuDevicePrimaryCtxGetState) X(cuCtxCreate) X(cuCtxDestroy) \
	X(cuCtxSetCurrent) X(cuCtxGetFlags) X(cuCtxSetFlags) X(cuCtxGetId) \
	X(cuCtxGetApiVersion) X(cuCtxGetCacheConfig) X(cuCtxSetCacheConfig) \
	X(cuCtxGetLimit) X(cuCtxSetLimit) X(cuCtxGetStreamPriorityRange) \
	X(cuCtxEnablePeerAccess) X(cuCtxDisablePeerAccess) \
	X(cuDeviceGetDefaultMemPool) X(cuDeviceGetMemPool) \
	X(cuDeviceSetMemPool) X(cuMemPoolCreate) X(cuMemPoolDestroy) \
	X(cuMemPoolGetAccess) X(cuMemPoolGetAttribute) X(cuMemPoolSetAccess) \
	X(cuMemPoolSetAttribute) X(cuMemPoolTrimTo) \
	X(cuMemAllocFromPoolAsync) X(cuMemAllocAsync) X(cuMemFreeAsync) \
	X(cuMemAlloc) X(cuMemFree) X(cuMemAllocHost) X(cuMemAllocManaged) \
	X(cuMemAllocPitch) X(cuMemGetInfo) X(cuMemHostAlloc) X(cuMemFreeHost) \
	X(cuMemHostGetFlags) X(cuMemHostRegister) X(cuMemHostUnregister) \
	X(cuMemHostGetDevicePointer) X(cuMemAdvise) \
	X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) \
	X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
	X(cuMemGetAccess) X(cuPointerGetAttribute) X(cuPointerGetAttributes) \
	X(cuPointerSetAttribute) \
	X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) \
	X(cuStreamCreate) X(cuStreamDestroy) \
	X(cuStreamQuery) X(cuStreamSynchronize) X(cuLaunchHostFunc) \
	X(cuMemsetD8) X(cuMemsetD32) X(cuMemcpyPeer) X(cuMemcpyPeerAsync) \
	X(cuMemcpy2D) X(cuMemcpy2DUnaligned) X(cuMemcpyDtoH) \
	X(cuLaunchKernel) X(cuLaunchCooperativeKernel) X(cuLaunchKernelEx) \
	X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuFuncSetCacheConfig) \
	X(cuFlushGPUDirectRDMAWrites)
/* clang-format on */

FUNCTIONS(POINTER)

#define NOWHERE ((CUdeviceptr)64)

static int devices;
static CUcontext primary[2];

static void use(int device)
{
	CU(cuCtxSetCurrent(primary[device]));
}

/* ---- without a context ------------------------------------------------ */

static void need_a_context(void)
{
	unsigned int flags, version;
	unsigned long long id;
	int least, greatest;
	CUfunc_cache config;
	size_t value, all;
	CUdeviceptr device;
	void *memory;

	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuCtxGetFlags(&flags));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuCtxSetFlags(0));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuCtxGetId(NULL, &id));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuCtxGetApiVersion(NULL, &version));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuCtxGetCacheConfig(&config));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuCtxGetStreamPriorityRange(&least, &greatest));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuCtxEnablePeerAccess(primary[1], 0));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuMemGetInfo(&value, &all));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuMemAllocHost(&memory, 8));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuMemAllocManaged(&device, 8, CU_MEM_ATTACH_GLOBAL));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuMemHostRegister(&value, 8, 0));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuMemHostUnregister(&value));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuMemHostGetFlags(&flags, &value));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuMemcpyPeer(NOWHERE, primary[0], NOWHERE, primary[1], 8));
}

/* ---- contexts and devices --------------------------------------------- */

static void primary_flags(void)
{
	unsigned int flags = 9;
	int active;

	GIVES(CUDA_ERROR_INVALID_DEVICE, p_cuDevicePrimaryCtxSetFlags(-1, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuDevicePrimaryCtxSetFlags(
		      0, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_BLOCKING_SYNC));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuDevicePrimaryCtxSetFlags(0, 0x100));
	CU(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
	CU(cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK(flags == CU_CTX_SCHED_BLOCKING_SYNC);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuDevicePrimaryCtxGetState(0, NULL, &active));
	GIVES(CUDA_ERROR_INVALID_DEVICE, p_cuDevicePrimaryCtxReset(devices));
	CU(cuDevicePrimaryCtxReset(0));
	CU(cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK(!flags);
}

/* Create a context with parameters that request nothing special. */
static CUcontext create_plain(void)
{
	CUctxCreateParams params;
	CUcontext context;

	memset(&params, 0, sizeof(params));
	params.numExecAffinityParams = 1;
	GIVES(CUDA_ERROR_NOT_SUPPORTED, p_cuCtxCreate(&context, &params, 0, 0));
	params.numExecAffinityParams = 0;
	CU(cuCtxCreate(&context, &params, CU_CTX_SCHED_SPIN, 0));
	return context;
}

static void context_facts(void)
{
	unsigned long long one, two;
	unsigned int flags, version;
	CUfunc_cache config;
	CUcontext other;

	other = create_plain();
	CU(cuCtxGetFlags(&flags));
	CHECK(flags & CU_CTX_SCHED_SPIN);
	CU(cuCtxSetFlags(0));
	CU(cuCtxGetFlags(&flags));
	CHECK(!(flags & CU_CTX_SCHED_SPIN));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxSetFlags(0x100));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxGetFlags(NULL));
	CU(cuCtxGetId(NULL, &one));
	CU(cuCtxGetId(primary[0], &two));
	CHECK(one != two);
	CU(cuCtxGetId(other, &two));
	CHECK(one == two);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxGetId(other, NULL));
	CU(cuCtxGetApiVersion(other, &version));
	CHECK(version >= 3010);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxGetApiVersion(other, NULL));
	CU(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxSetCacheConfig((CUfunc_cache)4));
	CU(cuCtxGetCacheConfig(&config));
	CHECK((unsigned int)config <= CU_FUNC_CACHE_PREFER_EQUAL);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxGetCacheConfig(NULL));
	CU(cuCtxDestroy(other));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxDestroy(NULL));
}

static void limits(void)
{
	int least, greatest;
	size_t value;

	CU(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	CU(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	CHECK(value == 4096);
	CU(cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 1000));
	CU(cuCtxGetLimit(&value, CU_LIMIT_MAX_L2_FETCH_GRANULARITY));
	CHECK(value <= 128);
	GIVES(CUDA_ERROR_UNSUPPORTED_LIMIT,
	      p_cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxGetLimit(&value, (CUlimit)99));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxSetLimit((CUlimit)99, 1));
	CU(cuCtxGetStreamPriorityRange(&least, &greatest));
	CHECK(greatest <= least);
	CU(cuCtxGetStreamPriorityRange(NULL, NULL));
}

static void device_facts(void)
{
	CUresult (*capability)(int *, int *, CUdevice);
	int major, minor, value;
	const char *text;

	find("cuDeviceComputeCapability", 2000, 0, &capability);
	GIVES(CUDA_SUCCESS, capability(&major, &minor, 0));
	CU(cuDeviceGetAttribute(
		&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	CHECK(value == major);
	GIVES(CUDA_ERROR_INVALID_VALUE, capability(NULL, &minor, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, capability(&major, NULL, 0));
	GIVES(CUDA_ERROR_INVALID_DEVICE, capability(&major, &minor, devices));
	CU(cuGetErrorName(CUDA_ERROR_INVALID_CLUSTER_SIZE, &text));
	CHECK(strcmp(text, "CUDA_ERROR_INVALID_CLUSTER_SIZE") == 0);
	CU(cuGetErrorString(CUDA_ERROR_PROFILER_NOT_INITIALIZED, &text));
	CHECK(*text);
}

static void peers(void)
{
	CUcontext other;
	int value;

	CU(cuDeviceCanAccessPeer(&value, 0, 1));
	CHECK(value == 1);
	CU(cuDeviceCanAccessPeer(&value, 1, 1));
	CHECK(value == 0);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuDeviceCanAccessPeer(NULL, 0, 1));
	GIVES(CUDA_ERROR_INVALID_DEVICE,
	      p_cuDeviceCanAccessPeer(&value, 0, devices));
	CU(cuDeviceGetP2PAttribute(
		&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	CHECK(value == 1);
	GIVES(CUDA_ERROR_INVALID_DEVICE,
	      p_cuDeviceGetP2PAttribute(
		      &value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)77, 0,
	                                1));
	GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
	      p_cuCtxDisablePeerAccess(primary[1]));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuCtxEnablePeerAccess(primary[1], 1));
	CU(cuCtxEnablePeerAccess(primary[1], 0));
	GIVES(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
	      p_cuCtxEnablePeerAccess(primary[1], 0));
	CU(cuCtxDisablePeerAccess(primary[1]));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuCtxEnablePeerAccess(primary[0], 0));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuCtxEnablePeerAccess(NULL, 0));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuCtxDisablePeerAccess(NULL));
	CU(cuCtxCreate(&other, NULL, 0, 0));
	GIVES(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
	      p_cuCtxEnablePeerAccess(primary[0], 0));
	CU(cuCtxDestroy(other));
}

/* ---- pools ------------------------------------------------------------ */

static CUmemoryPool make_pool(size_t most)
{
	CUmemPoolProps props;
	CUmemoryPool pool;

	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.maxSize = most;
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemPoolCreate(NULL, &props));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemPoolCreate(&pool, NULL));
	props.location.id = devices;
	GIVES(CUDA_ERROR_INVALID_DEVICE, p_cuMemPoolCreate(&pool, &props));
	props.location.id = 0;
	CU(cuMemPoolCreate(&pool, &props));
	return pool;
}

static void pool_counts(CUmemoryPool pool, CUstream stream)
{
	CUdeviceptr memory, more;
	cuuint64_t value = 12345;

	CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
	                         &value));
	value = 0;
	CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
	                         &value));
	CHECK(value == 12345);
	CU(cuMemAllocFromPoolAsync(&memory, 4096, pool, stream));
	CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
	                         &value));
	CHECK(value == 4096);
	GIVES(CUDA_ERROR_OUT_OF_MEMORY,
	      p_cuMemAllocFromPoolAsync(&more, 1 << 20, pool, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemAllocFromPoolAsync(&more, 8, NULL, stream));
	CU(cuMemFreeAsync(memory, stream));
	CU(cuStreamSynchronize(stream));
	CU(cuMemPoolTrimTo(pool, 0));
	CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
	                         &value));
	CHECK(!value);
	CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
	CHECK(value == 4096);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
	                              &value));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &value));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
	                              NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemPoolTrimTo(NULL, 0));
}

static void pool_access(CUmemoryPool pool)
{
	CUmemAccessDesc access;
	CUmemAccess_flags flags;

	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = 1;
	CU(cuMemPoolGetAccess(&flags, pool, &access.location));
	CHECK(!flags);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CU(cuMemPoolSetAccess(pool, &access, 1));
	CU(cuMemPoolGetAccess(&flags, pool, &access.location));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	access.flags = (CUmemAccess_flags)8;
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemPoolSetAccess(pool, &access, 1));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemPoolSetAccess(pool, NULL, 1));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemPoolGetAccess(NULL, pool, &access.location));
	access.location.id = devices;
	GIVES(CUDA_ERROR_INVALID_DEVICE,
	      p_cuMemPoolGetAccess(&flags, pool, &access.location));
}

static void pools(void)
{
	CUmemoryPool own = make_pool(1 << 16), pool, found;
	CUdeviceptr memory;
	CUstream stream;

	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	pool_counts(own, stream);
	pool_access(own);
	CU(cuDeviceGetDefaultMemPool(&pool, 0));
	CU(cuDeviceGetMemPool(&found, 0));
	CHECK(pool == found && pool != own);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemPoolDestroy(pool));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuDeviceSetMemPool(1, own));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuDeviceSetMemPool(0, NULL));
	CU(cuDeviceSetMemPool(0, own));
	CU(cuDeviceGetMemPool(&found, 0));
	CHECK(found == own);
	CU(cuMemAllocAsync(&memory, 8, stream));
	CU(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	                         memory));
	CHECK(found == own);
	CU(cuMemFreeAsync(memory, stream));
	CU(cuMemPoolDestroy(own));
	CU(cuDeviceGetMemPool(&found, 0));
	CHECK(found == pool);
	GIVES(CUDA_ERROR_INVALID_DEVICE,
	      p_cuDeviceGetDefaultMemPool(&pool, devices));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuDeviceGetMemPool(NULL, 0));
	CU(cuStreamDestroy(stream));
}

/* ---- kinds of memory -------------------------------------------------- */

static void device_memory(void)
{
	size_t before, after, all, pitch, size;
	CUdeviceptr memory;

	CU(cuMemGetInfo(&before, &all));
	CHECK(before && before <= all);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemGetInfo(NULL, &all));
	/* A program can allocate, but not use, more than the host's free
	 * memory. */
	size = all - before / 2;
	CU(cuMemAlloc(&memory, size));
	CU(cuMemGetInfo(&after, &all));
	CHECK(after <= all - size);
	CU(cuMemFree(memory));
	CU(cuMemAllocPitch(&memory, &pitch, 100, 3, 4));
	CHECK(pitch >= 100);
	CU(cuMemFree(memory));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemAllocPitch(&memory, &pitch, 100, 3, 5));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemAllocPitch(&memory, &pitch, 0, 3, 4));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemAllocPitch(&memory, NULL, 100, 3, 4));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemAllocManaged(&memory, 0, CU_MEM_ATTACH_GLOBAL));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemAllocManaged(&memory, 8, 0));
	CU(cuMemAllocManaged(&memory, 8, CU_MEM_ATTACH_GLOBAL));
	*(volatile int *)(uintptr_t)memory = 7;
	CU(cuMemFree(memory));
}

static void host_memory(void)
{
	unsigned int flags = 9;
	char own[64];
	CUdeviceptr device;
	void *pinned;

	CU(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_PORTABLE));
	CU(cuMemHostGetFlags(&flags, pinned));
	CHECK(flags & CU_MEMHOSTALLOC_PORTABLE);
	CU(cuMemFreeHost(pinned));
	CU(cuMemAllocHost(&pinned, 64));
	CU(cuMemHostGetFlags(&flags, pinned));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemHostGetFlags(NULL, pinned));
	CU(cuMemFreeHost(pinned));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemHostAlloc(&pinned, 64, 0x100));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemHostGetFlags(&flags, own));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemHostGetDevicePointer(&device, own, 0));
	GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
	      p_cuMemHostUnregister(own));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemHostRegister(own, 0, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemHostRegister(NULL, 8, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemHostRegister(own, 8, 0x100));
	CU(cuMemHostRegister(own, sizeof(own), CU_MEMHOSTREGISTER_PORTABLE));
	GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
	      p_cuMemHostRegister(own, sizeof(own), 0));
	CU(cuMemHostGetDevicePointer(&device, own, 0));
	CHECK(device == (CUdeviceptr)(uintptr_t)own);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemHostGetDevicePointer(&device, own, 1));
	CU(cuMemHostUnregister(own));
}

static void advice(void)
{
	CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	CUresult (*old)(CUdeviceptr, size_t, CUmem_advise, CUdevice);
	CUdeviceptr memory, device;

	find("cuMemAdvise", 8000, 0, &old);
	CU(cuMemAllocManaged(&memory, 64, CU_MEM_ATTACH_GLOBAL));
	CU(cuMemAlloc(&device, 64));
	CU(cuMemAdvise(memory, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, place));
	GIVES(CUDA_SUCCESS,
	      old(memory, 64, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, -1));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemAdvise(memory, 64, (CUmem_advise)99, place));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemAdvise(device, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, place));
	place.id = devices;
	GIVES(CUDA_ERROR_INVALID_DEVICE,
	      p_cuMemAdvise(memory, 64, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
	                    place));
	CU(cuMemFree(memory));
	CU(cuMemFree(device));
}

/* ---- addresses -------------------------------------------------------- */

/* Check that the attribute for synchronous copies is stored. */
static void synchronous(CUdeviceptr memory)
{
	unsigned int sync = 1, got = 0;

	CU(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
	                         memory));
	CU(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
	                         memory));
	CHECK(got == 1);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_MAPPED,
	                              memory));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
	                              (CUdeviceptr)(uintptr_t)&memory));
}

static void attributes(void)
{
	CUpointer_attribute list[] = {
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_HOST_POINTER,
	};
	struct {
		int ordinal, behind;
	} small = { 9, 9 };
	size_t range = 9;
	void *host = &range, *values[] = { &small, &range, &host };
	CUdeviceptr memory;

	CU(cuMemAlloc(&memory, 64));
	CU(cuPointerGetAttributes(3, list, values, memory + 1));
	CHECK(!small.ordinal && small.behind == 9 && range == 64 && !host);
	host = &range;
	CU(cuPointerGetAttributes(3, list, values,
	                          (CUdeviceptr)(uintptr_t)&memory));
	CHECK(!range && !host && small.behind == 9);
	list[0] = (CUpointer_attribute)99;
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuPointerGetAttributes(3, list, values, memory));
	CHECK(small.behind == 9);
	list[0] = CU_POINTER_ATTRIBUTE_MAPPED;
	values[1] = NULL;
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuPointerGetAttributes(3, list, values, memory));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuPointerGetAttributes(0, list, values, memory));
	synchronous(memory);
	CU(cuMemFree(memory));
}

/* Map memory that the first device can only read and no other can access. */
static void read_only(CUdeviceptr start, size_t bytes)
{
	unsigned long long flags;
	CUmemAccessDesc access;
	int value;

	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	CU(cuMemSetAccess(start, bytes, &access, 1));
	CU(cuMemGetAccess(&flags, &access.location, start));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
	access.location.id = 1;
	CU(cuMemGetAccess(&flags, &access.location, start));
	CHECK(!flags);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemGetAccess(NULL, &access.location, start));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemGetAccess(&flags, &access.location, NOWHERE));
	CU(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
	                         start));
	CHECK(value == CU_MEM_ACCESS_FLAGS_PROT_READ);
	use(1);
	CU(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
	                         start));
	CHECK(!value);
	use(0);
	CU(cuPointerGetAttribute(
		&value, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, start));
	CHECK(!value);
}

/* Check memory that has no handle for other processes. */
static void mapped(void)
{
	const size_t bytes = 2 * 1024 * 1024;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop;
	CUdeviceptr start;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	CU(cuMemCreate(&handle, bytes, &prop, 0));
	CU(cuMemAddressReserve(&start, bytes, 0, 0, 0));
	CU(cuMemMap(start, bytes, 0, handle, 0));
	read_only(start, bytes);
	CU(cuMemUnmap(start, bytes));
	CU(cuMemAddressFree(start, bytes));
	CU(cuMemRelease(handle));
}

/* ---- copies ----------------------------------------------------------- */

static atomic_int copying;
static char scratch[1 << 20];

/* Host function that blocks a stream until some time after the copy has
 * begun. */
static void take_long(void *user)
{
	int i;

	while (!atomic_load(&copying))
		sched_yield();
	for (i = 0; i < 100; i++)
		memset(scratch, i, sizeof(scratch));
	++*(int *)user;
}

/*
 * Check that a peer copy follows work that is queued on the other device.
 */
static void peer_copies(void)
{
	CUdeviceptr near, far;
	CUstream stream;
	int value = 0, done = 0;

	CU(cuMemAlloc(&near, sizeof(value)));
	use(1);
	CU(cuMemAlloc(&far, sizeof(value)));
	CU(cuMemsetD32(far, 1, 1));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuLaunchHostFunc(stream, take_long, &done));
	use(0);
	atomic_store(&copying, 1);
	CU(cuMemcpyPeer(near, primary[0], far, primary[1], sizeof(value)));
	CHECK(done == 1);
	CU(cuMemcpyDtoH(&value, near, sizeof(value)));
	CHECK(value == 1);
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuMemcpyPeer(near, primary[0], far, NULL, sizeof(value)));
	GIVES(CUDA_ERROR_INVALID_CONTEXT,
	      p_cuMemcpyPeerAsync(near, NULL, far, primary[1], sizeof(value),
	                          stream));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemcpyPeer(near, primary[0], 0, primary[1], sizeof(value)));
	CU(cuStreamDestroy(stream));
	CU(cuMemFree(near));
	CU(cuMemFree(far));
}

#define PITCH 16

/* Copy from row 2, column 3 of one matrix to the corner of another. */
static void rectangles(void)
{
	unsigned char host[3 * PITCH], back[4] = { 0 };
	CUDA_MEMCPY2D copy;
	CUdeviceptr device;
	int i;

	for (i = 0; i < 3 * PITCH; i++)
		host[i] = (unsigned char)i;
	CU(cuMemAlloc(&device, 3 * PITCH));
	memset(&copy, 0, sizeof(copy));
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = host;
	copy.srcPitch = PITCH;
	copy.srcY = 1;
	copy.srcXInBytes = 2;
	copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = device;
	copy.WidthInBytes = copy.Height = 2;
	CU(cuMemcpy2D(&copy));
	CU(cuMemcpyDtoH(back, device, 4));
	CHECK(back[0] == 18 && back[1] == 19 && back[2] == 34 && back[3] == 35);
	CU(cuMemsetD8(device, 0, 4));
	CU(cuMemcpy2DUnaligned(&copy));
	CU(cuMemcpyDtoH(back, device, 4));
	CHECK(back[0] == 18 && back[3] == 35);
	copy.srcXInBytes = PITCH - 1;
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemcpy2D(&copy));
	copy.srcXInBytes = 0;
	copy.srcHost = NULL;
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemcpy2D(&copy));
	copy.srcMemoryType = (CUmemorytype)9;
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemcpy2D(&copy));
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	GIVES(CUDA_ERROR_NOT_SUPPORTED, p_cuMemcpy2D(&copy));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemcpy2D(NULL));
	CU(cuMemFree(device));
}

/* ---- unsupported functions -------------------------------------------- */

static void other_processes(void)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;
	int value = 1;

	memset(&handle, 0, sizeof(handle));
	CU(cuMemAlloc(&memory, 8));
	CU(cuPointerGetAttribute(
		&value, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
		memory));
	CHECK(!value);
	GIVES(CUDA_ERROR_NOT_SUPPORTED, p_cuIpcGetMemHandle(&handle, memory));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuIpcGetMemHandle(NULL, memory));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuIpcGetMemHandle(&handle, NOWHERE));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuIpcOpenMemHandle(&memory, handle,
	                           CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuIpcOpenMemHandle(&memory, handle, 0));
	GIVES(CUDA_ERROR_NOT_SUPPORTED, p_cuIpcCloseMemHandle(memory));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuIpcCloseMemHandle(0));
	CU(cuMemFree(memory));
}

/* Call the forms of kernel launches for a thread's own stream. */
static void kernels_of_threads(CUfunction function)
{
	__typeof__(p_cuLaunchCooperativeKernel) cooperative;
	__typeof__(p_cuLaunchKernelEx) by_config;
	__typeof__(p_cuLaunchKernel) plain;
	CUlaunchConfig config;

	*(void **)&plain = dlsym(driver_library, "cuLaunchKernel_ptsz");
	*(void **)&cooperative =
		dlsym(driver_library, "cuLaunchCooperativeKernel_ptsz");
	*(void **)&by_config = dlsym(driver_library, "cuLaunchKernelEx_ptsz");
	CHECK(plain && cooperative && by_config);
	memset(&config, 0, sizeof(config));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      plain(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      cooperative(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      by_config(&config, function, NULL, NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, by_config(NULL, function, NULL, NULL));
}

/*
 * Check that kernels are refused, with one message that names the first call.
 */
static void kernels(void)
{
	CUfunction function = (CUfunction)(uintptr_t)64;
	FILE *said = tmpfile();
	const int before = dup(2);
	CUlaunchConfig config;
	char line[200] = "";
	int value;

	CHECK(said && before >= 0 && dup2(fileno(said), 2) == 2);
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
	                                  NULL));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
	                       NULL));
	CHECK(dup2(before, 2) == 2);
	rewind(said);
	CHECK(fgets(line, sizeof(line), said));
	CHECK(strstr(line, "cuLaunchCooperativeKernel"));
	CHECK(!fgets(line, sizeof(line), said));
	fclose(said);
	close(before);
	kernels_of_threads(function);
	memset(&config, 0, sizeof(config));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuLaunchKernelEx(NULL, function, NULL, NULL));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuLaunchKernelEx(&config, function, NULL, NULL));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS,
	                           function));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1));
}

static void flushes(void)
{
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuFlushGPUDirectRDMAWrites(
		      CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
		      CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuFlushGPUDirectRDMAWrites(
		      CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 7));
}

/* Check that starting the profiler succeeds, although there is none. */
static void profiler(void)
{
	CUresult (*start)(void), (*stop)(void);

	*(void **)&start = dlsym(driver_library, "cuProfilerStart");
	*(void **)&stop = dlsym(driver_library, "cuProfilerStop");
	CHECK(start && stop);
	GIVES(CUDA_SUCCESS, start());
	GIVES(CUDA_SUCCESS, stop());
}

int main(void)
{
	open_driver();
	FUNCTIONS(FIND)
	CU(cuInit(0));
	CU(cuDeviceGetCount(&devices));
	CHECK(devices >= 2);
	CU(cuDevicePrimaryCtxRetain(&primary[0], 0));
	CU(cuDevicePrimaryCtxRetain(&primary[1], 1));
	need_a_context();
	use(0);
	primary_flags();
	context_facts();
	limits();
	device_facts();
	peers();
	pools();
	device_memory();
	host_memory();
	advice();
	attributes();
	mapped();
	peer_copies();
	rectangles();
	other_processes();
	kernels();
	flushes();
	profiler();
	puts("OK");
	return 0;
}
