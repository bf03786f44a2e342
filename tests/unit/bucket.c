/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of bucket_plan(), which assigns the parameters of a reducer to buckets
 */

#include "reducer/bucket.h"

#include <criterion/criterion.h>
#include <string.h>

#include <cohort/cohort.h>

#include "support/stress.h"

#define MOST 300

static uint32_t order[MOST], begin[MOST + 1], bucket_of[MOST], use[MOST];
static struct bucket_item items[MOST];
static struct bucket_plan plan = { 0, order, begin, bucket_of };

static void plan_by(size_t n, size_t first, size_t most, bool evens)
{
	const struct bucket_limits limits = { first, most, evens };
	size_t i;

	for (i = 0; i < n; i++)
		use[i] = (uint32_t)(n - 1 - i);
	bucket_plan(items, n, use, &limits, &plan);
}

static void plan_reverse(size_t n, size_t first, size_t most)
{
	plan_by(n, first, most, false);
}

static size_t bytes_in(size_t b)
{
	size_t k, bytes = 0;

	for (k = begin[b]; k < begin[b + 1]; k++)
		bytes += items[order[k]].bytes;
	return bytes;
}

Test(bucket, bucket_plan_of_no_gradients_has_no_buckets)
{
	plan_by(0, 1, 1, true);
	cr_assert_eq(plan.buckets, 0);
	plan_by(0, 1, 1, false);
	cr_assert_eq(plan.buckets, 0);
	cr_assert_eq(begin[0], 0);
}

Test(bucket, bucket_ends_where_the_next_gradient_does_not_fit)
{
	const size_t bytes[] = { 60, 50, 40, 30, 20, 10 };
	const uint32_t want_order[] = { 5, 4, 3, 2, 1, 0 };
	const uint32_t want_begin[] = { 0, 2, 4, 5, 6 };
	size_t i;

	for (i = 0; i < 6; i++)
		items[i] = (struct bucket_item){ bytes[i], COHORT_F32 };
	plan_reverse(6, 30, 80);
	cr_assert_eq(plan.buckets, 4);
	cr_assert_arr_eq(order, want_order, sizeof(want_order));
	cr_assert_arr_eq(begin, want_begin, sizeof(want_begin));
}

Test(bucket, buckets_of_two_types_are_numbered_in_order_of_filling)
{
	const int type[] = { COHORT_F32, COHORT_F16, COHORT_F16, COHORT_F32 };
	const uint32_t want_order[] = { 2, 1, 3, 0 };
	size_t i;

	for (i = 0; i < 4; i++)
		items[i] = (struct bucket_item){ 10, type[i] };
	plan_reverse(4, 100, 100);
	cr_assert_eq(plan.buckets, 2);
	cr_assert_arr_eq(order, want_order, sizeof(want_order));
	cr_assert_eq(bucket_of[3], 1,
	             "the float32 bucket is filled up by item 0");
}

Test(bucket, gradient_larger_than_the_limit_gets_its_own_bucket)
{
	const size_t bytes[] = { 5, 1000, 5, 0 };
	size_t i;

	for (i = 0; i < 4; i++)
		items[i] = (struct bucket_item){ bytes[i], COHORT_I32 };
	plan_reverse(4, 10, 10);
	cr_assert_eq(plan.buckets, 3);
	cr_assert_eq(begin[2] - begin[1], 1);
	cr_assert_eq(order[begin[1]], 1);
}

/* ---- even plans ------------------------------------------------------- */

/* Check the sizes of all buckets. */
#define expect_sizes(...)                                                      \
	do {                                                                   \
		const size_t want_[] = { __VA_ARGS__ };                        \
		size_t b_;                                                     \
                                                                               \
		cr_assert_eq(plan.buckets, sizeof(want_) / sizeof(*want_),     \
		             "%zu", plan.buckets);                             \
		for (b_ = 0; b_ < plan.buckets; b_++)                          \
			cr_assert_eq(bytes_in(b_), want_[b_], "%zu: %zu", b_,  \
			             bytes_in(b_));                            \
	} while (0)

