/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests agreement: ranks race to call, and one of them makes a different call
 *
 * In every round, one of three ranks makes a different call at a random place
 * of a sequence. Each rank runs at its own pace. Checks that every rank gets an
 * error and none hangs, that the earlier sums are right, and that each native
 * communicator was released once. The cause must name the rank that differs,
 * or no rank if too few had called for a majority.
 */

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 3
#define CALLS 20

struct round {
	unsigned long number;
	int odd_rank;
	int odd_call;
	atomic_int reported;
};

static int call(struct cohort_comm *c, const struct round *round, int i,
                int32_t *value, uint64_t *ticket)
{
	bool odd =
		cohort_comm_rank(c) == round->odd_rank && i == round->odd_call;

	return cohort_all_reduce(c, value, value, 1, COHORT_I32,
	                         odd ? COHORT_MAX : COHORT_SUM,
	                         cohort_comm_stream(c), ticket);
}

static int worker(struct cohort_comm *c, void *user)
{
	struct round *round = user;
	uint64_t seed = round->number << 8 | (unsigned)cohort_comm_rank(c);
	uint64_t ticket;
	int32_t value;
	int i, rc = COHORT_OK;

	for (i = 0; i < CALLS && rc == COHORT_OK; i++) {
		value = i + cohort_comm_rank(c);
		stress_spin(stress_random(&seed) % 3000);
		rc = call(c, round, i, &value, &ticket);
		if (rc == COHORT_OK)
			rc = cohort_wait(c, ticket, RANKS_SOON);
		if (rc == COHORT_OK && value != RANKS * i + 3)
			stress_fail("sum %d is %d", i, value);
		if (rc == COHORT_OK && i >= round->odd_call)
			stress_fail(
				"call %d was done although rank %d differed", i,
				round->odd_rank);
	}
	if (rc != COHORT_MISMATCH)
		stress_fail("rank %d got status %d: %s", cohort_comm_rank(c),
		            rc, cohort_last_error());
	atomic_fetch_add(&round->reported, 1);
	return rc;
}

int main(int argc, char **argv)
{
	uint64_t seed = 7;
	unsigned long n, named = 0;

	ledger_open();
	for (n = 0; stress_continue(argc, argv); n++) {
		struct round round = {
			.number = n,
			.odd_rank = (int)(stress_random(&seed) % RANKS),
			.odd_call = (int)(stress_random(&seed) % CALLS),
		};
		struct cohort_comm *comms[RANKS];
		struct cohort_group *group = ranks_small(RANKS, comms);
		struct cohort_cause cause;

		if (cohort_group_run(group, worker, &round, &cause) !=
		    COHORT_MISMATCH)
			stress_fail("run: %s", cohort_last_error());
		if (round.reported != RANKS)
			stress_fail("%d ranks got a mismatch", round.reported);
		if (cause.rank >= 0 && cause.rank != round.odd_rank)
			stress_fail("the cause names rank %d, not %d",
			            cause.rank, round.odd_rank);
		if (cause.rank < 0 && !strstr(cause.text, "no majority"))
			stress_fail("the cause names no rank: %s", cause.text);
		named += cause.rank >= 0;
		ranks_must(cohort_group_close(group), "close");
		ledger_check();
	}
	printf("%lu rounds, the odd rank named in %lu\n", n, named);
	return n && !named;
}
