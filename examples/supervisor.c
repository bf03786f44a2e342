/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A supervisor that decides what a hang means
 *
 * The ranks sum numbers.  In its third round rank 1 is busy for longer than the deadline:
 * the watchdog asks, and the supervisor answers that it should wait.  In its fifth round
 * rank 1 is lost: a thread of the program prints what the ranks are doing, and then the
 * group is aborted and goes on without the rank.
 *
 *	cc supervisor.c -lcohort && ./a.out
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cohort/cohort.h>

#define RANKS 3
#define ROUNDS 8

/* What the program knows about rank 1, and the library does not. */
enum { WELL, BUSY, LOST };

struct run {
	atomic_int state;
	sem_t go_on;

	struct cohort_group *group;
	sem_t look; /* tells the supervisor to look */
	atomic_bool is_over;
};

/* A supervisor may look at any time; this one looks when a rank is away. */
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

/* Called on a thread of the group, with no lock held. 0 means: wait. */
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
