/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the reducer with shards: steps, and parameters that are gathered
 * from the shards
 */

#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/model.h"
#include "support/ranks.h"
#include "support/spread.h"

TestSuite(reducer_shard, .timeout = 60);

static int step(struct model_rank *rank, uint64_t number)
{
	int order[MODEL_PARAMETERS];
	int k, rc, r = cohort_comm_rank(rank->comm);
	void *stream = cohort_comm_stream(rank->comm);

	model_shuffle(order, number * 64 + (uint64_t)r);
	rc = rank->model->options.weighted
	             ? cohort_reducer_begin_weighted(rank->reducer, 1.0 + r,
	                                             stream)
	             : cohort_reducer_begin(rank->reducer, stream);
	for (k = 0; k < MODEL_PARAMETERS && rc == COHORT_OK; k++) {
		model_set(rank, number, order[k], 1.0);
		rc = cohort_reducer_ready(rank->reducer, (size_t)order[k]);
	}
	return rc == COHORT_OK
	               ? cohort_reducer_finish(rank->reducer, RANKS_SOON)
	               : rc;
}

/* ---- shards ----------------------------------------------------------- */

/* Return whether the shard of parameter @i in @part equals the corresponding
 * part of @all. */
static bool is_same(struct model_rank *part, struct model_rank *all, int i)
{
	double some[MODEL_MOST], whole[MODEL_MOST];
	size_t first, count;

	model_get(part, i, some);
	model_get(all, i, whole);
	ranks_must(cohort_reducer_shard(part->reducer, (size_t)i, &first,
	                                &count),
	           "shard");
	return memcmp(some + first, whole + first, count * sizeof(double)) == 0;
}

/* Run equal steps with and without shards, and compare the results. */
static int beside_the_whole(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model plain = *m;
	struct model_rank part, all;
	uint64_t k;
	int i, rc = model_open(&part, m, comm);

	plain.options.sharded = 0;
	if (rc == COHORT_OK)
		rc = model_open(&all, &plain, comm);
	for (k = 0; k < 5 && rc == COHORT_OK; k++) {
		rc = step(&part, k);
		if (rc == COHORT_OK)
			rc = step(&all, k);
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
			if (!is_same(&part, &all, i))
				return 100 + i;
	}
	if (rc == COHORT_OK)
		rc = model_close(&part);
	return rc == COHORT_OK ? model_close(&all) : rc;
}

static struct model sharded(int size)
{
	struct model m = model_of(size);

	m.options.sharded = 1;
	return m;
}

Test(reducer_shard, reducer_shard_equals_its_part_of_an_all_reduce)
{
	struct model m;
	int size;

	place_need_our_nccl("an order of additions");
	for (size = 1; size <= MODEL_RANKS; size++) {
		m = sharded(size);
		expect_run(m.size, beside_the_whole, &m);
		m.views = false;
		m.options.op = COHORT_SUM;
		expect_run(m.size, beside_the_whole, &m);
		m.type = COHORT_F64;
		m.options.first_bytes = m.options.bucket_bytes = 1;
		expect_run(m.size, beside_the_whole, &m);
	}
}

Test(reducer_shard, reducer_shards_work_with_weighted_gradients)
{
	struct model m = sharded(3);

	place_need_our_nccl("an order of additions");
	m.options.weighted = 1;
	expect_run(m.size, beside_the_whole, &m);
}

static int parts(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	size_t first = 77, count = 77, each, rank, last;
	struct model_rank part;
	int i, rc = model_open(&part, m, comm);

	rank = (size_t)cohort_comm_rank(comm);
	last = (size_t)m->size - 1;
	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++) {
		rc = cohort_reducer_shard(part.reducer, (size_t)i, &first,
		                          &count);
		each = model_count(i) / (size_t)m->size;
		if (!m->options.sharded
		            ? first != 0 || count != model_count(i)
		            : first != rank * each ||
		                      count != (rank < last ? each
		                                            : model_count(i) -
		                                                      first))
			return 100 + i;
	}
	if (cohort_reducer_shard(part.reducer, MODEL_PARAMETERS, &first,
	                         &count) != COHORT_INVALID ||
	    cohort_reducer_shard(NULL, 0, &first, &count) != COHORT_INVALID ||
	    cohort_reducer_shard(part.reducer, 0, NULL, &count) !=
	            COHORT_INVALID ||
	    cohort_reducer_shard(part.reducer, 0, &first, NULL) !=
	            COHORT_INVALID)
		return 120;
	return rc == COHORT_OK ? model_close(&part) : rc;
}

Test(reducer_shard, reducer_shards_of_all_ranks_cover_each_parameter)
{
	struct model m = sharded(4);

	expect_run(m.size, parts, &m);
	m.options.sharded = 0;
	expect_run(m.size, parts, &m);
}

