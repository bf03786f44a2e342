/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Abort against submit, waits from several threads, and close
 *
 * Every round opens a group, lets its ranks sum numbers, and aborts it from two
 * threads at a random moment, which in every other round comes after some sums.
 * Those two threads and a third wait for the ranks' tickets, too.  Checked at
 * the end of each round: one abort has won, and the cause is that abort's;
 * every ticket has one answer, for every thread and every time; a sum whose
 * answer is OK is right; buffers are freed as soon as a wait has answered, so
 * that a sanitizer would see a later write; each native communicator was
 * released once.
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
#define ABORTERS 2 /* the first helpers */

/* After that many rounds, some tickets must be done and some cut short. */
#define ROUNDS_ENOUGH 200

#define UNASKED 99 /* no result */

struct rank {
	struct cohort_comm *_Atomic comm;
	atomic_int given; /* tickets given out, which are 1, 2, 3, ... */
	atomic_int answers[SUMS + 1];
};

struct round {
	struct cohort_group *group;
	unsigned long number;
	struct contest contest;
	struct rank ranks[RANKS];
	atomic_bool is_over; /* no more tickets will be given out */
	atomic_ulong done, cut;
};

/* ---- tickets ---------------------------------------------------------- */

static int ask(struct rank *rank, int ticket, uint64_t timeout)
{
	int first = UNASKED;
	int rc = cohort_wait(atomic_load(&rank->comm), (uint64_t)ticket,
	                     timeout);

	if (rc != COHORT_OK && rc != COHORT_ABORTED)
		stress_fail("ticket %d answers %d: %s", ticket, rc,
		            cohort_last_error());
	/* Relaxed: this must not order the threads that ask. */
	atomic_compare_exchange_strong_explicit(&rank->answers[ticket], &first,
	                                        rc, memory_order_relaxed,
	                                        memory_order_relaxed);
	if (first != UNASKED && first != rc)
		stress_fail("ticket %d answers %d, then %d", ticket, first, rc);
	return rc;
}

static int ask_twice(struct rank *rank, int ticket)
{
	ask(rank, ticket, RANKS_SOON);
	return ask(rank, ticket, 0);
}

/* Ask for every ticket of every rank as it is given out. */
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

/* One sum; false when the group has ended. */
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
 * Let the ranks make some sums: under a sanitizer they need longer to start
 * than any number of idle iterations.
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
		contest_told(&round->contest, i,
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
		stress_fail("no abort has won");
	ledger_check();
}

int main(int argc, char **argv)
{
	static struct crew helpers;
	unsigned long rounds, done = 0, cut = 0;

	ledger_open();
	crew_start(&helpers, HELPERS, helper_main);
	for (rounds = 0; stress_go_on(argc, argv); rounds++) {
		struct round round = { .number = rounds };

		one_round(&helpers, &round);
		done += round.done;
		cut += round.cut;
	}
	printf("%lu rounds, %lu tickets done, %lu cut short\n", rounds, done,
	       cut);
	if (rounds > ROUNDS_ENOUGH && (!done || !cut))
		stress_fail("the aborts do not meet the tickets");
	return 0;
}
