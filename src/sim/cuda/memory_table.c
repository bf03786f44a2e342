/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the table of CUDA's memory (see memory_table.h)
 *
 * Allocated memory is host memory from the arena (arena.h).
 */

#include "sim/cuda/memory_table.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "base/array.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/arena.h"
#include "sim/cuda/cuda_device.h"
#include "sim/strict/census.h"
#include "sim/strict/strict.h"

/* Limits on the freed memory that strict mode keeps. */
#define KEPT_BYTES ((size_t)64 * 1024 * 1024)
#define KEPT_PIECES 1024

/* Guards everything in this file.  Functions whose name ends in _locked are
 * called with the lock held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The table, sorted by address.  Guarded by lock. */
static struct memory *table;
static size_t used, room;

/* Number of used bytes of each device's memory.  Guarded by lock. */
static size_t used_bytes[COHORT_SIM_MAX_DEVICES];

/* Addresses reserved for devices outside the arena.  Guarded by lock. */
struct span {
	const char *start;
	size_t bytes;
	struct span *next;
};
static struct span *spans;

/* A ring buffer with the start addresses of the freed memory that strict mode
 * keeps, oldest first.  Guarded by lock. */
static char *kept[KEPT_PIECES];
static size_t kept_first, kept_count, kept_bytes;

/* Return the number of entries that start at or below @p. */
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

static struct memory *at_locked(const void *p)
{
	size_t i = find_locked(p);
	struct memory *m = i ? &table[i - 1] : NULL;

	return m && (uintptr_t)p - (uintptr_t)m->start < m->bytes ? m : NULL;
}

static void remove_locked(struct memory *m)
{
	const size_t i = (size_t)(m - table);

	memmove(m, m + 1, (used - i - 1) * sizeof(*m));
	used--;
}

static bool enter_locked(const struct memory *m)
{
	size_t i;

	if (!array_grow(&table, NULL, used, &room, sizeof(*table)))
		return false;
	i = find_locked(m->start);
	memmove(&table[i + 1], &table[i], (used - i) * sizeof(*table));
	table[i] = *m;
	used++;
	return true;
}

bool memory_enter(const struct memory *m)
{
	SCOPED_LOCK(&lock);
	return enter_locked(m);
}

/* ---- the memory size of devices --------------------------------------- */

static bool claim_locked(int device, size_t bytes)
{
	const size_t total = device_memory_bytes();

	if (bytes > total || used_bytes[device] > total - bytes)
		return false;
	used_bytes[device] += bytes;
	return true;
}

bool memory_claim(int device, size_t bytes)
{
	SCOPED_LOCK(&lock);
	return claim_locked(device, bytes);
}

void memory_unclaim(int device, size_t bytes)
{
	SCOPED_LOCK(&lock);
	used_bytes[device] -= bytes;
}

size_t memory_unused(int device)
{
	SCOPED_LOCK(&lock);
	return device_memory_bytes() - used_bytes[device];
}

/* Return how many bytes of its device's memory an allocation uses. */
static size_t claim_of(const struct memory *m)
{
	return m->kind == MEMORY_DEVICE || m->kind == MEMORY_MANAGED ? m->bytes
	                                                             : 0;
}

bool memory_allocate(struct memory *m)
{
	SCOPED_LOCK(&lock);
	if (!claim_locked(m->device, claim_of(m)))
		return false;
	m->start = arena_get(m->bytes);
	if (m->start && enter_locked(m))
		return true;
	if (m->start)
		arena_put(m->start, m->bytes);
	used_bytes[m->device] -= claim_of(m);
	return false;
}

bool memory_share(struct arena_share *out)
{
	SCOPED_LOCK(&lock);
	return arena_share(out);
}

/* ---- queries ---------------------------------------------------------- */

bool memory_find(const void *p, struct memory *out)
{
	const struct memory *m;

	SCOPED_LOCK(&lock);
	m = at_locked(p);
	if (m)
		*out = *m;
	return m;
}

bool memory_is_known(const void *p, size_t bytes)
{
	const struct memory *m;

	SCOPED_LOCK(&lock);
	m = at_locked(p);
	return m && !m->freed &&
	       bytes <= m->bytes - ((uintptr_t)p - (uintptr_t)m->start);
}

bool memory_overlaps(const void *p, size_t bytes)
{
	const struct memory *m;
	size_t i;

	SCOPED_LOCK(&lock);
	for (i = find_locked((const char *)p + bytes - 1); i; i--) {
		m = &table[i - 1];
		if ((uintptr_t)m->start + m->bytes <= (uintptr_t)p)
			return false;
		if (!m->freed)
			return true;
	}
	return false;
}

/* ---- access by devices ------------------------------------------------ */

bool memory_reserve(const void *start, size_t bytes)
{
	struct span *s = malloc(sizeof(*s));

	if (!s)
		return false;
	s->start = start;
	s->bytes = bytes;
	SCOPED_LOCK(&lock);
	s->next = spans;
	spans = s;
	return true;
}

