/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCHDOG_H
#define WATCH_WATCHDOG_H

/*
 * The state of the watchdog and of the threads beside it
 */

#include "watch/adaptive.h"
#include "watch/notifier.h"
#include "watch/prober.h"
#include "watch/symbolizer.h"
#include "watch/verdict.h"
#include "watch/watch.h"

/* What a verdict is about: the front, or a transfer. */
struct subject {
	uint64_t number;   /* 0: nothing */
	int rank;          /* of the transfer, -1: it is the front */
	uint64_t since_ns; /* as in the verdict */
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
	uint64_t ran_ns;          /* when the process was last known to run */
	struct activity activity; /* as it was when it was last read, */
	uint64_t activity_ns;     /* at this time */
	struct snapshot now;
	struct observer observer;
	struct verdict verdict;
	bool prober_is_told; /* it was told that the prober does not answer */
	uint64_t question;   /* number of the verdict that on_verdict is asked
	                        about, 0: none */
	uint64_t asked_ns;   /* when it was asked */
	struct cohort_cause asked; /* the cause if the answer is yes */

	/* Owned by the watchdog: the stacks that were taken last, and the subject
	 * that they were taken for. */
	struct stack_report stacks[STACK_RANKS];
	int stack_count;
	struct subject subject;

	/* Owned by the watchdog: room for the answers of other processes; NULL: there
	 * are none. */
	struct remote_rank *remote;
	char silent[160]; /* those that have not given any */

	/* Atomic; the two events after which the log gets the end, see log_end(). */
	atomic_uint log_state;

	/* Owned by the thread that closes the clique. */
	struct snapshot closing;
	struct verdict explanation;

	/* Guarded by the lock of the list in watch_leave(). */
	struct watch *next_left;
};

/*
 * log_end - write the line on the clique's end to the log
 * @event: WATCH_HAS_ENDED or WATCH_IS_RELEASED; the second of the two writes the line,
 *         so a generation that the program never gets has none
 */
#define WATCH_HAS_ENDED 1u
#define WATCH_IS_RELEASED 2u
void log_end(struct watch *g, unsigned event);

/* The watchdog's thread, of a struct watch.  It ends once the clique has ended. */
void *watchdog_main(void *watch);

#endif
