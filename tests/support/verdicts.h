/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VERDICTS_H
#define VERDICTS_H

/*
 * An on_verdict callback that keeps every verdict it is told, and can block
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "support/ranks.h"

#define VERDICTS_ROOM 64
#define VERDICTS_RANKS 4

struct verdicts {
	/* Set before the group is opened. */
	int answer;      /* what on_verdict returns */
	int block_stage; /* block at a verdict of this stage; 0: never */

	/*
	 * Called on every verdict after it was kept; NULL: nothing is called.
	 */
	void (*also)(const struct cohort_verdict *verdict, void *user);
	void *user;

	sem_t told;
	sem_t blocked; /* posted when the callback blocks */
	sem_t go_on;
	/* posted when it goes on, after a second look at its verdict */
	sem_t gone_on;
	char group[64];
	atomic_int count;
	int read; /* how many verdicts_next() has read */
	struct cohort_verdict seen[VERDICTS_ROOM];

	/* The reports of the first ranks, without their stacks. */
	struct cohort_rank_report ranks[VERDICTS_ROOM][VERDICTS_RANKS];
	char texts[VERDICTS_ROOM][2048];
	char lines[VERDICTS_ROOM][256];
};

/* Have @options report to @verdicts, which are empty. */
void verdicts_attach(struct verdicts *verdicts,
                     struct cohort_group_options *options);

/* Wait for the next verdict. */
const struct cohort_verdict *verdicts_next(struct verdicts *verdicts);

/* Wait for the next verdict of stage @stage. */
const struct cohort_verdict *verdicts_next_of(struct verdicts *verdicts,
                                              int stage);

/* Wait until on_verdict blocks. */
void verdicts_await_block(struct verdicts *verdicts);

/* Let on_verdict go on; returns the group's name as the verdict then has it. */
const char *verdicts_let_go(struct verdicts *verdicts);

/*
 * True if @part is in @text.  A clause that @text may have in its middle is
 * ignored: that the time in which the process did not run is not counted, which
 * is what a busy machine looks like.
 */
bool verdict_says(const char *text, const char *part);

#endif
