/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_PROBER_H
#define WATCH_PROBER_H

/*
 * The prober: a thread that asks NCCL and CUDA whether they have failed.  The question
 * itself may hang, so it has a thread of its own
 *
 * While all ranks make progress it asks nothing.  It asks once a rank's oldest operation
 * has been the same for some time.
 */

#include "core/clique.h"

struct prober {
	/* Constant after the start. */
	struct clique *clique;
	pthread_t thread;

	/* Atomic; that time.  May be written before the first call of any rank. */
	_Atomic uint64_t late_ns;

	sem_t wake;
	atomic_bool stop;

	/* Owned by the thread. */
	bool has_begun;     /* it has made a native call */
	uint64_t remote_ns; /* when ncclRemoteError came; 0: it has not */

	/* Atomic; when the open question was asked, 0: none is open; and the native
	 * function that was called last.  Written in this order: function, time
	 * (seq_cst). */
	_Atomic uint64_t since_ns;
	const char *_Atomic asking;
};

int prober_start(struct prober *p, struct clique *clique);

/* Stop, once the clique has a cause or is closing; false if a question is still not
 * answered at @deadline_ns. */
bool prober_stop(struct prober *p, uint64_t deadline_ns);

#endif
