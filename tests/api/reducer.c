/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the reducer: steps, plans, and refused calls
 */

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/model.h"
#include "support/ranks.h"
#include "support/reference.h"
#include "support/stress.h"

TestSuite(reducer, .timeout = 60);

/* ---- exact results ---------------------------------------------------- */

/*
 * Run a step in which gradients become ready in a random order, which differs
 * between ranks.
 */
static int step(struct model_rank *rank, uint64_t number)
{
	int order[MODEL_PARAMETERS];
	int k, rc;

	model_shuffle(order,
	              number * 64 + (uint64_t)cohort_comm_rank(rank->comm));
	rc = cohort_reducer_begin(rank->reducer,
	                          cohort_comm_stream(rank->comm));
	for (k = 0; k < MODEL_PARAMETERS && rc == COHORT_OK; k++) {
		model_set(rank, number, order[k], 1.0);
		rc = cohort_reducer_ready(rank->reducer, (size_t)order[k]);
	}
	return rc == COHORT_OK
	               ? cohort_reducer_finish(rank->reducer, RANKS_SOON)
	               : rc;
}

static int steps_of_any_order(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model_rank rank;
	uint64_t k;
	int rc = model_open(&rank, m, comm);

	for (k = 0; k < 5 && rc == COHORT_OK; k++) {
		rc = step(&rank, k);
		if (rc == COHORT_OK &&
		    model_wrong(&rank, k, NULL,
		                m->options.op == COHORT_AVG ? (float)m->size
		                                            : 1.0f))
			return 100;
	}
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer, gradient_means_equal_sequential_addition_in_rank_order)
{
	struct model m = model_of(3);

	place_need_our_nccl("an order of additions");
	expect_run(3, steps_of_any_order, &m);
}

Test(reducer, gradient_sums_equal_sequential_addition_in_rank_order)
{
	struct model m = model_of(4);

	place_need_our_nccl("an order of additions");
	m.options.op = COHORT_SUM;
	m.views = false;
	expect_run(4, steps_of_any_order, &m);
}

Test(reducer, reducer_of_one_rank_leaves_gradients_unchanged)
{
	struct model m = model_of(1);

	expect_run(1, steps_of_any_order, &m);
}

Test(reducer, reducer_buckets_may_have_any_size)
{
	struct model m = model_of(2);

	place_need_our_nccl("an order of additions");
	m.options.first_bytes = m.options.bucket_bytes = 1;
	expect_run(2, steps_of_any_order, &m);
	m.options.first_bytes = m.options.bucket_bytes = 0;
	expect_run(2, steps_of_any_order, &m);
}

/* ---- plans ------------------------------------------------------------ */

/* Run a step in which gradients become ready in list order on rank 0, and in
 * reverse order on the other ranks. */
static int forward_step(struct model_rank *rank)
{
	bool is_first = cohort_comm_rank(rank->comm) == 0;
	int i, rc = cohort_reducer_begin(rank->reducer,
	                                 cohort_comm_stream(rank->comm));

	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		rc = cohort_reducer_ready(
			rank->reducer,
			(size_t)(is_first ? i : MODEL_PARAMETERS - 1 - i));
	return rc == COHORT_OK
	               ? cohort_reducer_finish(rank->reducer, RANKS_SOON)
	               : rc;
}

static bool is_in_order(const struct cohort_reducer *r, bool reverse)
{
	int i, a, b;

	for (i = 1; i < MODEL_PARAMETERS; i++) {
		a = cohort_reducer_bucket(r, (size_t)i - 1);
		b = cohort_reducer_bucket(r, (size_t)i);
		if (reverse ? a < b : a > b)
			return false;
	}
	return cohort_reducer_buckets(r) > 2;
}

