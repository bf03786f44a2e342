/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counting and failing allocator
 *
 * The linker sends the program's calls to the __wrap_ functions here, which
 * pass them on to the __real_ functions: libc's, or a sanitizer's.  All state
 * is in relaxed atomics: they are counters, and publish nothing.
 */

#include "heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* The linker gives these names: --wrap=malloc. */
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
/* the allocation that takes it from 1 to 0 fails; 0 and below: none does */
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

/* True if this allocation is the one that must fail. */
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
 * A block that moves or grows counts as one more allocation, but not as one
 * more block.  The standard leaves open what realloc(memory, 0) does: it counts
 * here as a call that keeps the block.
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
