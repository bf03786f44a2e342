/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reducer: the norm, clipping, and values that are not finite
 */

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "support/model.h"
#include "support/ranks.h"
#include "support/spread.h"

TestSuite(reducer_found, .timeout = 60);

SPREAD_SHARED static double norms[MODEL_RANKS];
SPREAD_SHARED static struct spread_barrier have_norms;

static int step(struct model_rank *rank, uint64_t number)
{
	int i, rc = cohort_reducer_begin(rank->reducer, NULL);

	for (i = MODEL_PARAMETERS - 1; i >= 0 && rc == COHORT_OK; i--)
		rc = cohort_reducer_ready(rank->reducer, (size_t)i);
	(void)number;
	return rc == COHORT_OK
	               ? cohort_reducer_finish(rank->reducer, RANKS_SOON)
	               : rc;
}

static void set_all(struct model_rank *rank, uint64_t number, double by)
{
	int i;

	for (i = 0; i < MODEL_PARAMETERS; i++)
		model_set(rank, number, i, by);
}

/* The norm of the exact means. */
static double exact_norm(const struct model *m, uint64_t number)
{
	double sum, squares = 0.0;
	size_t k;
	int i, r;

	for (i = 0; i < MODEL_PARAMETERS; i++)
		for (k = 0; k < model_count(i); k++) {
			sum = 0.0;
			for (r = 0; r < m->size; r++)
				sum += model_value(r, number, i, k);
			squares += sum / m->size * (sum / m->size);
		}
	return sqrt(squares);
}

/*
 * The norm of @number as it came out, computed by one thread in the order of
 * the list.
 */
static double norm_of(struct model_rank *rank)
{
	double values[MODEL_MOST], squares = 0.0;
	size_t k;
	int i;

	for (i = 0; i < MODEL_PARAMETERS; i++) {
		model_get(rank, i, values);
		for (k = 0; k < model_count(i); k++)
			squares += values[k] * values[k];
	}
	return sqrt(squares);
}

static int clipped(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	double norm, most = m->options.max_norm;
	struct model_rank rank;
	uint64_t k;
	int rc = model_open(&rank, m, comm);

	for (k = 0; k < 3 && rc == COHORT_OK; k++) {
		set_all(&rank, k, 1.0);
		rc = step(&rank, k);
		if (rc != COHORT_OK)
			return rc;
		norm = cohort_reducer_norm(rank.reducer);
		if (fabs(norm - exact_norm(m, k)) > 1e-6 * norm)
			return 100;
		if (most > 0.0 && norm > most)
			norm = most;
		if (fabs(norm_of(&rank) - norm) > 1e-6 * norm)
			return 101;
	}
	norms[cohort_comm_rank(comm)] = cohort_reducer_norm(rank.reducer);
	spread_wait(&have_norms, m->size);
	return model_close(&rank);
}