static int plans(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	const void *views[MODEL_PARAMETERS];
	struct model_rank rank;
	size_t i;
	int k, rc = model_open(&rank, m, comm);

	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < MODEL_PARAMETERS; i++)
		views[i] = cohort_reducer_view(rank.reducer, i);
	if (!is_in_order(rank.reducer, true))
		return 100;
	for (k = 0; k < 3 && rc == COHORT_OK; k++) {
		rc = forward_step(&rank);
		if (rc == COHORT_OK &&
		    !is_in_order(rank.reducer, m->options.keep_plan))
			return 101 + k;
	}
	for (i = 0; i < MODEL_PARAMETERS; i++)
		if (cohort_reducer_view(rank.reducer, i) != views[i])
			return 110;
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer, reducer_replans_buckets_by_the_order_of_rank_0)
{
	struct model m = model_of(3);

	expect_run(3, plans, &m);
}

Test(reducer, reducer_keeps_its_first_plan_with_keep_plan)
{
	struct model m = model_of(2);

	m.options.keep_plan = 1;
	expect_run(2, plans, &m);
}

static int mixed(struct cohort_comm *comm, void *user)
{
	static int32_t ints[2][5];
	static double doubles[2][3];
	static float floats[2][4];
	int i, r = cohort_comm_rank(comm), rc;
	const struct cohort_parameter p[] = {
		{ NULL, ints[r], 5, COHORT_I32 },
		{ "", doubles[r], 3, COHORT_F64 },
		{ "x", floats[r], 4, COHORT_F32 },
	};
	struct cohort_reducer_options o;
	struct cohort_reducer *reducer;

	(void)user;
	cohort_reducer_options_init(&o);
	o.op = COHORT_SUM;
	rc = cohort_reducer_create(comm, p, 3, &o, &reducer);
	if (rc == COHORT_OK)
		rc = cohort_reducer_begin(reducer, NULL);
	ints[r][4] = 10 + r;
	doubles[r][2] = 0.5;
	floats[r][3] = 0.25f;
	for (i = 0; i < 3 && rc == COHORT_OK; i++)
		rc = cohort_reducer_ready(reducer, (size_t)i);
	if (rc == COHORT_OK)
		rc = cohort_reducer_finish(reducer, RANKS_SOON);
	if (rc == COHORT_OK &&
	    (ints[r][4] != 21 || doubles[r][2] != 1.0 || floats[r][3] != 0.5f ||
	     cohort_reducer_buckets(reducer) != 3))
		return 100;
	return rc == COHORT_OK ? cohort_reducer_free(reducer) : rc;
}

Test(reducer, reducer_bucket_holds_gradients_of_one_type)
{
	expect_run(2, mixed, NULL);
}

/* ---- accumulation, streams -------------------------------------------- */

static int accumulating(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model_rank rank;
	double values[MODEL_MOST];
	int i, k, rc = model_open(&rank, m, comm);

	for (k = 0; k <= cohort_comm_rank(comm) && rc == COHORT_OK; k++) {
		rc = cohort_reducer_accumulate(rank.reducer);
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++) {
			model_set(&rank, 3, i, 1.0 + k);
			rc = cohort_reducer_ready(rank.reducer, (size_t)i);
		}
		if (rc == COHORT_OK)
			rc = cohort_reducer_finish(rank.reducer, 0);
		model_get(&rank, 0, values);
		if ((float)values[1] !=
		    (float)((1.0 + k) *
		            model_value(cohort_comm_rank(comm), 3, 0, 1)))
			return 100;
	}
	/*
	 * Accumulation launches nothing, so this step is the first one with
	 * communication.
	 */
	if (rc == COHORT_OK)
		rc = step(&rank, 7);
	if (rc == COHORT_OK && model_wrong(&rank, 7, NULL, (float)m->size))
		return 101;
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer, reducer_accumulate_needs_no_other_rank)
{
	struct model m = model_of(2);

	place_need_our_nccl("an order of additions");
	expect_run(2, accumulating, &m);
}

