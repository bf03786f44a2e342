/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races a respawn with calls, waits and aborts on the previous generation
 *
 * Every round runs a worker on the ranks of a group, until an abort or a rank's
 * error ends it, and respawns the group without that rank. If one rank is left,
 * or nothing has ended the run, the group is closed and another one is opened.
 * During the respawn and the whole next run, two threads keep using the
 * communicators of the previous generation: they make calls, wait, and fire
 * abort handles. Checks that calls there return the cause and, after the
 * respawn, STALE, that tickets keep their status, and that the cause does not
 * change. None of this may affect the new generation: its sums must be right,
 * and each native communicator must be released once.
 */

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "support/contest.h"
#include "support/crew.h"
#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 4
#define SUMS 6
#define CALLERS 2

/* A generation and its end. */
struct life {
	struct cohort_group *group;
	int size;
	struct cohort_comm *comms[RANKS];
	struct contest contest;
	int status; /* status of the cause */
	/* Last ticket given to each rank; the first is 1. */
	int given[RANKS];
	int answers[RANKS][SUMS + 1];

	/* Rank and sum at which the generation ends; no end if the sum is
	 * SUMS. */
	int odd_rank, odd_sum;
	bool is_error; /* end by an error of the rank, not by an abort */

	bool has_callers;
	atomic_bool is_stale; /* set after the respawn */
	atomic_bool stop;     /* set when the callers must end */
};

static atomic_ulong stale;

/* ---- the ranks -------------------------------------------------------- */

static int sum_once(struct life *life, int rank, int i)
{
	struct cohort_comm *c = life->comms[rank];
	int32_t value = i + rank;
	uint64_t ticket;
	int rc = cohort_all_reduce(c, &value, &value, 1, COHORT_I32, COHORT_SUM,
	                           cohort_comm_stream(c), &ticket);

	if (rc != COHORT_OK)
		return rc;
	rc = cohort_wait(c, ticket, RANKS_SOON);
	life->given[rank]++;
	life->answers[rank][ticket] = rc;
	if (rc == COHORT_OK &&
	    value != life->size * i + life->size * (life->size - 1) / 2)
		stress_fail("sum %d of %d ranks is %d", i, life->size, value);
	return rc;
}

static int worker(struct cohort_comm *c, void *user)
{
	struct life *life = user;
	int i, rank = cohort_comm_rank(c), rc = COHORT_OK;

	for (i = 0; i < SUMS && rc == COHORT_OK; i++) {
		if (rank == life->odd_rank && i == life->odd_sum) {
			if (life->is_error)
				return 1;
			contest_fire(&life->contest, 0);
		}
		rc = sum_once(life, rank, i);
	}
	if (rc != COHORT_OK && rc != COHORT_ABORTED && rc != COHORT_WORKER)
		stress_fail("rank %d: %d: %s", rank, rc, cohort_last_error());
	return 0;
}

/* ---- the callers ------------------------------------------------------ */

/* Make a call on the previous generation. Return whether it is STALE. */
static bool call_once(const struct life *life, int rank)
{
	struct cohort_comm *c = life->comms[rank];
	bool was_stale = atomic_load(&life->is_stale);
	int rc;

	do
		rc = cohort_barrier(c, cohort_comm_stream(c), NULL);
	while (rc == COHORT_BUSY); /* the other caller was in a call */
	if (rc != COHORT_STALE && (was_stale || rc != life->status))
		stress_fail("%s: %d: %s", was_stale ? "stale" : "ended", rc,
		            cohort_last_error());
	return rc == COHORT_STALE;
}

static void ask_again(const struct life *life, int rank)
{
	int i, rc;

	for (i = 1; i <= life->given[rank]; i++) {
		rc = cohort_wait(life->comms[rank], (uint64_t)i, 0);
		if (rc != life->answers[rank][i])
			stress_fail("ticket %d returned %d, then %d", i,
			            life->answers[rank][i], rc);
	}
}

static void check_cause(const struct life *life, int rank)
{
	struct cohort_cause cause;

	ranks_must(cohort_comm_cause(life->comms[rank], &cause), "cause");
	if (cause.status != life->status)
		stress_fail("the cause changed from %d to %d", life->status,
		            cause.status);
}

