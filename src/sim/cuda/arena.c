/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/cuda/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT ((size_t)256) /* as cudaMalloc() */
#define LARGE ((size_t)2 * 1024 * 1024)

#ifdef ARENA_IS_HEAP

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

static size_t round_to(size_t x, size_t multiple)
{
	return (x + multiple - 1) / multiple * multiple;
}

/* How much is reserved at a time: addresses alone.  A larger allocation has a reservation
 * of its own. */
#define RESERVED ((size_t)64 * 1024 * 1024 * 1024)

/* What is freed and larger than that goes back to the system, as by free(). */
#define KEPT_BYTES ((size_t)32 * 1024 * 1024)

/* Addresses, sorted. */
struct ranges {
	struct range {
		uintptr_t start;
		size_t bytes;
	} * of;
	size_t used, room;
};

/* Guarded by the table's lock: what is reserved, and what of it is free, in two parts,
 * so that small pieces do not break up large ones. */
static struct ranges reserved, free_small, free_large;

/* How many ranges start at or below @p. */
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

/* Room for one more; false without memory. */
static bool ranges_grow(struct ranges *r)
{
	size_t more = r->room ? 2 * r->room : 64;
	struct range *bigger;

	if (r->used < r->room)
		return true;
	bigger = realloc(r->of, more * sizeof(*bigger));
	if (!bigger)
		return false;
	r->of = bigger;
	r->room = more;
	return true;
}

static void ranges_remove(struct ranges *r, size_t i)
{
	r->used--;
	memmove(&r->of[i], &r->of[i + 1], (r->used - i) * sizeof(*r->of));
}

/* Add a range, for which there is room, and join it with its neighbours. */
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

/* Take @bytes from the first range that has them; 0: none has. */
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

/* Reserve @n bytes of addresses for @r. */
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
	start = round_to(p, LARGE);
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

	*bytes = round_to(*bytes, is_large ? LARGE : ALIGNMENT);
	return is_large ? &free_large : &free_small;
}

void *arena_get(size_t bytes)
{
	size_t n = bytes;
	struct ranges *r = part_of(&n);
	uintptr_t p;

	if (n < bytes)
		return NULL;
	p = ranges_take(r, n);
	/* A system that counts addresses as memory may not have so many. */
	if (!p && (reserve(r, n < RESERVED ? RESERVED : n) ||
	           reserve(r, round_to(n, LARGE))))
		p = ranges_take(r, n);
	return (void *)p;
}

void arena_put(void *memory, size_t bytes)
{
	struct ranges *r = part_of(&bytes);

	if (bytes > KEPT_BYTES)
		madvise(memory, bytes, MADV_DONTNEED);
	/* Without memory for the note, the addresses are lost. */
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