static void set_items(size_t from, size_t n, size_t bytes, int type)
{
	size_t i;

	for (i = from; i < from + n; i++)
		items[i] = (struct bucket_item){ bytes, type };
}

Test(bucket, even_bucket_plan_has_sixteenths_and_then_halves)
{
	set_items(0, 64, 10, COHORT_F32);
	plan_by(64, 10, 1000, true);
	expect_sizes(10, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40,
	             30, 20, 10, 10);
	plan_by(64, 10, 1000, false);
	expect_sizes(10, 630);
}

Test(bucket, even_bucket_plan_stays_within_the_size_limits)
{
	set_items(0, 16, 10, COHORT_F32);
	plan_by(16, 30, 50, true);
	expect_sizes(30, 30, 30, 30, 30, 10);
	set_items(0, 100, 10, COHORT_F32);
	plan_by(100, 300, 400, true);
	expect_sizes(300, 300, 300, 100);
	plan_by(16, 50, 30, true);
	expect_sizes(50, 30, 30, 30, 20);
}

Test(bucket, even_bucket_plan_has_one_bucket_if_the_first_holds_all)
{
	set_items(0, 10, 10, COHORT_F32);
	plan_by(10, 100, 1000, true);
	expect_sizes(100);
	plan_by(10, 1000, 2000, true);
	expect_sizes(100);
}

Test(bucket, even_bucket_plan_never_splits_a_gradient)
{
	set_items(0, 64, 10, COHORT_F32);
	items[32].bytes = 500;
	plan_by(64, 10, 400, true);
	cr_assert_eq(bytes_in(bucket_of[32]), 500);
	cr_assert_eq(bytes_in(bucket_of[33]), 20, "what is left of 300 by 70");
	cr_assert_eq(bucket_of[0], plan.buckets - 1);
	cr_assert_eq(bytes_in(plan.buckets - 1), 10);
}

Test(bucket, even_bucket_plan_ends_with_small_buckets_of_each_type)
{
	set_items(0, 40, 10, COHORT_F32);
	set_items(40, 80, 10, COHORT_F16);
	plan_by(120, 10, 1000, true);
	cr_assert_eq(bytes_in(bucket_of[40]), 10);
	cr_assert_eq(bytes_in(bucket_of[0]), 10);
	cr_assert_eq(bytes_in(bucket_of[60]), 70, "a sixteenth of all is 75");
}

/*
 * Return the duration of a step, divided by the longer of the backward pass and
 * the averaging.  Averaging takes 1 per byte, and the pass takes @pass per
 * byte.  A bucket is averaged when it is full and all earlier buckets are
 * averaged.
 */
static double step_by_longer(double pass)
{
	double full = 0.0, end = 0.0, bytes = 0.0;
	size_t b;

	for (b = 0; b < plan.buckets; b++) {
		bytes += (double)bytes_in(b);
		full = pass * bytes;
		end = (full > end ? full : end) + (double)bytes_in(b);
	}
	return end / (pass > 1.0 ? pass * bytes : bytes);
}

Test(bucket, even_bucket_plan_hides_averaging_behind_any_pass)
{
	const double passes[] = { 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0 };
	size_t i;

	set_items(0, 256, 10, COHORT_F32);
	plan_by(256, 20, 640, true);
	for (i = 0; i < sizeof(passes) / sizeof(*passes); i++)
		cr_assert_leq(step_by_longer(passes[i]), 1.0 + 1.0 / 16.0,
		              "%g: %g", passes[i], step_by_longer(passes[i]));
	cr_assert_leq(step_by_longer(2.0), 1.01);
	plan_by(256, 20, 640, false);
	cr_assert_geq(step_by_longer(1.0), 1.2);
	cr_assert_geq(step_by_longer(2.0), 1.05);
}

/* ---- random plans ----------------------------------------------------- */

/* Position of each item in the order of use */
static size_t places[MOST];