static int on_a_stream(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct model_rank rank;
	uint64_t k;
	int i, rc = model_open(&rank, m, comm);

	for (k = 0; k < 4 && rc == COHORT_OK; k++) {
		for (i = 0; i < MODEL_PARAMETERS; i++)
			model_set(&rank, k, i, 1.0);
		rc = cohort_reducer_begin(rank.reducer, NULL);
		for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
			rc = cohort_reducer_ready(rank.reducer, (size_t)i);
		if (rc == COHORT_OK)
			rc = cohort_reducer_finish_on(rank.reducer, NULL);
		if (rc == COHORT_OK)
			rc = cohort_barrier(comm, NULL, NULL);
		if (rc == COHORT_OK)
			rc = cohort_synchronize(comm, RANKS_SOON);
		if (rc == COHORT_OK &&
		    model_wrong(&rank, k, NULL, (float)m->size))
			return 100;
		if (k > 0 && !is_in_order(rank.reducer, false))
			return 101;
	}
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer, reducer_finish_on_makes_a_stream_wait_for_the_step)
{
	struct model m = model_of(2);

	place_need_our_nccl("an order of additions");
	expect_run(2, on_a_stream, &m);
}

/* ---- helpers ---------------------------------------------------------- */

#define HELPERS 3

struct helper {
	struct cohort_reducer *reducer;
	int index;
};

static void *help(void *arg)
{
	const struct helper *h = arg;
	int i;

	for (i = h->index; i < MODEL_PARAMETERS; i += HELPERS)
		ranks_must(cohort_reducer_ready(h->reducer, (size_t)i),
		           "ready");
	return NULL;
}

/* Return the number of bytes in all operations that @comm has launched. */
static uint64_t launched_bytes(struct cohort_comm *comm)
{
	struct cohort_stats stats = { .size = sizeof(stats) };

	ranks_must(cohort_stats(comm, &stats), "stats");
	return stats.bytes;
}

static uint64_t gradient_bytes(const struct model *m)
{
	uint64_t bytes = 0;
	int i;

	for (i = 0; i < MODEL_PARAMETERS; i++)
		bytes += model_count(i) * reference_size(m->type);
	return bytes;
}

static int helped(struct cohort_comm *comm, void *user)
{
	const struct model *m = user;
	struct helper h[HELPERS];
	pthread_t threads[HELPERS];
	struct model_rank rank;
	uint64_t k, before;
	int i, rc = model_open(&rank, m, comm);

	for (k = 0; k < 20 && rc == COHORT_OK; k++) {
		for (i = 0; i < MODEL_PARAMETERS; i++)
			model_set(&rank, k, i, 1.0);
		before = launched_bytes(comm);
		rc = cohort_reducer_begin(rank.reducer,
		                          cohort_comm_stream(comm));
		for (i = 0; i < HELPERS; i++) {
			h[i] = (struct helper){ rank.reducer, i };
			pthread_create(&threads[i], NULL, help, &h[i]);
		}
		if (rc == COHORT_OK && k % 2)
			rc = cohort_reducer_progress(rank.reducer, RANKS_SOON);
		for (i = 0; i < HELPERS; i++)
			pthread_join(threads[i], NULL);
		/*
		 * The communicator is bound and its owner has made no call
		 * since the step began. So only helpers can have launched the
		 * buckets.
		 */
		if (rc == COHORT_OK && m->options.helpers_launch &&
		    launched_bytes(comm) - before < gradient_bytes(m))
			return 101;
		if (rc == COHORT_OK)
			rc = cohort_reducer_finish(rank.reducer, RANKS_SOON);
		if (rc == COHORT_OK &&
		    model_wrong(&rank, k, NULL, (float)m->size))
			return 100;
	}
	return rc == COHORT_OK ? model_close(&rank) : rc;
}

Test(reducer, helper_threads_may_mark_gradients_for_a_bound_owner)
{
	struct model m = model_of(2);

	place_need_our_nccl("an order of additions");
	expect_run(2, helped, &m);
}

