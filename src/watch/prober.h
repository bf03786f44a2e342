/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_PROBER_H
#define WATCH_PROBER_H

/*
 * The prober: the only thread of the process that asks NCCL and CUDA whether
 * they have failed, because the query itself may hang
 *
 * It asks about a clique only if a rank's oldest operation has not changed for
 * some time.  If a query hangs, its thread is abandoned, and another one takes
 * over the other cliques.
 *
 * The thread also starts the workers of the crew, see base/crew.h.
 */

#include "core/clique.h"

struct asker;

/* State of the prober for one clique. */
struct prober {
	/* Constant after the start. */
	struct clique *clique;

	/* Atomic; time for which a rank's oldest operation must not change
	 * before the prober queries the rank.  May be written before the first
	 * call of any rank. */
	_Atomic uint64_t late_ns;

	/* Atomic; true while a thread is working on this clique.  Set under the
	 * lock in prober.c.  The thread's last access clears it, with
	 * release. */
	atomic_bool is_taken;
	/* Atomic; true if the prober must no longer query this clique. */
	atomic_bool stop;

	/* Guarded by the lock in prober.c. */
	struct prober *next;
	unsigned round; /* number of the last round of checks done */
	/* Spare thread to replace a thread that hangs while it works on this
	 * clique; NULL once used. */
	struct asker *replacement;

	/* Owned by the probing thread. */
	uint64_t remote_ns; /* time of the first ncclRemoteError, or 0 */

	/* Atomic; time at which the running query was started, 0 if no query is
	 * running. */
	_Atomic uint64_t since_ns;
	/* Atomic, seq_cst; the native function that was called last.  Written
	 * before since_ns. */
	const char *_Atomic asking;
};

/* Start to probe @clique.  Returns COHORT_OK or COHORT_NO_MEMORY. */
int prober_start(struct prober *p, struct clique *clique);

/* Replace the prober's thread if its query about this clique has not returned
 * for a second.  Does not block.  Return the time at which to check again. */
uint64_t prober_check(struct prober *p);

/* Stop probing a clique that has a cause or is closing.  Returns false if a
 * query has not returned by @deadline_ns. */
bool prober_stop(struct prober *p, uint64_t deadline_ns);

#endif
