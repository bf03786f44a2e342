/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks that no collective allocates memory after the first one of its kind
 *
 * Every rank makes its calls twice. In the first pass, the host platform
 * allocates memory that it keeps. The second pass is counted. In the second
 * pass, some ranks also run ahead of the others, so that more operations are in
 * flight than ever before.
 */

#include <pthread.h>
#include <stdio.h>

#include "support/heap.h"
#include "support/ranks.h"

#define RANKS 4
#define COUNT 5000
#define ROUNDS 200
#define AHEAD 300
#define BATCH 300
#define IN_FLIGHT 20

static pthread_barrier_t all;
static unsigned long before, after;

/* Send and receive between pairs of ranks, both in a batch and outside, and
 * make the collectives whose buffers have a block for each rank. */
static void transfers(struct cohort_comm *c, float *data)
{
	int rank = cohort_comm_rank(c);
	void *stream = cohort_comm_stream(c);

	ranks_must(cohort_batch_begin(c), "batch");
	cohort_send(c, data, COUNT, COHORT_F32, (rank + 1) % RANKS, NULL, NULL);
	cohort_recv(c, data + COUNT, COUNT, COHORT_F32,
	            (rank + RANKS - 1) % RANKS, NULL, NULL);
	ranks_must(cohort_batch_end(c, stream, NULL), "batch");
	ranks_must(rank % 2 ? cohort_recv(c, data, 1, COHORT_F32, rank - 1,
	                                  stream, NULL)
	                    : cohort_send(c, data, 1, COHORT_F32, rank + 1,
	                                  stream, NULL),
	           "transfer");
	cohort_gather(c, data, data + COUNT, 100, COHORT_F32, 1, stream, NULL);
	cohort_scatter(c, data, data + COUNT, 100, COHORT_F32, 2, stream, NULL);
	cohort_all_to_all(c, data, data + COUNT, 100, COHORT_F32, stream, NULL);
}

/* Make several hundred calls as one operation. */
static void batch(struct cohort_comm *c, float *data)
{
	size_t i;

	ranks_must(cohort_batch_begin(c), "batch");
	for (i = 0; i < BATCH; i++)
		ranks_must(cohort_all_reduce(c, data + i, data + i, 1,
		                             COHORT_F32, COHORT_MAX, NULL,
		                             NULL),
		           "all_reduce");
	ranks_must(cohort_batch_end(c, cohort_comm_stream(c), NULL), "batch");
}

/* Make calls with host memory, both without and with a timeout. */
static void host_memory(struct cohort_comm *c, float *data, float *block)
{
	ranks_must(cohort_all_reduce_host(c, data, COUNT, COHORT_F32,
	                                  COHORT_MAX, COHORT_FOREVER),
	           "all_reduce_host");
	ranks_must(cohort_all_gather_host(c, block, data, COUNT, COHORT_F32,
	                                  RANKS_SOON),
	           "all_gather_host");
	ranks_must(cohort_reduce_scatter_host(c, data, block, COUNT, COHORT_F32,
	                                      COHORT_MAX, RANKS_SOON),
	           "reduce_scatter_host");
}

static void collectives(struct cohort_comm *c, float *data)
{
	void *stream = cohort_comm_stream(c);
	float *block = data + (size_t)cohort_comm_rank(c) * COUNT;
	const struct cohort_tensor list[] = {
		{ data, data, 3, COHORT_F32 },
		{ data + 5, data + 5, 1000, COHORT_F32 },
		{ data + 2000, data + 2000, COUNT, COHORT_F32 },
	};
	uint64_t ticket;

	cohort_all_reduce(c, data, data, COUNT, COHORT_F32, COHORT_MAX, stream,
	                  &ticket);
	ranks_must(cohort_wait(c, ticket, RANKS_SOON), "wait");
	cohort_broadcast(c, data, data, COUNT, COHORT_F32, 0, stream, NULL);
	cohort_reduce(c, data, data, COUNT, COHORT_F32, COHORT_MIN, 1, NULL,
	              NULL);
	cohort_all_gather(c, block, data, COUNT, COHORT_F32, stream, NULL);
	cohort_reduce_scatter(c, data, block, COUNT, COHORT_F32, COHORT_MAX,
	                      stream, NULL);
	cohort_all_reduce_many(c, list, 3, COHORT_MAX, stream, NULL);
	cohort_copy(c, data, block, sizeof(float), stream);
	batch(c, data);
	host_memory(c, data, block);
	transfers(c, data);
	ranks_must(cohort_barrier(c, stream, NULL), "barrier");
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
}

/* Queue all operations of the odd ranks before the even ranks begin. */
static void run_ahead(struct cohort_comm *c, float *data)
{
	int i, rank = cohort_comm_rank(c);

	if (rank % 2 == 0)
		pthread_barrier_wait(&all);
	for (i = 0; i < AHEAD; i++)
		ranks_must(cohort_all_reduce(c, data, data, 1, COHORT_F32,
		                             COHORT_MAX, cohort_comm_stream(c),
		                             NULL),
		           "all_reduce");
	if (rank % 2 == 1)
		pthread_barrier_wait(&all);
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
}

/*
 * Have as many batches in flight as there can be operations, so that the
 * platform has allocated everything that batches need. The batches are of the
 * odd ranks if @odd is true, otherwise of the even ranks.
 */
static void many_batches(struct cohort_comm *c, float *data, int odd)
{
	int i, rank = cohort_comm_rank(c);

	if (rank % 2 != odd)
		pthread_barrier_wait(&all);
	for (i = 0; i < IN_FLIGHT; i++)
		batch(c, data);
	if (rank % 2 == odd)
		pthread_barrier_wait(&all);
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
}

static int worker(struct cohort_comm *c, void *user)
{
	static float data[RANKS][RANKS * COUNT];
	int i, rank = cohort_comm_rank(c);

	(void)user;
	for (i = 0; i < 10; i++)
		collectives(c, data[rank]);
	many_batches(c, data[rank], 0);
	many_batches(c, data[rank], 1);
	if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD)
		before = heap_allocations();
	pthread_barrier_wait(&all);
	for (i = 0; i < ROUNDS; i++)
		collectives(c, data[rank]);
	run_ahead(c, data[rank]);
	if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD)
		after = heap_allocations();
	pthread_barrier_wait(&all);
	return 0;
}

int main(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	struct cohort_group *group;

	pthread_barrier_init(&all, NULL, RANKS);
	group = ranks_open(RANKS, NULL);
	/*
	 * If ranks launch together, no rank can run ahead, so the first pass
	 * cannot have as many operations in flight as the second one.
	 */
	cohort_platform_probe(cohort_group_platform(group), &info);
	if (info.launch == COHORT_LAUNCH_TOGETHER) {
		puts("ranks cannot run ahead of others: they launch together");
		return 77;
	}
	if (!heap_allocations()) {
		printf("allocations are not counted\n");
		return 1;
	}
	ranks_must(cohort_group_run(group, worker, NULL, NULL), "run");
	ranks_must(cohort_group_close(group), "close");
	printf("%lu allocations in %d rounds\n", after - before, ROUNDS);
	return after != before;
}
