/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CAUSE_H
#define CORE_CAUSE_H

/*
 * Why a clique ends: a small block of its own, shared by the clique and by abort
 * handles, which may outlive it
 *
 *  A. The cause is set once and never changes, but that once something may be added
 *     to its text, before anybody is told; all who try to set it are told whether
 *     they did.
 *  B. Setting it takes no lock, no memory, no thread-local storage: a signal
 *     handler may.
 *  C. The block lives until the last reference is put.
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "base/text.h"

#define CAUSE_SLOTS 8

/* Bytes of a caller's text that go into a cause. */
#define CAUSE_MAX_REASON 200

struct cohort_abort {
	/* Atomic; the clique's, and one per handle. */
	atomic_uint references;

	/* Atomic; NULL, then the winner for ever.  seq_cst: entering a gate is
	 * the gate's exchange, then the load of this; ending a clique is the
	 * swap of this, then the reaper's load of the gate.  One of the two
	 * sees the other. */
	struct cohort_cause *_Atomic cause;

	/* Atomic; the next free slot. */
	atomic_uint used;
	struct cohort_cause slots[CAUSE_SLOTS];
	struct cohort_cause closing; /* the cause that is no cause: an orderly
	                                end */

	/* Atomic; NULL, or for ever the copy of the cause that has more to say.
	 * Written by the one who notes what is done, see explain.h; the release
	 * of what it points to. */
	struct cohort_cause *_Atomic told;
	struct cohort_cause explained;

	/* Posted by whoever set the cause: for the reaper, and for the watchdog,
	 * which is also woken for other things. */
	sem_t caused;
	sem_t watch;
};

/* Sets of ranks. */
static inline void rank_set_add(uint64_t *set, int rank)
{
	set[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline bool rank_set_has(const uint64_t *set, int rank)
{
	return rank < COHORT_MAX_RANKS && set[rank / 64] >> rank % 64 & 1;
}

/* Spell a set out: "0 2-5", or "none". */
void rank_set_spell(struct text *t, const uint64_t *set);

/* A block with one reference, or NULL without memory. */
struct cohort_abort *cause_create(void);
void cause_get(struct cohort_abort *a);
void cause_put(struct cohort_abort *a);

/* The cause, or NULL; an orderly end is none. */
const struct cohort_cause *cause_look(const struct cohort_abort *a);

/* The same, or the orderly end, of which only the time means something; NULL while
 * there is neither. */
static inline const struct cohort_cause *cause_any(const struct cohort_abort *a)
{
	return atomic_load(&a->cause); /* seq_cst, see above */
}

/* The cause as this thread's error; COHORT_OK for NULL. */
int cause_error(const struct cohort_cause *cause);

/* Make @what the cause unless there is one: COHORT_OK for the one that did, else
 * COHORT_ALREADY.  Any thread, any signal handler. */
int cause_set(struct cohort_abort *a, const struct cohort_cause *what);

/* cause_set() for an abort that somebody asked for: COHORT_ABORTED, with up to
 * 200 bytes of @reason (NULL: none). */
int cause_set_aborted(struct cohort_abort *a, const char *reason);

/* From now on what is in @a->explained is told; once. */
void cause_set_explained(struct cohort_abort *a);

/* Set an orderly end instead: COHORT_OK or COHORT_ALREADY. */
int cause_set_closing(struct cohort_abort *a);

#endif