/* ---- gather ----------------------------------------------------------- */

static float *allocate(struct cohort_comm *comm)
{
	void *memory;

	ranks_must(cohort_alloc(comm, MODEL_MOST * sizeof(float), &memory),
	           "alloc");
	return memory;
}

static void copy(struct cohort_comm *comm, void *to, const void *from,
                 size_t bytes)
{
	ranks_must(cohort_copy(comm, to, from, bytes, cohort_comm_stream(comm)),
	           "copy");
	ranks_must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
}

/* Fill a parameter's shard with values, and the rest of the parameter with
 * garbage. */
static void set_shard(struct model_rank *rank, int i, uint64_t round,
                      float *memory)
{
	float values[MODEL_MOST];
	size_t k, first, count;

	ranks_must(cohort_reducer_shard(rank->reducer, (size_t)i, &first,
	                                &count),
	           "shard");
	for (k = 0; k < model_count(i); k++)
		values[k] = k >= first && k < first + count
		                    ? (float)model_value(0, round, i, k)
		                    : -77.0f;
	copy(rank->comm, memory, values, model_count(i) * sizeof(float));
}

static bool is_whole(struct model_rank *rank, int i, uint64_t round,
                     const float *memory)
{
	float values[MODEL_MOST];
	size_t k;

	copy(rank->comm, values, memory, model_count(i) * sizeof(float));
	for (k = 0; k < model_count(i); k++)
		if (values[k] != (float)model_value(0, round, i, k))
			return false;
	return true;
}

/* Gather the parameters. In round 2, poll with a timeout of 0. */
static int gather(struct model_rank *rank, void *const *parameters,
                  uint64_t round)
{
	void *stream = round % 2 ? NULL : cohort_comm_stream(rank->comm);
	int rc;

	while ((rc = cohort_reducer_gather(rank->reducer, parameters, stream,
	                                   round == 2 ? 0 : RANKS_SOON)) ==
	               COHORT_TIMED_OUT &&
	       round == 2)
		;
	return rc;
}

static int gathers(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	void *parameters[MODEL_PARAMETERS];
	struct model_rank rank;
	uint64_t round;
	int i, rc = model_open(&rank, m, comm);

	for (i = 0; i < MODEL_PARAMETERS; i++)
		parameters[i] = allocate(comm);
	for (round = 0; round < 4 && rc == COHORT_OK; round++) {
		/* The first gather computes the new plan. */
		rc = step(&rank, round);
		for (i = 0; i < MODEL_PARAMETERS; i++)
			set_shard(&rank, i, round, parameters[i]);
		if (rc == COHORT_OK)
			rc = gather(&rank, parameters, round);
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
			if (!is_whole(&rank, i, round, parameters[i]))
				return 100 + i;
	}
	if (rc == COHORT_OK)
		rc = cohort_barrier(comm, cohort_comm_stream(comm), NULL);
	if (rc == COHORT_OK)
		rc = cohort_synchronize(comm, RANKS_SOON);
	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		rc = cohort_free(comm, parameters[i]);
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_shard, shards_are_gathered_into_parameters)
{
	struct model m;
	int size;

	for (size = 1; size <= MODEL_RANKS; size++) {
		m = sharded(size);
		expect_run(m.size, gathers, &m);
	}
}

/* Run steps in which a stream waits for shards. The first gather computes the
 * new plan. */
static int gathers_on_streams(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	void *parameters[MODEL_PARAMETERS], *stream = cohort_comm_stream(comm);
	struct model_rank rank;
	uint64_t round;
	int i, rc = model_open(&rank, m, comm);

	for (i = 0; i < MODEL_PARAMETERS; i++)
		parameters[i] = allocate(comm);
	for (round = 0; round < 3 && rc == COHORT_OK; round++) {
		rc = cohort_reducer_begin(rank.reducer, stream);
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
			rc = cohort_reducer_ready(rank.reducer, (size_t)i);
		if (rc == COHORT_OK)
			rc = cohort_reducer_finish_on(rank.reducer, NULL);
		for (i = 0; i < MODEL_PARAMETERS; i++)
			set_shard(&rank, i, round, parameters[i]);
		if (rc == COHORT_OK)
			rc = cohort_reducer_gather(rank.reducer, parameters,
			                           NULL, RANKS_SOON);
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
			if (!is_whole(&rank, i, round, parameters[i]))
				return 100 + i;
		/*
		 * Gradients become ready in ascending order, so the plan must
		 * have this order.
		 */
		if (rc == COHORT_OK && cohort_reducer_bucket(rank.reducer, 0))
			return 120;
	}
	if (rc == COHORT_OK)
		rc = cohort_barrier(comm, stream, NULL);
	if (rc == COHORT_OK)
		rc = cohort_synchronize(comm, RANKS_SOON);
	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		rc = cohort_free(comm, parameters[i]);
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_shard, shards_are_gathered_after_finish_on)
{
	struct model m = sharded(3);

	expect_run(m.size, gathers_on_streams, &m);
}

