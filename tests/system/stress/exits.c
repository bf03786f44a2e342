/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lets a thread that owns a rank exit while another rank waits for it
 *
 * In every round, two bound threads sum numbers, and one of them exits after a
 * random call. In some rounds the group is aborted at the same time. Checks
 * that the other thread's wait ends, that the cause names the rank if its
 * thread exited before the abort, and is the abort otherwise, that the close
 * succeeds, and that each native communicator was released once.
 */

#include <pthread.h>
#include <stdio.h>

#include "support/contest.h"
#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 2
#define CALLS 20

struct rank {
	struct cohort_comm *comm;
	int calls; /* number of calls before it exits */
	pthread_t thread;
};

static void *rank_main(void *arg)
{
	struct rank *rank = arg;
	int32_t value;
	int i, rc = COHORT_OK;

	ranks_must(cohort_comm_bind(rank->comm), "bind");
	for (i = 0; i < rank->calls && rc == COHORT_OK; i++) {
		value = i;
		rc = ranks_sum_wait(rank->comm, &value);
		if (rc == COHORT_OK && value != RANKS * i)
			stress_fail("sum %d is %d", i, value);
	}
	if (rc != COHORT_OK && rc != COHORT_THREAD_EXITED &&
	    rc != COHORT_ABORTED)
		stress_fail("%d: %s", rc, cohort_last_error());
	return NULL;
}

/* Run a round. Return whether the cause is an exit. */
static bool one_round(unsigned long number, uint64_t *seed)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group = ranks_small(RANKS, comms);
	struct rank ranks[RANKS];
	struct contest contest;
	struct cohort_cause cause;
	int i, mortal = (int)(stress_random(seed) % RANKS);

	contest_begin(&contest, comms[0]);
	for (i = 0; i < RANKS; i++) {
		ranks[i].comm = comms[i];
		ranks[i].calls = i == mortal
		                         ? (int)(stress_random(seed) % CALLS)
		                         : CALLS;
		pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]);
	}
	if (number % 4 == 0)
		contest_fire(&contest, 0);
	for (i = 0; i < RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
	cohort_group_cause(group, &cause);
	if (cause.status == COHORT_THREAD_EXITED && cause.rank != mortal)
		stress_fail("the cause names rank %d, not %d: %s", cause.rank,
		            mortal, cause.text);
	if (cause.status == COHORT_OK)
		stress_fail("the exit was not noticed");
	ranks_must(cohort_group_close(group), "close");
	if (contest_end(&contest) != cause.status)
		stress_fail("the cause changed after the close");
	ledger_check();
	return cause.status == COHORT_THREAD_EXITED;
}

int main(int argc, char **argv)
{
	unsigned long n, exits = 0;
	uint64_t seed = 3;

	ledger_open();
	for (n = 0; stress_continue(argc, argv); n++)
		exits += one_round(n, &seed);
	printf("%lu rounds, %lu ended by an exit\n", n, exits);
	return n > 4 && !exits;
}
