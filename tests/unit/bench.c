/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What cohort bench compares with: the values that it expects, and the limit;
 * and that it finds wrong results
 */

#include "cli/bench/bench.h"

#include <criterion/criterion.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

#include "cli/bench/data.h"
#include "cli/bench/limit.h"
#include "cli/common/cli.h"
#include "support/reference.h"

/* ---- values ----------------------------------------------------------- */

/* The reference's reductions round, so the expected values must be exact. */
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

Test(bench, expects_what_the_reference_computes)
{
	static const int ranks[] = { 1, 2, 3, 4, 8, 150 };

	reference_begin();
	for (int type = COHORT_I8; type <= COHORT_F8E5M2; type++)
		for (int op = COHORT_SUM; op <= COHORT_AVG; op++)
			for (size_t i = 0; i < 6; i++)
				expect_fold(type, op, ranks[i]);
}

Test(bench, ranks_send_different_values)
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

Test(bench, counts_wrong_elements)
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
	/*
	 * The smallest possible difference: in the first element, in the last,
	 * and in both.
	 */
	values[0] += 1e-6f;
	cr_assert_eq(pattern_wrong(&pattern, values, 0, COUNT), 1);
	values[COUNT - 1] += 1e-6f;
	cr_assert_eq(pattern_wrong(&pattern, values, 0, COUNT), 2);
	cr_assert_eq(pattern_wrong(&pattern, values, 0, COUNT - 1), 1);
	/* Right values in the wrong places. */
	cr_assert(pattern_wrong(&pattern, values + 1, 0, COUNT - 2) >
	          COUNT / 4);
}

Test(bench, computes_quantiles)
{
	double values[] = { 5, 1, 4, 2, 3 }, one[] = { 7 };

	cr_assert_eq(bench_quantile(values, 5, 0.5), 3);
	cr_assert_eq(bench_quantile(values, 5, 0.0), 1);
	cr_assert_eq(bench_quantile(values, 5, 1.0), 5);
	cr_assert_eq(bench_quantile(values, 5, 0.125), 1.5);
	cr_assert_eq(bench_quantile(values, 4, 0.5), 2.5);
	cr_assert_eq(bench_quantile(one, 1, 0.95), 7);
}

/* ---- the limit -------------------------------------------------------- */

enum { MAX_RANKS = 6, MAX_BLOCK = 40000 };

struct site {
	struct limit_place places[MAX_RANKS];
	char *memory[MAX_RANKS];
};

/* Buffers in place or not, filled with what each rank sends. */
static void site_init(struct site *site, const struct collective *c, int ranks,
                      size_t block, bool in_place)
{
	size_t bytes = (size_t)ranks * block;
	struct pattern pattern;

	for (int r = 0; r < ranks; r++) {
		char *base = malloc(2 * bytes), *send = base + bytes;

		memset(base, 0xa5, 2 * bytes);
		site->memory[r] = site->places[r].recv = base;
		if (in_place) {
			send = base + collective_send_offset(c, r, block);
			site->places[r].recv +=
				collective_recv_offset(c, r, block);
		}
		site->places[r].send = send;
		pattern_of_rank(&pattern, COHORT_I32,
		                c->has_op ? COHORT_SUM : -1, r, ranks);
		pattern_put(&pattern, send,
		            collective_send_blocks(c, ranks) * block / 4);
	}
}

static void expect_block(const struct collective *c, const struct site *site,
                         int rank, int ranks, int root, int b, size_t block)
{
	size_t first = c->sends_blocks ? (size_t)rank * block / 4 : 0;
	struct pattern want;
	int from = c->source == SOURCE_ROOT       ? root
	           : c->source == SOURCE_PREVIOUS ? (rank + ranks - 1) % ranks
	                                          : b;

	if (c->source == SOURCE_FOLD)
		pattern_of_fold(&want, COHORT_I32, COHORT_SUM, ranks);
	else
		pattern_of_rank(&want, COHORT_I32, -1, from, ranks);
	cr_assert_eq(pattern_wrong(&want,
	                           site->places[rank].recv + (size_t)b * block,
	                           first, block / 4),
	             0, "%s of %zu bytes, rank %d of %d, block %d", c->name,
	             block, rank, ranks, b);
}

static void expect_limit(const struct collective *c, int ranks, size_t block,
                         bool in_place)
{
	struct site site;
	int root = ranks - 1;

	site_init(&site, c, ranks, block, in_place);
	for (int r = 0; r < ranks; r++)
		limit_run(c, site.places, r, ranks, root, block);
	for (int r = 0; r < ranks; r++)
		for (size_t b = 0; b < collective_recv_blocks(c, ranks); b++)
			if (!c->only_root || r == root)
				expect_block(c, &site, r, ranks, root, (int)b,
				             block);
	for (int r = 0; r < ranks; r++)
		free(site.memory[r]);
}

/*
 * The limit is only a limit if it does all of the work.  Its sums are of whole
 * words, so that results can be compared.
 */
Test(bench, limit_does_what_the_collective_does)
{
	static const size_t blocks[] = { 64, 4096, MAX_BLOCK };

	for (size_t i = 0; i < collective_count; i++) {
		const struct collective *c = &collectives[i];

		for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
			for (size_t k = 0; k < 3; k++) {
				expect_limit(c, ranks, blocks[k], false);
				if (c->has_in_place)
					expect_limit(c, ranks, blocks[k], true);
			}
		}
	}
}

/* ---- results that are wrong ------------------------------------------- */

static const struct platform *real;

/* Leaves out the last element. */
static ncclResult_t short_all_reduce(const void *send, void *recv, size_t count,
                                     ncclDataType_t type, ncclRedOp_t op,
                                     ncclComm_t comm, cudaStream_t stream)
{
	return real->ncclAllReduce(send, recv, count - 1, type, op, comm,
	                           stream);
}

/* How many elements are wrong with @mode, as the report says. */
static unsigned long long measure(const char *mode)
{
	const char *argv[] = { "bench", "all_reduce", "-g",   "3",  "--rounds",
		               "2",     "--sizes",    "400",  "-n", "2",
		               mode,    "--platform", "host", NULL };
	struct bench_options options;
	struct bench_plan plan;
	unsigned long long wrong;
	bool help;

	optind = 0; /* getopt starts anew */
	cr_assert_eq(bench_parse(13, (char **)(uintptr_t)argv, &options, &help),
	             CLI_OK);
	cr_assert(bench_plan_init(&plan, &options));
	plan.cores = 1;
	cr_assert_eq(bench_measure(&plan), CLI_OK);
	wrong = bench_wrong(&plan.cases[0]);
	bench_plan_fini(&plan);
	return wrong;
}

Test(bench, finds_results_that_are_wrong, .timeout = 60)
{
	static struct platform forgetful;

	cr_assert_eq(platform_open(COHORT_PLATFORM_HOST, &real), COHORT_OK);
	cr_assert_eq(measure("--api"), 0);
	forgetful = *real;
	forgetful.ncclAllReduce = short_all_reduce;
	platform_override(&forgetful);
	/*
	 * The last element of each of 3 ranks, in the first and the last round.
	 */
	cr_assert_eq(measure("--api"), 6);
	cr_assert_eq(measure("--raw"), 6);
	cr_assert_eq(measure("--rewrite"), 6);
	cr_assert_eq(measure("--out-of-place"), 6);
	platform_override(NULL);
}
