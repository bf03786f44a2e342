/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the reducer with weights, with ranks that have no batches left, and
 * with unused parameters
 */

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "support/expect.h"
#include "support/model.h"
#include "support/ranks.h"

TestSuite(reducer_weights, .timeout = 60);

/* ---- weights ---------------------------------------------------------- */

static double weight_of(int rank, uint64_t step)
{
	return (double)((rank * 5 + (int)step * 3) % 7);
}

static int weigh(struct model_rank *rank, uint64_t step)
{
	int r = cohort_comm_rank(rank->comm);
	double w = weight_of(r, step);
	int i, rc = cohort_reducer_begin_weighted(
		       rank->reducer, w, cohort_comm_stream(rank->comm));

	for (i = MODEL_PARAMETERS - 1; i >= 0 && rc == COHORT_OK; i--) {
		/* A gradient with weight 0 can have any value. */
		model_set(rank, step, i, w == 0.0 ? (double)NAN : 1.0);
		rc = cohort_reducer_ready(rank->reducer, (size_t)i);
	}
	return rc == COHORT_OK
	               ? cohort_reducer_finish(rank->reducer, RANKS_SOON)
	               : rc;
}

/*
 * Return whether @got is within the header's error bound, (size + 2) * u *
 * sum(|factor * g|), plus a small margin for second-order errors.
 */
static bool is_near(const struct model *m, uint64_t step, int i, size_t k,
                    double got)
{
	double sum = 0.0, exact = 0.0, most = 0.0, g, w, u;
	int r;

	for (r = 0; r < m->size; r++)
		sum += weight_of(r, step);
	if (m->options.op == COHORT_SUM)
		sum = 1.0;
	for (r = 0; r < m->size; r++) {
		w = weight_of(r, step) / sum;
		g = (float)model_value(r, step, i, k);
		if (m->type == COHORT_F64)
			g = model_value(r, step, i, k);
		exact += w * g;
		most += fabs(w * g);
	}
	u = m->type == COHORT_F64 ? 0x1p-53 : 0x1p-24;
	return fabs(got - exact) <= (m->size + 2.01) * u * most;
}

static int weighted(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	double values[MODEL_MOST];
	struct model_rank rank;
	uint64_t step;
	size_t k;
	int i, rc = model_open(&rank, m, comm);

	for (step = 0; step < 5 && rc == COHORT_OK; step++) {
		rc = weigh(&rank, step);
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++) {
			model_get(&rank, i, values);
			for (k = 0; k < model_count(i); k++)
				if (!is_near(m, step, i, k, values[k]))
					return 100;
		}
	}
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_weights, weighted_mean_is_within_the_documented_error)
{
	struct model m = model_of(3);

	m.options.weighted = 1;
	expect_run(3, weighted, &m);
	m.type = COHORT_F64;
	expect_run(3, weighted, &m);
	m.options.op = COHORT_SUM;
	expect_run(3, weighted, &m);
}

/* Check the bits of the result, which can be computed from the factors. */
static int weighted_exactly(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model_rank rank;
	float factors[MODEL_RANKS];
	double sum = 0.0;
	int r, rc = model_open(&rank, m, comm);

	for (r = 0; r < m->size; r++)
		sum += weight_of(r, 4);
	for (r = 0; r < m->size; r++)
		factors[r] = (float)(weight_of(r, 4) / sum);
	if (rc == COHORT_OK)
		rc = weigh(&rank, 4);
	if (rc == COHORT_OK && model_wrong(&rank, 4, factors, 1.0f))
		return 100;
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_weights, weight_factor_is_rounded_once)
{
	struct model m = model_of(4);

	place_need_our_nccl("an order of additions");
	m.options.weighted = 1;
	expect_run(4, weighted_exactly, &m);
}

/*
 * Use a factor slightly above the midpoint of two half-precision floats.
 * Rounding it to float32 first would give the midpoint.
 */
static int weighted_by_almost_a_tie(struct cohort_comm *comm, void *user)
{
	const int is_bf16 = *(const int *)user == COHORT_BF16;
	const double w = 1.0 + (is_bf16 ? 0x1p-8 : 0x1p-11) + 0x1p-40;
	const uint16_t one = is_bf16 ? 0x3f80 : 0x3c00;
	uint16_t gradient = one;
	const struct cohort_parameter p = { NULL, &gradient, 1,
		                            *(const int *)user };
	struct cohort_reducer_options o;
	struct cohort_reducer *r;
	int rc, rank = cohort_comm_rank(comm);

	cohort_reducer_options_init(&o);
	o.weighted = 1;
	o.op = COHORT_SUM;
	rc = cohort_reducer_create(comm, &p, 1, &o, &r);
	if (rc == COHORT_OK)
		rc = cohort_reducer_begin_weighted(r, rank ? 0.0 : w, NULL);
	if (rc == COHORT_OK)
		rc = cohort_reducer_ready(r, 0);
	if (rc == COHORT_OK)
		rc = cohort_reducer_finish(r, RANKS_SOON);
	if (rc == COHORT_OK && gradient != one + 1)
		return gradient;
	return rc == COHORT_OK ? cohort_reducer_free(r) : rc;
}

