/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program that uses only the CUDA driver: contexts, memory, virtual memory,
 * streams, events, words in stream order, and functions by name
 */

#include <cuda.h>
#include <unistd.h>

#include "driver.h"

/* clang-format off */
#define FUNCTIONS(X) \
	X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) \
	X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem) \
	X(cuDeviceGetAttribute) X(cuDeviceGetPCIBusId) \
	X(cuDeviceGetByPCIBusId) X(cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxGetState) \
	X(cuCtxCreate) X(cuCtxDestroy) X(cuCtxPushCurrent) X(cuCtxPopCurrent) \
	X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxSynchronize) \
	X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) \
	X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemHostGetDevicePointer) \
	X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoHAsync) X(cuMemcpyAsync) \
	X(cuMemsetD8) X(cuMemsetD16) X(cuMemsetD32) X(cuMemsetD32Async) \
	X(cuMemGetAddressRange) X(cuPointerGetAttribute) \
	X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) \
	X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
	X(cuMemRetainAllocationHandle) X(cuMemGetAllocationGranularity) \
	X(cuMemGetAllocationPropertiesFromHandle) \
	X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle) \
	X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) \
	X(cuStreamQuery) X(cuStreamWaitEvent) X(cuLaunchHostFunc) \
	X(cuStreamWriteValue32) X(cuStreamWaitValue32) \
	X(cuStreamWriteValue64) X(cuStreamWaitValue64) X(cuStreamBatchMemOp) \
	X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuGraphDestroy) \
	X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) \
	X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) \
	X(cuEventSynchronize) X(cuEventElapsedTime) X(cuGetErrorName) \
	X(cuGetErrorString)
/* clang-format on */

FUNCTIONS(POINTER)

/* ---- functions by name ------------------------------------------------ */

static void find_all(void)
{
	open_driver();
	FUNCTIONS(FIND)
	/* Since CUDA 13.0, this name stands for a function with another
	 * signature. */
	find("cuCtxSynchronize", 12000, 0, &p_cuCtxSynchronize);
}

static void names(void)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *plain, *own, *none = &none;
	const char *text;

	GIVES(CUDA_ERROR_NOT_FOUND,
	      get_address("cuNothing", &none, CUDA_VERSION, 0, &status));
	CHECK(!none && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	GIVES(CUDA_ERROR_NOT_FOUND,
	      get_address("cuMemCreate", &none, 10000, 0, &status));
	CHECK(!none && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      get_address("cuInit", &none, 99000, 0, &status));
	GIVES(CUDA_SUCCESS,
	      get_address("cuStreamQuery", &plain, 12000, 0, NULL));
	GIVES(CUDA_SUCCESS,
	      get_address("cuStreamQuery", &own, 12000,
	                  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
	CHECK(plain && own && plain != own);
	CU(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
	CHECK(strcmp(text, "CUDA_ERROR_NOT_READY") == 0);
	CU(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	CHECK(strcmp(text, "out of memory") == 0);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuGetErrorString((CUresult)12345, &text));
}

/* ---- devices and contexts --------------------------------------------- */

static int devices(void)
{
	int i, n, version, value;
	char name[64], id[32];
	CUdevice device, found;
	CUuuid uuid, first;
	size_t bytes;

	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuInit(1));
	CU(cuInit(0));
	CU(cuDriverGetVersion(&version));
	CHECK(version >= 12000);
	CU(cuDeviceGetCount(&n));
	CHECK(n >= 2);
	for (i = 0; i < n; i++) {
		CU(cuDeviceGet(&device, i));
		CU(cuDeviceGetName(name, sizeof(name), device));
		CU(cuDeviceTotalMem(&bytes, device));
		CHECK(*name && bytes);
		CU(cuDeviceGetUuid(i ? &uuid : &first, device));
		CHECK(!i || memcmp(&uuid, &first, sizeof(uuid)) != 0);
		CU(cuDeviceGetAttribute(
			&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
			device));
		CHECK(value > 0);
		CU(cuDeviceGetPCIBusId(id, sizeof(id), device));
		CU(cuDeviceGetByPCIBusId(&found, id));
		CHECK(found == device);
	}
	GIVES(CUDA_ERROR_INVALID_DEVICE, p_cuDeviceGet(&device, n));
	return n;
}

static void contexts(void)
{
	CUcontext primary, other, now;
	unsigned int flags;
	CUdeviceptr memory;
	int active, i;

	CU(cuCtxGetCurrent(&now));
	CHECK(!now);
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuMemAlloc(&memory, 100));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuCtxPopCurrent(&now));
	CU(cuDevicePrimaryCtxGetState(1, &flags, &active));
	CHECK(!active);
	CU(cuDevicePrimaryCtxRetain(&primary, 1));
	CU(cuDevicePrimaryCtxGetState(1, &flags, &active));
	CHECK(active);
	CU(cuCtxSetCurrent(primary));
	CU(cuCtxCreate(&other, NULL, 0, 0));
	CU(cuCtxGetCurrent(&now));
	CHECK(now == other && other != primary);
	CU(cuCtxPushCurrent(primary));
	CU(cuCtxPopCurrent(&now));
	CHECK(now == primary);
	for (i = 0; i < 100; i++)
		CU(cuCtxPushCurrent(i % 2 ? other : primary));
	for (i = 100; i-- > 0;) {
		CU(cuCtxPopCurrent(&now));
		CHECK(now == (i % 2 ? other : primary));
	}
	CU(cuCtxDestroy(other));
	CU(cuCtxGetCurrent(&now));
	CHECK(now == primary);
	CU(cuCtxSetCurrent(NULL));
	CU(cuCtxGetCurrent(&now));
	CHECK(!now);
	CU(cuDevicePrimaryCtxRelease(1));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, p_cuDevicePrimaryCtxRelease(1));
}

