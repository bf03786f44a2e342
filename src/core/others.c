/* SPDX-License-Identifier: Apache-2.0 */

#include "core/others.h"

#include "base/clock.h"
#include "core/agree_words.h"
#include "core/clique.h"

/* Find what has not been found yet. */
static void find_more(const struct clique *q)
{
	struct others *o = q->others;
	const struct call_words *w;
	int i, ranks = 0;

	for (i = 0; i < o->processes; i++) {
		w = atomic_load(&o->of[i].words);
		if (!w) {
			w = o->find(o, q, i);
			/* Another thread may have found it meanwhile. */
			if (w)
				atomic_store(&o->of[i].words, w);
		}
		ranks += w ? (int)atomic_load(&w->ranks) : 0;
	}
	if (ranks >= o->ranks)
		atomic_store(&o->has_all, true);
}

/* True if all ranks of other processes can be seen. */
static bool find_all(const struct clique *q)
{
	/* Acquire: what was found. */
	if (!atomic_load_explicit(&q->others->has_all, memory_order_acquire))
		find_more(q);
	return atomic_load_explicit(&q->others->has_all, memory_order_acquire);
}

/* The word of process @i in the slot of @number, and how many ranks @q has there; false:
 * it shows none. */
static bool read_word(const struct clique *q, int i, uint64_t number,
                      uint64_t *word, int *ranks)
{
	const struct call_words *w = atomic_load_explicit(
		&q->others->of[i].words, memory_order_acquire);

	if (!w)
		return false;
	/* seq_cst: after this process's own word was written. */
	*word = atomic_load(&w->words[agree_shared_slot(q->slots, number)]);
	*ranks = (int)atomic_load_explicit(&w->ranks, memory_order_relaxed);
	/* Acquire: the words are another clique's once this has changed. */
	return atomic_load_explicit(&w->identity, memory_order_acquire) ==
	       q->identity;
}

bool others_differ(const struct clique *q, uint64_t number, uint32_t digest)
{
	uint64_t word;
	int i, ranks;

	find_all(q);
	for (i = 0; i < q->others->processes; i++)
		if (read_word(q, i, number, &word, &ranks) &&
		    agree_shared_differs(q, word, number, digest))
			return true;
	return false;
}

void others_tell_time(const struct clique *q, uint64_t number, uint64_t now_ns)
{
	/* Relaxed: the word comes after it. */
	atomic_store_explicit(
		&q->others->own->called_ns[agree_shared_slot(q->slots, number)],
		now_ns, memory_order_relaxed);
}

/* The first collective that a rank here will never call, 0: there is none. */
static uint64_t find_never(const struct clique *q)
{
	const struct cohort_comm *c;
	uint64_t number, never = 0;

	for (c = q->comms; c < q->comms + q->size; c++) {
		number = atomic_load(&c->closed) ? agree_called(c) + 1 : 0;
		if (number && (!never || number < never))
			never = number;
	}
	return never;
}

void others_show_closed(const struct clique *q)
{
	uint64_t never;

	if (!q->others)
		return;
	do { /* another rank may be closed meanwhile */
		never = find_never(q);
		atomic_store(&q->others->own->never, never);
	} while (find_never(q) != never);
	q->others->ring(q->others);
}

void others_show_paused(const struct clique *q)
{
	if (q->others)
		atomic_fetch_add(&q->others->own->paused, 1);
}

void others_show_resumed(const struct clique *q)
{
	if (!q->others)
		return;
	/* In this order, so that a rank that resumes in between is seen. */
	atomic_store(&q->others->own->resumed_ns, atomic_load(&q->resumed_ns));
	atomic_fetch_sub(&q->others->own->paused, 1);
}

/* True if process @i has closed its group before all its ranks had called @number. */
static bool has_left_before(const struct clique *q, int i, uint64_t number)
{
	uint64_t word;
	int ranks;

	return atomic_load(&q->others->of[i].has_left) &&
	       read_word(q, i, number, &word, &ranks) &&
	       agree_shared_count(q->slots, word, number, ranks) < ranks;
}

