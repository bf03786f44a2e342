/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_PROBER_H
#define WATCH_PROBER_H

/*
 * The prober: the one thread of the process that asks NCCL and CUDA whether
 * they have failed.  The question itself may hang, so no other thread asks
 *
 * While all ranks of a clique make progress it asks nothing about that clique.
 * It asks once a rank's oldest operation has been the same for some time.  A
 * question that hangs costs the thread: another one asks about the other
 * cliques then.
 *
 * The thread also starts the workers of the crew, see base/crew.h.
 */

#include "core/clique.h"

struct asker;

/* What the prober knows of one clique. */
struct prober {
	/* Constant after the start. */
	struct clique *clique;

	/* Atomic; that time.  May be written before the first call of any
	 * rank. */
	_Atomic uint64_t late_ns;

	/* Atomic; a thread is at this clique.  Set under the lock in prober.c,
	 * cleared as its last access (release). */
	atomic_bool is_taken;
	atomic_bool stop;

	/* Guarded by that lock. */
	struct prober *next;
	unsigned round;            /* the last one that was begun */
	struct asker *replacement; /* for a thread that hangs; NULL: used */

	/* Owned by the thread. */
	uint64_t remote_ns; /* when ncclRemoteError came; 0: it has not */

	/* Atomic; when the open question was asked, 0: none is open; and the
	 * native function that was called last.  Written in this order:
	 * function, time (seq_cst). */
	_Atomic uint64_t since_ns;
	const char *_Atomic asking;
};

/* Ask about @clique from now on.  COHORT_OK or COHORT_NO_MEMORY. */
int prober_start(struct prober *p, struct clique *clique);

/* Replace the thread if its question about this clique has had no answer for a
 * second.  Returns when to check again.  Does not block. */
uint64_t prober_check(struct prober *p);

/* Stop, once the clique has a cause or is closing; false if a question is still
 * not answered at @deadline_ns. */
bool prober_stop(struct prober *p, uint64_t deadline_ns);

#endif
