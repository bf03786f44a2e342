/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of memory that copies and fills must refuse: freed memory, memory
 * beyond an allocation, addresses that wrap, and virtual memory without access
 */

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "sim/driver/driver.h"
#include "sim/host.h"
#include "support/native.h"
#include "support/place.h"

#define BYTES 1000
#define PIECE ((size_t)2 * 1024 * 1024)

static const struct platform *p;
static char host[4 * BYTES];

static void open_two(void)
{
	p = native_open_host(2);
	native_must(p->cudaSetDevice(0), "cudaSetDevice");
}

TestSuite(reach, .init = open_two, .timeout = 20);

/* Skip the test under a sanitizer, which has its own allocator and reports
 * these errors itself. */
static void need_arena(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	cr_skip_test("memory comes from the sanitizer's allocator");
#endif
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr memory = 0;

	cr_assert_eq(driver_cuMemAlloc_v2(&memory, bytes), CUDA_SUCCESS);
	return memory;
}

#define REFUSED(call) cr_assert_eq(call, CUDA_ERROR_INVALID_VALUE)

/* Check that no call can access @bytes bytes at @at. */
static void cannot_be_touched(CUdeviceptr at, size_t bytes)
{
	void *memory = DRIVER_MEMORY(at);
	const CUDA_MEMCPY2D rows = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = at,
		.WidthInBytes = bytes,
		.Height = 1,
	};

	REFUSED(driver_cuMemcpyHtoD_v2(at, host, bytes));
	REFUSED(driver_cuMemcpyDtoH_v2(host, at, bytes));
	REFUSED(driver_cuMemcpyHtoDAsync_v2(at, host, bytes, NULL));
	REFUSED(driver_cuMemcpy(at, (uintptr_t)host, bytes));
	REFUSED(driver_cuMemcpyAsync((uintptr_t)host, at, bytes, NULL));
	REFUSED(driver_cuMemcpy2D_v2(&rows));
	REFUSED(driver_cuMemsetD8_v2(at, 1, bytes));
	REFUSED(driver_cuMemsetD8Async(at, 1, bytes, NULL));
	REFUSED(driver_cuMemsetD16_v2(at, 1, bytes / 2));
	REFUSED(driver_cuMemsetD32Async(at, 1, bytes / 4, NULL));
	REFUSED(driver_cuMemsetD2D8_v2(at, bytes, 1, bytes, 1));
	cr_assert_eq(p->cudaMemcpyAsync(memory, host, bytes,
	                                cudaMemcpyHostToDevice, NULL),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemset(memory, 1, bytes), cudaErrorInvalidValue);
	/* The refused calls had no effect: the device still works. */
	cr_assert_eq(host_cudaDeviceSynchronize(), cudaSuccess);
	p->cudaGetLastError();
}

Test(reach, copies_and_fills_cannot_exceed_an_allocation)
{
	const CUdeviceptr memory = allocate(BYTES);

	cannot_be_touched(memory, BYTES + 4);
	cannot_be_touched(memory + 8, BYTES);
	cr_assert_eq(driver_cuMemsetD8_v2(memory, 7, BYTES), CUDA_SUCCESS);
	cr_assert_eq(driver_cuMemcpyDtoH_v2(host, memory + 8, BYTES - 8),
	             CUDA_SUCCESS);
	cr_assert_eq(host[BYTES - 9], 7);
	cr_assert_eq(host[BYTES - 8], 0);
	cr_assert_eq(driver_cuMemFree_v2(memory), CUDA_SUCCESS);
}

Test(reach, copies_and_fills_cannot_cross_into_another_allocation)
{
	const CUdeviceptr a = allocate(256), b = allocate(256);
	const CUdeviceptr low = a < b ? a : b;

	cannot_be_touched(low, 512);
}

Test(reach, copies_and_fills_cannot_touch_freed_memory)
{
	CUdeviceptr memory;

	need_arena();
	memory = allocate(BYTES);
	cr_assert_eq(driver_cuMemFree_v2(memory), CUDA_SUCCESS);
	cannot_be_touched(memory, BYTES);
	memory = allocate(64 * PIECE);
	cr_assert_eq(driver_cuMemFree_v2(memory), CUDA_SUCCESS);
	cannot_be_touched(memory + PIECE, BYTES);
}

