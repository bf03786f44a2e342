/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Run ranks on the program's own threads, with a supervisor that aborts them,
 * and a respawn
 *
 * Each thread binds its rank and sums numbers with the other threads.  After
 * five sums rank 1 is in trouble: it notifies the supervisor and makes no
 * further calls.  The supervisor fires the abort handle, and the other ranks
 * return from the sum in which they wait.  When all threads have returned, the
 * group is respawned without rank 1 and split again, and new threads compute
 * the remaining five sums.
 *
 *  cc threads.c -lcohort -lpthread && ./a.out
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include <cohort/cohort.h>

#define RANKS 3
#define ROUNDS 10

struct supervisor {
	struct cohort_abort *handle;
	sem_t news;
	int troubled; /* the rank in trouble; -1 if the ranks are done */
	pthread_t thread;
};

struct rank {
	struct cohort_comm *comm;
	struct supervisor *supervisor;
	int first; /* 1 in the first generation, in which rank 1 fails */
	int sums;
	int result;
	pthread_t thread;
};

static void *supervise(void *arg)
{
	struct supervisor *s = arg;
	char reason[64];

	while (sem_wait(&s->news))
		;
	if (s->troubled < 0)
		return NULL;
	snprintf(reason, sizeof(reason), "rank %d is in trouble", s->troubled);
	cohort_abort_fire(s->handle, reason);
	return NULL;
}

static void tell(struct supervisor *s, int troubled)
{
	s->troubled = troubled;
	sem_post(&s->news);
}

/* Sum one number of each rank. */
static int add(struct cohort_comm *comm, int *memory)
{
	uint64_t ticket;
	int rc;

	*memory = cohort_comm_rank(
		comm); /* device memory is host memory on the host platform */
	rc = cohort_all_reduce(comm, memory, memory, 1, COHORT_I32, COHORT_SUM,
	                       cohort_comm_stream(comm), &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, COHORT_FOREVER) : rc;
}

static void work(struct rank *r)
{
	void *memory;

	r->result = cohort_alloc(r->comm, sizeof(int), &memory);
	if (r->result != COHORT_OK)
		return;
	while (r->result == COHORT_OK && r->sums < ROUNDS) {
		if (r->first && cohort_comm_rank(r->comm) == 1 &&
		    r->sums == 5) {
			tell(r->supervisor, 1);
			break;
		}
		r->result = add(r->comm, memory);
		if (r->result == COHORT_OK)
			r->sums++;
	}
	/* Once a wait has returned an error, no operation uses the memory. */
	cohort_free(r->comm, memory);
}

/*
 * Run a rank.  Only because of the bind does the library notice if this thread
 * exits.
 */
static void *rank_main(void *arg)
{
	struct rank *r = arg;

	r->result = cohort_comm_bind(r->comm);
	if (r->result != COHORT_OK)
		return NULL;
	work(r);
	cohort_comm_unbind(r->comm);
	return NULL;
}

/*
 * Run one thread per rank, starting from @sums.  Return the number of sums that
 * all ranks have completed; some ranks may have completed one more.
 */
static int run(struct supervisor *s, struct cohort_comm *comms[], int n,
               int sums)
{
	struct rank ranks[RANKS];
	int i, least = ROUNDS;

	for (i = 0; i < n; i++) {
		ranks[i] = (struct rank){ .comm = comms[i],
			                  .supervisor = s,
			                  .first = n == RANKS,
			                  .sums = sums };
		pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]);
	}
	for (i = 0; i < n; i++) {
		pthread_join(ranks[i].thread, NULL);
		printf("rank %d: %s\n", i, cohort_status_name(ranks[i].result));
		if (ranks[i].sums < least)
			least = ranks[i].sums;
	}
	return least;
}

/* Split the group, and run its ranks under a supervisor. */
static int supervised(struct cohort_group *group, struct supervisor *s,
                      int *sums)
{
	struct cohort_comm *comms[RANKS];
	int rc = cohort_group_split(group, comms);

	if (rc != COHORT_OK)
		return rc;
	s->troubled = -1;
	s->handle = cohort_comm_abort_handle(comms[0]);
	sem_init(&s->news, 0, 0);
	pthread_create(&s->thread, NULL, supervise, s);
	*sums = run(s, comms, cohort_group_size(group), *sums);
	if (s->troubled < 0)
		tell(s, -1);
	pthread_join(s->thread, NULL);
	sem_destroy(&s->news);
	cohort_abort_put(s->handle);
	return COHORT_OK;
}

int main(void)
{
	struct cohort_group_options options;
	struct cohort_group *group;
	struct cohort_cause cause;
	struct supervisor s;
	int rc, sums = 0;

	cohort_group_options_init(&options);
	options.platform = COHORT_PLATFORM_HOST;
	rc = cohort_group_open(NULL, RANKS, &options, &group);
	if (rc != COHORT_OK) {
		fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	rc = supervised(group, &s, &sums);
	cohort_group_cause(group, &cause);
	printf("%.*s\n", (int)strcspn(cause.text, ";"), cause.text);
	/* A fired handle blames no rank, but the supervisor knows the rank. */
	if (rc == COHORT_OK && s.troubled >= 0)
		rc = cohort_group_respawn(group, &s.troubled, 1);
	if (rc == COHORT_OK)
		rc = supervised(group, &s, &sums);
	if (rc != COHORT_OK)
		fprintf(stderr, "%s\n", cohort_last_error());
	printf("%d sums\n", sums);
	return cohort_group_close(group) == COHORT_OK && sums == ROUNDS ? 0 : 1;
}
