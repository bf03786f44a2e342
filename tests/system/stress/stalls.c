/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races the watchdog's deadline with late ranks, with ranks that never call,
 * with aborts, and with the result of on_verdict
 *
 * In every round, two ranks sum numbers with a deadline of about a millisecond,
 * and one of them pauses for about as long, or forever. In some rounds, the
 * group is aborted during the pause. In some, the policy asks on_verdict.
 * Checks that a rank that never calls is always found, that the cause is what
 * happened first, that every ticket has one status, that the close succeeds,
 * and that each native communicator was released once.
 */

#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "support/contest.h"
#include "support/crew.h"
#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 2
#define SUMS 6
#define NEVER UINT64_MAX

struct round {
	unsigned long number;
	struct cohort_comm *comms[RANKS];
	struct contest contest;
	uint64_t deadline_ns;
	int odd_rank, odd_sum;
	uint64_t away_ns;  /* pause of the rank before that sum */
	bool is_asked;     /* whether the policy asks on_verdict */
	bool is_aborted;   /* whether it is aborted near the deadline */
	uint64_t abort_ns; /* time of the abort after the pause began */
	atomic_bool is_away;
};

static struct crew ranks, aborter;

/* Spin for @ns, which may be shorter than the shortest sleep. */
static void spin_for(uint64_t ns)
{
	uint64_t end = clock_now() + ns;

	while (clock_now() < end)
		sched_yield();
}

static int sum_once(struct cohort_comm *c, int i)
{
	int32_t value = i + cohort_comm_rank(c);
	uint64_t ticket;
	int rc = cohort_all_reduce(c, &value, &value, 1, COHORT_I32, COHORT_SUM,
	                           cohort_comm_stream(c), &ticket);

	if (rc != COHORT_OK)
		return rc;
	rc = cohort_wait(c, ticket, RANKS_SOON);
	if (cohort_wait(c, ticket, 0) != rc)
		stress_fail("a ticket returned %d, then another status", rc);
	if (rc == COHORT_OK && value != RANKS * i + 1)
		stress_fail("sum %d is %d", i, value);
	return rc;
}

static void rank_main(void *arg, int rank)
{
	struct round *round = arg;
	int i, rc = COHORT_OK;

	for (i = 0; i < SUMS && rc == COHORT_OK; i++) {
		if (rank == round->odd_rank && i == round->odd_sum) {
			atomic_store(&round->is_away, true);
			if (round->away_ns == NEVER)
				return;
			spin_for(round->away_ns);
		}
		rc = sum_once(round->comms[rank], i);
	}
	/* No pause follows, so the abort must not wait for one. */
	atomic_store(&round->is_away, true);
	if (rc != COHORT_OK && rc != COHORT_STALLED && rc != COHORT_ABORTED)
		stress_fail("rank %d: %d: %s", rank, rc, cohort_last_error());
}

static void aborter_main(void *arg, int i)
{
	struct round *round = arg;

	if (!round->is_aborted)
		return;
	while (!atomic_load(&round->is_away))
		sched_yield();
	spin_for(round->abort_ns);
	contest_fire(&round->contest, i);
}

/* End the group only for an expired deadline. Called on the notifier's
 * thread. */
static int on_verdict(const struct cohort_verdict *verdict, void *user)
{
	(void)user;
	return verdict->stage == COHORT_STAGE_EXPIRED;
}

static struct cohort_group *open_round(struct round *round)
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	o.deadlines.join_ns = round->deadline_ns;
	o.deadlines.exec_ns = round->deadline_ns;
	if (round->is_asked) {
		o.policy = COHORT_POLICY_ASK;
		o.on_verdict = on_verdict;
	}
	return ranks_split(RANKS, &o, round->comms);
}

/* Run a round. Return the status that ended it. */
static int one_round(struct round *round)
{
	struct cohort_group *group = open_round(round);
	int status;

	contest_begin(&round->contest, round->comms[0]);
	crew_begin(&ranks, round);
	crew_begin(&aborter, round);
	crew_end(&ranks);
	crew_end(&aborter);
	ranks_must(cohort_group_close(group), "close");
	status = contest_end(&round->contest);
	ledger_check();
	if (round->away_ns == NEVER && status == COHORT_OK)
		stress_fail("no verdict named rank %d", round->odd_rank);
	if (status == COHORT_ABORTED && !round->is_aborted)
		stress_fail("the cause is an abort, but no thread aborted");
	return status;
}

/* Return a random time of up to twice @ns. */
static uint64_t random_time_around(uint64_t ns, uint64_t *seed)
{
	return stress_random(seed) % (2 * ns);
}

int main(int argc, char **argv)
{
	unsigned long n, stalled = 0, aborted = 0;
	uint64_t seed = 5;
	int status;

	ledger_open();
	crew_start(&ranks, RANKS, rank_main);
	crew_start(&aborter, 1, aborter_main);
	for (n = 0; stress_continue(argc, argv); n++) {
		struct round round = { .number = n };

		round.deadline_ns = 1000000 + stress_random(&seed) % 1000000;
		round.odd_rank = (int)(stress_random(&seed) % RANKS);
		round.odd_sum = (int)(stress_random(&seed) % SUMS);
		round.away_ns =
			n % 2 ? NEVER
			      : random_time_around(round.deadline_ns, &seed);
		round.is_asked = n % 5 == 0;
		round.is_aborted = n % 3 == 0;
		round.abort_ns = random_time_around(round.deadline_ns, &seed);
		status = one_round(&round);
		stalled += status == COHORT_STALLED;
		aborted += status == COHORT_ABORTED;
	}
	printf("%lu rounds, %lu ended by the watchdog, %lu by an abort\n", n,
	       stalled, aborted);
	return 0;
}
