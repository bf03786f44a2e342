/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

/*
 * What watches over a clique: five threads, each alone with what can hang it
 *
 *	watchdog   looks at memory, decides; nothing can hang it
 *	prober     asks the native library whether it has failed
 *	notifier   calls on_verdict, if there is one
 *	symbolizer finds names for the stacks of ranks' threads, if there is a signal
 *	dumper     writes files, if there is a directory for them
 */

#include "core/clique.h"
#include "dump/dumper.h"
#include "watch/adaptive.h"

struct watch_options {
	int policy;
	unsigned warn_percent;
	int stack_signal; /* 0: threads are not asked where they are */
	cohort_verdict_fn on_verdict; /* and the next two; NULL: none */
	cohort_cause_fn on_abort;
	cohort_verdict_fn on_slow;
	uint64_t slow_ns; /* 0: nothing is */
	struct adaptive adaptive;
	void *user;
	struct dump_options dump;
};

struct watch;

/* Watch over @clique from now on.  On error nothing is left. */
int watch_start(struct clique *clique, const struct watch_options *options,
                struct watch **out);

/*
 * Stop, once the clique has its cause or is closing.  NULL, or what does not come back
 * until @deadline_ns: its thread and the watch stay, for ever, and so must a clique
 * that is not reclaimed.
 */
const char *watch_stop(struct watch *watch, uint64_t deadline_ns);

/* True on a thread that calls on_verdict for @clique, or for what was split from
 * it. */
bool watch_is_telling(const struct clique *clique);

/* Look again at the deadlines: one has become shorter. */
void watch_wake(struct clique *clique);

/* What keeps the clique from its end: "rank 2 is inside ...". */
void watch_explain(struct watch *watch, char *text, size_t size);

#endif