/* ---- memory ----------------------------------------------------------- */

#define COUNT 1000

static void memory(void)
{
	uint32_t host[COUNT], *pinned;
	CUdeviceptr device, start, same;
	unsigned int type;
	size_t bytes;
	int i;

	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemAlloc(&device, 0));
	CU(cuMemAlloc(&device, sizeof(host)));
	CU(cuMemsetD32(device, 0x12345678, COUNT));
	CU(cuMemsetD8(device, 0xff, 4));
	CU(cuMemsetD16(device + 4, 0xabcd, 2));
	CU(cuMemcpyDtoH(host, device, sizeof(host)));
	CHECK(host[0] == 0xffffffff && host[1] == 0xabcdabcd);
	for (i = 2; i < COUNT; i++)
		CHECK(host[i] == 0x12345678);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemsetD32(device + 1, 0, 1));
	CU(cuMemGetAddressRange(&start, &bytes, device + 100));
	CHECK(start == device && bytes == sizeof(host));
	CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	                         device));
	CHECK(type == CU_MEMORYTYPE_DEVICE);
	CU(cuMemHostAlloc((void **)&pinned, sizeof(*pinned), 0));
	CU(cuMemHostGetDevicePointer(&same, pinned, 0));
	CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	                         same));
	CHECK(type == CU_MEMORYTYPE_HOST);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	                              (CUdeviceptr)(uintptr_t)&type));
	CU(cuMemFreeHost(pinned));
	CU(cuMemFree(device));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemFree(device));
}

/* ---- virtual memory --------------------------------------------------- */

static CUmemAllocationProp property(int device)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	return prop;
}

static void give_access(CUdeviceptr start, size_t bytes, int device)
{
	CUmemAccessDesc access;

	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = device;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CU(cuMemSetAccess(start, bytes, &access, 1));
}

/* Map @handle at @start, and check that its first word is @value. */
static void map_and_expect(CUdeviceptr start, size_t bytes,
                           CUmemGenericAllocationHandle handle, uint32_t value)
{
	uint32_t got = 0;

	CU(cuMemMap(start, bytes, 0, handle, 0));
	give_access(start, bytes, 1);
	CU(cuMemcpyDtoH(&got, start, sizeof(got)));
	CHECK(got == value);
}

/* Map one piece of memory at two addresses, the second time through a file. */
static void virtual_memory(void)
{
	CUmemAllocationProp prop = property(0), other;
	CUmemGenericAllocationHandle handle, same, shared;
	CUdeviceptr start, found;
	size_t bytes, range;
	int file = -1, device;

	CU(cuMemGetAllocationGranularity(&bytes, &prop,
	                                 CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(bytes == 2 * 1024 * 1024);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemCreate(&handle, bytes + 1, &prop, 0));
	CU(cuMemCreate(&handle, bytes, &prop, 0));
	CU(cuMemAddressReserve(&start, 2 * bytes, 0, 0, 0));
	CHECK(start % bytes == 0);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemMap(start + 2 * bytes, bytes, 0, handle, 0));
	map_and_expect(start, bytes, handle, 0);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemMap(start, bytes, 0, handle, 0));
	CU(cuMemsetD32(start, 77, bytes / 4));
	CU(cuMemGetAddressRange(&found, &range, start + 1));
	CHECK(found == start && range == bytes);
	CU(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	                         start));
	CHECK(device == 0);
	CU(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)start));
	CHECK(same == handle);
	CU(cuMemRelease(same));
	CU(cuMemExportToShareableHandle(
		&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CU(cuMemImportFromShareableHandle(
		&shared, (void *)(uintptr_t)file,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(file);
	CU(cuMemGetAllocationPropertiesFromHandle(&other, shared));
	CHECK(other.location.id == 0);
	CU(cuMemRelease(handle));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemRelease(handle));
	map_and_expect(start + bytes, bytes, shared, 77);
	CU(cuMemRelease(shared));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemAddressFree(start, 2 * bytes));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemFree(start));
	CU(cuMemUnmap(start, 2 * bytes));
	CU(cuMemAddressFree(start, 2 * bytes));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemUnmap(start, bytes));
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	GIVES(CUDA_ERROR_NOT_SUPPORTED,
	      p_cuMemCreate(&handle, bytes, &prop, 0));
}

/* ---- streams and events ----------------------------------------------- */

