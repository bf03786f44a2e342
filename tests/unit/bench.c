/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of cohort bench: the results that it expects, and its detection of
 * wrong results
 */

#include "cli/bench/bench.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

#include "cli/common/cli.h"
#include "support/reference.h"

/* ---- values ----------------------------------------------------------- */

/* Check the expected result against the reference. The reference rounds, so its
 * result must be exact in @type. */
static void expect_fold(int type, int op, int ranks)
{
	struct pattern *in = calloc((size_t)ranks, sizeof(*in)), fold;
	const void **buffers = calloc((size_t)ranks, sizeof(*buffers));
	unsigned char want[sizeof(fold.bytes)];

	for (int r = 0; r < ranks; r++) {
		pattern_of_rank(&in[r], type, op, r, ranks);
		buffers[r] = in[r].bytes;
	}
	pattern_of_fold(&fold, type, op, ranks);
	reference_reduce(want, buffers, ranks, PATTERN_PERIOD, type, op);
	cr_assert_eq(memcmp(fold.bytes, want, PATTERN_PERIOD * fold.size), 0,
	             "type %d, operation %d, %d ranks", type, op, ranks);
	free(buffers);
	free(in);
}

Test(bench, bench_expected_values_equal_the_reference_results)
{
	static const int ranks[] = { 1, 2, 3, 4, 8, 150 };

	reference_begin();
	for (int type = COHORT_I8; type <= COHORT_F8E5M2; type++)
		for (int op = COHORT_SUM; op <= COHORT_AVG; op++)
			for (size_t i = 0; i < 6; i++)
				expect_fold(type, op, ranks[i]);
}

Test(bench, bench_ranks_send_different_values)
{
	struct pattern a, b;

	for (int op = -1; op <= COHORT_AVG; op++) {
		pattern_of_rank(&a, COHORT_I8, op, 0, 3);
		pattern_of_rank(&b, COHORT_I8, op, 1, 3);
		cr_assert(pattern_wrong(&a, b.bytes, 0, PATTERN_PERIOD) >
		                  PATTERN_PERIOD / 4,
		          "operation %d", op);
	}
}

Test(bench, bench_counts_each_wrong_element)
{
	enum { COUNT = 3 * PATTERN_PERIOD + 5 };
	struct pattern pattern;
	float values[COUNT];

	pattern_of_rank(&pattern, COHORT_F32, COHORT_SUM, 1, 4);
	pattern_put(&pattern, values, COUNT);
	cr_assert_eq(pattern_wrong(&pattern, values, 0, COUNT), 0);
	cr_assert_eq(pattern_wrong(&pattern, values + 7, 7, COUNT - 7), 0);
	cr_assert_eq(pattern_wrong(&pattern, values + PATTERN_PERIOD + 7,
	                           PATTERN_PERIOD + 7, 2 * PATTERN_PERIOD - 2),
	             0);
	/* Make small errors in the first element, then also in the last one. */
	values[0] += 1e-6f;
	cr_assert_eq(pattern_wrong(&pattern, values, 0, COUNT), 1);
	values[COUNT - 1] += 1e-6f;
	cr_assert_eq(pattern_wrong(&pattern, values, 0, COUNT), 2);
	cr_assert_eq(pattern_wrong(&pattern, values, 0, COUNT - 1), 1);
	/* Correct values at wrong positions are wrong. */
	cr_assert(pattern_wrong(&pattern, values + 1, 0, COUNT - 2) >
	          COUNT / 4);
}

Test(bench, bench_sorts_and_interpolates_quantiles)
{
	double values[] = { 5, 1, 4, 2, 3 }, one[] = { 7 };

	cr_assert_eq(cli_quantile(values, 5, 0.5), 3);
	cr_assert_eq(cli_quantile(values, 5, 0.0), 1);
	cr_assert_eq(cli_quantile(values, 5, 1.0), 5);
	cr_assert_eq(cli_quantile(values, 5, 0.125), 1.5);
	cr_assert_eq(cli_quantile(values, 4, 0.5), 2.5);
	cr_assert_eq(cli_quantile(one, 1, 0.95), 7);
}

/* ---- wrong results ---------------------------------------------------- */

static const struct platform *real;

/* Reduce all elements but the last one. */
static ncclResult_t short_all_reduce(const void *send, void *recv, size_t count,
                                     ncclDataType_t type, ncclRedOp_t op,
                                     ncclComm_t comm, cudaStream_t stream)
{
	return real->ncclAllReduce(send, recv, count - 1, type, op, comm,
	                           stream);
}

/* Run the benchmark in @mode. Return the number of wrong elements that it
 * reports. */
static unsigned long long measure(const char *mode)
{
	const char *argv[] = { "bench", "all_reduce", "-g",   "3",  "--rounds",
		               "2",     "--sizes",    "400",  "-n", "2",
		               mode,    "--platform", "host", NULL };
	struct bench_options options;
	struct bench *bench;
	unsigned long long wrong;
	int status;

	cr_assert(bench_parse(13, (char **)(uintptr_t)argv, &options, &status));
	bench = bench_create(&options, 1);
	cr_assert(bench);
	cr_assert_eq(bench_measure(bench), CLI_OK);
	wrong = bench_wrong(bench->cases, 1);
	bench_destroy(bench);
	return wrong;
}

Test(bench, bench_reports_elements_that_all_reduce_skipped, .timeout = 60)
{
	static struct platform forgetful;

	cr_assert_eq(platform_open(COHORT_PLATFORM_HOST, &real), COHORT_OK);
	cr_assert_eq(measure("--api"), 0);
	forgetful = *real;
	forgetful.ncclAllReduce = short_all_reduce;
	platform_override(&forgetful);
	/*
	 * One wrong element on each of 3 ranks, in the first round and in the
	 * last
	 */
	cr_assert_eq(measure("--api"), 6);
	cr_assert_eq(measure("--raw"), 6);
	cr_assert_eq(measure("--rewrite"), 6);
	cr_assert_eq(measure("--out-of-place"), 6);
	platform_override(NULL);
}
