/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

/*
 * Watches a clique (core/clique.h) for hangs and failures
 *
 * The process has one watchdog thread, which reads memory and decides which
 * deadlines have passed.  It cannot hang, because it leaves all work that can
 * hang to others:
 *
 *  prober      a thread that asks NCCL and CUDA whether they have failed
 *  notifier    a job that calls on_verdict, and logs verdicts if options.log
 *              asks for them
 *  symbolizer  a job that finds names for the stacks of ranks' threads
 *  dumper      a job that writes files
 */

#include "base/log.h"
#include "core/clique.h"
#include "dump/dumper.h"
#include "watch/adaptive.h"

struct watch_options {
	int policy;
	int stack_signal;             /* 0 if no stacks are taken */
	cohort_verdict_fn on_verdict; /* may be NULL */
	bool is_deferred; /* no callback runs before watch_release() */
	/* Time after which an operation is reported as slow, 0 for never. */
	uint64_t slow_ns;
	struct adaptive adaptive;
	void *user;
	struct dump_options dump;
	struct log log; /* log for the report of the clique's end */
};

struct watch;

/* Start watching @clique.  Return COHORT_OK or an error.  On error, all
 * resources are freed. */
int watch_start(struct clique *clique, const struct watch_options *options,
                struct watch **out);

/* Run the callbacks that options->is_deferred has held back, because the
 * program is about to get the clique. */
void watch_release(struct watch *watch);

/*
 * Stop watching a clique that has ended or is closing.  Return NULL if all
 * parts of the watch have returned.  Otherwise return the name of a part that
 * has not returned by @deadline_ns.  Its thread may still run and use the
 * watch, so the watch is leaked on purpose, and the clique must not be freed
 * unless it is RECLAIMED.
 */
const char *watch_stop(struct watch *watch, uint64_t deadline_ns);

/* Return COHORT_STATE if the calling thread is in on_verdict of @clique or of a
 * clique that was split from it, because such a thread must not wait for the
 * end of @clique.  Otherwise return COHORT_OK. */
int watch_check_callback(const struct clique *clique);

/* Have the watchdog check the deadlines of @clique, because one of them has
 * become shorter. */
void watch_wake(struct clique *clique);

/* Have the watchdog check the deadlines of @root and of all cliques that were
 * split from it, because a rank of @root will make no further call. */
void watch_wake_all(const struct clique *root);

/* Store in @text why the end of the clique is not complete: "rank 2 is inside
 * ...". */
void watch_explain(struct watch *watch, char *text, size_t size);

#endif
