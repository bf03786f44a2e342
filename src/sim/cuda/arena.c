/* SPDX-License-Identifier: Apache-2.0 */

/* Allocates device memory from reserved address ranges (see arena.h) */

#include "sim/cuda/arena.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/atomics.h"
#include "base/status.h"
#include "base/util.h"

/* Alignment of a small allocation, as in cudaMalloc(). */
#define ALIGNMENT ((size_t)256)
#define LARGE ((size_t)2 * 1024 * 1024)

/* Atomic; both are set by the first arena_init() that succeeds, and never
 * change afterwards.  The release of is_initialized publishes is_shared to a
 * thread that initializes at the same time. */
static atomic_bool is_shared, is_initialized;

/* Environment variables that launchers set to the number of processes. */
static const char *const sizes[] = { "COHORT_PROCESSES", "OMPI_COMM_WORLD_SIZE",
	                             "WORLD_SIZE",       "SLURM_STEP_NUM_TASKS",
	                             "PMI_SIZE",         "JAX_NUM_PROCESSES" };

static bool are_several(void)
{
	const char *text;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		text = getenv(sizes[i]);
		if (text && strtol(text, NULL, 10) > 1)
			return true;
	}
	return false;
}

int arena_init(void)
{
	const char *text = getenv("COHORT_HOST_SHARED");
	const bool is_set = text && *text;

	if (load_acquire(&is_initialized))
		return COHORT_OK;
	if (is_set && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return error_set(COHORT_INVALID,
		                 "COHORT_HOST_SHARED is \"%s\", not 0 or 1",
		                 text);
	store_relaxed(&is_shared, is_set ? *text == '1' : are_several());
	store_release(&is_initialized, true);
	return COHORT_OK;
}

#ifdef ARENA_IS_HEAP

bool arena_is_shared(void)
{
	return false;
}

bool arena_share(struct arena_share *out)
{
	(void)out;
	return false;
}

void *arena_get(size_t bytes)
{
	void *p;

	return posix_memalign(&p, bytes < LARGE ? ALIGNMENT : LARGE, bytes)
	               ? NULL
	               : p;
}

void arena_put(void *memory, size_t bytes)
{
	(void)bytes;
	free(memory);
}

bool arena_has(const void *p, size_t bytes)
{
	(void)p;
	(void)bytes;
	return false;
}

#else

/* Size of a reservation in bytes.  A reservation uses address space but no
 * memory.  A larger allocation gets its own reservation. */
#define RESERVED ((size_t)64 * 1024 * 1024 * 1024)

/* Maximum number of freed bytes that are kept for the next allocations instead
 * of being returned to the system.  The first touch of new pages takes longer
 * than a collective that uses them. */
#define KEPT_BYTES ((size_t)256 * 1024 * 1024)

/* A list of address ranges, sorted by address. */
struct ranges {
	struct range {
		uintptr_t start;
		size_t bytes;
	} * of;
	size_t used, room;
};

/* The reserved ranges, and the free ranges in them.  Small and large
 * allocations have separate free lists, so that small allocations do not
 * fragment large ranges.  Guarded by memory_table.c's lock. */
static struct ranges reserved, free_small, free_large;

/* Estimated number of freed bytes that still use memory.  arena_get() assumes
 * that it reuses such bytes first.  Guarded by memory_table.c's lock. */
static size_t kept_bytes;

static size_t ranges_below(const struct ranges *r, uintptr_t p)
{
	size_t low = 0, high = r->used;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->of[middle].start <= p)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool ranges_grow(struct ranges *r)
{
	return array_grow(&r->of, NULL, r->used, &r->room, sizeof(*r->of));
}

static void ranges_remove(struct ranges *r, size_t i)
{
	r->used--;
	memmove(&r->of[i], &r->of[i + 1], (r->used - i) * sizeof(*r->of));
}

/* Insert a range, for which there must be room, and merge it with its
 * neighbors. */
static void ranges_add(struct ranges *r, uintptr_t start, size_t bytes)
{
	size_t i = ranges_below(r, start);

	memmove(&r->of[i + 1], &r->of[i], (r->used - i) * sizeof(*r->of));
	r->of[i] = (struct range){ start, bytes };
	r->used++;
	if (i + 1 < r->used && start + bytes == r->of[i + 1].start) {
		r->of[i].bytes += r->of[i + 1].bytes;
		ranges_remove(r, i + 1);
	}
	if (i && r->of[i - 1].start + r->of[i - 1].bytes == start) {
		r->of[i - 1].bytes += r->of[i].bytes;
		ranges_remove(r, i);
	}
}

/* Take @bytes from the first range that is large enough.  Return the address,
 * or 0 if no range is large enough. */
static uintptr_t ranges_take(struct ranges *r, size_t bytes)
{
	uintptr_t start;
	size_t i = 0;

	while (i < r->used && r->of[i].bytes < bytes)
		i++;
	if (i == r->used)
		return 0;
	start = r->of[i].start;
	r->of[i].start += bytes;
	r->of[i].bytes -= bytes;
	if (!r->of[i].bytes)
		ranges_remove(r, i);
	return start;
}

/* ---- memory that other processes can map ------------------------------ */

/* Size of the shared file, which uses memory only for touched pages, and size
 * of its part for small allocations. */
#define SHARED_BYTES (4 * RESERVED)
#define SHARED_SMALL (RESERVED / 16)

/* The shared file, and the process that created it.  Guarded by
 * memory_table.c's lock. */
static struct arena_share shared = { .fd = -1 };
static pid_t shared_by;

bool arena_is_shared(void)
{
	return load_relaxed(&is_shared);
}

/* Forget the parent's file after a fork: the child inherits the memory, but
 * must not allocate from the file. */
static void forget_parent(void)
{
	if (shared.fd >= 0)
		close(shared.fd);
	shared.fd = -1;
	free_small.used = free_large.used = 0;
}

static bool map_shared(void)
{
	int fd = memfd_create("cohort-device-memory", MFD_CLOEXEC);
	void *p = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)SHARED_BYTES) == 0)
		p = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE,
		         MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	shared = (struct arena_share){ fd, (uintptr_t)p, SHARED_BYTES };
	return true;
}