static size_t randomise(uint64_t *seed)
{
	size_t i, j, n = stress_random(seed) % MOST;
	uint32_t swap;

	for (i = 0; i < n; i++) {
		items[i] = (struct bucket_item){
			stress_random(seed) % (1u << stress_random(seed) % 20),
			(int)(stress_random(seed) % 12)
		};
		use[i] = (uint32_t)i;
	}
	for (i = n; i > 1; i--) {
		j = stress_random(seed) % i;
		swap = use[i - 1];
		use[i - 1] = use[j];
		use[j] = swap;
	}
	for (i = 0; i < n; i++)
		places[use[i]] = i;
	return n;
}

/* Return the size limit of bucket @b, which is not the first bucket of its
 * type. */
static size_t limit_of_others(size_t b, size_t n,
                              const struct bucket_limits *limits)
{
	size_t k, all = 0, left = 0, limit;

	for (k = 0; k < n; k++) {
		all += items[use[k]].bytes;
		if (k >= places[order[begin[b]]] &&
		    items[use[k]].type == items[order[begin[b]]].type)
			left += items[use[k]].bytes;
	}
	if (!limits->evens)
		return limits->most;
	limit = all / 16 < left / 2 ? all / 16 : left / 2;
	if (limit < limits->first)
		limit = limits->first;
	return limit < limits->most ? limit : limits->most;
}

/*
 * Check that a bucket has one type, follows the order of use, is within its
 * limit, and ends only where the next item of its type would not fit.
 */
static void check_bucket(size_t b, size_t n, const struct bucket_limits *limits)
{
	int type = items[order[begin[b]]].type;
	size_t k, earlier, next, limit = limits->first, largest = 0;

	cr_assert_lt(begin[b], begin[b + 1], "bucket %zu is empty", b);
	for (earlier = 0; earlier < b; earlier++)
		if (items[order[begin[earlier]]].type == type)
			limit = limit_of_others(b, n, limits);
	for (k = begin[b]; k < begin[b + 1]; k++) {
		cr_assert_eq(items[order[k]].type, type);
		cr_assert_eq(bucket_of[order[k]], b);
		if (items[order[k]].bytes > largest)
			largest = items[order[k]].bytes;
		if (k > begin[b])
			cr_assert_lt(places[order[k - 1]], places[order[k]]);
	}
	if (bytes_in(b) > limit)
		cr_assert_eq(bytes_in(b), largest, "more than one item");
	for (next = places[order[begin[b + 1] - 1]] + 1; next < n; next++)
		if (items[use[next]].type == type)
			break;
	if (next < n)
		cr_assert_gt(bytes_in(b) + items[use[next]].bytes, limit,
		             "item %u fits in bucket %zu", use[next], b);
}

Test(bucket, bucket_plans_of_random_gradients_obey_the_rules)
{
	static uint32_t again_order[MOST], again_begin[MOST + 1],
		again_bucket[MOST];
	struct bucket_plan again = { 0, again_order, again_begin,
		                     again_bucket };
	bool seen[MOST];
	uint64_t seed = 1;
	struct bucket_limits limits;
	size_t round, n, k;

	for (round = 0; round < 2000; round++) {
		n = randomise(&seed);
		limits.most = 1 + stress_random(&seed) % 100000;
		limits.first = 1 + stress_random(&seed) % limits.most;
		limits.evens = round % 2;
		bucket_plan(items, n, use, &limits, &plan);
		bucket_plan(items, n, use, &limits, &again);
		cr_assert_eq(plan.buckets, again.buckets);
		cr_assert_arr_eq(order, again_order, n * sizeof(*order));
		cr_assert_eq(begin[plan.buckets], n);
		memset(seen, 0, sizeof(seen));
		for (k = 0; k < n; k++) {
			cr_assert(!seen[order[k]]);
			seen[order[k]] = true;
		}
		for (k = 0; k < plan.buckets; k++) {
			check_bucket(k, n, &limits);
			if (k)
				cr_assert_lt(places[order[begin[k] - 1]],
				             places[order[begin[k + 1] - 1]]);
		}
	}
}
