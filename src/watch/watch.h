/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

/*
 * Watching over a clique.  One watchdog reads the memory of all cliques and
 * decides; nothing can hang it.  What can hang is done elsewhere:
 *
 *  prober      a thread that asks NCCL and CUDA whether they have failed
 *  notifier    a job that calls on_verdict, on_abort and on_slow, and logs
 *  verdicts
 * 	            if options.log asks for them
 * 	symbolizer  a job that finds names for the stacks of ranks' threads
 * 	dumper      a job that writes files
 */

#include "base/log.h"
#include "core/clique.h"
#include "dump/dumper.h"
#include "watch/adaptive.h"

struct watch_options {
	int policy;
	unsigned warn_percent;
	int stack_signal;             /* 0: no stacks are taken */
	cohort_verdict_fn on_verdict; /* of these three each may be NULL */
	cohort_cause_fn on_abort;
	cohort_verdict_fn on_slow;
	bool is_deferred; /* they are not called before watch_release() */
	uint64_t slow_ns; /* what takes longer is slow; 0: nothing is */
	struct adaptive adaptive;
	void *user;
	struct dump_options dump;
	struct log log; /* where the end is reported */
};

struct watch;

/* Watch over @clique from now on.  On error nothing is left behind. */
int watch_start(struct clique *clique, const struct watch_options *options,
                struct watch **out);

/* Call the callbacks from now on: the program gets the clique. */
void watch_release(struct watch *watch);

/*
 * Stop, once the clique has its cause or is closing.  Returns NULL, or the name
 * of what has not come back by @deadline_ns: its thread and the watch then stay
 * for ever, and so must the clique unless it is reclaimed.
 */
const char *watch_stop(struct watch *watch, uint64_t deadline_ns);

/* COHORT_STATE on a thread that calls on_verdict, on_abort or on_slow for
 * @clique or for a clique that was split from it, which must not wait for its
 * end. */
int watch_check_callback(const struct clique *clique);

/* Have the watchdog look at the deadlines again, as one has become shorter. */
void watch_wake(struct clique *clique);

/* The same for the cliques that were split from @root, too, as a rank of @root
 * has left. */
void watch_wake_all(const struct clique *root);

/* Write down what keeps the clique from its end: "rank 2 is inside ...". */
void watch_explain(struct watch *watch, char *text, size_t size);

#endif