Test(reach, copies_and_fills_of_ranges_that_wrap_are_refused)
{
	const CUdeviceptr memory = allocate(BYTES);

	cannot_be_touched(memory, (SIZE_MAX - memory + 1) / 4 * 4);
	cannot_be_touched(memory, SIZE_MAX / 4 * 4);
	REFUSED(driver_cuMemsetD2D8_v2(memory, SIZE_MAX / 2, 1, 1, 4));
}

Test(reach, copies_and_fills_can_touch_memory_of_the_program)
{
	const CUdeviceptr at = (uintptr_t)host;

	cr_assert_eq(driver_cuMemsetD8_v2(at, 9, BYTES), CUDA_SUCCESS);
	cr_assert_eq(driver_cuMemcpy(at + BYTES, at, BYTES), CUDA_SUCCESS);
	cr_assert_eq(host[2 * BYTES - 1], 9);
	/* Only part of the memory is registered. */
	native_must(host_cudaHostRegister(host, BYTES, 0), "cudaHostRegister");
	cr_assert_eq(driver_cuMemsetD8_v2(at, 8, 2 * BYTES), CUDA_SUCCESS);
	native_must(host_cudaHostUnregister(host), "cudaHostUnregister");
}

/* A graph's launch cannot detect that the graph's memory was freed. */
Test(reach, graph_that_touches_freed_memory_makes_its_device_fail)
{
	cudaStream_t stream = native_stream(p, 1);
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	CUdeviceptr memory;

	need_arena();
	memory = allocate(BYTES);
	native_must(host_cudaStreamBeginCapture(stream,
	                                        cudaStreamCaptureModeRelaxed),
	            "cudaStreamBeginCapture");
	cr_assert_eq(driver_cuMemsetD32Async(memory, 1, BYTES / 4, stream),
	             CUDA_SUCCESS);
	cr_assert_eq(driver_cuMemcpyHtoDAsync_v2(memory, host, BYTES, stream),
	             CUDA_SUCCESS);
	native_must(host_cudaStreamEndCapture(stream, &graph),
	            "cudaStreamEndCapture");
	native_must(host_cudaGraphInstantiateWithFlags(&exec, graph, 0),
	            "cudaGraphInstantiateWithFlags");
	native_must(host_cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
	native_must(p->cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	cr_assert_eq(driver_cuMemFree_v2(memory), CUDA_SUCCESS);
	native_must(host_cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaErrorIllegalAddress);
	cr_assert_eq(host_cudaGraphLaunch(exec, stream),
	             cudaErrorIllegalAddress);
	cohort_sim_faults_clear();
}

/* ---- virtual memory --------------------------------------------------- */

static const CUmemAllocationProp prop = {
	.type = cudaMemAllocationTypePinned,
	.location = { .type = cudaMemLocationTypeDevice, .id = 1 },
};

static void let(CUdeviceptr at, size_t bytes, enum cudaMemAccessFlags flags)
{
	const CUmemAccessDesc access = { .location = prop.location,
		                         .flags = flags };

	cr_assert_eq(driver_cuMemSetAccess(at, bytes, &access, 1),
	             CUDA_SUCCESS);
}

/* Reserve addresses for three pieces, and map memory to the first two, without
 * access. */
static CUdeviceptr map_two(CUmemGenericAllocationHandle handles[2])
{
	CUdeviceptr at;
	size_t i;

	cr_assert_eq(driver_cuMemAddressReserve(&at, 3 * PIECE, 0, 0, 0),
	             CUDA_SUCCESS);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(driver_cuMemCreate(&handles[i], PIECE, &prop, 0),
		             CUDA_SUCCESS);
		cr_assert_eq(driver_cuMemMap(at + i * PIECE, PIECE, 0,
		                             handles[i], 0),
		             CUDA_SUCCESS);
	}
	return at;
}

Test(reach, virtual_memory_cannot_be_used_without_access)
{
	CUmemGenericAllocationHandle handles[2];
	CUdeviceptr at = map_two(handles);

	cannot_be_touched(at, BYTES);
	let(at, 2 * PIECE, cudaMemAccessFlagsProtReadWrite);
	/* A fill can extend from one piece into the next, but not beyond the
	 * last one. */
	cr_assert_eq(driver_cuMemsetD8_v2(at, 5, 2 * PIECE), CUDA_SUCCESS);
	cannot_be_touched(at + 2 * PIECE - 4, 8);
	cannot_be_touched(at + 2 * PIECE, 8);
	let(at + PIECE, PIECE, cudaMemAccessFlagsProtRead);
	cr_assert_eq(driver_cuMemcpyDtoH_v2(host, at + PIECE - 4, 8),
	             CUDA_SUCCESS);
	cr_assert_eq(host[7], 5);
	REFUSED(driver_cuMemcpyHtoD_v2(at + PIECE - 4, host, 8));
	REFUSED(driver_cuMemsetD32_v2(at + PIECE, 0, 1));
	REFUSED(driver_cuStreamWriteValue32_v2(NULL, at + PIECE, 0, 0));
	cr_assert_eq(driver_cuMemUnmap(at, 2 * PIECE), CUDA_SUCCESS);
	cannot_be_touched(at, BYTES);
	cr_assert_eq(driver_cuMemAddressFree(at, 3 * PIECE), CUDA_SUCCESS);
}

Test(reach, unmapping_memory_waits_for_enqueued_work)
{
	const cudaStream_t stream = native_stream(p, 1);
	CUmemGenericAllocationHandle handles[2];
	const CUdeviceptr at = map_two(handles);
	CUdeviceptr copy;

	let(at, PIECE, cudaMemAccessFlagsProtReadWrite);
	native_must(p->cudaSetDevice(1), "cudaSetDevice");
	copy = allocate(PIECE);
	cr_assert_eq(driver_cuMemsetD8Async(at, 6, PIECE, stream),
	             CUDA_SUCCESS);
	cr_assert_eq(driver_cuMemcpyDtoDAsync_v2(copy, at, PIECE, stream),
	             CUDA_SUCCESS);
	cr_assert_eq(driver_cuMemUnmap(at, PIECE), CUDA_SUCCESS);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaSuccess);
	cr_assert_eq(driver_cuMemcpyDtoH_v2(host, copy + PIECE - 4, 4),
	             CUDA_SUCCESS);
	cr_assert_eq(host[3], 6);
}

