/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_NOTIFIER_H
#define WATCH_NOTIFIER_H

/*
 * The notifier: calls on_verdict in a job of the crew, so that no other thread
 * waits for the callback
 *
 * At most one verdict is pending.  A newer verdict replaces the pending one, or
 * is dropped if its stage is earlier.  If a verdict is dumped, the callback
 * gets it once its files are written, or after at most DUMP_WAIT_NS, because a
 * disk may hang.
 */

#include "base/crew.h"
#include "watch/verdict.h"
#include "watch/watch.h"

struct notifier {
	/* This and the following members are constant after the start. */
	const struct watch_options *options;
	/* Cause block to set if on_verdict asks for the clique's end. */
	struct cohort_abort *end;
	struct dumper *dumper; /* NULL if no dumps are written */
	/* Maximum time to wait for the files of a verdict. */
	uint64_t dump_wait_ns;
	bool is_wanted;   /* the callback or the log wants verdicts */
	const char *name; /* name of the group */
	struct job job;

	/* Atomic; time at which the running callback was called, 0 if no
	 * callback runs. */
	_Atomic uint64_t since_ns;
	/* Atomic; number of the last verdict whose callback has returned. */
	_Atomic uint64_t answered;

	/* The following members are guarded by lock. */
	pthread_mutex_t lock;
	bool is_waiting;  /* a verdict is pending, in .waiting */
	bool is_deferred; /* no callback runs before notifier_release() */
	uint64_t number;  /* number of the verdict in .waiting */
	struct verdict waiting;

	/* Read and written only by the job that calls the callbacks. */
	uint64_t current_number; /* number of the verdict in .current */
	struct verdict current;
};

/* Prepare the notifier.  @dumper must not be freed before notifier_stop().
 * Returns COHORT_OK or COHORT_NO_MEMORY. */
int notifier_start(struct notifier *n, const struct watch_options *options,
                   struct clique *clique, struct dumper *dumper);

/* Queue a verdict for the callbacks.  If the policy is to ask and on_verdict
 * returns a value other than 0, the clique ends.  Does not block.  Returns the
 * number of the verdict that is pending now, counted from 1, or 0 if there are
 * no callbacks. */
uint64_t notifier_post(struct notifier *n, const struct verdict *verdict);

/* Start to call the callbacks, if options->is_deferred was set. */
void notifier_release(struct notifier *n);

/* Return the cause block of the clique whose callback runs on this thread, or
 * NULL. */
const struct cohort_abort *notifier_current(void);

/* Stop the notifier after the pending verdict has been passed on, or
 * immediately if callbacks are still deferred.  Return false if a callback has
 * not returned by @deadline_ns. */
bool notifier_stop(struct notifier *n, uint64_t deadline_ns);

#endif