/* Create the shared file, unless this process has it or shares no memory. */
static void prepare_shared(void)
{
	const pid_t self = arena_is_shared() ? getpid() : 0;
	uintptr_t large;

	if (shared_by == self)
		return;
	if (shared_by)
		forget_parent();
	shared_by = self;
	if (!ranges_grow(&reserved) || !ranges_grow(&free_small) ||
	    !ranges_grow(&free_large) || !map_shared())
		return;
	madvise((void *)shared.start, shared.bytes, MADV_DONTDUMP);
	ranges_add(&reserved, shared.start, shared.bytes);
	large = ROUND_UP(shared.start + SHARED_SMALL, LARGE);
	ranges_add(&free_small, shared.start, large - shared.start);
	ranges_add(&free_large, large, shared.start + shared.bytes - large);
	madvise((void *)large, shared.start + shared.bytes - large,
	        MADV_HUGEPAGE);
}

bool arena_share(struct arena_share *out)
{
	prepare_shared();
	*out = shared;
	return shared.fd >= 0;
}

/* Return the memory to the system, but keep the addresses reserved. */
static void forget(void *memory, size_t bytes)
{
	const uintptr_t at = (uintptr_t)memory - shared.start;

	if (shared.fd >= 0 && at < shared.bytes)
		fallocate(shared.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		          (off_t)at, (off_t)bytes);
	else
		madvise(memory, bytes, MADV_DONTNEED);
}

/* ---- the arena -------------------------------------------------------- */

static bool reserve(struct ranges *r, size_t n)
{
	const size_t all = n + LARGE;
	uintptr_t start, p;
	void *memory;

	if (all < n || !ranges_grow(&reserved) || !ranges_grow(r))
		return false;
	memory = mmap(NULL, all, PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	p = (uintptr_t)memory;
	start = ROUND_UP(p, LARGE);
	if (start > p)
		munmap(memory, start - p);
	munmap((void *)(start + n), p + all - (start + n));
	madvise((void *)start, n, MADV_DONTDUMP);
	if (r == &free_large)
		madvise((void *)start, n, MADV_HUGEPAGE);
	ranges_add(&reserved, start, n);
	ranges_add(r, start, n);
	return true;
}

static struct ranges *part_of(size_t *bytes)
{
	const bool is_large = *bytes >= LARGE;

	*bytes = ROUND_UP(*bytes, is_large ? LARGE : ALIGNMENT);
	return is_large ? &free_large : &free_small;
}

void *arena_get(size_t bytes)
{
	size_t n = bytes;
	struct ranges *r = part_of(&n);
	uintptr_t p;

	if (n < bytes)
		return NULL;
	prepare_shared();
	p = ranges_take(r, n);
	/* If the large reservation fails, try a small one, because a system
	 * that limits address space can refuse only the large one. */
	if (!p &&
	    (reserve(r, MAX(n, RESERVED)) || reserve(r, ROUND_UP(n, LARGE))))
		p = ranges_take(r, n);
	kept_bytes -= MIN(kept_bytes, n);
	return (void *)p;
}

void arena_put(void *memory, size_t bytes)
{
	struct ranges *r = part_of(&bytes);

	/* After a fork, the child does not own this memory. */
	if (arena_is_shared() && shared_by != getpid())
		return;
	if (kept_bytes + bytes > KEPT_BYTES)
		forget(memory, bytes);
	else
		kept_bytes += bytes;
	/* If the list cannot grow, the addresses are leaked. */
	if (ranges_grow(r))
		ranges_add(r, (uintptr_t)memory, bytes);
}

bool arena_has(const void *p, size_t bytes)
{
	const uintptr_t first = (uintptr_t)p;
	const size_t i = ranges_below(&reserved, first + bytes - 1);

	return i && first < reserved.of[i - 1].start + reserved.of[i - 1].bytes;
}

#endif
