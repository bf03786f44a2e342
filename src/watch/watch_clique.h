/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_CLIQUE_H
#define WATCH_WATCH_CLIQUE_H

/*
 * State of the watch over one clique, shared by the watchdog and by the threads
 * and jobs that help it
 */

#include "base/crew.h"
#include "watch/adaptive.h"
#include "watch/notifier.h"
#include "watch/prober.h"
#include "watch/symbolizer.h"
#include "watch/trail.h"
#include "watch/verdict.h"
#include "watch/watch.h"

/* Subject of a verdict: the front collective, or a transfer. */
struct subject {
	/* Number of the front collective, or index of the transfer; 0 if there
	 * is neither. */
	uint64_t number;
	int rank;          /* the transfer's rank; -1 for the front */
	uint64_t since_ns; /* start of the clock, as in the verdict */
};

/* The rank that a verdict blames, and what that rank does. */
struct suspect {
	int rank, world;
	uint64_t ticket; /* ticket of its last call */
	/* True if another rank may soon be to blame: the suspect waits for an
	 * operation that is just done, or may_all_leave() is true. */
	bool waits;
};

enum watch_phase {
	WATCH_LIVE,
	WATCH_ENDING, /* the cause was reported; the end is not complete */
	WATCH_OVER,   /* no work is left */
};

struct watch {
	/* This and the following members are constant after the start. */
	struct clique *clique;
	struct watch_options options;

	struct prober prober;
	struct notifier notifier;
	struct dumper *dumper; /* NULL if no dumps are written */
	struct symbolizer symbolizer;

	/* Written by the watchdog, under the lock in watchdog.c. */
	enum watch_phase phase;

	/* Owned by the watchdog, as are the following members. */
	uint64_t next_ns; /* time at which to check again */
	uint64_t ran_ns;  /* last time at which the process was known to run */
	struct activity activity; /* activity that the kernel reported last */
	/* Time at which .activity was read; 0 if no deadline is running. */
	uint64_t activity_ns;
	struct snapshot now;
	struct observer observer;
	struct verdict verdict;
	bool prober_is_reported; /* true if the hung prober was reported */
	/* Number of the verdict that on_verdict was asked about, 0 if there is
	 * none. */
	uint64_t question;
	uint64_t asked_ns;         /* time at which on_verdict was asked */
	struct cohort_cause asked; /* cause to set if the answer is yes */

	/* The stacks that were taken last, and their subject.  Owned by the
	 * watchdog. */
	struct stack_report stacks[STACK_RANKS];
	int stack_count;
	struct subject subject;

	/* The evidence that a verdict waits for, the time until which it waits,
	 * and the subject of the verdict.  Owned by the watchdog. */
	enum {
		EVIDENCE_NONE,
		EVIDENCE_GATHERING, /* stacks, and replies of other processes */
		EVIDENCE_NAMING,    /* names of functions */
	} evidence;
	uint64_t evidence_due_ns;
	struct subject asked_about;
	struct suspect suspect; /* the suspect before evidence was gathered */
	/* Time until which a verdict waits while its suspect changes. */
	uint64_t settles_ns;

	/* Owned by the job that gathers evidence until it sets is_gathered with
	 * release.  After loading it with acquire, the watchdog owns this and
	 * the following members. */
	atomic_bool is_gathered;
	struct job gathering;
	bool takes_stacks;
	enum trail_start asks;
	struct trail_questions questions;
	struct trail trail;
	/* Room for COHORT_MAX_RANKS replies; NULL if there are no other
	 * processes. */
	struct remote_rank *remote;
	int remote_count;
	char silent[160]; /* processes that did not reply */

	/* Atomic; set of WATCH_HAS_ENDED and WATCH_IS_RELEASED.  The clique's
	 * end is logged once both are set; see watch_log_end(). */
	atomic_uint log_state;

	/* Owned by the thread that closes the clique.  Used by
	 * watch_explain(). */
	struct snapshot closing;
	struct verdict explanation;

	/* Guarded by the lock in watchdog.c. */
	struct watch *next;
};

/*
 * watch_log_end - log the clique's end, once both events have happened
 * @event: the event that has happened now
 *
 * A generation that ends before the program gets it is not logged.
 */
#define WATCH_HAS_ENDED 1u
#define WATCH_IS_RELEASED 2u
void watch_log_end(struct watch *g, unsigned event);

/* Check the clique, report what is due, and set .phase and .next_ns.  Called by
 * the watchdog only.  Never blocks. */
void watchdog_check(struct watch *watch);

#endif
