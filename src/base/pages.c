/* SPDX-License-Identifier: Apache-2.0 */

#include "base/pages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/list.h"
#include "base/scoped_lock.h"

void *pages_alloc(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return pages == MAP_FAILED ? NULL : pages;
}

void pages_forget(void *pages, size_t bytes)
{
	/* The mapping is private and anonymous, so the next access finds
	 * zeros. */
	madvise(pages, bytes, MADV_DONTNEED);
}

void pages_free(void *pages, size_t bytes)
{
	if (pages)
		munmap(pages, bytes);
}

/* Size of the mappings that allocations share.  A process can have no more than
 * 65,530 mappings (vm.max_map_count). */
#define CHUNK ((size_t)8 << 20)

struct released {
	struct released *next;
	size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock: the unused rest of the last chunk, and the list of released
 * pages. */
static char *rest;
static size_t rest_bytes;
static struct released *released;

/* Not NULL if the program runs with AddressSanitizer, which finds leaks and
 * use-after-free only on the heap. */
void __asan_init(void) __attribute__((weak));
void __lsan_ignore_object(const void *object) __attribute__((weak));

static size_t whole_pages(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

static void *reuse_pages_locked(size_t bytes)
{
	struct released *found;

	list_find(found, released, next, found->bytes == bytes);
	list_remove(released, found, next);
	return found ? memset(found, 0, sizeof(*found)) : NULL;
}

static void *carve_pages_locked(size_t bytes)
{
	const size_t chunk = bytes > CHUNK ? bytes : CHUNK;
	void *taken;

	if (rest_bytes < bytes) {
		rest = pages_alloc(chunk);
		rest_bytes = rest ? chunk : 0;
	}
	if (!rest)
		return NULL;
	taken = rest;
	rest += bytes;
	rest_bytes -= bytes;
	return taken;
}

void *pages_acquire(size_t bytes)
{
	void *taken;

	bytes = whole_pages(bytes);
	if (__asan_init) {
		taken = aligned_alloc(whole_pages(1), bytes);
		return taken ? memset(taken, 0, bytes) : NULL;
	}
	pthread_mutex_lock(&lock);
	taken = reuse_pages_locked(bytes);
	if (!taken)
		taken = carve_pages_locked(bytes);
	pthread_mutex_unlock(&lock);
	return taken;
}

void pages_release(void *pages, size_t bytes)
{
	struct released *g = pages;

	if (__asan_init) {
		free(pages);
		return;
	}
	bytes = whole_pages(bytes);
	pages_forget(pages, bytes);
	SCOPED_LOCK(&lock);
	*g = (struct released){ released, bytes };
	released = g;
}

void pages_abandon(void *pages, size_t bytes)
{
	pages_forget(pages, whole_pages(bytes));
	leak_on_purpose(pages);
}

void leak_on_purpose(const void *object)
{
	if (__lsan_ignore_object)
		__lsan_ignore_object(object);
}
