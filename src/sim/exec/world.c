/* SPDX-License-Identifier: Apache-2.0 */

/* Creates and frees worlds, and kicks their members' streams (see world.h) */

#include "sim/exec/world.h"

#include <sched.h>
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

/* ---- creating and freeing --------------------------------------------- */

/* Atomic; number of worlds that are not freed.  Relaxed, because the number
 * orders nothing. */
static atomic_size_t worlds_live;

size_t world_live(void)
{
	return load_relaxed(&worlds_live);
}

static void world_clear(struct world *w)
{
	free(w->members);
	if (!w->span)
		free(w->slots);
	free(w->split_rounds);
	free(w->seats);
	free(w);
}

/* Allocate zeroed memory in whole cache lines.  Returns NULL if out of
 * memory. */
static void *get_lines(size_t bytes)
{
	size_t whole = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	void *p = aligned_alloc(CACHE_LINE, whole);

	return p ? memset(p, 0, whole) : NULL;
}

struct world *world_create(int n, int here, int cores, struct span_shared *span)
{
	static _Atomic uint64_t worlds; /* number of worlds so far; relaxed */
	const bool is_crowded = n > cores;
	struct world *w = get_lines(sizeof(*w));

	if (!w)
		return NULL;
	w->members = get_lines((size_t)n * sizeof(*w->members));
	if (is_crowded)
		w->seats = get_lines((size_t)n * sizeof(*w->seats));
	w->span = span;
	w->slots = span ? span_slots(span)
	                : get_lines(2 * (size_t)n * sizeof(*w->slots));
	w->split_rounds = get_lines((size_t)n * sizeof(*w->split_rounds));
	if (!w->members || (is_crowded && !w->seats) || !w->slots ||
	    !w->split_rounds) {
		world_clear(w);
		return NULL;
	}
	w->n = n;
	w->here = here;
	w->is_crowded = is_crowded;
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

/* ---- polling ---------------------------------------------------------- */

/* Return true if polling is unlikely to delay the ranks that have not arrived,
 * because none of them last arrived on this core. */
static bool all_are_elsewhere(const struct world *w, int rank)
{
	const uint64_t mine = load_relaxed(&w->seats[rank].arrivals);
	const int core = sched_getcpu();
	const struct seat *s;

	for (s = w->seats; s < w->seats + w->n; s++)
		if (load_relaxed(&s->core) == core &&
		    load_relaxed(&s->arrivals) < mine)
			return false;
	return true;
}

bool world_may_watch(const struct world *w, int rank, const struct drive *d)
{
	return d->attends || (w->seats && d->effort == EFFORT_HELP &&
	                      all_are_elsewhere(w, rank));
}

/* ---- a rank was aborted ----------------------------------------------- */

bool world_is_broken(const struct world *w)
{
	return atomic_load(&w->is_broken) || (w->span && span_is_broken(w));
}

void world_break(struct world *w)
{
	atomic_store(&w->is_broken, true);
	if (w->span)
		span_break(w);
}

void world_abort(struct world *w)
{
	world_break(w);
	world_kick_all(w);
}

/* ---- ending the program in strict mode -------------------------------- */

void member_abort_program(const char *function, const struct member *m,
                          const char *format, ...)
{
	char which[96] = "";
	va_list args;

	if (m && m->number == NO_WORLD)
		snprintf(which, sizeof(which),
		         " rank %d, device %d, no communicator yet:", m->rank,
		         m->device);
	else if (m)
		snprintf(which, sizeof(which),
		         " rank %d, device %d, communicator %llu:", m->rank,
		         m->device, (unsigned long long)m->number);
	va_start(args, format);
	strict_die(function, which, format, args);
}
