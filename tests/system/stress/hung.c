/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls from bound threads while their group is aborted and closed, and after
 * that
 *
 * In every round, a thread for each rank binds that rank, in some rounds also a
 * child communicator, and sums numbers until the group has ended. Then it makes
 * calls of any kind, and finally unbinds or exits. The group is aborted, in
 * some rounds respawned, and then closed as soon as the library sees no thread
 * in a call. This test checks the status of each call. Sanitizers and strict
 * mode check the rest.
 */

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 3
#define CALLS 30

struct rank {
	struct cohort_comm *comm;
	uint64_t seed;
	bool splits;
	pthread_t thread;
};

static pthread_barrier_t bound;

static void must_be(int rc, int a, int b, int c, const char *what)
{
	if (rc != a && rc != b && rc != c)
		stress_fail("%s: %d: %s", what, rc, cohort_last_error());
}

/* Make a call after the cause. The group is open, being closed, or closed. */
static void call_late(struct cohort_comm *comm, uint64_t *seed)
{
	struct cohort_cause cause;
	void *memory;
	int rc;

	switch (stress_random(seed) % 6) {
	case 0:
		must_be(cohort_barrier(comm, NULL, NULL), COHORT_ABORTED,
		        COHORT_STALE, COHORT_STALE, "barrier");
		break;
	case 1:
		rc = cohort_alloc(comm, 64, &memory);
		must_be(rc, COHORT_OK, COHORT_OK, COHORT_OK, "alloc");
		must_be(cohort_free(comm, memory), COHORT_OK, COHORT_OK,
		        COHORT_OK, "free");
		break;
	case 2:
		must_be(cohort_synchronize(comm, RANKS_SOON), COHORT_OK,
		        COHORT_ABORTED, COHORT_ABORTED, "synchronize");
		break;
	case 3:
		must_be(cohort_comm_cause(comm, &cause), COHORT_OK, COHORT_OK,
		        COHORT_OK, "cause");
		if (cause.status != COHORT_ABORTED)
			stress_fail("the cause has status %d", cause.status);
		break;
	case 4:
		must_be(cohort_comm_fail(comm, 1, "late"), COHORT_ALREADY,
		        COHORT_ALREADY, COHORT_ALREADY, "fail");
		break;
	default:
		must_be(cohort_tag(comm, "late"), COHORT_OK, COHORT_OK,
		        COHORT_OK, "tag");
	}
}

/*
 * Call the child. The call succeeds until the child has ended with its parent,
 * unless a bound thread exits first.
 */
static void call_child(struct cohort_comm *child)
{
	int rc = cohort_barrier(child, NULL, NULL);

	if (rc != COHORT_THREAD_EXITED)
		must_be(rc, COHORT_OK, COHORT_ABORTED, COHORT_STALE,
		        "barrier of the child");
}

static void *rank_main(void *arg)
{
	struct rank *rank = arg;
	struct cohort_comm *comm = rank->comm, *child = NULL;
	unsigned i, n = stress_random(&rank->seed) % CALLS;
	int32_t value;
	int rc;

	ranks_must(cohort_comm_bind(comm), "bind");
	pthread_barrier_wait(&bound);
	if (rank->splits &&
	    cohort_comm_split(comm, 0, 0, &child) == COHORT_OK &&
	    stress_random(&rank->seed) % 2)
		must_be(cohort_comm_bind(child), COHORT_OK, COHORT_STALE,
		        COHORT_STALE, "bind the child");
	do {
		value = 1;
		rc = ranks_sum_wait(comm, &value);
	} while (rc == COHORT_OK);
	must_be(rc, COHORT_ABORTED, COHORT_STALE, COHORT_STALE, "sum");
	for (i = 0; i < n; i++) {
		call_late(comm, &rank->seed);
		if (child && i % 4 == 0)
			call_child(child);
	}
	/* Without an unbind the child stays bound until the thread exits. */
	if (stress_random(&rank->seed) % 2)
		ranks_must(cohort_comm_unbind(comm), "unbind");
	return NULL;
}

/* Close the group as soon as the library sees no thread in a call. */
static void close_group(struct cohort_group *group)
{
	int rc;

	while ((rc = cohort_group_close(group)) == COHORT_STATE)
		sched_yield();
	ranks_must(rc, "close");
}

static void one_round(unsigned long number, uint64_t *seed)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group = ranks_small(RANKS, comms);
	struct rank ranks[RANKS];
	int i;

	for (i = 0; i < RANKS; i++) {
		ranks[i] = (struct rank){
			.comm = comms[i],
			.seed = ((uint64_t)stress_random(seed) << 32) + 1,
			.splits = number % 2,
		};
		pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]);
	}
	pthread_barrier_wait(&bound);
	stress_spin(stress_random(seed) % 100000);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	if (number % 4 > 1)
		ranks_must(cohort_group_respawn(group, NULL, 0), "respawn");
	close_group(group);
	for (i = 0; i < RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
}

int main(int argc, char **argv)
{
	unsigned long n;
	uint64_t seed = 5;

	pthread_barrier_init(&bound, NULL, RANKS + 1);
	for (n = 0; stress_continue(argc, argv); n++)
		one_round(n, &seed);
	printf("%lu rounds\n", n);
	return 0;
}