static void add_one(void *user)
{
	++*(int *)user;
}

static void streams(void)
{
	CUstream first, second;
	CUevent between, end;
	CUdeviceptr device;
	uint32_t value = 1;
	int count = 0;
	float ms = -1;

	CU(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&between, 0));
	CU(cuEventCreate(&end, 0));
	CU(cuMemAllocAsync(&device, sizeof(value), first));
	CU(cuMemsetD32Async(device, 5, 1, first));
	CU(cuLaunchHostFunc(first, add_one, &count));
	CU(cuEventRecord(between, first));
	CU(cuStreamWaitEvent(second, between, 0));
	CU(cuMemcpyDtoHAsync(&value, device, sizeof(value), second));
	CU(cuMemFreeAsync(device, second));
	CU(cuEventRecord(end, second));
	CU(cuEventSynchronize(end));
	CHECK(value == 5 && count == 1);
	CU(cuEventQuery(end));
	CU(cuEventElapsedTime(&ms, between, end));
	CHECK(ms >= 0);
	CU(cuStreamQuery(second));
	CU(cuEventDestroy(between));
	CU(cuEventDestroy(end));
	CU(cuStreamDestroy(first));
	CU(cuStreamDestroy(second));
	CU(cuCtxSynchronize());
}

/* Make one stream wait for words that another stream and the program write. */
static void words(void)
{
	CUstreamBatchMemOpParams both[2];
	CUstream writer, waiter;
	CUdeviceptr narrow, wide;
	volatile uint64_t *pinned;
	uint64_t own = 0;

	CU(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
	CU(cuMemHostAlloc((void **)&pinned, 2 * sizeof(*pinned), 0));
	pinned[0] = pinned[1] = 0;
	narrow = (CUdeviceptr)(uintptr_t)&pinned[0];
	wide = (CUdeviceptr)(uintptr_t)&pinned[1];
	CU(cuStreamWaitValue32(waiter, narrow, 3, CU_STREAM_WAIT_VALUE_GEQ));
	CU(cuStreamWaitValue64(waiter, wide, (uint64_t)1 << 40,
	                       CU_STREAM_WAIT_VALUE_EQ));
	GIVES(CUDA_ERROR_NOT_READY, p_cuStreamQuery(waiter));
	CU(cuStreamWriteValue32(writer, narrow, 4, 0));
	CU(cuStreamSynchronize(writer));
	GIVES(CUDA_ERROR_NOT_READY, p_cuStreamQuery(waiter));
	CU(cuStreamWriteValue64(writer, wide, (uint64_t)1 << 40, 0));
	CU(cuStreamSynchronize(waiter));
	CHECK(pinned[0] == 4 && pinned[1] == (uint64_t)1 << 40);
	memset(both, 0, sizeof(both));
	both[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	both[0].waitValue.address = wide;
	both[0].waitValue.value64 = 7;
	both[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	both[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	both[1].writeValue.address = narrow;
	both[1].writeValue.value = 8;
	CU(cuStreamBatchMemOp(waiter, 2, both, 0));
	GIVES(CUDA_ERROR_NOT_READY, p_cuStreamQuery(waiter));
	pinned[1] = 7;
	CU(cuStreamSynchronize(waiter));
	CHECK(pinned[0] == 8);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamWriteValue64(writer, (CUdeviceptr)(uintptr_t)&own, 1,
	                             0));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamWriteValue64(writer, wide + 4, 1, 0));
	CU(cuMemFreeHost((void *)(uintptr_t)pinned));
	CU(cuStreamDestroy(writer));
	CU(cuStreamDestroy(waiter));
}

/* Check that captured fills and word writes run in each run of the graph. */
static void captures(void)
{
	CUdeviceptr device, copy;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;
	uint32_t got = 0;

	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuMemAlloc(&device, sizeof(got)));
	CU(cuMemAlloc(&copy, sizeof(got)));
	CU(cuMemsetD32(copy, 0, 1));
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CU(cuMemsetD32Async(device, 9, 1, stream));
	CU(cuMemcpyAsync(copy, device, sizeof(got), stream));
	CU(cuStreamEndCapture(stream, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	CU(cuGraphLaunch(exec, stream));
	CU(cuStreamSynchronize(stream));
	CU(cuMemcpyDtoH(&got, copy, sizeof(got)));
	CHECK(got == 9);
	CU(cuGraphExecDestroy(exec));
	CU(cuMemFree(device));
	CU(cuMemFree(copy));
	CU(cuStreamDestroy(stream));
}

int main(void)
{
	CUcontext primary;
	int i, n;

	find_all();
	names();
	n = devices();
	contexts();
	for (i = 0; i < n; i++) {
		CU(cuDevicePrimaryCtxRetain(&primary, i));
		CU(cuCtxSetCurrent(primary));
		memory();
		streams();
		words();
		captures();
		CU(cuDevicePrimaryCtxRelease(i));
	}
	CU(cuDevicePrimaryCtxRetain(&primary, 0));
	CU(cuCtxSetCurrent(primary));
	virtual_memory();
	puts("OK");
	return 0;
}