/* The first collective that a closed rank of process @i has not called, 0: there is none. */
static uint64_t never_of(const struct clique *q, int i)
{
	const struct call_words *w = atomic_load(&q->others->of[i].words);
	const uint64_t never = w ? atomic_load(&w->never) : 0;

	return w && atomic_load(&w->identity) == q->identity ? never : 0;
}

bool others_have_left(const struct clique *q, uint64_t number)
{
	uint64_t never;
	int i;

	for (i = 0; q->others && i < q->others->processes; i++) {
		never = never_of(q, i);
		if ((never && never <= number) || has_left_before(q, i, number))
			return true;
	}
	return false;
}

bool others_have_closed(const struct clique *q)
{
	int i;

	for (i = 0; q->others && i < q->others->processes; i++)
		if (never_of(q, i) || atomic_load(&q->others->of[i].has_left))
			return true;
	return false;
}

bool others_are_paused(const struct clique *q, uint64_t *resumed_ns)
{
	const struct call_words *w;
	uint64_t paused, ns, now;
	bool are_paused = false;
	int i;

	if (!q->others)
		return false;
	now = clock_now();
	find_all(q);
	for (i = 0; i < q->others->processes; i++) {
		w = atomic_load(&q->others->of[i].words);
		if (!w || atomic_load(&q->others->of[i].has_left))
			continue;
		paused = atomic_load(&w->paused);
		ns = atomic_load(&w->resumed_ns);
		if (atomic_load(&w->identity) != q->identity)
			continue;
		are_paused |= paused > 0;
		if (ns > *resumed_ns && ns <= now)
			*resumed_ns = ns;
	}
	return are_paused;
}

/* The element of @worlds in the place that @rank has in @set, -1: there is none. */
static int in_same_place(const _Atomic uint64_t *set,
                         const _Atomic uint64_t *worlds, int rank)
{
	uint64_t all[COHORT_RANK_WORDS], in_group[COHORT_RANK_WORDS];
	int i, r = -1, world = -1;

	for (i = 0; i < COHORT_RANK_WORDS; i++) {
		all[i] = atomic_load(&set[i]);
		in_group[i] = atomic_load(&worlds[i]);
	}
	if (!rank_set_has(all, rank) ||
	    rank_set_count(all) != rank_set_count(in_group))
		return -1;
	do {
		r = rank_set_next(all, r);
		world = rank_set_next(in_group, world);
	} while (r != rank);
	return world;
}

int others_world(const struct clique *q, int rank)
{
	const struct call_words *w;
	int i, world = -1;

	if (!q->others || rank < 0)
		return -1;
	find_all(q);
	for (i = 0; i < q->others->processes && world < 0; i++) {
		w = atomic_load(&q->others->of[i].words);
		if (!w)
			continue;
		world = in_same_place(w->members, w->worlds, rank);
		if (atomic_load(&w->identity) != q->identity)
			world = -1;
	}
	return world;
}

/* When the last rank of process @i called @number, if any has. */
static uint64_t time_of(const struct clique *q, int i, uint64_t number)
{
	const struct call_words *w = atomic_load(&q->others->of[i].words);

	return atomic_load_explicit(
		&w->called_ns[agree_shared_slot(q->slots, number)],
		memory_order_relaxed);
}

int others_called(const struct clique *q, uint64_t number, uint64_t *last_ns)
{
	uint64_t word, ns;
	int i, ranks, n = 0, count;

	*last_ns = 0;
	if (!q->others || !find_all(q))
		return -1;
	for (i = 0; i < q->others->processes; i++) {
		if (!read_word(q, i, number, &word, &ranks))
			continue;
		count = agree_shared_count(q->slots, word, number, ranks);
		n += count < ranks ? count : ranks;
		ns = count ? time_of(q, i, number) : 0;
		*last_ns = ns > *last_ns ? ns : *last_ns;
	}
	return n;
}