Test(reducer_weights, weight_factor_of_float16_gradients_is_rounded_once)
{
	int type;

	place_need_host("plain memory");
	type = COHORT_F16;
	expect_run(2, weighted_by_almost_a_tie, &type);
	type = COHORT_BF16;
	expect_run(2, weighted_by_almost_a_tie, &type);
}

static int weightless(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	double values[MODEL_MOST];
	struct model_rank rank;
	int i, rc = model_open(&rank, m, comm);

	if (rc == COHORT_OK)
		rc = cohort_reducer_begin_weighted(rank.reducer, 0.0, NULL);
	model_set(&rank, 1, 0, 1.0);
	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		rc = cohort_reducer_ready(rank.reducer, (size_t)i);
	if (rc != COHORT_OK ||
	    cohort_reducer_finish(rank.reducer, RANKS_SOON) != COHORT_SKIP)
		return 100;
	model_get(&rank, 0, values);
	if ((float)values[0] !=
	    (float)model_value(cohort_comm_rank(comm), 1, 0, 0))
		return 101;
	rc = weigh(&rank, 4);
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_weights, step_is_skipped_if_all_weights_are_0)
{
	struct model m = model_of(2);

	m.options.weighted = 1;
	expect_run(2, weightless, &m);
}

/* ---- uneven batches --------------------------------------------------- */

/* Give rank r 3 * r batches of one sample each. */
static int uneven(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model_rank rank;
	double values[MODEL_MOST], want;
	int i, r = cohort_comm_rank(comm), other, ranks;
	uint64_t step;
	int rc = model_open(&rank, m, comm);

	for (step = 0; rc == COHORT_OK; step++) {
		if (step < 3 * (uint64_t)r) {
			rc = cohort_reducer_begin_weighted(rank.reducer, 1.0,
			                                   NULL);
			for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK;
			     i++) {
				model_set(&rank, step, i, 1.0);
				rc = cohort_reducer_ready(rank.reducer,
				                          (size_t)i);
			}
			if (rc == COHORT_OK)
				rc = cohort_reducer_finish(rank.reducer,
				                           RANKS_SOON);
		} else {
			while ((rc = cohort_reducer_join(rank.reducer, 1)) ==
			       COHORT_TIMED_OUT)
				;
		}
		if (rc != COHORT_OK)
			break;
		want = 0.0;
		ranks = 0;
		for (other = 0; other < m->size; other++)
			if (step < 3 * (uint64_t)other) {
				want += (float)model_value(other, step, 2, 9);
				ranks++;
			}
		model_get(&rank, 2, values);
		if (fabs(values[9] - want / ranks) > 1e-6)
			return 100 + (int)step;
		if (m->options.find_unused &&
		    cohort_reducer_used(rank.reducer, 3) != 1)
			return 99;
	}
	if (rc != COHORT_JOINED || step != 3 * (uint64_t)(m->size - 1))
		return rc ? rc : 98;
	return model_close(&rank);
}

Test(reducer_weights, rank_without_batches_left_joins_steps_until_all_are_done)
{
	struct model m = model_of(3);

	m.options.weighted = 1;
	expect_run(3, uneven, &m);
	m.options.find_unused = 1;
	expect_run(3, uneven, &m);
}

/* ---- unused parameters ------------------------------------------------ */

/*
 * Return whether @rank has a gradient of parameter @i. It has one if bit @rank
 * of i % 4 is 0. No rank has one of parameter 3.
 */
static bool has(int rank, int i)
{
	return i != 3 && (i % 4 & (1 << rank)) == 0;
}

static int unused(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model_rank rank;
	double values[MODEL_MOST], want;
	int i, r, rc = COHORT_OK, self = cohort_comm_rank(comm);
	uint64_t step;
	size_t k;

	rc = model_open(&rank, m, comm);
	for (step = 0; step < 4 && rc == COHORT_OK; step++) {
		rc = cohort_reducer_begin(rank.reducer, NULL);
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++) {
			model_set(&rank, step, i, 1.0);
			if (has(self, i))
				rc = cohort_reducer_ready(rank.reducer,
				                          (size_t)i);
		}
		while (rc == COHORT_OK &&
		       (rc = cohort_reducer_finish(rank.reducer, 1)) ==
		               COHORT_TIMED_OUT)
			rc = COHORT_OK;
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++) {
			if (cohort_reducer_used(rank.reducer, (size_t)i) !=
			    (has(0, i) || has(1, i)))
				return 100;
			model_get(&rank, i, values);
			for (k = 0; k < model_count(i); k++) {
				want = 0.0;
				for (r = 0; r < 2; r++)
					if (has(r, i))
						want += (float)model_value(
							r, step, i, k);
				if ((float)values[k] != (float)(want / 2))
					return 101;
			}
		}
		if (rc == COHORT_OK && step < 3)
			rc = COHORT_OK;
	}
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_weights, gradients_of_unused_parameters_count_as_zeros)
{
	struct model m = model_of(2);

	m.options.find_unused = 1;
	expect_run(2, unused, &m);
}