static void clip_to(struct model *m, double most)
{
	struct cohort_group *group = ranks_open(m->size, NULL);
	struct cohort_cause cause;
	int r;

	m->options.max_norm = most;
	cr_assert_eq(cohort_group_run(group, clipped, m, &cause), COHORT_OK,
	             "%s", cause.text);
	for (r = 1; r < m->size; r++)
		cr_assert(norms[r] == norms[0], "not the same on every rank");
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(reducer_found, the_norm_is_the_same_on_every_rank_and_clips)
{
	struct model m = model_of(3);

	clip_to(&m, 1.5);
	clip_to(&m, 1e9);
	m.type = COHORT_F64;
	clip_to(&m, 1.5);
	m.options.check_finite = 1;
	clip_to(&m, 0.0);
}

Test(reducer_found, the_norm_does_not_depend_on_the_plan)
{
	struct model m = model_of(2);
	double before;

	place_need_our_nccl("an order of additions");
	clip_to(&m, 1.5);
	before = norms[0];
	m.options.bucket_bytes = 1;
	m.options.keep_plan = 1;
	clip_to(&m, 1.5);
	cr_assert(norms[0] == before);
}

/* One value of one rank is not finite in odd steps. */
static int infinite(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model_rank rank;
	uint64_t k;
	double by;
	int rc = model_open(&rank, m, comm), want;

	for (k = 0; k < 6 && rc == COHORT_OK; k++) {
		set_all(&rank, k, 1.0);
		by = k == 1   ? (double)INFINITY
		     : k == 3 ? (double)NAN
		     : k == 5 ? 1e39 /* 1e309, as float64 */
		              : 1.0;
		if (cohort_comm_rank(comm) == m->size - 1)
			model_set(&rank, k, 3, by);
		want = k % 2 ? COHORT_SKIP : COHORT_OK;
		if (k == 5 && m->type == COHORT_F64)
			want = COHORT_OK;
		rc = step(&rank, k);
		if (rc != want)
			return rc ? rc : 100;
		rc = COHORT_OK;
	}
	return model_close(&rank);
}

static void skip_steps(struct model *m)
{
	struct cohort_group *group = ranks_open(m->size, NULL);
	struct cohort_cause cause;

	cr_assert_eq(cohort_group_run(group, infinite, m, &cause), COHORT_OK,
	             "%s", cause.text);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(reducer_found, values_that_are_not_finite_make_all_ranks_skip)
{
	struct model m = model_of(3);

	m.options.check_finite = 1;
	skip_steps(&m);
	m.type = COHORT_F64;
	skip_steps(&m);
	m.type = COHORT_F32;
	m.options.check_finite = 0;
	m.options.max_norm = 1.0;
	skip_steps(&m);
}

static int overflowing(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model_rank rank;
	int rc = model_open(&rank, m, comm);

	if (rc != COHORT_OK)
		return rc;
	set_all(&rank, 0, 1e6);
	if (step(&rank, 0) != COHORT_SKIP)
		return 100;
	set_all(&rank, 1, 1.0);
	rc = step(&rank, 1);
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer_found, values_that_are_too_large_for_halves_make_all_ranks_skip)
{
	struct model m = model_of(2);
	struct cohort_group *group;
	struct cohort_cause cause;

	place_need_built_in("a transport by halves");
	m.options.transport = COHORT_F16;
	m.options.check_finite = 1;
	group = ranks_open(2, NULL);
	cr_assert_eq(cohort_group_run(group, overflowing, &m, &cause),
	             COHORT_OK, "%s", cause.text);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

/* ---- in pieces -------------------------------------------------------- */

#define FLOATS ((size_t)3 * 1024 * 1024) /* three pieces */

static const struct platform *native;
static float *gradients[2];
static char order[2][16]; /* for each rank: fetched, stored */

/* Note copies of gradients to and from the host's stage. */
static cudaError_t note_copy(void *dst, const void *src, size_t bytes,
                             enum cudaMemcpyKind kind, cudaStream_t stream)
{
	int r;

	for (r = 0; r < 2 && bytes > 1024; r++) {
		const float *g = gradients[r];
		const bool from = (const float *)src >= g &&
		                  (const float *)src < g + FLOATS;
		const bool to = (float *)dst >= g && (float *)dst < g + FLOATS;

		if ((from || to) && strlen(order[r]) < sizeof(order[r]) - 1)
			strcat(order[r], from ? "f" : "s");
	}
	return native->cudaMemcpyAsync(dst, src, bytes, kind, stream);
}

static int clip_a_large_one(struct cohort_comm *comm, void *user)
{
	const int rank = cohort_comm_rank(comm);
	struct cohort_parameter p = { .count = FLOATS, .type = COHORT_F32 };
	struct cohort_reducer_options o;
	struct cohort_reducer *r;
	float *g;
	size_t i;

	(void)user;
	cohort_reducer_options_init(&o);
	o.max_norm = 1.0;
	ranks_must(cohort_alloc(comm, FLOATS * sizeof(float), &p.gradient),
	           "alloc");
	g = gradients[rank] = p.gradient;
	for (i = 0; i < FLOATS; i++)
		g[i] = 1.0F;
	ranks_must(cohort_reducer_create(comm, &p, 1, &o, &r), "create");
	ranks_must(cohort_reducer_begin(r, NULL), "begin");
	ranks_must(cohort_reducer_ready(r, 0), "ready");
	ranks_must(cohort_reducer_finish(r, RANKS_SOON), "finish");
	cr_assert_eq(cohort_reducer_norm(r), sqrt((double)FLOATS));
	for (i = 0; i < FLOATS; i++)
		if (g[i] != (float)(1.0 / sqrt((double)FLOATS)))
			return 100;
	ranks_must(cohort_reducer_free(r), "free");
	gradients[rank] = NULL;
	return cohort_free(comm, g);
}

/*
 * For the norm each rank fetches its half.  Clipping fetches everything, each
 * next piece before it stores one.
 */
Test(reducer_found, gradients_go_through_the_host_in_pieces_two_at_a_time)
{
	static struct platform table;
	struct cohort_group *group;
	struct cohort_cause cause;
	int r;

	if (place_platform() != COHORT_PLATFORM_GPU)
		place_skip("the host's memory is looked at where it is");
	place_need_host("memory of a device that the test reads");
	native = place_table();
	table = *native;
	table.cudaMemcpyAsync = note_copy;
	platform_override(&table);
	group = ranks_open(2, NULL);
	cr_assert_eq(cohort_group_run(group, clip_a_large_one, NULL, &cause),
	             COHORT_OK, "%s", cause.text);
	for (r = 0; r < 2; r++)
		cr_assert_str_eq(order[r], "ffffsfss");
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}
