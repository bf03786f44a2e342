/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the host platform's memory: allocation, frees, copies and attributes
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/memory_table.h"
#include "sim/host.h"
#include "support/native.h"

/* AddressSanitizer reports allocations that are too large. */
#if defined(__SANITIZE_ADDRESS__)
#define ALLOCATIONS_REPORTED 1
#elif defined(__has_feature)
#define ALLOCATIONS_REPORTED __has_feature(address_sanitizer)
#else
#define ALLOCATIONS_REPORTED 0
#endif

/* ---- allocating and copying -------------------------------------------- */

Test(memory, device_memory_can_be_allocated_written_and_freed, .timeout = 10)
{
	const struct platform *p = native_open(2);
	void *memory = NULL;
	char out[64];
	int i;

	cr_assert_eq(p->cudaMalloc(&memory, 64), cudaSuccess);
	cr_assert_not_null(memory);
	cr_assert_eq((uintptr_t)memory % 256, 0, "cudaMalloc aligns to 256");
	cr_assert_eq(p->cudaMemset(memory, 7, 64), cudaSuccess);
	cr_assert_eq(p->cudaMemcpy(out, memory, 64, cudaMemcpyDeviceToHost),
	             cudaSuccess);
	for (i = 0; i < 64; i++)
		cr_assert_eq(out[i], 7);
	cr_assert_eq(p->cudaFree(memory), cudaSuccess);
}

#if !ALLOCATIONS_REPORTED
/* Return the resident bytes of a page-aligned range. */
static size_t resident(void *memory, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *pages = malloc(bytes / page);
	size_t i, n = 0;

	cr_assert_not_null(pages);
	cr_assert_eq(mincore(memory, bytes, pages), 0);
	for (i = 0; i < bytes / page; i++)
		n += pages[i] & 1;
	free(pages);
	return n * page;
}

/* The first access to 64 MiB takes several times as long as a collective of
 * that size, so freed memory is reused. */
Test(memory, freed_memory_is_kept_up_to_256_mib, .timeout = 60)
{
	const size_t bytes = (size_t)64 << 20;
	const struct platform *p = native_open(2);
	void *memory[5];
	size_t i, kept = 0;

	for (i = 0; i < 5; i++) {
		cr_assert_eq(p->cudaMalloc(&memory[i], bytes), cudaSuccess);
		memset(memory[i], 1, bytes);
	}
	for (i = 0; i < 5; i++)
		cr_assert_eq(p->cudaFree(memory[i]), cudaSuccess);
	for (i = 0; i < 5; i++)
		kept += resident(memory[i], bytes);
	cr_assert_eq(kept, 4 * bytes);
	cr_assert_eq(p->cudaMalloc(&memory[0], bytes), cudaSuccess);
	cr_assert_eq(resident(memory[0], bytes), bytes);
	cr_assert_eq(p->cudaFree(memory[0]), cudaSuccess);
}
#endif

Test(memory, free_of_a_null_pointer_succeeds, .timeout = 10)
{
	const struct platform *p = native_open(2);

	cr_assert_eq(p->cudaFree(NULL), cudaSuccess);
	cr_assert_eq(p->cudaFreeHost(NULL), cudaSuccess);
}

Test(memory, allocation_with_a_null_output_is_invalid, .timeout = 10)
{
	const struct platform *p = native_open(2);

	cr_assert_eq(p->cudaMalloc(NULL, 64), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaMallocHost(NULL, 64), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaHostAlloc(NULL, 64, cudaHostAllocDefault),
	             cudaErrorInvalidValue);
}