void memory_unreserve(const void *start)
{
	struct span *s;

	pthread_mutex_lock(&lock);
	list_find(s, spans, next, s->start == start);
	list_remove(spans, s, next);
	pthread_mutex_unlock(&lock);
	free(s);
}

void memory_protect(const void *start, bool read, bool write)
{
	struct memory *m;

	SCOPED_LOCK(&lock);
	m = at_locked(start);
	if (m && m->start == start) {
		m->no_read = !read;
		m->no_write = !write;
	}
}

bool memory_set_sync(const void *p, bool sync)
{
	struct memory *m;

	SCOPED_LOCK(&lock);
	m = at_locked(p);
	if (!m || m->freed)
		return false;
	m->sync_memops = sync;
	return true;
}

/* Return true if the range lies outside the address ranges that belong to
 * devices.  No part of the range may be in the table. */
static bool is_of_program_locked(const char *p, size_t bytes)
{
	const uintptr_t first = (uintptr_t)p;
	const struct span *s;

	if (arena_has(p, bytes))
		return false;
	for (s = spans; s; s = s->next)
		if (first < (uintptr_t)s->start + s->bytes &&
		    (uintptr_t)s->start < first + bytes)
			return false;
	return true;
}

/* Return the number of bytes, starting at @p and at most @bytes, that are not
 * in the table. */
static size_t gap_locked(const char *p, size_t bytes)
{
	const size_t next = find_locked(p);
	size_t before;

	if (next == used)
		return bytes;
	before = (uintptr_t)table[next].start - (uintptr_t)p;
	return before < bytes ? before : bytes;
}

/* Return the number of bytes, starting at @p and at most @bytes, that a device
 * may access. */
static size_t usable_locked(const char *p, size_t bytes, bool write)
{
	const struct memory *m = at_locked(p);
	size_t n;

	if (!m) {
		n = gap_locked(p, bytes);
		return is_of_program_locked(p, n) ? n : 0;
	}
	if (m->freed || (write ? m->no_write : m->no_read))
		return 0;
	n = m->bytes - ((uintptr_t)p - (uintptr_t)m->start);
	if (n >= bytes)
		return bytes;
	return m->kind == MEMORY_MAPPED || m->kind == MEMORY_REGISTERED ? n : 0;
}

bool memory_may_use(const void *p, size_t bytes, bool write)
{
	const char *at = p;
	size_t left = bytes, n = 1;

	if (bytes > UINTPTR_MAX - (uintptr_t)p)
		return false;
	SCOPED_LOCK(&lock);
	for (; left && n; left -= n, at += n)
		n = usable_locked(at, left, write);
	return !left;
}

size_t memory_live(void)
{
	SCOPED_LOCK(&lock);
	return used - kept_count;
}

size_t memory_kept(void)
{
#ifdef ARENA_IS_HEAP
	SCOPED_LOCK(&lock);
	return kept_count;
#else
	return 0;
#endif
}

/* ---- freeing ---------------------------------------------------------- */

static bool is_in(const struct memory *m, unsigned int kinds)
{
	return kinds >> m->kind & 1;
}

/* Return the live entry that starts at @p and is of one of @kinds, or NULL. */
static struct memory *live_locked(const void *p, unsigned int kinds)
{
	struct memory *m = at_locked(p);

	return m && m->start == p && !m->freed && is_in(m, kinds) ? m : NULL;
}

static void forget_oldest_locked(void)
{
	char *p = kept[kept_first];
	struct memory *m = at_locked(p);

	kept_first = (kept_first + 1) % KEPT_PIECES;
	kept_count--;
	kept_bytes -= m->bytes;
	arena_put(p, m->bytes);
	remove_locked(m);
}

static void quarantine_locked(struct memory *m)
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

static bool is_foreign(const struct memory *m)
{
	return m->kind == MEMORY_REGISTERED || m->kind == MEMORY_MAPPED;
}

static bool is_kept(const struct memory *m)
{
	return strict_is_on() && !is_foreign(m);
}

bool memory_remove(const void *p, unsigned int kinds, struct memory *out)
{
	struct memory *m;

	SCOPED_LOCK(&lock);
	m = live_locked(p, kinds);
	if (!m)
		return false;
	*out = *m;
	used_bytes[m->device] -= claim_of(m);
	if (is_kept(out))
		quarantine_locked(m);
	else
		remove_locked(m);
	return true;
}

void memory_discard(const struct memory *m)
{
	if (is_foreign(m) || is_kept(m))
		return;
	SCOPED_LOCK(&lock);
	arena_put(m->start, m->bytes);
}

bool memory_end(const void *p, unsigned int kinds)
{
	struct memory *m;

	SCOPED_LOCK(&lock);
	m = live_locked(p, kinds);
	if (!m || m->ending)
		return false;
	m->ending = true;
	return true;
}

/* Return the address of the first memory of @device that a reset must free, or
 * NULL if there is none. */
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
		if (memory_remove(p, ~0U, &m))
			memory_discard(&m);
	}
}
