/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VERDICTS_H
#define VERDICTS_H

/*
 * An on_verdict that keeps what it was told, and can be made to block
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
	int block_stage; /* at a verdict of this stage it blocks, 0: never */

	/* Called on every verdict after it was kept, NULL: nothing. */
	void (*also)(const struct cohort_verdict *verdict, void *user);
	void *user;

	sem_t told;
	sem_t blocked; /* posted when it blocks */
	sem_t go_on;
	sem_t gone_on; /* and has looked at its verdict once more */
	char group[64];
	atomic_int count;
	int read; /* by verdicts_next() */
	struct cohort_verdict seen[VERDICTS_ROOM];

	/* Of the first ranks, without the stacks. */
	struct cohort_rank_report ranks[VERDICTS_ROOM][VERDICTS_RANKS];
	char texts[VERDICTS_ROOM][1024];
};

/* Have @options tell @verdicts, which are empty. */
void verdicts_attach(struct verdicts *verdicts,
                     struct cohort_group_options *options);

/* The next verdict, waited for. */
const struct cohort_verdict *verdicts_next(struct verdicts *verdicts);

/* The first from now on of stage @stage. */
const struct cohort_verdict *verdicts_next_of(struct verdicts *verdicts,
                                              int stage);

/* Wait until on_verdict blocks. */
void verdicts_await_block(struct verdicts *verdicts);

/* Let it go on: the name of the group, as its verdict then says. */
const char *verdicts_let_go(struct verdicts *verdicts);

/* True if @part is in @text, but for what a text may say in the middle of it: that time
 * does not count in which the process did not run.  A busy machine looks like that. */
bool verdict_says(const char *text, const char *part);

#endif
