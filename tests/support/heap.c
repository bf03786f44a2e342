/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A heap that counts allocations and can make one of them fail
 *
 * The linker redirects the program's calls to the __wrap_ functions in this
 * file, which call the __real_ functions of libc or of a sanitizer.  All
 * atomics are relaxed, because the counters publish no other data.
 */

#include "heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* Names that the linker's option --wrap defines. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void __real_free(void *memory);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
void __wrap_free(void *memory);

static atomic_ulong allocations;
static atomic_long live;
/* Number of allocations up to and including the one that fails, or 0 or less if
 * none must fail */
static atomic_long countdown;
static atomic_bool fired;

unsigned long heap_allocations(void)
{
	return atomic_load_explicit(&allocations, memory_order_relaxed);
}

long heap_live(void)
{
	return atomic_load_explicit(&live, memory_order_relaxed);
}

void heap_fail_at(unsigned long n)
{
	atomic_store_explicit(&fired, false, memory_order_relaxed);
	atomic_store_explicit(&countdown, (long)n, memory_order_relaxed);
}

bool heap_fired(void)
{
	return atomic_load_explicit(&fired, memory_order_relaxed);
}

/* Return whether this allocation must fail. */
static bool heap_strikes(void)
{
	if (atomic_load_explicit(&countdown, memory_order_relaxed) <= 0)
		return false;
	if (atomic_fetch_sub_explicit(&countdown, 1, memory_order_relaxed) != 1)
		return false;
	atomic_store_explicit(&fired, true, memory_order_relaxed);
	return true;
}

static void *heap_counted(void *memory)
{
	if (!memory)
		return NULL;
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
	return memory;
}

static void *heap_refuse(void)
{
	errno = ENOMEM;
	return NULL;
}

void *__wrap_malloc(size_t bytes)
{
	if (heap_strikes())
		return heap_refuse();
	return heap_counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	if (heap_strikes())
		return heap_refuse();
	return heap_counted(__real_calloc(n, bytes));
}

/*
 * A block that grows or moves counts as an allocation, but not as one more live
 * block. The effect of realloc(memory, 0) depends on the implementation. This
 * function assumes that the block stays allocated.
 */
void *__wrap_realloc(void *memory, size_t bytes)
{
	void *grown;

	if (heap_strikes())
		return heap_refuse();
	grown = __real_realloc(memory, bytes);
	if (!memory)
		return heap_counted(grown);
	if (grown)
		atomic_fetch_add_explicit(&allocations, 1,
		                          memory_order_relaxed);
	return grown;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	if (heap_strikes())
		return heap_refuse();
	return heap_counted(__real_aligned_alloc(alignment, bytes));
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	int error;

	if (heap_strikes())
		return ENOMEM;
	error = __real_posix_memalign(memory, alignment, bytes);
	if (error == 0)
		heap_counted(*memory);
	return error;
}

void __wrap_free(void *memory)
{
	if (memory)
		atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
	__real_free(memory);
}
