/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Let a supervisor decide what a hang means
 *
 * The ranks sum numbers.  In round 2, rank 1 is busy for longer than the
 * deadline: the watchdog calls decide(), which decides to wait.  In round 4,
 * rank 1 is lost: decide() ends the generation, and the group continues without
 * rank 1.  Both times, a thread prints what the ranks are doing.
 *
 *  cc supervisor.c -lcohort && ./a.out
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cohort/cohort.h>

#define RANKS 3
#define ROUNDS 8

/* State of rank 1, which the program knows and the library does not. */
enum { WELL, BUSY, LOST };

struct run {
	atomic_int state;
	sem_t go_on;

	struct cohort_group *group;
	sem_t look; /* wakes the supervisor */
	atomic_bool is_over;
};

/*
 * Print what the ranks are doing whenever rank 1 stops calling.  A snapshot can
 * be taken at any time.
 */
static void *supervise(void *arg)
{
	struct cohort_rank_report ranks[RANKS];
	struct run *run = arg;
	int r;

	for (;;) {
		while (sem_wait(&run->look))
			;
		if (atomic_load(&run->is_over))
			return NULL;
		if (cohort_group_snapshot(run->group, ranks, RANKS,
		                          sizeof(ranks[0])) != COHORT_OK)
			fprintf(stderr, "%s\n", cohort_last_error());
		for (r = 0; r < cohort_group_size(run->group); r++)
			fprintf(stderr, "%s\n", ranks[r].text);
	}
}

/*
 * Decide about a verdict.  Runs on a thread of the library, with no lock held.
 *
 * Returns: 0 to continue to wait, 1 to end the generation
 */
static int decide(const struct cohort_verdict *verdict, void *user)
{
	struct run *run = user;
	int state;

	if (verdict->stage != COHORT_STAGE_EXPIRED)
		return 0;
	state = atomic_exchange(&run->state, WELL);
	if (state == WELL)
		return 0;
	printf("rank %d, %s: %s\n", verdict->rank,
	       cohort_verdict_text(verdict->kind),
	       state == BUSY ? "wait on" : "end it");
	sem_post(&run->go_on);
	return state == LOST;
}

static void be_away(struct run *run, int state)
{
	atomic_store(&run->state, state);
	sem_post(&run->look);
	while (sem_wait(&run->go_on))
		;
}

static int work(struct cohort_comm *comm, void *user)
{
	int round, sum = 0, rc = COHORT_OK;
	uint64_t ticket;
	void *memory;

	if (cohort_alloc(comm, sizeof(sum), &memory) != COHORT_OK)
		return 1;
	for (round = 0; round < ROUNDS && rc == COHORT_OK; round++) {
		if (cohort_comm_generation(comm) == 1 &&
		    cohort_comm_rank(comm) == 1 && (round == 2 || round == 4))
			be_away(user, round == 2 ? BUSY : LOST);
		*(int *)memory =
			round; /* device memory is host memory on the host platform */
		rc = cohort_all_reduce(comm, memory, memory, 1, COHORT_I32,
		                       COHORT_SUM, cohort_comm_stream(comm),
		                       &ticket);
		if (rc == COHORT_OK)
			rc = cohort_wait(comm, ticket, COHORT_FOREVER);
		if (rc == COHORT_OK)
			sum += *(int *)memory;
	}
	if (rc == COHORT_OK)
		printf("generation %d, rank %d, which was %d: %d\n",
		       cohort_comm_generation(comm), cohort_comm_rank(comm),
		       cohort_comm_origin(comm), sum);
	cohort_free(comm, memory);
	return rc;
}

int main(void)
{
	struct cohort_group_options options;
	struct cohort_group *group;
	struct cohort_cause cause;
	static struct run run;
	pthread_t supervisor;
	int lost[RANKS], n, rc;

	sem_init(&run.go_on, 0, 0);
	sem_init(&run.look, 0, 0);
	cohort_group_options_init(&options);
	options.platform = COHORT_PLATFORM_HOST;
	options.policy = COHORT_POLICY_ASK;
	options.on_verdict = decide;
	options.user = &run;
	options.deadlines.join_ns = 100000000;
	if (cohort_group_open(NULL, RANKS, &options, &group) != COHORT_OK) {
		fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	run.group = group;
	if (pthread_create(&supervisor, NULL, supervise, &run))
		return 1;
	while ((rc = cohort_group_run(group, work, &run, &cause)) !=
	       COHORT_OK) {
		printf("lost: rank %d of generation %d\n", cause.rank,
		       cohort_group_generation(group));
		n = cohort_group_lost(group, lost, RANKS);
		if (n == 0 || cohort_group_respawn(group, lost, n) != COHORT_OK)
			break;
	}
	atomic_store(&run.is_over, 1);
	sem_post(&run.look);
	pthread_join(supervisor, NULL);
	return cohort_group_close(group) == COHORT_OK && rc == COHORT_OK ? 0
	                                                                 : 1;
}