/* ---- the size of a device --------------------------------------------- */

Test(reach, device_has_no_more_memory_than_it_reports)
{
	CUmemGenericAllocationHandle handle;
	size_t total;
	CUdeviceptr memory, rest;

	place_skip_in_qemu("its address space is limited");
	cr_assert_eq(driver_cuDeviceTotalMem_v2(&total, 0), CUDA_SUCCESS);
	cr_assert_eq(driver_cuMemAlloc_v2(&memory, total + 1),
	             CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(driver_cuMemAlloc_v2(&memory, SIZE_MAX),
	             CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(driver_cuMemCreate(&handle, (size_t)1 << 60, &prop, 0),
	             CUDA_ERROR_OUT_OF_MEMORY);
	/* All memory counts toward the device's size, whichever function
	 * allocated it. */
	memory = allocate(total / 2);
	cr_assert_eq(driver_cuMemAllocManaged(&rest, total - total / 2 + 1,
	                                      cudaMemAttachGlobal),
	             CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(driver_cuMemFree_v2(memory), CUDA_SUCCESS);
	memory = allocate(total);
	cr_assert_eq(driver_cuMemFree_v2(memory), CUDA_SUCCESS);
	/* Virtual memory counts until its handle and its mappings are
	 * released. */
	cr_assert_eq(driver_cuMemCreate(&handle, total / PIECE * PIECE, &prop,
	                                0),
	             CUDA_SUCCESS);
	native_must(p->cudaSetDevice(1), "cudaSetDevice");
	cr_assert_eq(driver_cuMemAlloc_v2(&memory, PIECE),
	             CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(driver_cuMemRelease(handle), CUDA_SUCCESS);
	memory = allocate(PIECE);
	cr_assert_eq(driver_cuMemFree_v2(memory), CUDA_SUCCESS);
}

Test(reach, large_allocations_start_at_large_pages)
{
	cr_assert_eq(allocate(PIECE) % PIECE, 0);
	cr_assert_eq(allocate(5 * PIECE + 3) % PIECE, 0);
	cr_assert_eq(allocate(3) % 256, 0);
}
