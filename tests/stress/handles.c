/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Abort handles fired by eight threads and a signal handler against operations in
 * flight, waits, and the close of the group
 *
 * The group is closed by one thread while the others fire.  Checked at the end
 * of each round: at most one fire has won, and then every handle tells so; every
 * ticket has one answer, the same when asked twice; the close succeeds; handles
 * work to the last, long after the group is gone.
 */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 2
#define FIRERS 8
#define ROUNDS 10

/* For the signal handler; set while there are no signals. */
static struct cohort_abort *_Atomic signal_handle;
static atomic_int signal_fired;

static void on_signal(int number)
{
	(void)number;
	if (cohort_abort_fire(atomic_load(&signal_handle), "signal") ==
	    COHORT_OK)
		atomic_fetch_add(&signal_fired, 1);
}

struct round {
	unsigned long number;
	struct cohort_comm *comms[RANKS];
	struct cohort_abort *handles[FIRERS];
	atomic_int next;  /* the next firer's handle */
	atomic_int fired; /* fires that answered COHORT_OK */
	atomic_ulong done, cut;
};

/* A rank's thread, outside of cohort_group_run(): it may be signalled. */
struct rank {
	struct round *round;
	struct cohort_comm *comm;
	pthread_t thread;
};

static bool sum_once(struct rank *rank, int i)
{
	struct cohort_comm *c = rank->comm;
	int32_t value = i + cohort_comm_rank(c);
	uint64_t ticket;
	int rc = cohort_all_reduce(c, &value, &value, 1, COHORT_I32, COHORT_SUM,
	                           cohort_comm_stream(c), &ticket);

	if (rc == COHORT_OK) {
		rc = cohort_wait(c, ticket, RANKS_SOON);
		if (cohort_wait(c, ticket, 0) != rc)
			stress_fail("a ticket answers %d, then not", rc);
		if (rc == COHORT_OK && value != RANKS * i + 1)
			stress_fail("sum %d is %d", i, value);
		atomic_fetch_add(rc == COHORT_OK ? &rank->round->done
		                                 : &rank->round->cut,
		                 1);
	}
	if (rc != COHORT_OK && rc != COHORT_ABORTED)
		stress_fail("%d: %s", rc, cohort_last_error());
	return rc == COHORT_OK;
}

static void *rank_main(void *arg)
{
	struct rank *rank = arg;
	int i;

	for (i = 0; i < ROUNDS; i++)
		if (!sum_once(rank, i))
			break;
	return NULL;
}

static void *firer(void *arg)
{
	struct round *round = arg;
	int i = atomic_fetch_add(&round->next, 1);
	uint64_t seed = round->number << 8 | (unsigned)i;
	struct cohort_abort *handle = round->handles[i];

	/* In some rounds nobody fires until the close is under way. */
	stress_spin(stress_random(&seed) % (1u << (8 + round->number % 12)));
	if (cohort_abort_fire(handle, "stress") == COHORT_OK)
		atomic_fetch_add(&round->fired, 1);
	if (cohort_abort_fire(handle, "again") != COHORT_ALREADY)
		stress_fail("a second fire has won");
	return NULL;
}

static void check(struct round *round)
{
	int i, won = round->fired + atomic_exchange(&signal_fired, 0);

	if (won > 1)
		stress_fail("%d fires have won", won);
	for (i = 0; i < FIRERS; i++) {
		if (cohort_abort_fired(round->handles[i]) != won)
			stress_fail("a handle tells %d after %d fires", !won,
			            won);
		cohort_abort_put(round->handles[i]);
	}
}

static void one_round(struct round *round)
{
	struct cohort_group *group = ranks_split(RANKS, NULL, round->comms);
	struct rank ranks[RANKS];
	pthread_t firers[FIRERS];
	int i, rc;

	for (i = 0; i < FIRERS; i++)
		round->handles[i] =
			cohort_comm_abort_handle(round->comms[i % RANKS]);
	atomic_store(&signal_handle, round->handles[0]);
	for (i = 0; i < RANKS; i++) {
		ranks[i].round = round;
		ranks[i].comm = round->comms[i];
		pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]);
	}
	for (i = 0; i < FIRERS; i++)
		pthread_create(&firers[i], NULL, firer, round);
	if (round->number % 3 == 0)
		pthread_kill(ranks[0].thread, SIGUSR1);
	for (i = 0; i < RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
	rc = cohort_group_close(group); /* while the others may still fire */
	if (rc != COHORT_OK)
		stress_fail("close: %d: %s", rc, cohort_last_error());
	for (i = 0; i < FIRERS; i++)
		pthread_join(firers[i], NULL);
	check(round);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned long n, fired = 0, done = 0, cut = 0;

	sigaction(SIGUSR1, &action, NULL);
	for (n = 0; stress_go_on(argc, argv); n++) {
		struct round round = { .number = n };

		one_round(&round);
		fired += (unsigned long)round.fired;
		done += round.done;
		cut += round.cut;
	}
	printf("%lu rounds, %lu won by a thread, %lu tickets done, %lu cut "
	       "short\n",
	       n, fired, done, cut);
	return 0;
}
