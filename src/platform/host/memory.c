/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Device and pinned memory of the host platform
 *
 * Both are plain memory; a table of what was given out, sorted by address,
 * tells them from the program's own memory and refuses to free what is not
 * there.  Allocations have exactly the size asked for, so that an address
 * sanitizer sees a kernel, too, that runs over the end.
 */

#include "platform/host/memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "platform/host/census.h"
#include "platform/host/device.h"
#include "platform/host/host.h"

#define ALIGNMENT 256 /* as cudaMalloc() */

struct allocation {
	char *start;
	size_t bytes;
	bool pinned; /* else device memory */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; sorted by start. */
static struct allocation *table;
static size_t used, room;

/* The number of allocations that start at or below @p.  Called with lock
 * held. */
static size_t find_locked(const void *p)
{
	size_t low = 0, high = used;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if ((uintptr_t)table[middle].start <= (uintptr_t)p)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Called with lock held. */
static bool grow_locked(void)
{
	size_t more = room ? 2 * room : 64;
	struct allocation *bigger;

	if (used < room)
		return true;
	bigger = realloc(table, more * sizeof(*table));
	if (!bigger)
		return false;
	table = bigger;
	room = more;
	return true;
}

static bool add(const struct allocation *a)
{
	bool ok;
	size_t i;

	pthread_mutex_lock(&lock);
	ok = grow_locked();
	if (ok) {
		i = find_locked(a->start);
		memmove(&table[i + 1], &table[i], (used - i) * sizeof(*table));
		table[i] = *a;
		used++;
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

static bool take(void *start, bool pinned)
{
	bool found;
	size_t i;

	pthread_mutex_lock(&lock);
	i = find_locked(start);
	found = i && table[i - 1].start == start &&
	        table[i - 1].pinned == pinned;
	if (found) {
		memmove(&table[i - 1], &table[i], (used - i) * sizeof(*table));
		used--;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

bool memory_is_known(const void *p, size_t bytes)
{
	const struct allocation *a;
	uintptr_t at = (uintptr_t)p;
	bool known = false;
	size_t i;

	pthread_mutex_lock(&lock);
	i = find_locked(p);
	if (i) {
		a = &table[i - 1];
		known = at - (uintptr_t)a->start <= a->bytes &&
		        bytes <= a->bytes - (at - (uintptr_t)a->start);
	}
	pthread_mutex_unlock(&lock);
	return known;
}

size_t memory_live(void)
{
	size_t n;

	pthread_mutex_lock(&lock);
	n = used;
	pthread_mutex_unlock(&lock);
	return n;
}

static cudaError_t allocate(void **memory, size_t bytes, bool pinned)
{
	struct allocation a = { .bytes = bytes, .pinned = pinned };
	void *p;

	if (!memory)
		return device_error(cudaErrorInvalidValue);
	if (!bytes) {
		*memory = NULL;
		return cudaSuccess;
	}
	if (posix_memalign(&p, ALIGNMENT, bytes))
		return device_error(cudaErrorMemoryAllocation);
	a.start = p;
	if (!add(&a)) {
		free(p);
		return device_error(cudaErrorMemoryAllocation);
	}
	*memory = p;
	return cudaSuccess;
}

static cudaError_t release(void *memory, bool pinned)
{
	if (!memory)
		return cudaSuccess;
	if (!take(memory, pinned))
		return device_error(cudaErrorInvalidValue);
	free(memory);
	return cudaSuccess;
}

cudaError_t host_cudaMalloc(void **memory, size_t bytes)
{
	return allocate(memory, bytes, false);
}

cudaError_t host_cudaFree(void *memory)
{
	return release(memory, false);
}

cudaError_t host_cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
	const unsigned int all = cudaHostAllocPortable | cudaHostAllocMapped |
	                         cudaHostAllocWriteCombined;

	if (flags & ~all)
		return device_error(cudaErrorInvalidValue);
	return allocate(memory, bytes, true);
}

cudaError_t host_cudaMallocHost(void **memory, size_t bytes)
{
	return allocate(memory, bytes, true);
}

cudaError_t host_cudaFreeHost(void *memory)
{
	return release(memory, true);
}
