/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_NOTIFIER_H
#define WATCH_NOTIFIER_H

/*
 * The notifier: calls on_verdict, on_abort and on_slow as a job of the crew, so
 * that nothing else waits for them.  At most one verdict waits; a newer one
 * replaces it unless it is of an earlier stage.  A verdict that is dumped is
 * passed on once its files are written, or after DUMP_WAIT_NS: a disk may hang.
 */

#include "base/crew.h"
#include "watch/verdict.h"
#include "watch/watch.h"

struct notifier {
	/* Constant after the start. */
	const struct watch_options *options;
	struct cohort_abort *end; /* what a "yes" sets */
	struct dumper *dumper;    /* NULL: nothing is dumped */
	uint64_t dump_wait_ns;    /* how long a verdict waits for its files */
	bool is_wanted;           /* there are callbacks */
	const char *name;         /* the group's */
	struct job job;

	/* Atomic; when the callback that is running was called, 0: none is
	 * running; and the number of the last verdict that it has returned
	 * from. */
	_Atomic uint64_t since_ns;
	_Atomic uint64_t answered;
	const char *_Atomic
		calling; /* name of the last callback that was called */

	/* Guarded by lock. */
	pthread_mutex_t lock;
	bool is_waiting;  /* a verdict waits to be told */
	bool is_deferred; /* nothing is told yet */
	uint64_t number;  /* of the last verdict that waited, or waits */
	struct verdict waiting;

	/* Owned by the job. */
	uint64_t told_number;
	bool cause_is_told;
	struct verdict told;
};

/* Prepare the notifier.  COHORT_OK, or COHORT_NO_MEMORY.  @dumper must not be
 * freed before notifier_stop(). */
int notifier_start(struct notifier *n, const struct watch_options *options,
                   struct clique *clique, struct dumper *dumper);

/* Have the verdict told.  If the policy is to ask, an answer other than 0 ends
 * the clique.  Returns the number of the verdict, from 1, or 0 if there are no
 * callbacks.  Does not block. */
uint64_t notifier_tell(struct notifier *n, const struct verdict *verdict);

/* If options->is_deferred was set: tell from now on. */
void notifier_release(struct notifier *n);

/* On a notifier's thread: the end of the clique that it tells of.  Elsewhere
 * NULL. */
const struct cohort_abort *notifier_telling(void);

/* Stop once all is told, or at once if that is held; false if a callback has
 * not returned by @deadline_ns. */
bool notifier_stop(struct notifier *n, uint64_t deadline_ns);

#endif
