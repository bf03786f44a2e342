/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_PROBER_H
#define WATCH_PROBER_H

/*
 * Asking the native library whether it has failed: a thread of its own, as the
 * question itself may hang
 *
 * Nothing is asked while all goes on: only when something that a rank has been at
 * for some time is still the same.
 */

#include "core/clique.h"

struct prober {
	/* Constant after the start. */
	struct clique *clique;
	pthread_t thread;

	/* How long that is; may be written before the first call of any rank. */
	_Atomic uint64_t late_ns;

	sem_t wake;
	atomic_bool stop;
	bool has_begun; /* the thread, to make native calls; its own */

	/* Atomic; since when a question is not answered, 0: none is open; and the
	 * native function that was asked last.  Written in the order: function,
	 * time (seq_cst). */
	_Atomic uint64_t since_ns;
	const char *_Atomic asking;
};

int prober_start(struct prober *p, struct clique *clique);

/* Stop, once the clique has a cause or is closing; false if a question is not
 * answered until then. */
bool prober_stop(struct prober *p, uint64_t deadline_ns);

#endif
