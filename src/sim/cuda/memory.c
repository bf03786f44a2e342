/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of memory
 *
 * All of it is plain memory.  Allocations have exactly the size asked for, so
 * that an address sanitizer also sees a kernel that runs over the end.
 */

#include "sim/cuda/memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/strict/census.h"
#include "sim/strict/strict.h"

#define ALIGNMENT 256 /* as cudaMalloc() */

/* How much freed memory strict mode keeps. */
#define KEPT_BYTES ((size_t)64 * 1024 * 1024)
#define KEPT_PIECES 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; sorted by start. */
static struct memory *table;
static size_t used, room;

/* Guarded by lock: where what is kept starts, oldest first, in a ring. */
static char *kept[KEPT_PIECES];
static size_t kept_first, kept_count, kept_bytes;

/* The number of pieces that start at or below @p.  Called with lock held. */
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

/* The piece that @p points into, or NULL.  Called with lock held. */
static struct memory *at_locked(const void *p)
{
	size_t i = find_locked(p);
	struct memory *m = i ? &table[i - 1] : NULL;

	return m && (uintptr_t)p - (uintptr_t)m->start < m->bytes ? m : NULL;
}

/* Called with lock held. */
static bool grow_locked(void)
{
	size_t more = room ? 2 * room : 64;
	struct memory *bigger;

	if (used < room)
		return true;
	bigger = realloc(table, more * sizeof(*table));
	if (!bigger)
		return false;
	table = bigger;
	room = more;
	return true;
}

/* Called with lock held. */
static void remove_locked(struct memory *m)
{
	const size_t i = (size_t)(m - table);

	memmove(m, m + 1, (used - i - 1) * sizeof(*m));
	used--;
}

bool memory_enter(const struct memory *m)
{
	bool ok;
	size_t i;

	pthread_mutex_lock(&lock);
	ok = grow_locked();
	if (ok) {
		i = find_locked(m->start);
		memmove(&table[i + 1], &table[i], (used - i) * sizeof(*table));
		table[i] = *m;
		used++;
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

bool memory_allocate(struct memory *m)
{
	void *p;

	if (posix_memalign(&p, ALIGNMENT, m->bytes))
		return false;
	m->start = p;
	if (memory_enter(m))
		return true;
	free(p);
	return false;
}

bool memory_find(const void *p, struct memory *out)
{
	const struct memory *m;

	pthread_mutex_lock(&lock);
	m = at_locked(p);
	if (m)
		*out = *m;
	pthread_mutex_unlock(&lock);
	return m;
}

bool memory_is_known(const void *p, size_t bytes)
{
	const struct memory *m;
	bool known;

	pthread_mutex_lock(&lock);
	m = at_locked(p);
	known = m && !m->freed &&
	        bytes <= m->bytes - ((uintptr_t)p - (uintptr_t)m->start);
	pthread_mutex_unlock(&lock);
	return known;
}

bool memory_overlaps(const void *p, size_t bytes)
{
	bool found = false;
	size_t i;

	pthread_mutex_lock(&lock);
	i = find_locked((const char *)p + bytes - 1);
	for (; i && !found; i--) {
		const struct memory *m = &table[i - 1];

		if ((uintptr_t)m->start + m->bytes <= (uintptr_t)p)
			break;
		found = !m->freed;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

size_t memory_live(void)
{
	size_t n;

	pthread_mutex_lock(&lock);
	n = used - kept_count;
	pthread_mutex_unlock(&lock);
	return n;
}

size_t memory_kept(void)
{
	size_t n;

	pthread_mutex_lock(&lock);
	n = kept_count;
	pthread_mutex_unlock(&lock);
	return n;
}

/* ---- the end ---------------------------------------------------------- */

static bool is_in(const struct memory *m, unsigned int kinds)
{
	return kinds >> m->kind & 1;
}

/* The live piece that starts at @p, or NULL.  Called with lock held. */
static struct memory *live_locked(const void *p, unsigned int kinds)
{
	struct memory *m = at_locked(p);

	return m && m->start == p && !m->freed && is_in(m, kinds) ? m : NULL;
}

/* Called with lock held. */
static void forget_oldest_locked(void)
{
	char *p = kept[kept_first];
	struct memory *m = at_locked(p);

	kept_first = (kept_first + 1) % KEPT_PIECES;
	kept_count--;
	kept_bytes -= m->bytes;
	remove_locked(m);
	free(p);
}

/* Keep a piece that is freed.  Called with lock held. */
static void keep_locked(struct memory *m)
{
	char *p = m->start;

	m->freed = true;
	kept_bytes += m->bytes;
	if (kept_count == KEPT_PIECES)
		forget_oldest_locked();
	kept[(kept_first + kept_count++) % KEPT_PIECES] = p;
	while (kept_bytes > KEPT_BYTES)
		forget_oldest_locked();
}

/* True if the table did not allocate the memory. */
static bool is_foreign(const struct memory *m)
{
	return m->kind == MEMORY_REGISTERED || m->kind == MEMORY_MAPPED;
}

static bool is_kept(const struct memory *m)
{
	return strict_is_on() && !is_foreign(m);
}

bool memory_take(const void *p, unsigned int kinds, struct memory *out)
{
	struct memory *m;

	pthread_mutex_lock(&lock);
	m = live_locked(p, kinds);
	if (m) {
		*out = *m;
		if (is_kept(out))
			keep_locked(m);
		else
			remove_locked(m);
	}
	pthread_mutex_unlock(&lock);
	return m;
}

void memory_discard(const struct memory *m)
{
	if (!is_foreign(m) && !is_kept(m))
		free(m->start);
}

bool memory_end(const void *p, unsigned int kinds)
{
	struct memory *m;
	bool first = false;

	pthread_mutex_lock(&lock);
	m = live_locked(p, kinds);
	if (m) {
		first = !m->ending;
		m->ending = true;
	}
	pthread_mutex_unlock(&lock);
	return first;
}

/* The first piece of @device that a reset frees.  Called with lock held. */
static const void *of_device_locked(int device)
{
	size_t i;

	for (i = 0; i < used; i++)
		if (table[i].device == device && !table[i].pool &&
		    table[i].kind != MEMORY_MAPPED && !table[i].freed)
			return table[i].start;
	return NULL;
}

void memory_reset(int device)
{
	struct memory m;
	const void *p;

	for (;;) {
		pthread_mutex_lock(&lock);
		p = of_device_locked(device);
		pthread_mutex_unlock(&lock);
		if (!p)
			break;
		if (memory_take(p, ~0U, &m))
			memory_discard(&m);
	}
}
