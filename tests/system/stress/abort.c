/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races an abort with submits, waits on several threads, and the close
 *
 * Every round opens a group, lets its ranks sum numbers, and aborts it from two
 * threads at a random moment. In every second round, that moment comes after
 * some sums. The two threads and a third one also wait for the ranks' tickets.
 * Each round checks at its end that one abort won and is the cause, that each
 * ticket always returned the same status to every thread, that each sum with
 * COHORT_OK is right, and that each native communicator was released once.
 * Buffers are freed as soon as a wait returns, so a sanitizer reports a later
 * write.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/contest.h"
#include "support/crew.h"
#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 3
#define SUMS 40
#define HELPERS 3
#define ABORTERS 2 /* the first two helpers abort */

/* After this many rounds, some tickets must be done and some cut short. */
#define ROUNDS_ENOUGH 200

#define UNASKED 99 /* no status yet */

struct rank {
	struct cohort_comm *_Atomic comm;
	atomic_int given; /* last ticket given out; the first is 1 */
	atomic_int answers[SUMS + 1];
};

struct round {
	struct cohort_group *group;
	unsigned long number;
	struct contest contest;
	struct rank ranks[RANKS];
	atomic_bool is_over; /* no further tickets will be given out */
	atomic_ulong done, cut;
};

/* ---- tickets ---------------------------------------------------------- */

static int ask(struct rank *rank, int ticket, uint64_t timeout)
{
	int first = UNASKED;
	int rc = cohort_wait(atomic_load(&rank->comm), (uint64_t)ticket,
	                     timeout);

	if (rc != COHORT_OK && rc != COHORT_ABORTED)
		stress_fail("ticket %d returned %d: %s", ticket, rc,
		            cohort_last_error());
	/* Relaxed, because this must not order the waiting threads. */
	atomic_compare_exchange_strong_explicit(&rank->answers[ticket], &first,
	                                        rc, memory_order_relaxed,
	                                        memory_order_relaxed);
	if (first != UNASKED && first != rc)
		stress_fail("ticket %d returned %d, then %d", ticket, first,
		            rc);
	return rc;
}

static int ask_twice(struct rank *rank, int ticket)
{
	ask(rank, ticket, RANKS_SOON);
	return ask(rank, ticket, 0);
}

/* Wait for each ticket of each rank once a rank has received it. */
static void ask_all(struct round *round)
{
	int next[RANKS] = { 0 }, r;
	bool was_over, is_new = true;

	do {
		was_over = atomic_load(&round->is_over);
		for (r = 0, is_new = false; r < RANKS; r++) {
			if (next[r] == atomic_load(&round->ranks[r].given))
				continue;
			ask_twice(&round->ranks[r], ++next[r]);
			is_new = true;
		}
		if (!is_new)
			sched_yield();
	} while (is_new || !was_over);
}

/* ---- the ranks -------------------------------------------------------- */

/* Make one sum. Return false if the group has ended. */
static bool sum_once(struct cohort_comm *c, struct round *round, int i)
{
	struct rank *rank = &round->ranks[cohort_comm_rank(c)];
	int32_t *value = malloc(sizeof(*value));
	int rc;

	*value = i + cohort_comm_rank(c);
	rc = cohort_all_reduce(c, value, value, 1, COHORT_I32, COHORT_SUM,
	                       cohort_comm_stream(c), NULL);
	if (rc == COHORT_OK) {
		atomic_fetch_add(&rank->given, 1);
		rc = ask_twice(rank, i + 1);
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
	struct round *round = user;
	int i;

	atomic_store(&round->ranks[cohort_comm_rank(c)].comm, c);
	for (i = 0; i < SUMS; i++)
		if (!sum_once(c, round, i))
			break;
	return 0;
}

/* ---- the helpers ------------------------------------------------------ */

/*
 * Wait until the ranks have made @n sums or the handle was fired. Count sums
 * instead of time, because under a sanitizer ranks can take arbitrarily long to
 * start.
 */
static void await_sums(struct round *round, unsigned long n)
{
	while (atomic_load(&round->done) < n &&
	       !cohort_abort_fired(round->contest.handle))
		sched_yield();
}

static void helper_main(void *arg, int i)
{
	struct round *round = arg;
	uint64_t seed = round->number << 8 | (unsigned)i;

	if (i < ABORTERS) {
		if (round->number % 2)
			await_sums(round,
			           stress_random(&seed) % (RANKS * SUMS));
		stress_spin(stress_random(&seed) %
		            (1u << (10 + round->number % 12)));
		contest_record(&round->contest, i,
		               cohort_group_abort(round->group,
		                                  contest_reason(i)));
	}
	ask_all(round);
}

/* ---- rounds ----------------------------------------------------------- */

static void begin(struct round *round)
{
	struct cohort_comm *comms[RANKS];
	int r, i;

	round->group = ranks_small(RANKS, comms);
	contest_begin(&round->contest, comms[0]);
	for (r = 0; r < RANKS; r++)
		for (i = 0; i <= SUMS; i++)
			atomic_init(&round->ranks[r].answers[i], UNASKED);
}

static void one_round(struct crew *helpers, struct round *round)
{
	int rc;

	begin(round);
	crew_begin(helpers, round);
	rc = cohort_group_run(round->group, worker, round, NULL);
	if (rc != COHORT_OK && rc != COHORT_ABORTED && rc != COHORT_STATE)
		stress_fail("run: %d: %s", rc, cohort_last_error());
	atomic_store(&round->is_over, true);
	crew_end(helpers);
	ranks_must(cohort_group_close(round->group), "close");
	if (contest_end(&round->contest) != COHORT_ABORTED)
		stress_fail("no abort won");
	ledger_check();
}

int main(int argc, char **argv)
{
	static struct crew helpers;
	unsigned long rounds, done = 0, cut = 0;

	ledger_open();
	crew_start(&helpers, HELPERS, helper_main);
	for (rounds = 0; stress_continue(argc, argv); rounds++) {
		struct round round = { .number = rounds };

		one_round(&helpers, &round);
		done += round.done;
		cut += round.cut;
	}
	printf("%lu rounds, %lu tickets done, %lu cut short\n", rounds, done,
	       cut);
	if (rounds > ROUNDS_ENOUGH && (!done || !cut))
		stress_fail("the aborts cut no ticket short, or all of them");
	return 0;
}
