/* SPDX-License-Identifier: Apache-2.0 */

/* Making worlds, and what becomes of their members (see world.h) */

#include "sim/exec/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scoped_lock.h"
#include "base/thread.h"
#include "sim/exec/span.h"
#include "sim/exec/split_round.h"
#include "sim/strict/census.h"
#include "sim/strict/strict.h"

/* ---- life ------------------------------------------------------------- */

/* Atomic; how many worlds are not freed.  Relaxed: a number. */
static atomic_size_t worlds_live;

size_t world_live(void)
{
	return load_relaxed(&worlds_live);
}

static void world_clear(struct world *w)
{
	free(w->members);
	free(w->shares);
	free(w->lists);
	if (!w->span)
		free(w->slots);
	free(w->split_rounds);
	free(w->seats);
	free(w);
}

/* Memory in whole cache lines, all of it 0, or NULL. */
static void *get_lines(size_t bytes)
{
	size_t whole = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	void *p = aligned_alloc(CACHE_LINE, whole);

	return p ? memset(p, 0, whole) : NULL;
}

struct world *world_create(int n, int here, int cores, struct span_shared *span)
{
	static _Atomic uint64_t worlds; /* relaxed: a number */
	const bool is_small = n <= SLOT_RANKS, is_crowded = n > cores;
	struct world *w =
		get_lines(sizeof(*w) + (size_t)n * sizeof(w->places[0]));

	if (!w)
		return NULL;
	w->shares = get_lines((size_t)n * sizeof(*w->shares));
	w->lists = get_lines((size_t)n * sizeof(*w->lists));
	w->members = get_lines((size_t)n * sizeof(*w->members));
	if (is_crowded)
		w->seats = get_lines((size_t)n * sizeof(*w->seats));
	w->span = span;
	if (is_small && span)
		w->slots = span_slots(span);
	else if (is_small)
		w->slots = get_lines(2 * (size_t)n * sizeof(*w->slots));
	if (is_small && !is_crowded)
		w->split_rounds =
			get_lines((size_t)n * sizeof(*w->split_rounds));
	if (!w->shares || !w->lists || !w->members ||
	    (is_crowded && !w->seats) || (is_small && !w->slots) ||
	    (is_small && !is_crowded && !w->split_rounds)) {
		world_clear(w);
		return NULL;
	}
	w->n = n;
	w->here = here;
	w->is_crowded = is_crowded;
	w->round.world = w;
	w->round.places = w->places;
	w->round.lists = w->lists;
	w->number = add_relaxed(&worlds, 1);
	w->order = w->number;
	lock_init(&w->lock);
	stream_crowd(w->is_crowded);
	add_relaxed(&worlds_live, 1);
	return w;
}

void world_free(struct world *w)
{
	pthread_mutex_destroy(&w->lock);
	stream_crowd(-w->is_crowded);
	world_clear(w);
	sub_relaxed(&worlds_live, 1);
}

/* ---- kicks ------------------------------------------------------------ */

void member_kick_followers_locked(struct member *m)
{
	if (!atomic_load(&m->followed))
		return;
	atomic_store(&m->followed, false);
	stream_kick_all_locked(&m->followers);
}

void member_kick_locked(struct member *m)
{
	struct stream *at = atomic_load(&m->at);

	member_kick_followers_locked(m);
	if (at)
		stream_kick(at);
}

void world_kick_all(struct world *w)
{
	int r;

	SCOPED_LOCK(&w->lock);
	for (r = 0; r < w->n; r++)
		if (w->members[r])
			member_kick_locked(w->members[r]);
}

void world_kick_others(const struct world *w, int rank)
{
	struct stream *at;
	int r;

	for (r = 0; r < w->n; r++) {
		at = r == rank || !w->members[r]
		             ? NULL
		             : atomic_load(&w->members[r]->at);
		if (at)
			stream_kick(at);
	}
}

/* ---- a rank was aborted ----------------------------------------------- */

bool world_is_broken(const struct world *w)
{
	return (atomic_load(&w->gate) & GATE_BROKEN) ||
	       (w->span && span_is_broken(w));
}

void world_break(struct world *w)
{
	atomic_fetch_or(&w->gate, GATE_BROKEN);
	if (w->span)
		span_break(w);
}

void world_abort(struct world *w)
{
	world_break(w);
	world_kick_all(w);
}

/* ---- the end of the program ------------------------------------------- */

void member_die(const char *function, const struct member *m,
                const char *format, ...)
{
	char which[96] = "";
	va_list args;

	if (m && m->number == NO_WORLD)
		snprintf(which, sizeof(which),
		         " rank %d, device %d, no world:", m->rank, m->device);
	else if (m)
		snprintf(which, sizeof(which),
		         " rank %d, device %d, world %llu:", m->rank, m->device,
		         (unsigned long long)m->number);
	va_start(args, format);
	strict_die(function, which, format, args);
}
