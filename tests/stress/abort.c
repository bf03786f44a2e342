/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Abort against submit, wait and close
 *
 * Every round opens a group, lets its ranks sum numbers, and aborts it from two
 * threads at a random moment, every other time not before some sums are done.
 * Checked at the end of each: one abort has won; every ticket has one answer,
 * the same when asked again; what answers OK has the right number; buffers are
 * freed as soon as a wait has answered, so that a sanitizer sees who writes
 * later.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 3
#define ROUNDS 40

/* After so many, some tickets must have been done and some cut short. */
#define ROUNDS_ENOUGH 200

struct round {
	struct cohort_group *group;
	unsigned long number;
	atomic_int fired; /* aborts that answered COHORT_OK */
	atomic_ulong done, cut;
};

static int check_answer(struct cohort_comm *c, uint64_t ticket, int rc)
{
	int again = cohort_wait(c, ticket, 0);

	if (rc != COHORT_OK && rc != COHORT_ABORTED)
		stress_fail("ticket %lu answers %d: %s", (unsigned long)ticket,
		            rc, cohort_last_error());
	if (again != rc)
		stress_fail("ticket %lu answers %d, then %d",
		            (unsigned long)ticket, rc, again);
	return rc;
}

/* One sum; false when the group has ended. */
static bool sum_once(struct cohort_comm *c, struct round *round, int i)
{
	int32_t *value = malloc(sizeof(*value));
	uint64_t ticket;
	int rc;

	*value = i + cohort_comm_rank(c);
	rc = cohort_all_reduce(c, value, value, 1, COHORT_I32, COHORT_SUM,
	                       cohort_comm_stream(c), &ticket);
	if (rc == COHORT_OK) {
		rc = check_answer(c, ticket,
		                  cohort_wait(c, ticket, RANKS_SOON));
		if (rc == COHORT_OK && *value != RANKS * i + 3)
			stress_fail("sum %d is %d", i, *value);
		atomic_fetch_add(rc == COHORT_OK ? &round->done : &round->cut,
		                 1);
	}
	free(value);
	return rc == COHORT_OK;
}

static int worker(struct cohort_comm *c, void *user)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		if (!sum_once(c, user, i))
			break;
	return 0;
}

/* Let the ranks get somewhere: a sanitizer makes their start take longer than
 * any number of iterations of nothing. */
static void wait_for_tickets(struct round *round, unsigned long n)
{
	while (atomic_load(&round->done) < n && !atomic_load(&round->fired))
		sched_yield();
}

static void *aborter(void *arg)
{
	struct round *round = arg;
	uint64_t seed = round->number << 16 | (uintptr_t)pthread_self();

	if (round->number % 2)
		wait_for_tickets(round,
		                 stress_random(&seed) % (RANKS * ROUNDS));
	stress_spin(stress_random(&seed) % (1u << (10 + round->number % 12)));
	if (cohort_group_abort(round->group, "stress") == COHORT_OK)
		atomic_fetch_add(&round->fired, 1);
	return NULL;
}

static void one_round(unsigned long number, unsigned long *done,
                      unsigned long *cut)
{
	struct round round = { .number = number };
	pthread_t threads[2];
	int i, rc;

	round.group = ranks_open(RANKS, NULL);
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, aborter, &round);
	rc = cohort_group_run(round.group, worker, &round, NULL);
	if (rc != COHORT_OK && rc != COHORT_ABORTED && rc != COHORT_STATE)
		stress_fail("run: %d: %s", rc, cohort_last_error());
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	rc = cohort_group_close(round.group);
	if (rc != COHORT_OK)
		stress_fail("close: %d: %s", rc, cohort_last_error());
	if (round.fired != 1)
		stress_fail("%d aborts have won", round.fired);
	*done += round.done;
	*cut += round.cut;
}

int main(int argc, char **argv)
{
	unsigned long rounds, done = 0, cut = 0;

	for (rounds = 0; stress_go_on(argc, argv); rounds++)
		one_round(rounds, &done, &cut);
	printf("%lu rounds, %lu tickets done, %lu cut short\n", rounds, done,
	       cut);
	if (rounds > ROUNDS_ENOUGH && (!done || !cut))
		stress_fail("the aborts do not meet the tickets");
	return 0;
}