Test(memory, zero_bytes_can_be_allocated_and_copied, .timeout = 10)
{
	const struct platform *p = native_open(2);
	char byte = 1;
	void *memory = &byte;

	cr_assert_eq(p->cudaMalloc(&memory, 0), cudaSuccess);
	cr_assert_eq(p->cudaFree(memory), cudaSuccess);
	cr_assert_eq(p->cudaMemset(&byte, 0, 0), cudaSuccess);
	cr_assert_eq(p->cudaMemcpy(&byte, &byte, 0, cudaMemcpyDefault),
	             cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(memory, allocation_that_is_too_large_is_out_of_memory, .timeout = 10)
{
	const struct platform *p = native_open(2);
	char byte;
	void *memory = &byte;

	if (ALLOCATIONS_REPORTED)
		cr_skip_test("the address sanitizer reports large ones");
	cr_assert_eq(p->cudaMalloc(&memory, SIZE_MAX / 2),
	             cudaErrorMemoryAllocation);
	cr_assert_eq(memory, &byte);
	cr_assert_eq(p->cudaGetLastError(), cudaErrorMemoryAllocation);
}

Test(memory, pinned_memory_is_host_memory, .timeout = 10)
{
	const struct platform *p = native_open(2);
	void *a;
	void *b;

	cr_assert_eq(p->cudaMallocHost(&a, 32), cudaSuccess);
	cr_assert_eq(p->cudaHostAlloc(&b, 32,
	                              cudaHostAllocPortable |
	                                      cudaHostAllocMapped),
	             cudaSuccess);
	memset(a, 5, 32);
	cr_assert_eq(p->cudaMemcpy(b, a, 32, cudaMemcpyHostToHost),
	             cudaSuccess);
	cr_assert_arr_eq(a, b, 32);
	cr_assert_eq(p->cudaFreeHost(a), cudaSuccess);
	cr_assert_eq(p->cudaFreeHost(b), cudaSuccess);
}

Test(memory, memory_can_be_copied_in_every_direction, .timeout = 10)
{
	const struct platform *p = native_open(2);
	const char in[16] = "fifteen letters";
	char out[16] = "";
	void *here;
	void *there;

	cr_assert_eq(p->cudaMalloc(&here, 16), cudaSuccess);
	cr_assert_eq(p->cudaSetDevice(1), cudaSuccess);
	cr_assert_eq(p->cudaMalloc(&there, 16), cudaSuccess);
	cr_assert_eq(p->cudaMemcpy(here, in, 16, cudaMemcpyHostToDevice),
	             cudaSuccess);
	cr_assert_eq(p->cudaMemcpy(there, here, 16, cudaMemcpyDeviceToDevice),
	             cudaSuccess);
	cr_assert_eq(p->cudaMemcpy(out, there, 16, cudaMemcpyDefault),
	             cudaSuccess);
	cr_assert_str_eq(out, in);
	cr_assert_eq(p->cudaFree(here), cudaSuccess);
	cr_assert_eq(p->cudaFree(there), cudaSuccess);
}

Test(memory, async_copy_and_memset_run_in_stream_order, .timeout = 10)
{
	const struct platform *p = native_open(2);
	cudaStream_t stream = native_stream(p, 0);
	struct native_gate gate;
	void *device;
	void *pinned;

	cr_assert_eq(p->cudaMalloc(&device, 8), cudaSuccess);
	cr_assert_eq(p->cudaMallocHost(&pinned, 8), cudaSuccess);
	memset(pinned, 0, 8);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaMemsetAsync(device, 9, 8, stream), cudaSuccess);
	cr_assert_eq(p->cudaMemcpyAsync(pinned, device, 8,
	                                cudaMemcpyDeviceToHost, stream),
	             cudaSuccess);
	cr_assert_eq(*(char *)pinned, 0, "the gate is still closed");
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(*(char *)pinned, 9);
	cr_assert_eq(p->cudaFree(device), cudaSuccess);
	cr_assert_eq(p->cudaFreeHost(pinned), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

/* ---- frees ------------------------------------------------------------- */

/* The platform, and a blocked stream and memory of device 0 */
static const struct platform *p;
static cudaStream_t held;
static struct native_gate gate;
static char *memory;

static void hold(void)
{
	void *m;

	p = native_open_host(2);
	held = native_stream(p, 0);
	native_gate_hold(p, &gate, held);
	native_must(p->cudaMalloc(&m, 64), "cudaMalloc");
	memory = m;
}

static void let_go(void)
{
	native_must(p->cudaStreamSynchronize(held), "cudaStreamSynchronize");
	native_must(p->cudaStreamDestroy(held), "cudaStreamDestroy");
}

TestSuite(frees, .init = hold, .fini = let_go, .timeout = 20);

static cudaError_t (*free_it)(void *memory);

static void *free_memory(void *m)
{
	return (void *)(intptr_t)free_it(m);
}

static void check_waits(void *m)
{
	pthread_t thread;
	void *result;

	native_must(p->cudaMemsetAsync(m, 7, 1, held), "cudaMemsetAsync");
	pthread_create(&thread, NULL, free_memory, m);
	native_gate_reached(&gate);
	cr_assert(memory_is_known(m, 1), "the device still has work");
	native_gate_open(&gate);
	pthread_join(thread, &result);
	cr_assert_eq((intptr_t)result, cudaSuccess);
	cr_assert(!memory_is_known(m, 1));
}

Test(frees, free_of_device_memory_waits_for_the_device)
{
	free_it = p->cudaFree;
	check_waits(memory);
}

Test(frees, free_of_pinned_memory_waits_for_the_device)
{
	void *pinned;

	native_must(p->cudaMallocHost(&pinned, 8), "cudaMallocHost");
	free_it = p->cudaFreeHost;
	check_waits(pinned);
	p->cudaFree(memory);
}

Test(frees, free_does_not_wait_for_another_device)
{
	void *other;

	p->cudaSetDevice(1);
	native_must(p->cudaMalloc(&other, 8), "cudaMalloc");
	cr_assert_eq(p->cudaFree(other), cudaSuccess);
	native_gate_open(&gate);
	p->cudaFree(memory);
}

Test(frees, free_in_stream_order_does_not_wait)
{
	void *m = NULL;

	cr_assert_eq(host_cudaMallocAsync(&m, 64, held), cudaSuccess);
	cr_assert_eq(host_cudaFreeAsync(m, held), cudaSuccess);
	cr_assert(memory_is_known(m, 64),
	          "the stream has not reached the free");
	cr_assert_eq(host_cudaFreeAsync(m, held), cudaErrorInvalidValue);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(held), cudaSuccess);
	cr_assert(!memory_is_known(m, 64));
	p->cudaFree(memory);
}

Test(frees, free_refuses_memory_that_was_not_allocated)
{
	char own;

	native_gate_open(&gate);
	cr_assert_eq(p->cudaFree(&own), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaFree(memory + 1), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaFreeHost(memory), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaFreeAsync(NULL, held), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaFreeAsync(&own, held), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaFree(memory), cudaSuccess);
	cr_assert_eq(p->cudaFree(memory), cudaErrorInvalidValue);
}

/* ---- kinds of memory --------------------------------------------------- */

static void open_two(void)
{
	p = native_open_host(2);
}

TestSuite(kinds, .init = open_two, .timeout = 10);

static struct cudaPointerAttributes attributes(const void *m)
{
	struct cudaPointerAttributes a;

	memset(&a, 0xff, sizeof(a));
	cr_assert_eq(host_cudaPointerGetAttributes(&a, m), cudaSuccess);
	return a;
}

Test(kinds, pointer_attributes_describe_device_memory)
{
	struct cudaPointerAttributes a;
	void *m;

	p->cudaSetDevice(1);
	native_must(p->cudaMalloc(&m, 64), "cudaMalloc");
	p->cudaSetDevice(0);
	a = attributes((char *)m + 63);
	cr_assert_eq(a.type, cudaMemoryTypeDevice);
	cr_assert_eq(a.device, 1);
	cr_assert_eq(a.devicePointer, (char *)m + 63);
	cr_assert_null(a.hostPointer);
	cr_assert_eq(attributes((char *)m + 64).type,
	             cudaMemoryTypeUnregistered);
	p->cudaFree(m);
	cr_assert_eq(attributes(m).type, cudaMemoryTypeUnregistered);
}

Test(kinds, pointer_attributes_describe_pinned_memory)
{
	struct cudaPointerAttributes a;
	unsigned int flags = 0;
	void *m, *same = NULL;

	native_must(p->cudaHostAlloc(&m, 8, cudaHostAllocPortable),
	            "cudaHostAlloc");
	a = attributes(m);
	cr_assert_eq(a.type, cudaMemoryTypeHost);
	cr_assert_eq(a.devicePointer, m);
	cr_assert_eq(a.hostPointer, m);
	cr_assert_eq(host_cudaHostGetFlags(&flags, m), cudaSuccess);
	cr_assert_eq(flags, cudaHostAllocPortable);
	cr_assert_eq(host_cudaHostGetFlags(NULL, m), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaHostGetDevicePointer(&same, m, 0), cudaSuccess);
	cr_assert_eq(same, m);
	cr_assert_eq(host_cudaHostGetDevicePointer(&same, m, 1),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaHostGetDevicePointer(&same, &same, 0),
	             cudaErrorInvalidValue);
	p->cudaFreeHost(m);
}

Test(kinds, pointer_attributes_describe_managed_memory)
{
	void *m = NULL;

	cr_assert_eq(host_cudaMallocManaged(&m, 0, cudaMemAttachGlobal),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMallocManaged(&m, 8, 0), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMallocManaged(&m, 8, cudaMemAttachSingle),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMallocManaged(&m, 8, cudaMemAttachGlobal),
	             cudaSuccess);
	cr_assert_eq(attributes(m).type, cudaMemoryTypeManaged);
	cr_assert_eq(p->cudaFreeHost(m), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaFree(m), cudaSuccess);
}

Test(kinds, pointer_attributes_describe_registered_memory)
{
	static char own[64];
	unsigned int flags;

	cr_assert_eq(attributes(own).type, cudaMemoryTypeUnregistered);
	cr_assert_eq(attributes(own).device, cudaInvalidDeviceId);
	cr_assert_eq(host_cudaHostRegister(own, 32, 0), cudaSuccess);
	cr_assert_eq(attributes(own + 31).type, cudaMemoryTypeHost);
	cr_assert_eq(host_cudaHostGetFlags(&flags, own), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaHostRegister(own + 31, 32, 0),
	             cudaErrorHostMemoryAlreadyRegistered);
	cr_assert_eq(host_cudaHostUnregister(own + 1),
	             cudaErrorHostMemoryNotRegistered);
	cr_assert_eq(p->cudaFreeHost(own), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaHostUnregister(own), cudaSuccess);
	cr_assert_eq(host_cudaHostUnregister(own),
	             cudaErrorHostMemoryNotRegistered);
}

Test(kinds, cudaHostRegister_checks_its_arguments)
{
	char own[8];

	cr_assert_eq(host_cudaHostRegister(NULL, 8, 0), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaHostRegister(own, 0, 0), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaHostRegister(own, 8, 0x80),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaHostUnregister(NULL), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaPointerGetAttributes(NULL, own),
	             cudaErrorInvalidValue);
}

Test(kinds, pointer_attributes_of_cuda_12_have_four_fields)
{
	struct cudaPointerAttributes a;
	char own = 0;

	memset(&a, 0x55, sizeof(a));
	cr_assert_eq(host12_cudaPointerGetAttributes(&a, &own), cudaSuccess);
	cr_assert_eq(a.hostPointer, &own);
	cr_assert_eq(a.reserved[0], 0x5555555555555555);
}

Test(kinds, managed_memory_takes_advice_and_can_be_prefetched)
{
	const struct cudaMemLocation here = {
		.type = cudaMemLocationTypeDevice,
	};
	const struct cudaMemLocation nowhere = {
		.type = cudaMemLocationTypeDevice,
		.id = 2,
	};
	void *m, *device;

	native_must(host_cudaMallocManaged(&m, 64, cudaMemAttachGlobal),
	            "cudaMallocManaged");
	native_must(p->cudaMalloc(&device, 64), "cudaMalloc");
	cr_assert_eq(host_cudaMemAdvise(m, 64, cudaMemAdviseSetReadMostly,
	                                nowhere),
	             cudaSuccess);
	cr_assert_eq(host_cudaMemAdvise(
			     m, 64, cudaMemAdviseSetPreferredLocation, nowhere),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaMemAdvise(device, 64, cudaMemAdviseSetReadMostly,
	                                here),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemAdvise(m, 65, cudaMemAdviseSetReadMostly,
	                                here),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemAdvise(m, 64, (enum cudaMemoryAdvise)7, here),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemPrefetchAsync(m, 64, here, 0, NULL),
	             cudaSuccess);
	cr_assert_eq(host_cudaMemPrefetchAsync(m, 64, nowhere, 0, NULL),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaMemPrefetchAsync(m, 64, here, 1, NULL),
	             cudaErrorInvalidValue);
	cr_assert_eq(host12_cudaMemPrefetchAsync(m, 64, cudaCpuDeviceId, NULL),
	             cudaSuccess);
	p->cudaFree(m);
	p->cudaFree(device);
}

/* ---- strict mode ------------------------------------------------------- */

static void open_strict(void)
{
	setenv("COHORT_HOST_STRICT", "1", 1);
	open_two();
}

TestSuite(freed, .init = open_strict, .timeout = 10);

Test(freed, strict_mode_remembers_freed_memory)
{
	struct memory found;
	void *m;

	native_must(p->cudaMalloc(&m, 64), "cudaMalloc");
	cr_assert(memory_find((char *)m + 8, &found) && !found.freed);
	native_must(p->cudaFree(m), "cudaFree");
	cr_assert(!memory_is_known(m, 64));
	cr_assert(memory_find((char *)m + 8, &found) && found.freed);
	cr_assert(found.start == m && found.bytes == 64);
	cr_assert_eq(p->cudaFree(m), cudaErrorInvalidValue);
	cr_assert_eq(attributes(m).type, cudaMemoryTypeUnregistered);
}

Test(freed, strict_mode_forgets_the_oldest_freed_memory)
{
	struct memory found;
	void *first, *m;
	int i;

	native_must(p->cudaMalloc(&first, 64), "cudaMalloc");
	p->cudaFree(first);
	for (i = 0; i < 1024; i++) {
		native_must(p->cudaMalloc(&m, 64), "cudaMalloc");
		p->cudaFree(m);
	}
	cr_assert(!memory_find(first, &found) || found.start != first);
	cr_assert(memory_find(m, &found) && found.freed);
	native_must(p->cudaMalloc(&m, (size_t)100 << 20), "cudaMalloc");
	p->cudaFree(m);
	cr_assert(!memory_find(m, &found));
}

Test(freed, strict_mode_forgets_unregistered_program_memory)
{
	static char own[8];
	struct memory found;

	native_must(host_cudaHostRegister(own, 8, 0), "cudaHostRegister");
	native_must(host_cudaHostUnregister(own), "cudaHostUnregister");
	cr_assert(!memory_find(own, &found));
}

/* ---- pools ------------------------------------------------------------- */

TestSuite(pools, .init = open_two, .timeout = 10);

static uint64_t used_of(cudaMemPool_t pool)
{
	uint64_t used = 77;

	cr_assert_eq(host_cudaMemPoolGetAttribute(
			     pool, cudaMemPoolAttrUsedMemCurrent, &used),
	             cudaSuccess);
	return used;
}

static cudaMemPool_t new_pool(int device, size_t max)
{
	const struct cudaMemPoolProps props = {
		.allocType = cudaMemAllocationTypePinned,
		.location = { .type = cudaMemLocationTypeDevice, .id = device },
		.maxSize = max,
	};
	cudaMemPool_t pool;

	native_must(host_cudaMemPoolCreate(&pool, &props), "cudaMemPoolCreate");
	return pool;
}

Test(pools, every_device_has_a_memory_pool)
{
	cudaMemPool_t pool, other;
	void *m;

	cr_assert_eq(host_cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
	cr_assert_eq(host_cudaDeviceGetMemPool(&other, 0), cudaSuccess);
	cr_assert_eq(pool, other);
	cr_assert_eq(host_cudaDeviceGetDefaultMemPool(&other, 1), cudaSuccess);
	cr_assert_neq(pool, other);
	cr_assert_eq(host_cudaDeviceGetDefaultMemPool(&pool, 2),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaMemPoolDestroy(other), cudaErrorInvalidValue);
	p->cudaSetDevice(1);
	cr_assert_eq(host_cudaMallocAsync(&m, 64, NULL), cudaSuccess);
	cr_assert_eq(attributes(m).device, 1);
	cr_assert_eq(used_of(other), 64);
	cr_assert_eq(p->cudaFree(m), cudaSuccess);
	cr_assert_eq(used_of(other), 0);
}

Test(pools, memory_pool_allocates_no_more_than_its_size)
{
	cudaMemPool_t pool = new_pool(0, 100);
	void *m, *more;

	cr_assert_eq(host_cudaMallocFromPoolAsync(&m, 64, pool, NULL),
	             cudaSuccess);
	cr_assert_eq(host_cudaMallocFromPoolAsync(&more, 37, pool, NULL),
	             cudaErrorMemoryAllocation);
	cr_assert_eq(host_cudaMallocFromPoolAsync(&more, 36, pool, NULL),
	             cudaSuccess);
	cr_assert_eq(host_cudaFreeAsync(m, NULL), cudaSuccess);
	cr_assert_eq(host_cudaFreeAsync(more, NULL), cudaSuccess);
	cr_assert_eq(p->cudaDeviceSynchronize(), cudaSuccess);
	cr_assert_eq(used_of(pool), 0);
	cr_assert_eq(host_cudaMemPoolDestroy(pool), cudaSuccess);
}

Test(pools, destroyed_memory_pool_lives_until_it_is_empty)
{
	cudaMemPool_t pool = new_pool(0, 0), now;
	void *m;

	cr_assert_eq(host_cudaDeviceSetMemPool(0, pool), cudaSuccess);
	cr_assert_eq(host_cudaDeviceSetMemPool(1, pool), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMallocAsync(&m, 64, NULL), cudaSuccess);
	cr_assert_eq(used_of(pool), 64);
	cr_assert_eq(host_cudaMemPoolDestroy(pool), cudaSuccess);
	cr_assert_eq(host_cudaDeviceGetMemPool(&now, 0), cudaSuccess);
	cr_assert_neq(now, pool, "the default pool is used again");
	memset(m, 1, 64);
	cr_assert_eq(host_cudaFreeAsync(m, NULL), cudaSuccess);
}

Test(pools, memory_pools_have_attributes)
{
	cudaMemPool_t pool = new_pool(0, 0);
	uint64_t value = 4096;
	int on = 77;

	cr_assert_eq(host_cudaMemPoolSetAttribute(
			     pool, cudaMemPoolAttrReleaseThreshold, &value),
	             cudaSuccess);
	value = 0;
	cr_assert_eq(host_cudaMemPoolGetAttribute(
			     pool, cudaMemPoolAttrReleaseThreshold, &value),
	             cudaSuccess);
	cr_assert_eq(value, 4096);
	cr_assert_eq(host_cudaMemPoolGetAttribute(
			     pool, cudaMemPoolReuseAllowOpportunistic, &on),
	             cudaSuccess);
	cr_assert_eq(on, 1);
	cr_assert_eq(host_cudaMemPoolSetAttribute(
			     pool, cudaMemPoolAttrUsedMemHigh, &value),
	             cudaErrorInvalidValue,
	             "the high watermark may only be reset");
	cr_assert_eq(host_cudaMemPoolSetAttribute(
			     pool, cudaMemPoolAttrUsedMemCurrent, &value),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemPoolTrimTo(pool, 0), cudaSuccess);
	cr_assert_eq(host_cudaMemPoolTrimTo(NULL, 0), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemPoolDestroy(pool), cudaSuccess);
}

Test(pools, memory_pool_remembers_which_devices_may_use_it)
{
	cudaMemPool_t pool = new_pool(0, 0);
	struct cudaMemAccessDesc access = {
		.location = { .type = cudaMemLocationTypeDevice, .id = 1 },
		.flags = cudaMemAccessFlagsProtReadWrite,
	};
	enum cudaMemAccessFlags flags;

	cr_assert_eq(host_cudaMemPoolGetAccess(&flags, pool, &access.location),
	             cudaSuccess);
	cr_assert_eq(flags, cudaMemAccessFlagsProtNone);
	cr_assert_eq(host_cudaMemPoolSetAccess(pool, &access, 1), cudaSuccess);
	cr_assert_eq(host_cudaMemPoolGetAccess(&flags, pool, &access.location),
	             cudaSuccess);
	cr_assert_eq(flags, cudaMemAccessFlagsProtReadWrite);
	access.location.id = 2;
	cr_assert_eq(host_cudaMemPoolSetAccess(pool, &access, 1),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaMemPoolDestroy(pool), cudaSuccess);
}

Test(pools, memory_pool_is_created_only_for_a_valid_device)
{
	struct cudaMemPoolProps props = {
		.allocType = cudaMemAllocationTypePinned,
		.location = { .type = cudaMemLocationTypeDevice, .id = 2 },
	};
	cudaMemPool_t pool;

	cr_assert_eq(host_cudaMemPoolCreate(NULL, &props),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemPoolCreate(&pool, &props),
	             cudaErrorInvalidDevice);
	props.location.id = 0;
	props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
	cr_assert_eq(host_cudaMemPoolCreate(&pool, &props),
	             cudaErrorNotSupported);
	props.allocType = cudaMemAllocationTypeInvalid;
	cr_assert_eq(host_cudaMemPoolCreate(&pool, &props),
	             cudaErrorInvalidValue);
}
