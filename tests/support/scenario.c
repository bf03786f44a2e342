/* SPDX-License-Identifier: Apache-2.0 */

#include "support/scenario.h"

#include <stdlib.h>

#include "platform/platform.h"
#include "support/ranks.h"

#define RANKS 3
#define COUNT 1000
#define STOCK 64

static int keep_first_error(int first, int next)
{
	return first == COHORT_OK ? next : first;
}

/* Enqueue a list of every kind, each of two tensors. */
static int queue_lists(struct cohort_comm *c, float *memory)
{
	void *stream = cohort_comm_stream(c);
	const struct cohort_tensor same[] = {
		{ memory, memory, 1, COHORT_F32 },
		{ memory + 1, memory + 1, COUNT, COHORT_F32 },
	};
	int rc = cohort_all_reduce_many(c, same, 2, COHORT_SUM, stream, NULL);

	return rc == COHORT_OK
	               ? cohort_broadcast_many(c, same, 2, 1, stream, NULL)
	               : rc;
}

/* Enqueue collectives and lists on the RANKS * COUNT floats at @memory. */
static int queue_all(struct cohort_comm *c, float *memory)
{
	void *stream = cohort_comm_stream(c);
	float *block = memory + (size_t)cohort_comm_rank(c) * COUNT;
	uint64_t ticket;
	int rc;

	rc = cohort_all_reduce(c, memory, memory, COUNT, COHORT_F32, COHORT_AVG,
	                       stream, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_stream_after(c, ticket, NULL);
	if (rc == COHORT_OK)
		rc = cohort_after_stream(c, NULL);
	if (rc == COHORT_OK)
		rc = cohort_broadcast(c, memory, memory, COUNT, COHORT_F32, 1,
		                      stream, NULL);
	if (rc == COHORT_OK)
		rc = cohort_reduce(c, memory, memory, COUNT, COHORT_F32,
		                   COHORT_MAX, 2, NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_all_gather(c, block, memory, COUNT, COHORT_F32,
		                       stream, NULL);
	if (rc == COHORT_OK)
		rc = cohort_reduce_scatter(c, memory, block, COUNT, COHORT_F32,
		                           COHORT_SUM, stream, NULL);
	if (rc == COHORT_OK)
		rc = queue_lists(c, memory);
	if (rc == COHORT_OK)
		rc = cohort_barrier(c, stream, NULL);
	return rc;
}

/* Enqueue a ring of sends and receives, and an all-to-all, as one batch. */
static int queue_batch(struct cohort_comm *c, float *memory)
{
	int rank = cohort_comm_rank(c);
	int rc = cohort_batch_begin(c), ended;

	if (rc != COHORT_OK)
		return rc;
	rc = cohort_send(c, memory, COUNT / 2, COHORT_F32, (rank + 1) % RANKS,
	                 NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_recv(c, memory + COUNT / 2, COUNT / 2, COHORT_F32,
		                 (rank + RANKS - 1) % RANKS, NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_all_to_all(c, memory + COUNT,
		                       memory + COUNT + RANKS * 10, 10,
		                       COHORT_F32, NULL, NULL);
	ended = cohort_batch_end(c, cohort_comm_stream(c), NULL);
	return keep_first_error(rc, ended);
}

/* Enqueue a gather, a scatter, a batch, and a scaled sum. */
static int queue_more(struct cohort_comm *c, float *memory)
{
	void *stream = cohort_comm_stream(c);
	float *block = memory + (size_t)cohort_comm_rank(c) * COUNT;
	float half = 0.5f;
	int op = -1, rc, destroyed;

	rc = cohort_gather(c, block, memory, COUNT, COHORT_F32, 1, stream,
	                   NULL);
	if (rc == COHORT_OK)
		rc = cohort_scatter(c, memory, block, COUNT, COHORT_F32, 0,
		                    stream, NULL);
	if (rc == COHORT_OK)
		rc = queue_batch(c, memory);
	if (rc == COHORT_OK)
		rc = cohort_premul_sum_create(c, &half, COHORT_F32,
		                              COHORT_SCALAR_HOST, &op);
	if (rc != COHORT_OK)
		return rc;
	rc = cohort_all_reduce(c, memory, memory, COUNT, COHORT_F32, op, stream,
	                       NULL);
	destroyed = cohort_op_destroy(c, op);
	return keep_first_error(rc, destroyed);
}

/*
 * Split ranks 0 and 1 from the group as a pair, and rank 2 alone. The pair
 * closes its communicators. Rank 2's communicator is closed with the parent.
 */
static int split(struct cohort_comm *c)
{
	int rank = cohort_comm_rank(c), closed;
	struct cohort_comm *child;
	int32_t value = 1;
	int rc = cohort_comm_split(c, rank / 2, 0, &child);

	if (rc != COHORT_OK)
		return rc;
	rc = ranks_sum_wait(child, &value);
	if (rank == 2)
		return rc;
	closed = cohort_comm_close(child);
	return keep_first_error(rc, closed);
}

static int worker(struct cohort_comm *c, void *user)
{
	static const float zeros[RANKS * COUNT];
	void *memory;
	int rc, done;

	rc = cohort_alloc(c, sizeof(zeros), &memory);
	if (rc != COHORT_OK)
		return rc;
	rc = cohort_copy(c, memory, zeros, sizeof(zeros),
	                 cohort_comm_stream(c));
	if (rc == COHORT_OK)
		rc = queue_all(c, memory);
	if (rc == COHORT_OK)
		rc = queue_more(c, memory);
	if (rc == COHORT_OK)
		rc = split(c);
	/*
	 * The memory must not be freed before the enqueued operations are done.
	 * If this rank has failed, it and its peers may wait for each other, so
	 * abort the group.
	 */
	if (rc != COHORT_OK)
		cohort_group_abort(user, "the scenario's rank failed");
	done = cohort_synchronize(c, RANKS_SOON);
	if (done != COHORT_WEDGED)
		cohort_free(c, memory);
	return keep_first_error(rc, done);
}

static int one_sum(struct cohort_comm *c, void *user)
{
	int32_t value = 1;

	(void)user;
	return ranks_sum_wait(c, &value);
}

static int sum_for_all(struct cohort_group *group)
{
	int32_t value[RANKS] = { 1, 2, 3 };
	const void *send[RANKS];
	void *recv[RANKS];
	uint64_t ticket;
	int r, rc;

	for (r = 0; r < RANKS; r++)
		send[r] = recv[r] = &value[r];
	rc = cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                             COHORT_SUM, NULL, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_group_wait(group, ticket, RANKS_SOON);
	return rc;
}

/* Run a group, then its next generation without the last rank. */
static int two_generations(const struct cohort_group_options *o, int *closed)
{
	static const int lost = RANKS - 1;
	struct cohort_group *group;
	int rc = cohort_group_open(NULL, RANKS, o, &group);

	if (rc != COHORT_OK)
		return rc;
	rc = sum_for_all(group);
	if (rc == COHORT_OK)
		rc = cohort_group_run(group, worker, group, NULL);
	if (rc == COHORT_OK)
		rc = cohort_group_abort(group, "the scenario goes on");
	if (rc == COHORT_OK)
		rc = cohort_group_respawn(group, &lost, 1);
	if (rc == COHORT_OK)
		rc = cohort_group_run(group, one_sum, NULL, NULL);
	*closed = cohort_group_close(group);
	return keep_first_error(rc, *closed);
}

/* Join by id as the only rank. */
static int join(const struct cohort_group_options *o, int *closed)
{
	struct cohort_unique_id id;
	struct cohort_comm *c;
	int rc = cohort_unique_id(COHORT_PLATFORM_AUTO, &id);

	if (rc != COHORT_OK)
		return rc;
	rc = cohort_comm_join(&id, 1, 0, 0, o, &c);
	if (rc != COHORT_OK) {
		/* Use the id in a second join, because the platform stores ids
		 * until they are used. */
		if (cohort_comm_join(&id, 1, 0, 0, o, &c) == COHORT_OK)
			cohort_comm_close(c);
		return rc;
	}
	rc = one_sum(c, NULL);
	*closed = cohort_comm_close(c);
	return keep_first_error(rc, *closed);
}

static int ignore(const struct cohort_verdict *verdict, void *user)
{
	(void)verdict;
	(void)user;
	return 0;
}

void scenario_stock(void)
{
	const struct platform *p;
	cudaStream_t streams[STOCK];
	cudaEvent_t events[STOCK];
	int i;

	ranks_must(platform_open(COHORT_PLATFORM_HOST, &p), "platform");
	for (i = 0; i < STOCK; i++)
		ranks_must((int)p->cudaStreamCreate(&streams[i]) +
		                   (int)p->cudaEventCreate(&events[i]),
		           "streams and events");
	for (i = 0; i < STOCK; i++)
		ranks_must((int)p->cudaStreamDestroy(streams[i]) +
		                   (int)p->cudaEventDestroy(events[i]),
		           "streams and events");
}

int scenario(int *closed)
{
	struct cohort_group_options o;
	int rc;

	*closed = COHORT_OK;
	place_choose();
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = UINT64_C(1000000000);
	o.on_verdict = ignore;
	rc = two_generations(&o, closed);
	return rc == COHORT_OK ? join(&o, closed) : rc;
}
