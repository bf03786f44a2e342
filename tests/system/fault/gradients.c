/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks that a step of a reducer neither allocates nor leaks memory
 *
 * Every rank has two reducers, one plain and one with all options. It first
 * runs some steps with each, in which the host platform allocates memory that
 * it keeps, and the reducer recomputes its plan. Then it runs steps whose
 * allocations are counted, and joins the last of them without data. In
 * addition, every allocation in the creation of a reducer fails once.
 */

#include <pthread.h>
#include <stdio.h>

#include "sim/cuda/memory_table.h"
#include "support/heap.h"
#include "support/model.h"
#include "support/ranks.h"

#define RANKS 4
#define ROUNDS 100

/* Return the number of blocks in use, without memory that strict mode keeps. */
static long live_blocks(void)
{
	return heap_live() - (long)memory_kept();
}

static pthread_barrier_t all;
static unsigned long before, after;
static long live;

static int step(struct cohort_reducer *r, struct cohort_comm *comm, int k)
{
	int i, order[MODEL_PARAMETERS], rank = cohort_comm_rank(comm);
	int rc = cohort_reducer_begin(r, NULL);

	model_shuffle(order, (uint64_t)(k * RANKS + rank));
	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		rc = cohort_reducer_ready(r, (size_t)order[i]);
	return rc == COHORT_OK ? cohort_reducer_finish(r, RANKS_SOON) : rc;
}

/* Run a weighted step in which some ranks join without data, and odd ranks
 * leave parameter 0 unused. */
static int full_step(struct cohort_reducer *r, struct cohort_comm *comm, int k)
{
	int i, rc, rank = cohort_comm_rank(comm);

	if (rank && (rank + k) % 3 == 0)
		return cohort_reducer_join(r, RANKS_SOON);
	rc = cohort_reducer_begin_weighted(r, 1.0 + rank,
	                                   cohort_comm_stream(comm));
	for (i = rank % 2; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		rc = cohort_reducer_ready(r, (size_t)i);
	return rc == COHORT_OK ? cohort_reducer_finish(r, RANKS_SOON) : rc;
}

static void steps(struct model_rank *plain, struct model_rank *full, int n)
{
	int i, k;

	for (k = 0; k < n; k++) {
		ranks_must(step(plain->reducer, plain->comm, k), "step");
		ranks_must(full_step(full->reducer, full->comm, k), "step");
		for (i = 0; i < MODEL_PARAMETERS; i++)
			model_set(full, (uint64_t)k, i, 1.0);
	}
}

static void await_all(unsigned long *count)
{
	if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD)
		*count = heap_allocations();
	pthread_barrier_wait(&all);
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct model *models = user;
	struct model_rank plain, full;

	ranks_must(model_open(&plain, &models[0], comm), "create");
	ranks_must(model_open(&full, &models[1], comm), "create");
	steps(&plain, &full, 10);
	await_all(&before);
	steps(&plain, &full, ROUNDS);
	await_all(&after);
	ranks_must(model_close(&plain), "free");
	ranks_must(model_close(&full), "free");
	return 0;
}

/* Check that a failed creation of a reducer leaks nothing. */
static int fail_each(struct cohort_comm *comm, const struct model *m)
{
	struct cohort_parameter p[MODEL_PARAMETERS];
	struct cohort_reducer *r = NULL;
	unsigned long n;
	long was;
	int i, rc;

	for (i = 0; i < MODEL_PARAMETERS; i++)
		p[i] = (struct cohort_parameter){ model_name(i), NULL,
			                          model_count(i), m->type };
	for (n = 1;; n++) {
		was = live_blocks();
		heap_fail_at(n);
		rc = cohort_reducer_create(comm, p, MODEL_PARAMETERS,
		                           &m->options, &r);
		heap_fail_at(0);
		if (rc == COHORT_OK)
			break;
		if ((rc != COHORT_NO_MEMORY && rc != COHORT_NCCL) ||
		    live_blocks() != was) {
			printf("allocation %lu: %d (%s), %ld blocks more\n", n,
			       rc, cohort_last_error(), live_blocks() - was);
			return 1;
		}
	}
	ranks_must(cohort_reducer_free(r), "free");
	/* Subtract 1 for the table of sums, which the platform keeps. */
	live = live_blocks() - was - 1;
	printf("%lu allocations of create failed, %ld blocks are left\n", n - 1,
	       live);
	return n < 5 || live > 0;
}

int main(void)
{
	struct model models[2] = { model_of(RANKS), model_of(RANKS) };
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group;
	int failed;

	models[1].options.weighted = 1;
	models[1].options.find_unused = 1;
	pthread_barrier_init(&all, NULL, RANKS);
	group = ranks_open(RANKS, NULL);
	ranks_must(cohort_group_run(group, worker, models, NULL), "run");
	ranks_must(cohort_group_close(group), "close");
	printf("%lu allocations in %d rounds\n", after - before, ROUNDS);
	group = ranks_split(RANKS, NULL, comms);
	failed = fail_each(comms[0], &models[1]);
	ranks_must(cohort_group_close(group), "close");
	return failed || after != before || !before;
}
