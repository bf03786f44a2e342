/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The plan of buckets
 */

#include "api/bucket.h"

#include <criterion/criterion.h>
#include <string.h>

#include <cohort/cohort.h>

#include "support/stress.h"

#define MOST 300

static uint32_t order[MOST], begin[MOST + 1], bucket_of[MOST], use[MOST];
static struct bucket_item items[MOST];
static struct bucket_plan plan = { 0, order, begin, bucket_of };

static void plan_reverse(size_t n, size_t first, size_t most)
{
	size_t i;

	for (i = 0; i < n; i++)
		use[i] = (uint32_t)(n - 1 - i);
	bucket_plan(items, n, use, first, most, &plan);
}

Test(bucket, of_nothing_is_none)
{
	bucket_plan(items, 0, use, 1, 1, &plan);
	cr_assert_eq(plan.buckets, 0);
	cr_assert_eq(begin[0], 0);
}

Test(bucket, first_is_small_and_closed_by_what_does_not_fit)
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

Test(bucket, of_two_types_are_numbered_by_when_they_are_full)
{
	const int type[] = { COHORT_F32, COHORT_F16, COHORT_F16, COHORT_F32 };
	const uint32_t want_order[] = { 2, 1, 3, 0 };
	size_t i;

	for (i = 0; i < 4; i++)
		items[i] = (struct bucket_item){ 10, type[i] };
	plan_reverse(4, 100, 100);
	cr_assert_eq(plan.buckets, 2);
	cr_assert_arr_eq(order, want_order, sizeof(want_order));
	cr_assert_eq(bucket_of[3], 1, "float32 is open until item 0");
}

Test(bucket, of_one_item_may_be_too_large)
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

/* ---- properties ------------------------------------------------------- */

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
	return n;
}

/* Where an item is in the order of use. */
static size_t place(uint32_t item)
{
	size_t k = 0;

	while (use[k] != item)
		k++;
	return k;
}

static size_t bytes_in(size_t b)
{
	size_t k, bytes = 0;

	for (k = begin[b]; k < begin[b + 1]; k++)
		bytes += items[order[k]].bytes;
	return bytes;
}

/* Each bucket is of one type, in order of use, and bounded, and closed only because
 * the next item of its type does not fit. */
static void check_bucket(size_t b, size_t n, size_t first, size_t most)
{
	int type = items[order[begin[b]]].type;
	size_t k, earlier, next, limit = first, largest = 0;

	cr_assert_lt(begin[b], begin[b + 1], "bucket %zu is empty", b);
	for (earlier = 0; earlier < b; earlier++)
		if (items[order[begin[earlier]]].type == type)
			limit = most;
	for (k = begin[b]; k < begin[b + 1]; k++) {
		cr_assert_eq(items[order[k]].type, type);
		cr_assert_eq(bucket_of[order[k]], b);
		if (items[order[k]].bytes > largest)
			largest = items[order[k]].bytes;
		if (k > begin[b])
			cr_assert_lt(place(order[k - 1]), place(order[k]));
	}
	if (bytes_in(b) > limit)
		cr_assert_eq(bytes_in(b), largest, "more than one item");
	for (next = place(order[begin[b + 1] - 1]) + 1; next < n; next++)
		if (items[use[next]].type == type)
			break;
	if (next < n)
		cr_assert_gt(bytes_in(b) + items[use[next]].bytes, limit,
		             "item %u fits in bucket %zu", use[next], b);
}

Test(bucket, holds_for_random_lists)
{
	static uint32_t again_order[MOST], again_begin[MOST + 1],
		again_bucket[MOST];
	struct bucket_plan again = { 0, again_order, again_begin,
		                     again_bucket };
	bool seen[MOST];
	uint64_t seed = 1;
	size_t round, n, k, first, most;

	for (round = 0; round < 2000; round++) {
		n = randomise(&seed);
		most = 1 + stress_random(&seed) % 100000;
		first = 1 + stress_random(&seed) % most;
		bucket_plan(items, n, use, first, most, &plan);
		bucket_plan(items, n, use, first, most, &again);
		cr_assert_eq(plan.buckets, again.buckets);
		cr_assert_arr_eq(order, again_order, n * sizeof(*order));
		cr_assert_eq(begin[plan.buckets], n);
		memset(seen, 0, sizeof(seen));
		for (k = 0; k < n; k++) {
			cr_assert(!seen[order[k]]);
			seen[order[k]] = true;
		}
		for (k = 0; k < plan.buckets; k++) {
			check_bucket(k, n, first, most);
			if (k)
				cr_assert_lt(place(order[begin[k] - 1]),
				             place(order[begin[k + 1] - 1]));
		}
	}
}
