/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races the prober's native queries with calls, aborts and the end of the
 * clique
 *
 * In every round, a clique of two ranks sums numbers while its prober is
 * constantly woken. Then the clique is aborted or closed, or the prober finds
 * that it has failed. Checks that the cause is the first of these events, that
 * the prober never queries a native communicator that no longer exists, and
 * that each one was released once.
 */

#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "core/clique.h"
#include "support/contest.h"
#include "support/crew.h"
#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"
#include "watch/prober.h"

#define RANKS 2
#define SUMS 20

struct round {
	unsigned long number;
	struct clique *clique;
	struct prober prober;
	struct contest contest;
	bool is_aborted;
	atomic_ulong done, cut;
	atomic_bool is_over;
};

static const struct platform *ledger; /* the table that this one wraps */
static struct crew ranks, poker, aborter;
static atomic_ulong questions;

/* Number of queries until one reports a failure; 0 if none does */
static atomic_long fails_in;

static ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t *async)
{
	unsigned long n = atomic_fetch_add(&questions, 1);
	uint64_t seed = n;
	ncclResult_t result;

	/* Make the query slow, and sometimes so slow that an abort begins. */
	stress_spin(stress_random(&seed) % (1u << n % 18));
	result = ledger->ncclCommGetAsyncError(comm, async);
	if (atomic_fetch_sub(&fails_in, 1) == 1)
		*async = ncclRemoteError;
	return result;
}

static bool sum_once(struct round *round, int rank, int i)
{
	struct cohort_comm *c = &round->clique->comms[rank];
	int32_t value = i + rank;
	int rc = ranks_sum_wait(c, &value);

	if (rc != COHORT_OK && rc != COHORT_ABORTED && rc != COHORT_NCCL)
		stress_fail("%d: %s", rc, cohort_last_error());
	if (rc == COHORT_OK && value != RANKS * i + 1)
		stress_fail("sum %d is %d", i, value);
	atomic_fetch_add(rc == COHORT_OK ? &round->done : &round->cut, 1);
	return rc == COHORT_OK;
}

static void rank_main(void *arg, int rank)
{
	int i;

	for (i = 0; i < SUMS; i++)
		if (!sum_once(arg, rank, i))
			break;
}

static void poker_main(void *arg, int i)
{
	struct round *round = arg;

	(void)i;
	while (!atomic_load(&round->is_over)) {
		crew_wake_refill();
		/* Check first, as the watchdog does. */
		if (cause_or_closing(round->clique->end))
			clique_reap(round->clique);
		sched_yield();
	}
}

static void aborter_main(void *arg, int i)
{
	struct round *round = arg;
	uint64_t seed = round->number;
	unsigned long n = stress_random(&seed) % (RANKS * SUMS);

	if (!round->is_aborted)
		return;
	while (atomic_load(&round->done) < n &&
	       !cohort_abort_fired(round->contest.handle))
		sched_yield();
	stress_spin(stress_random(&seed) % (1u << (8 + round->number % 8)));
	contest_fire(&round->contest, i);
}

static void begin(struct round *round)
{
	struct new_rank made[RANKS] = { { .device = 0 },
		                        { .device = 1, .rank = 1 } };
	struct clique_options options = { .name = "prober", .slots = 16 };
	const struct platform *p;

	options.deadlines.init_ns = RANKS_SOON;
	options.deadlines.abort_ns = RANKS_SOON;
	p = place_table();
	ranks_must(clique_create(p, made, RANKS, &options, &round->clique),
	           "clique");
	ranks_must(prober_start(&round->prober, round->clique), "prober");
	atomic_store(&round->prober.late_ns, 0);
	contest_begin(&round->contest, &round->clique->comms[0]);
}

/* End the clique as the close of a group does. */
static void end(struct round *round)
{
	struct clique *q = round->clique;
	uint64_t deadline = clock_deadline(RANKS_SOON);

	clique_close(q);
	if (clique_await(q, CLIQUE_RECLAIMED, deadline) != CLIQUE_RECLAIMED)
		stress_fail("the clique was not reclaimed");
	atomic_store(&round->is_over, true);
	crew_end(&poker);
	if (!prober_stop(&round->prober, deadline))
		stress_fail("the prober did not stop");
	clique_set_unused(q);
	if (clique_await(q, CLIQUE_RELEASED, deadline) != CLIQUE_RELEASED)
		stress_fail("the clique was not released");
	clique_retire(q);
}

/* Run a round. Return the status that ended it. */
static int one_round(struct round *round)
{
	begin(round);
	crew_begin(&ranks, round);
	crew_begin(&poker, round);
	crew_begin(&aborter, round);
	crew_end(&ranks);
	crew_end(&aborter);
	end(round);
	ledger_check();
	return contest_end(&round->contest);
}

static void put_in_front(void)
{
	static struct platform table;

	ledger_open();
	ledger = place_table();
	table = *ledger;
	table.ncclCommGetAsyncError = get_async_error;
	platform_override(&table);
}

int main(int argc, char **argv)
{
	unsigned long n, aborted = 0, failed = 0;
	uint64_t seed = 9;
	int status;

	put_in_front();
	crew_start(&ranks, RANKS, rank_main);
	crew_start(&poker, 1, poker_main);
	crew_start(&aborter, 1, aborter_main);
	for (n = 0; stress_continue(argc, argv); n++) {
		struct round round = { .number = n, .is_aborted = n % 2 };

		atomic_store(&fails_in, n % 3 ? stress_random(&seed) % 100 : 0);
		status = one_round(&round);
		aborted += status == COHORT_ABORTED;
		failed += status == COHORT_NCCL;
	}
	printf("%lu rounds, %lu questions, %lu rounds ended by an abort, %lu "
	       "by "
	       "the prober\n",
	       n, (unsigned long)questions, aborted, failed);
	return 0;
}
