/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CAUSE_H
#define CORE_CAUSE_H

/*
 * The cause of a clique's end, in a reference-counted block that the clique
 * shares with abort handles, because a handle may outlive the clique
 *
 *  A. The cause is set once: of several threads that try, one succeeds, and the
 *     others get COHORT_ALREADY.  Afterwards only its text may grow, once,
 *     before the program can read it (clique_end.c).
 *  B. Setting a cause takes no lock, allocates nothing and uses no thread-local
 *     storage, so a signal handler may do it.
 *  C. The block lives until its last reference is released.
 *
 * Functions that read the cause:
 *
 *  cause_or_closing()        whether the clique has ended at all, even by an
 *                            orderly close; the cheapest function
 *  cause_peek()              the cause; NULL if the clique has not ended, or
 *                            after an orderly close
 *  clique_cause()            cause_peek() for a clique
 *  clique_explained_cause()  the cause with a text for the program
 *  clique_error()            sets that text as the calling thread's error
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "base/text.h"

/* Number of threads that can try to set a cause at the same time. */
#define CAUSE_SLOTS 3

/* Maximum number of bytes of a caller's reason that are copied into a cause. */
#define CAUSE_MAX_REASON 200

struct cohort_abort {
	/* Atomic; reference count.  The clique and each handle own a
	 * reference. */
	atomic_uint references;

	/* Atomic; NULL until the clique ends, then constant.  seq_cst: a thread
	 * that enters a communicator first takes the lock, then loads this; a
	 * thread that ends the clique first sets this, then the reaper loads
	 * the lock.  So at least one of the two sees what the other has
	 * stored. */
	struct cohort_cause *_Atomic cause;

	/* Constant; true if cohort_abort_create() created this block, as the
	 * handle of a group that is opened later. */
	bool precedes_open;

	/* Atomic; the block of the clique that was opened with this handle, or
	 * NULL if there is none yet.  The handle owns a reference to the block.
	 * seq_cst: cause_fire() first sets the cause, then loads this member;
	 * cause_forward() first stores this member, then loads the cause.  So
	 * at least one of the two sees what the other has stored. */
	struct cohort_abort *_Atomic target;

	/* Atomic; index of the next free slot. */
	atomic_uint used;
	struct cohort_cause slots[CAUSE_SLOTS];
	struct cohort_cause closing; /* placeholder for an orderly end */

	/* Atomic; pointer to @explained, a copy of the cause with a longer
	 * text, or NULL until that copy is complete.  Written by the thread
	 * that takes the snapshot of completed operations (clique_end.c).
	 * Stored with release and loaded with acquire, so that a reader also
	 * sees the copy's contents. */
	struct cohort_cause *_Atomic reported;
	struct cohort_cause explained;
};

/* Add @rank to a set, which has COHORT_RANK_WORDS words. */
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

/* Return the first rank of @set after @rank, or -1 if there is none. */
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

/* Append the ranks of a set: "0, 2-5", or "none". */
void rank_set_format(struct text *t, const uint64_t *set);

/*
 * Append "rank 3", or "ranks 2-3 (0-1 in "dp.1")" if the ranks have other
 * numbers in the root group, from which @group was split.
 * @set:   the ranks, numbered in @group
 * @world: the ranks of @set, numbered in the root group; empty if not known
 */
void rank_set_name(struct text *t, const uint64_t *set, const uint64_t *world,
                   const char *group);

/* Create a cause block with one reference.  Return NULL if there is no
 * memory. */
struct cohort_abort *cause_create(void);

void cause_get(struct cohort_abort *a);

void cause_put(struct cohort_abort *a);

/* Return the cause, or NULL if there is none.  An orderly end is not a
 * cause. */
const struct cohort_cause *cause_peek(const struct cohort_abort *a);

/* Return the cause, or NULL if the clique has not ended.  After an orderly end,
 * return a placeholder with only its time set. */
static inline const struct cohort_cause *
cause_or_closing(const struct cohort_abort *a)
{
	return atomic_load(&a->cause); /* seq_cst, see struct cohort_abort */
}

/* Set the cause as this thread's error and return its status.  Return COHORT_OK
 * if @cause is NULL. */
int cause_error(const struct cohort_cause *cause);

/*
 * Make @what the cause, if there is none yet.  May be called from any thread;
 * async-signal-safe.
 *
 * Returns:
 *   COHORT_OK       @what is the cause now
 *   COHORT_ALREADY  there is a cause or an orderly end, or CAUSE_SLOTS other
 *                   threads are setting one
 */
int cause_set(struct cohort_abort *a, const struct cohort_cause *what);

/*
 * Like cause_set(), for an abort that the program requested: the status is
 * COHORT_ABORTED.
 * @reason: text of the program, of which up to CAUSE_MAX_REASON bytes are
 *          kept; or NULL
 */
int cause_set_aborted(struct cohort_abort *a, const char *reason);

/* Abort the clique of the handle @a.  If @a was created before its clique, and
 * the clique is not open yet, mark @a as aborted, so that the clique ends when
 * it is opened. */
int cause_fire(struct cohort_abort *a, const char *reason);

/*
 * Connect the handle @a, which was created before the clique, to the clique's
 * block @end: firing @a ends the clique from now on.
 *
 * Returns:
 *   COHORT_OK         @a ends the clique from now on
 *   COHORT_STATE      @a belongs to another clique
 *   a cause's status  @a was fired before, so the clique has ended
 */
int cause_forward(struct cohort_abort *a, struct cohort_abort *end);

/* Limits of a wait while a group or a rank is opened. */
struct patience {
	uint64_t timeout_ns;
	/* Handle that ends the wait when it is fired, or NULL. */
	const struct cohort_abort *abort;
};

static inline bool patience_is_aborted(const struct patience *p)
{
	return p->abort && cause_or_closing(p->abort);
}

/* Set the cause of the abort as this thread's error, and return its status. */
int patience_error(const struct patience *p);

/* Make cause_peek() return @a->explained from now on.  Call it once. */
void cause_set_explained(struct cohort_abort *a);

/* Wake the watchdog.  Setting a cause also wakes it.  May be called from any
 * thread once cause_create() has been called; async-signal-safe. */
void cause_wake(void);

/* Sleep until cause_wake() is called, or until @deadline_ns.  Return
 * immediately if cause_wake() was called since the last call of this function
 * returned.  Watchdog only. */
void cause_sleep(uint64_t deadline_ns);

/*
 * Mark the clique as closing, so that it ends without a cause.
 *
 * Returns:
 *   COHORT_OK       the clique is closing
 *   COHORT_ALREADY  the clique has ended already
 */
int cause_set_closing(struct cohort_abort *a);

#endif
