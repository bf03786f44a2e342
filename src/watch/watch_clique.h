/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_CLIQUE_H
#define WATCH_WATCH_CLIQUE_H

/*
 * The state of a watch: what the watchdog and the threads beside it know of a
 * clique
 */

#include "base/crew.h"
#include "watch/adaptive.h"
#include "watch/notifier.h"
#include "watch/prober.h"
#include "watch/symbolizer.h"
#include "watch/trail.h"
#include "watch/verdict.h"
#include "watch/watch.h"

/* What a verdict is about: the front, or a transfer. */
struct subject {
	uint64_t number;   /* 0: nothing */
	int rank;          /* of the transfer, -1: it is the front */
	uint64_t since_ns; /* as in the verdict */
};

/* How far a watch has come. */
enum watch_phase {
	WATCH_LIVE,
	WATCH_ENDING, /* the cause was reported, the end is awaited */
	WATCH_OVER,   /* nothing is left to do */
};

struct watch {
	/* Constant after the start. */
	struct clique *clique;
	struct watch_options options;

	struct prober prober;
	struct notifier notifier;
	struct dumper *dumper; /* NULL: none */
	struct symbolizer symbolizer;

	/* Written by the watchdog, under the lock in watchdog.c. */
	enum watch_phase phase;

	/* Owned by the watchdog. */
	uint64_t next_ns;         /* when to look again */
	uint64_t ran_ns;          /* when the process was last known to run */
	struct activity activity; /* as it was when it was last read, */
	uint64_t activity_ns; /* at this time; 0 if no deadline is running */
	struct snapshot now;
	struct observer observer;
	struct verdict verdict;
	bool prober_is_told; /* it was told that the prober does not answer */
	uint64_t question;   /* number of the verdict that on_verdict is asked
	                        about, 0: none */
	uint64_t asked_ns;   /* when it was asked */
	struct cohort_cause asked; /* the cause if the answer is yes */

	/* Owned by the watchdog: the stacks that were taken last, and the
	 * subject that they were taken for. */
	struct stack_report stacks[STACK_RANKS];
	int stack_count;
	struct subject subject;

	/* Owned by the watchdog: what a verdict waits for, until when, and what
	 * that verdict is about. */
	enum {
		EVIDENCE_NONE,
		EVIDENCE_GATHERING, /* stacks, other processes' answers */
		EVIDENCE_NAMING,    /* names of functions */
	} evidence;
	uint64_t evidence_due_ns;
	struct subject asked_about;

	/* Owned by the job until it sets is_gathered (release, acquire), then
	 * by the watchdog. */
	atomic_bool is_gathered;
	struct job gathering;
	bool takes_stacks;
	enum trail_start asks;
	struct trail_questions questions;
	struct trail trail;
	/* Room for COHORT_MAX_RANKS answers; NULL: there are none. */
	struct remote_rank *remote;
	int remote_count;
	char silent[160]; /* the processes that have not answered */

	/* Atomic; the two events after which the log gets the end, see
	 * watch_log_end(). */
	atomic_uint log_state;

	/* Owned by the thread that closes the clique. */
	struct snapshot closing;
	struct verdict explanation;

	/* Guarded by the lock in watchdog.c: the list of all watches, or of those
	 * that were left behind. */
	struct watch *next;
};

/*
 * watch_log_end - write the line on the clique's end to the log
 * @event: WATCH_HAS_ENDED or WATCH_IS_RELEASED; the second of the two writes
 *         the line, so a generation that the program never gets has none
 */
#define WATCH_HAS_ENDED 1u
#define WATCH_IS_RELEASED 2u
void watch_log_end(struct watch *g, unsigned event);

/* Look at the clique, report what there is to report, and set .phase and
 * .next_ns.  Watchdog only.  Blocks on nothing. */
void watchdog_look(struct watch *watch);

#endif