Test(reducer, helpers_launch_is_refused_with_per_thread_streams)
{
	const struct cohort_parameter p = { "a", NULL, 1, COHORT_F32 };
	struct cohort_reducer_options o;
	struct cohort_reducer *r;
	struct cohort_comm *comm;
	struct cohort_group *group = ranks_split(1, NULL, &comm);

	cohort_reducer_options_init(&o);
	o.helpers_launch = 1;
	cr_assert_eq(cohort_reducer_create(comm, &p, 1, &o, &r), COHORT_OK);
	expect(cohort_reducer_begin(r, cudaStreamPerThread), COHORT_INVALID,
	       "stream is cudaStreamPerThread, which is a different");
	cr_assert_eq(cohort_reducer_begin(r, NULL), COHORT_OK);
	cr_assert_eq(cohort_reducer_ready(r, 0), COHORT_OK);
	cr_assert_eq(cohort_reducer_finish(r, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_reducer_free(r), COHORT_OK);
	expect_close(group);
}

Test(reducer, helper_threads_can_launch_for_a_bound_owner)
{
	struct model m = model_of(2);

	place_need_our_nccl("an order of additions");
	m.options.helpers_launch = 1;
	expect_run(2, helped, &m);
}

/* ---- abandoned owners -------------------------------------------------- */

struct owner {
	struct cohort_comm *comm;
	struct cohort_reducer *reducer;
	sem_t has_begun, may_go;
};

static void *own(void *arg)
{
	const struct cohort_parameter p = { "a", NULL, 1, COHORT_F32 };
	struct cohort_reducer_options o;
	struct owner *owner = arg;

	cohort_reducer_options_init(&o);
	o.helpers_launch = 1;
	ranks_must(cohort_comm_bind(owner->comm), "bind");
	ranks_must(cohort_reducer_create(owner->comm, &p, 1, &o,
	                                 &owner->reducer),
	           "create");
	ranks_must(cohort_reducer_begin(owner->reducer,
	                                cohort_comm_stream(owner->comm)),
	           "begin");
	sem_post(&owner->has_begun);
	sem_wait(&owner->may_go);
	ranks_must(cohort_reducer_free(owner->reducer), "free");
	ranks_must(cohort_comm_unbind(owner->comm), "unbind");
	return NULL;
}

Test(reducer, helper_may_mark_gradients_after_the_groups_close)
{
	struct owner owner;
	struct cohort_group *group = ranks_split(1, NULL, &owner.comm);
	pthread_t thread;

	sem_init(&owner.has_begun, 0, 0);
	sem_init(&owner.may_go, 0, 0);
	cr_assert_eq(pthread_create(&thread, NULL, own, &owner), 0);
	sem_wait(&owner.has_begun);
	/* A helper may call functions of the reducer, but no other function on
	 * the rank's communicator. */
	expect(cohort_after_stream(owner.comm, NULL), COHORT_OWNER,
	       "bound to thread ");
	cr_assert_eq(cohort_group_abort(group, "a test"), COHORT_OK);
	expect_close(group);
	expect(cohort_reducer_ready(owner.reducer, 0), COHORT_STALE, "closed");
	sem_post(&owner.may_go);
	pthread_join(thread, NULL);
}

/* ---- invalid arguments ------------------------------------------------ */

static struct cohort_comm *comms[2];

static void refuse(const struct cohort_parameter *p, size_t n,
                   const struct cohort_reducer_options *o, int rc,
                   const char *text)
{
	struct cohort_reducer *r = NULL;

	expect(cohort_reducer_create(comms[0], p, n, o, &r), rc, text);
	cr_assert_null(r);
}

Test(reducer, reducer_create_names_the_invalid_argument)
{
	struct cohort_group *group = ranks_split(2, NULL, comms);
	struct cohort_parameter p[2] = { { "a", NULL, 1, COHORT_F32 },
		                         { "b", NULL, 1, COHORT_I32 } };
	struct cohort_reducer_options o, o0;
	struct cohort_reducer *r;

	cohort_reducer_options_init(&o0);
	expect(cohort_reducer_create(NULL, p, 2, NULL, &r), COHORT_INVALID,
	       "comm is NULL");
	expect(cohort_reducer_create(comms[0], p, 2, NULL, NULL),
	       COHORT_INVALID, "reducer is NULL");
	refuse(NULL, 2, NULL, COHORT_INVALID, "parameters is NULL");
	refuse(p, 0, NULL, COHORT_INVALID, "n is 0");
	o = o0;
	o.size = 3;
	refuse(p, 2, &o, COHORT_INVALID, "options->size is 3");
	o = o0;
	o.reserved[6] = 1;
	refuse(p, 2, &o, COHORT_INVALID, "does not support");
	o = o0;
	o.op = COHORT_MAX;
	refuse(p, 2, &o, COHORT_INVALID, "options->op is 2");
	o = o0;
	o.weighted = 1;
	refuse(p, 2, &o, COHORT_INVALID,
	       "parameters[1].type is int32, but options.weighted needs");
	refuse(p, 2, &o0, COHORT_INVALID,
	       "parameters[1].type is int32, but COHORT_AVG needs a "
	       "floating-point type");
	p[1].type = 99;
	refuse(p, 2, &o0, COHORT_INVALID, "parameters[1].type is 99");
	p[1] = p[0];
	p[1].count = SIZE_MAX / 2;
	refuse(p, 2, &o0, COHORT_INVALID, "parameters[1].count is");
	p[1].gradient = (void *)(UINTPTR_MAX - 63);
	p[1].count = 16;
	refuse(p, 2, &o0, COHORT_INVALID,
	       "reaches past the end of the address space");
	p[1].name = "model.encoder.日本語日本語.日本語日本語.weight";
	refuse(p, 2, &o0, COHORT_INVALID,
	       "parameters[1] 'model.encoder.日本語日本語.日...': count");
	expect_close(group);
}

#define MANY 12

/*
 * Return a small count, or a count near a parameter's maximum or near a
 * fraction of that maximum.
 */
static size_t large_count(uint64_t *seed, size_t size)
{
	unsigned bits = (unsigned)(stress_random(seed) % 3);

	if (stress_random(seed) % 3 == 0)
		return stress_random(seed) % 100;
	return (SIZE_MAX / 4 / size >> bits) - stress_random(seed) % 100;
}

/* Return the expected result of create for @n parameters, and store the text of
 * its error in @text. */
static int judge(const struct cohort_parameter *p, size_t n, char *text,
                 size_t size)
{
	size_t i, room = 0, bytes;

	for (i = 0; i < n; i++) {
		bytes = p[i].count * cohort_type_size(p[i].type);
		bytes = (bytes + 63) / 64 * 64;
		snprintf(text, size,
		         "parameters[%zu] '%s': count is %zu, which makes", i,
		         p[i].name, p[i].count);
		if (bytes > SIZE_MAX - room)
			return COHORT_INVALID;
		room += bytes;
	}
	*text = '\0';
	/* No process has an address space of 2^58 bytes. */
	return room >> 58 ? COHORT_NO_MEMORY : COHORT_OK;
}

static struct platform real;

/*
 * Refuse large allocations here, because a sanitizer's allocator would print a
 * message about them.
 */
static cudaError_t refuse_much(void **memory, size_t bytes)
{
	return bytes >> 57 ? cudaErrorMemoryAllocation
	                   : real.cudaMalloc(memory, bytes);
}

Test(reducer, reducer_create_refuses_counts_whose_sum_is_too_large)
{
	static struct platform table;
	static const char *const names[MANY] = { "a", "b", "c", "d", "e", "f",
		                                 "g", "h", "i", "j", "k", "l" };
	static const int types[] = { COHORT_U8, COHORT_F16, COHORT_F32,
		                     COHORT_F64 };
	struct cohort_group *group;
	int k, rc, reported[3] = { 0 };
	struct cohort_parameter p[MANY];
	struct cohort_reducer_options o;
	struct cohort_reducer *r;
	uint64_t seed = 1;
	char text[128];
	size_t i, n;

	table = real = *place_open(2);
	table.cudaMalloc = refuse_much;
	platform_override(&table);
	group = ranks_split(2, NULL, comms);
	for (k = 0; k < 400; k++) {
		n = 1 + stress_random(&seed) % MANY;
		for (i = 0; i < n; i++) {
			p[i].type = types[stress_random(&seed) % 4];
			p[i].name = names[i];
			p[i].gradient = NULL;
			p[i].count =
				large_count(&seed, cohort_type_size(p[i].type));
		}
		cohort_reducer_options_init(&o);
		o.op = COHORT_SUM; /* uint8 has no mean */
		o.sharded = stress_random(&seed) % 2;
		o.full_buckets = stress_random(&seed) % 2;
		if (stress_random(&seed) % 2)
			o.first_bytes = o.bucket_bytes = SIZE_MAX;
		rc = judge(p, n, text, sizeof(text));
		reported[rc == COHORT_OK ? 0 : rc == COHORT_INVALID ? 1 : 2]++;
		if (rc != COHORT_OK) {
			refuse(p, n, &o, rc, text);
			continue;
		}
		cr_assert_eq(cohort_reducer_create(comms[0], p, n, &o, &r),
		             COHORT_OK, "%s", cohort_last_error());
		cr_assert_eq(cohort_reducer_free(r), COHORT_OK);
	}
	for (k = 0; k < 3; k++)
		cr_assert_gt(reported[k], 9, "%d: %d", k, reported[k]);
	expect_close(group);
}

/* ---- callers of other versions ---------------------------------------- */

/* Reducer options, with room for fields of a later version */
union options {
	struct cohort_reducer_options o;
	unsigned char bytes[sizeof(struct cohort_reducer_options) + 64];
};

static int create(const union options *u, struct cohort_reducer **r)
{
	static const struct cohort_parameter p = { "a", NULL, 1, COHORT_F32 };

	*r = NULL;
	return cohort_reducer_create(comms[0], &p, 1, &u->o, r);
}

/* Return default options for a caller that knows only @size bytes of them. All
 * further bytes are garbage. */
static union options options_up_to(size_t size)
{
	union options u;

	memset(&u, 0x5a, sizeof(u));
	cohort_reducer_options_init(&u.o);
	memset(u.bytes + size, 0x5a, sizeof(u) - size);
	u.o.size = size;
	return u;
}

Test(reducer, reducer_accepts_options_of_other_versions)
{
	struct cohort_group *group = ranks_split(2, NULL, comms);
	const size_t whole = sizeof(struct cohort_reducer_options);
	const size_t reserved =
		offsetof(struct cohort_reducer_options, reserved);
	struct cohort_reducer *r;
	union options u;
	size_t size;

	/*
	 * An older caller can pass any size.
	 */
	for (size = sizeof(size_t); size <= whole; size++) {
		u = options_up_to(size);
		if (size < 2 * sizeof(size_t)) {
			expect(create(&u, &r), COHORT_INVALID,
			       "options->size is");
			continue;
		}
		cr_assert_eq(create(&u, &r), COHORT_OK, "%zu: %s", size,
		             cohort_last_error());
		cr_assert_eq(cohort_reducer_free(r), COHORT_OK);
	}
	/* A newer caller passes a larger size. */
	u = options_up_to(whole);
	memset(u.bytes + whole, 0, sizeof(u) - whole);
	u.o.size = sizeof(u);
	cr_assert_eq(create(&u, &r), COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_reducer_free(r), COHORT_OK);
	u.bytes[whole + 1] = 1;
	expect(create(&u, &r), COHORT_INVALID, "does not support");
	u.bytes[whole + 1] = 0;
	u.bytes[reserved] = 1;
	expect(create(&u, &r), COHORT_INVALID, "does not support");
	/* A size that was not initialized is refused. */
	u = options_up_to(whole);
	u.o.size = 0;
	expect(create(&u, &r), COHORT_INVALID, "options->size is 0");
	u.o.size = SIZE_MAX;
	expect(create(&u, &r), COHORT_INVALID, "options->size is 184467");
	/* Options within an older caller's size take effect. */
	u = options_up_to(offsetof(struct cohort_reducer_options, weighted));
	u.o.op = COHORT_MAX;
	expect(create(&u, &r), COHORT_INVALID, "options->op is 2");
	expect_close(group);
}

Test(reducer, reducer_calls_out_of_order_are_refused)
{
	const struct cohort_parameter p[2] = { { "a", NULL, 1, COHORT_F32 },
		                               { "b", NULL, 1, COHORT_F32 } };
	struct cohort_reducer *r, *other;
	struct cohort_group *group;

	place_need_no_sync("a rank that launches ahead makes memory beside "
	                   "its own launch");
	group = ranks_ahead(2, NULL, comms);
	cr_assert_eq(cohort_reducer_create(comms[0], p, 2, NULL, &r),
	             COHORT_OK);
	cr_assert_eq(cohort_reducer_create(comms[0], p, 2, NULL, &other),
	             COHORT_OK);
	expect(cohort_reducer_ready(NULL, 0), COHORT_INVALID, "reducer is");
	expect(cohort_reducer_ready(r, 2), COHORT_INVALID, "i is 2");
	expect(cohort_reducer_ready(r, 1), COHORT_STATE,
	       "'b' was marked ready, but");
	expect(cohort_reducer_finish(r, 0), COHORT_STATE, "no step is open");
	expect(cohort_reducer_progress(r, 0), COHORT_STATE, "no step is open");
	expect(cohort_reducer_join(r, 0), COHORT_INVALID, "not weighted");
	expect(cohort_reducer_begin_weighted(r, 1.0, NULL), COHORT_INVALID,
	       "weight is 1");
	cr_assert_eq(cohort_reducer_begin(r, NULL), COHORT_OK);
	expect(cohort_reducer_begin(r, NULL), COHORT_STATE, "a step is open");
	expect(cohort_reducer_begin(other, NULL), COHORT_STATE,
	       "another reducer");
	expect(cohort_reducer_free(r), COHORT_STATE, "a step is open");
	cr_assert_eq(cohort_reducer_ready(r, 0), COHORT_OK);
	cr_assert_eq(cohort_reducer_ready(r, 0), COHORT_ALREADY);
	cr_assert_eq(cohort_reducer_progress(r, 0), COHORT_TIMED_OUT);
	expect(cohort_reducer_finish(r, 0), COHORT_STATE,
	       "1 of 2 gradients are not ready: 'b'");
	cr_assert_eq(cohort_reducer_ready(r, 1), COHORT_OK);
	cr_assert_eq(cohort_reducer_finish(r, 0), COHORT_TIMED_OUT);
	cr_assert_null(cohort_reducer_view(r, 2));
	cr_assert_eq(cohort_reducer_bucket(r, 2), -1);
	cr_assert_eq(cohort_reducer_used(r, 0), -1);
	cr_assert_eq(cohort_group_abort(group, NULL), COHORT_OK);
	cr_assert_eq(cohort_reducer_finish(r, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_reducer_free(r), COHORT_OK);
	cr_assert_eq(cohort_reducer_free(other), COHORT_OK);
	cr_assert_eq(cohort_reducer_free(NULL), COHORT_OK);
	expect_close(group);
}
