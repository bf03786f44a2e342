/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fires abort handles from eight threads and a signal handler, during
 * operations, waits, and the close of the communicators and of the group
 *
 * One thread closes the group while the others fire. Each round checks at its
 * end that at most one fire won, that every handle reports this fire as the
 * cause, that every ticket always returns the same status, that the closes
 * succeed, that each native communicator was released once, by its reaper, and
 * that handles work long after the group is gone.
 */

#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include "support/contest.h"
#include "support/crew.h"
#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 2
#define FIRERS 8
#define SIGNAL FIRERS /* index of the signal handler among the firers */
#define SUMS 10

struct round {
	unsigned long number;
	struct cohort_comm *comms[RANKS];
	struct cohort_abort *handles[FIRERS];
	struct contest contest;
	atomic_ulong done, cut;
};

static struct crew ranks, firers;

/* Contest of the signal handler; written while no signal can arrive. */
static struct contest *_Atomic signal_contest;
static atomic_ulong signals_seen;

static void on_signal(int number)
{
	(void)number;
	contest_fire(atomic_load(&signal_contest), SIGNAL);
	atomic_fetch_add(&signals_seen, 1);
}

/* ---- ranks ------------------------------------------------------------ */

/* Exit with an error unless the status is COHORT_OK or an abort's. */
static int check_answer(int rc, const char *what)
{
	if (rc != COHORT_OK && rc != COHORT_ABORTED)
		stress_fail("%s: %d: %s", what, rc, cohort_last_error());
	return rc;
}

static bool sum_once(struct round *round, int rank, int i)
{
	struct cohort_comm *c = round->comms[rank];
	int32_t value = i + rank;
	uint64_t ticket;
	int rc = cohort_all_reduce(c, &value, &value, 1, COHORT_I32, COHORT_SUM,
	                           cohort_comm_stream(c), &ticket);

	if (check_answer(rc, "call") != COHORT_OK)
		return false;
	rc = check_answer(cohort_wait(c, ticket, RANKS_SOON), "wait");
	if (cohort_wait(c, ticket, 0) != rc)
		stress_fail("a ticket returned %d, then another status", rc);
	if (rc == COHORT_OK && value != RANKS * i + 1)
		stress_fail("sum %d is %d", i, value);
	atomic_fetch_add(rc == COHORT_OK ? &round->done : &round->cut, 1);
	return rc == COHORT_OK;
}

static void rank_main(void *arg, int rank)
{
	struct round *round = arg;
	int i;

	for (i = 0; i < SUMS; i++)
		if (!sum_once(round, rank, i))
			break;
	if (round->number % 2)
		check_answer(cohort_comm_close(round->comms[rank]),
		             "comm close");
}

/* ---- firers ----------------------------------------------------------- */

/*
 * Wait until the ranks have made a random number of sums, or the handle was
 * fired.  In every fourth round, wait for all sums, so that cohort_abort_fire()
 * races with the close.
 */
static void await_sums(struct round *round, uint64_t *seed)
{
	unsigned long n = round->number % 4 * RANKS * SUMS / 3;

	if (n < RANKS * SUMS)
		n = stress_random(seed) % (n + 1);
	while (atomic_load(&round->done) < n &&
	       !cohort_abort_fired(round->contest.handle))
		sched_yield();
}

/* Return whether this is one of the rounds, every third, that send a signal. */
static bool has_signal(const struct round *round)
{
	return round->number % 3 == 0;
}

/* Wait until the signals of this and all earlier rounds were handled. */
static void await_signals(const struct round *round)
{
	while (atomic_load(&signals_seen) <= round->number / 3)
		sched_yield();
}

static void firer_main(void *arg, int i)
{
	struct round *round = arg;
	uint64_t seed = round->number << 8 | (unsigned)i;
	struct cohort_abort *handle = round->handles[i];

	await_sums(round, &seed);
	if (i == 0 && has_signal(round))
		pthread_kill(ranks.threads[stress_random(&seed) % RANKS],
		             SIGUSR1);
	if (round->number % 2 && has_signal(round))
		await_signals(round); /* let the signal handler fire first */
	stress_spin(stress_random(&seed) % (1u << (8 + round->number % 12)));
	contest_record(&round->contest, i,
	               cohort_abort_fire(handle, contest_reason(i)));
	if (cohort_abort_fire(handle, "again") != COHORT_ALREADY)
		stress_fail("a second fire won");
}

/* ---- rounds ----------------------------------------------------------- */

static void begin(struct round *round)
{
	int i;

	contest_begin(&round->contest, round->comms[0]);
	for (i = 0; i < FIRERS; i++)
		round->handles[i] =
			cohort_comm_abort_handle(round->comms[i % RANKS]);
	atomic_store(&signal_contest, &round->contest);
	crew_begin(&ranks, round);
	crew_begin(&firers, round);
}

/* End a round. Return whether a fire won, and not the close. */
static bool end(struct round *round)
{
	bool won;
	int i;

	crew_end(&firers);
	await_signals(round);
	won = contest_end(&round->contest) != COHORT_OK;
	for (i = 0; i < FIRERS; i++) {
		if (cohort_abort_fired(round->handles[i]) != won)
			stress_fail("a handle reports %d after %d fires", !won,
			            won);
		cohort_abort_put(round->handles[i]);
	}
	ledger_check();
	return won;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned long n, fired = 0, signalled = 0, done = 0, cut = 0;

	sigaction(SIGUSR1, &action, NULL);
	ledger_open();
	crew_start(&ranks, RANKS, rank_main);
	crew_start(&firers, FIRERS, firer_main);
	for (n = 0; stress_continue(argc, argv); n++) {
		struct round round = { .number = n };
		struct cohort_group *group = ranks_small(RANKS, round.comms);

		begin(&round);
		crew_end(&ranks);
		/* The other threads may still fire. */
		ranks_must(cohort_group_close(group), "close");
		fired += end(&round);
		signalled += round.contest.winner == SIGNAL;
		done += round.done;
		cut += round.cut;
	}
	printf("%lu rounds, %lu won by a thread, %lu by the signal, %lu "
	       "tickets "
	       "done, %lu cut short\n",
	       n, fired - signalled, signalled, done, cut);
	return 0;
}
