/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VERDICTS_H
#define VERDICTS_H

/*
 * An on_verdict callback that stores every verdict, and that can block
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "support/ranks.h"

#define VERDICTS_ROOM 64
#define VERDICTS_RANKS 4

struct verdicts {
	/* Result of on_verdict. Set this, and the members up to @user, before
	 * the group is opened. */
	int answer;
	int block_stage; /* stage at which on_verdict blocks, or 0 */

	/* called for every verdict after it was stored, unless NULL */
	void (*also)(const struct cohort_verdict *verdict, void *user);
	void *user;

	sem_t received;
	sem_t blocked; /* posted when on_verdict blocks */
	sem_t resume;
	/* posted after on_verdict has continued and has read its verdict
	 * again */
	sem_t resumed;
	char group[64];
	atomic_int count;
	int read; /* number of verdicts that verdicts_next() has returned */
	struct cohort_verdict seen[VERDICTS_ROOM];

	/* reports of the first ranks of each verdict, without their stacks */
	struct cohort_rank_report ranks[VERDICTS_ROOM][VERDICTS_RANKS];
	char texts[VERDICTS_ROOM][2048];
	char lines[VERDICTS_ROOM][256];
	char calls[VERDICTS_ROOM][128];
};

/* Make @options report to @verdicts, which must be empty. */
void verdicts_attach(struct verdicts *verdicts,
                     struct cohort_group_options *options);

/* Wait for the next verdict and return it. */
const struct cohort_verdict *verdicts_next(struct verdicts *verdicts);

/* Wait for the next verdict of stage @stage and return it. */
const struct cohort_verdict *verdicts_next_of(struct verdicts *verdicts,
                                              int stage);

/* Wait until on_verdict blocks. */
void verdicts_await_block(struct verdicts *verdicts);

/* Let the blocked on_verdict continue, and wait until it has read the group's
 * name from its verdict. Return that name. */
const char *verdicts_release(struct verdicts *verdicts);

/*
 * Return whether @text contains @part. Ignore a clause of @text about the time
 * during which the process was not running, because it appears at random on a
 * busy machine.
 */
bool verdict_says(const char *text, const char *part);

#endif