static int refusals(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model plain = *m;
	void *none[MODEL_PARAMETERS] = { NULL };
	void *stream = cohort_comm_stream(comm);
	struct model_rank part, all;
	int rc = model_open(&part, m, comm);

	plain.options.sharded = 0;
	if (rc == COHORT_OK)
		rc = model_open(&all, &plain, comm);
	if (rc != COHORT_OK)
		return rc;
	if (cohort_reducer_gather(NULL, none, stream, 0) != COHORT_INVALID ||
	    cohort_reducer_gather(part.reducer, NULL, stream, 0) !=
	            COHORT_INVALID ||
	    cohort_reducer_gather(all.reducer, none, stream, 0) !=
	            COHORT_INVALID ||
	    !strstr(cohort_last_error(), "not sharded") ||
	    cohort_reducer_gather(part.reducer, none, stream, 0) !=
	            COHORT_INVALID ||
	    !strstr(cohort_last_error(), "parameters[0] is NULL"))
		return 100;
	none[0] = &part;
	if (cohort_reducer_gather(part.reducer, none, stream, 0) !=
	            COHORT_INVALID ||
	    !strstr(cohort_last_error(), model_name(1)))
		return 101;
	rc = model_close(&part);
	return rc == COHORT_OK ? model_close(&all) : rc;
}

Test(reducer_shard, reducer_shard_and_gather_refuse_invalid_arguments)
{
	struct model m = sharded(1);

	expect_run(m.size, refusals, &m);
}

static int state(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	static float memory[MODEL_PARAMETERS][MODEL_MOST];
	void *parameters[MODEL_PARAMETERS];
	void *stream = cohort_comm_stream(comm);
	struct model_rank rank;
	int i, rc = model_open(&rank, m, comm);

	for (i = 0; i < MODEL_PARAMETERS; i++)
		parameters[i] = memory[i];
	if (rc == COHORT_OK)
		rc = cohort_reducer_begin(rank.reducer, stream);
	if (rc != COHORT_OK)
		return rc;
	if (cohort_reducer_gather(rank.reducer, parameters, stream, 0) !=
	    COHORT_STATE)
		return 100;
	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		rc = cohort_reducer_ready(rank.reducer, (size_t)i);
	if (rc == COHORT_OK)
		rc = cohort_reducer_finish(rank.reducer, RANKS_SOON);
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_shard, reducer_gather_is_refused_while_a_step_is_open)
{
	struct model m = sharded(1);

	expect_run(m.size, state, &m);
}

/* ---- gathers that wait ------------------------------------------------ */

/* true after rank 0's gather has timed out because the other rank is missing */
SPREAD_SHARED static atomic_bool reported;

static int waits(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	void *parameters[MODEL_PARAMETERS];
	void *stream = cohort_comm_stream(comm);
	struct model_rank rank;
	int i, rc = model_open(&rank, m, comm);

	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < MODEL_PARAMETERS; i++)
		parameters[i] = allocate(comm);
	for (i = 0; i < MODEL_PARAMETERS; i++)
		set_shard(&rank, i, 7, parameters[i]);
	if (cohort_comm_rank(comm) == 0) {
		if (cohort_reducer_gather(rank.reducer, parameters, stream,
		                          0) != COHORT_TIMED_OUT ||
		    cohort_reducer_begin(rank.reducer, stream) !=
		            COHORT_STATE ||
		    !strstr(cohort_last_error(), "a gather is not done"))
			rc = 100;
		atomic_store(&reported, true);
	}
	while (!atomic_load(&reported))
		sched_yield();
	if (rc == COHORT_OK)
		rc = cohort_reducer_gather(rank.reducer, parameters, stream,
		                           RANKS_SOON);
	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		if (!is_whole(&rank, i, 7, parameters[i]))
			rc = 110 + i;
	if (rc == COHORT_OK)
		rc = step(&rank, 1);
	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		rc = cohort_free(comm, parameters[i]);
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_shard, reducer_gather_that_timed_out_can_be_waited_for_again)
{
	struct model m = sharded(2);

	place_need_no_sync(
		"a rank that launches ahead loads kernels beside its "
		"own launch");
	/* Launch ahead, so that rank 0's first wait can end before the other
	 * rank calls. */
	ranks_launch_ahead();
	expect_run(m.size, waits, &m);
}
