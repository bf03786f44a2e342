/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CAUSE_H
#define CORE_CAUSE_H

/*
 * Why a clique ends: a small block of its own, shared by the clique and by
 * abort handles, which may outlive it
 *
 *  A. The cause is set once.  Whoever tries to set it is told whether that was
 *     the first.  Only its text may still grow, once, before any thread is told
 *     of it.
 *  B. Setting it takes no lock, no memory, no thread-local storage: a signal
 *     handler may.
 *  C. The block lives until the last reference is put.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "base/text.h"

#define CAUSE_SLOTS 3

/* Bytes of a caller's text that go into a cause. */
#define CAUSE_MAX_REASON 200

struct cohort_abort {
	/* Atomic; the clique's, and one per handle. */
	atomic_uint references;

	/* Atomic; NULL, then the winner for ever.  seq_cst: to enter a lock is
	 * an exchange of the lock, then a load of this; to end a clique is a
	 * swap of this, then the reaper's load of the lock.  One of the two
	 * sees the other. */
	struct cohort_cause *_Atomic cause;

	/* Constant; made by cohort_abort_create(). */
	bool precedes_open;

	/* Atomic; NULL, then for ever the end of the clique that was opened
	 * with this handle; a reference.  seq_cst: to fire is to swap the
	 * cause, then to load this; to forward is to store this, then to load
	 * the cause.  One of the two sees the other. */
	struct cohort_abort *_Atomic target;

	/* Atomic; the next free slot. */
	atomic_uint used;
	struct cohort_cause slots[CAUSE_SLOTS];
	struct cohort_cause closing; /* stands for an orderly end */

	/* Atomic; NULL, then for ever the copy of the cause whose text says
	 * more.  Written by whoever notes what is done, see explain.h.
	 * Release, acquire: what it points to. */
	struct cohort_cause *_Atomic told;
	struct cohort_cause explained;
};

/* Sets of ranks. */
static inline void rank_set_add(uint64_t *set, int rank)
{
	set[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline void rank_set_add_all(uint64_t *set, const uint64_t *other)
{
	int i;

	for (i = 0; i < COHORT_RANK_WORDS; i++)
		set[i] |= other[i];
}

static inline bool rank_set_has(const uint64_t *set, int rank)
{
	return rank < COHORT_MAX_RANKS && set[rank / 64] >> rank % 64 & 1;
}

static inline int rank_set_count(const uint64_t *set)
{
	int i, n = 0;

	for (i = 0; i < COHORT_RANK_WORDS; i++)
		n += __builtin_popcountll(set[i]);
	return n;
}

/* The first rank of @set after @rank, -1: there is none. */
static inline int rank_set_next(const uint64_t *set, int rank)
{
	while (++rank < COHORT_MAX_RANKS)
		if (rank_set_has(set, rank))
			return rank;
	return -1;
}

static inline bool rank_set_is_empty(const uint64_t *set)
{
	int i;

	for (i = 0; i < COHORT_RANK_WORDS; i++)
		if (set[i])
			return false;
	return true;
}

/* Add the ranks of a set: "0, 2-5", or "none". */
void rank_set_spell(struct text *t, const uint64_t *set);

/* Add "rank 3", or "ranks 2-3 (0-1 in "dp.1")" if the ranks in @set, which are
 * those of @group, have other numbers in the group that all was split from:
 * those in @world, which is empty if they are not known. */
void rank_set_name(struct text *t, const uint64_t *set, const uint64_t *world,
                   const char *group);

/* Make a block with one reference, or NULL without memory; take a reference;
 * put one. */
struct cohort_abort *cause_create(void);
void cause_get(struct cohort_abort *a);
void cause_put(struct cohort_abort *a);

/* The cause, or NULL; an orderly end is not a cause. */
const struct cohort_cause *cause_look(const struct cohort_abort *a);

/* The cause, or what stands for an orderly end, of which only the time is set;
 * NULL: the clique has not ended. */
static inline const struct cohort_cause *
cause_or_closing(const struct cohort_abort *a)
{
	return atomic_load(&a->cause); /* seq_cst, see above */
}

/* The cause as this thread's error; COHORT_OK for NULL. */
int cause_error(const struct cohort_cause *cause);

/* Make @what the cause unless there is one: COHORT_OK for the one that did,
 * else COHORT_ALREADY: there is one, or three other threads are about to set
 * one.  Any thread, any signal handler. */
int cause_set(struct cohort_abort *a, const struct cohort_cause *what);

/* cause_set() for an abort that somebody asked for: COHORT_ABORTED, with up to
 * 200 bytes of @reason (NULL: none). */
int cause_set_aborted(struct cohort_abort *a, const char *reason);

/* cause_set_aborted() of the clique that @a was opened with or, until there is
 * one, of @a. */
int cause_fire(struct cohort_abort *a, const char *reason);

/* Have @a, which was made before the clique, end the clique of @end from now
 * on.  The cause's status if @a was fired before; COHORT_STATE if @a belongs to
 * another clique. */
int cause_forward(struct cohort_abort *a, struct cohort_abort *end);

/* How long to wait while something is opened. */
struct patience {
	uint64_t timeout_ns;
	/* Ends the wait; NULL if nothing does. */
	const struct cohort_abort *abort;
};

static inline bool patience_is_aborted(const struct patience *p)
{
	return p->abort && cause_or_closing(p->abort);
}

/* The reason of the abort as this thread's error. */
int patience_error(const struct patience *p);

/* Have cause_look() return @a->explained from now on.  Once. */
void cause_set_explained(struct cohort_abort *a);

/* Wake the watchdog, which each new cause does, too.  Any thread, any signal
 * handler; after the first cause_create(). */
void cause_wake(void);

/* Sleep until cause_wake() was called since the last return, or until
 * @deadline_ns.  Watchdog only. */
void cause_sleep(uint64_t deadline_ns);

/* Make this an orderly end, unless the clique has ended already: COHORT_OK or
 * COHORT_ALREADY. */
int cause_set_closing(struct cohort_abort *a);

#endif
