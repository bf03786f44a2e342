/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_NOTIFIER_H
#define WATCH_NOTIFIER_H

/*
 * Telling the user: a thread that calls on_verdict, so that nothing else waits
 * for what that does.  At most one verdict waits; a newer one takes its place.
 */

#include "watch/verdict.h"
#include "watch/watch.h"

struct notifier {
	/* Constant after the start. */
	const struct watch_options *options;
	struct cohort_abort *end; /* what a "yes" sets */
	pthread_t thread;
	bool is_started; /* there is somebody to tell */

	/* Atomic; since when on_verdict is running, 0: it is not; and the number
	 * of the last verdict that it has returned from. */
	_Atomic uint64_t since_ns;
	_Atomic uint64_t answered;

	/* Guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* any of these */
	bool is_waiting;        /* there is a verdict to tell */
	bool stop;
	bool has_ended;
	uint64_t number; /* of the verdict that waits, or waited last */
	struct verdict waiting;

	/* Owned by the thread. */
	uint64_t told_number;
	bool cause_is_told;
	struct verdict told;
};

int notifier_start(struct notifier *n, const struct watch_options *options,
                   struct clique *clique);

/* Tell, and if the policy is to ask, end the clique if the answer is not 0.  The
 * number of the verdict, from 1; 0 if there is nobody to tell.  Does not block. */
uint64_t notifier_tell(struct notifier *n, const struct verdict *verdict);

/* On a notifier's thread the end of the clique that it tells of, else NULL. */
const struct cohort_abort *notifier_telling(void);

/* Stop when all is told; false if on_verdict does not return until then. */
bool notifier_stop(struct notifier *n, uint64_t deadline_ns);

#endif
