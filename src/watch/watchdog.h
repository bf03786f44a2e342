/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCHDOG_H
#define WATCH_WATCHDOG_H

/*
 * What the watchdog has, and what starts and stops it
 */

#include "watch/adaptive.h"
#include "watch/notifier.h"
#include "watch/prober.h"
#include "watch/symbolizer.h"
#include "watch/verdict.h"
#include "watch/watch.h"

/* What does not go on: the front, or a transfer. */
struct subject {
	uint64_t number;   /* 0: nothing */
	int rank;          /* of the transfer, -1: it is the front */
	uint64_t since_ns; /* as its verdict tells */
};

struct watch {
	/* Constant after the start. */
	struct clique *clique;
	struct watch_options options;
	pthread_t watchdog;

	struct prober prober;
	struct notifier notifier;
	struct dumper *dumper; /* NULL: none */
	struct symbolizer symbolizer;

	/* Owned by the watchdog. */
	uint64_t ran_ns; /* when it was last known to run */
	struct snapshot now;
	struct observer observer;
	struct verdict verdict;
	bool prober_is_told; /* that it does not answer */
	uint64_t question;   /* number of the verdict that was asked about, 0:
	                        none that is open */
	uint64_t asked_ns;   /* when that was */
	struct cohort_cause asked; /* what that ends the clique with */

	/* Owned by the watchdog: the stacks that were taken last, and what for. */
	struct stack_report stacks[STACK_RANKS];
	int stack_count;
	struct subject subject;

	/* Of whoever closes. */
	struct snapshot closing;
	struct verdict explanation;

	/* Guarded by the list of those that were left behind. */
	struct watch *next_left;
};

/* The watchdog's thread, of a struct watch; it ends when the clique has. */
void *watchdog_main(void *watch);

#endif