/* Query the devices of the group.  If it has just been respawned, they are
 * those of the next generation, not of @life. */
static void ask_for_devices(const struct life *life)
{
	int r, devices[RANKS] = { 0 };

	ranks_must(cohort_group_devices(life->group, devices), "devices");
	for (r = 0; r < RANKS; r++)
		if (devices[r] < 0 || devices[r] >= RANKS)
			stress_fail("rank %d is on device %d", r, devices[r]);
}

static void caller_main(void *arg, int i)
{
	struct life *life = arg;
	int rank = i % life->size;
	bool is_stale, was_stale = false;

	do {
		is_stale = call_once(life, rank);
		if (was_stale && !is_stale)
			stress_fail(
				"a call returned STALE, then another status");
		was_stale = is_stale;
		ask_again(life, rank);
		check_cause(life, rank);
		ask_for_devices(life);
		contest_fire(&life->contest, 1 + i);
		rank = (rank + 1) % life->size;
		sched_yield();
	} while (!atomic_load(&life->stop));
	atomic_fetch_add(&stale, was_stale);
}

/* ---- rounds ----------------------------------------------------------- */

/* Begin the next generation of @group, or the first of a new group if NULL. */
static struct cohort_group *
life_begin(struct life *life, struct cohort_group *group, uint64_t *seed)
{
	memset(life, 0, sizeof(*life));
	if (group)
		ranks_must(cohort_group_split(group, life->comms), "split");
	else
		group = ranks_small(RANKS, life->comms);
	life->group = group;
	life->size = cohort_group_size(group);
	life->odd_rank = (int)(stress_random(seed) % (unsigned)life->size);
	life->odd_sum = (int)(stress_random(seed) % (SUMS + 1));
	life->is_error = stress_random(seed) % 2;
	contest_begin(&life->contest, life->comms[0]);
	return group;
}

static void life_run(struct life *life, struct cohort_group *group)
{
	struct cohort_cause cause;
	int rc = cohort_group_run(group, worker, life, &cause);
	int expected = life->odd_sum == SUMS ? COHORT_OK
	               : life->is_error      ? COHORT_WORKER
	                                     : COHORT_ABORTED;

	if (rc != expected || cause.status != expected)
		stress_fail("run returned %d, not %d: %s", rc, expected,
		            cohort_last_error());
	if (rc == COHORT_WORKER && cause.rank != life->odd_rank)
		stress_fail("the cause names rank %d, not %d", cause.rank,
		            life->odd_rank);
	life->status = cause.status;
}

/*
 * Respawn if ranks are left to respawn. Otherwise close the group and return
 * NULL.
 */
static struct cohort_group *life_follow(struct life *life, struct crew *callers,
                                        struct cohort_group *group)
{
	if (life->status == COHORT_OK || life->size == 1) {
		ranks_must(cohort_group_close(group), "close");
		contest_end(&life->contest);
		ledger_check();
		return NULL;
	}
	life->has_callers = true;
	crew_begin(callers, life);
	ranks_must(cohort_group_respawn(group, &life->odd_rank, 1), "respawn");
	atomic_store(&life->is_stale, true);
	return group;
}

/* Let the threads that use the previous generation finish. */
static void life_end(struct life *life, struct crew *callers)
{
	if (!life->has_callers)
		return;
	atomic_store(&life->stop, true);
	crew_end(callers);
	life->has_callers = false;
	contest_end(&life->contest);
}

int main(int argc, char **argv)
{
	static struct crew callers;
	static struct life lives[2];
	struct cohort_group *group = NULL;
	unsigned long n, groups = 0;
	uint64_t seed = 11;

	ledger_open();
	crew_start(&callers, CALLERS, caller_main);
	for (n = 0; stress_continue(argc, argv); n++) {
		groups += !group;
		group = life_begin(&lives[n % 2], group, &seed);
		life_run(&lives[n % 2], group);
		life_end(&lives[(n + 1) % 2], &callers);
		group = life_follow(&lives[n % 2], &callers, group);
	}
	life_end(&lives[(n + 1) % 2], &callers);
	ranks_must(cohort_group_close(group), "close");
	ledger_check();
	printf("%lu rounds, %lu groups, %lu callers were told STALE\n", n,
	       groups, (unsigned long)stale);
	return 0;
}
