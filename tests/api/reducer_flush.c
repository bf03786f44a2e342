/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of when the reducer flushes launched buckets
 *
 * On the host platform, a launched bucket makes progress only after a flush
 * while its owner is busy. Too many flushes would cost more time than they
 * save.
 */

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cohort/reducer.h>

#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

#define RANKS 2
#define PARAMETERS 4

/* Sizes of gradients, in elements. Each gradient has its own bucket. */
#define LARGE ((size_t)64 * 1024)
#define SMALL ((size_t)64)

static const struct platform *real;
static struct platform table;
static atomic_int flushes;

static void flush(int device, cudaStream_t stream)
{
	flushes++;
	real->flush(device, stream);
}

static void install(void)
{
	real = place_table();
	table = *real;
	table.flush = flush;
	platform_override(&table);
}

TestSuite(reducer_flush, .init = install, .timeout = 60);

struct trainer {
	size_t count;
	bool finishes_on; /* finish the step on a stream, then wait */
	bool is_alone;    /* make the passes without communication */

	/*
	 * Timeout of cohort_reducer_progress() before each gradient is ready,
	 * or -1 to omit the call
	 */
	int64_t progress_ns;
};

static int begin(const struct trainer *t, struct cohort_comm *comm,
                 struct cohort_reducer *r)
{
	return t->is_alone ? cohort_reducer_accumulate(r)
	                   : cohort_reducer_begin(r, cohort_comm_stream(comm));
}

static int finish(const struct trainer *t, struct cohort_comm *comm,
                  struct cohort_reducer *r)
{
	int rc;

	if (!t->finishes_on)
		return cohort_reducer_finish(r, RANKS_SOON);
	rc = cohort_reducer_finish_on(r, cohort_comm_stream(comm));
	return rc == COHORT_OK ? cohort_synchronize(comm, RANKS_SOON) : rc;
}

static int step(const struct trainer *t, struct cohort_comm *comm,
                struct cohort_reducer *r)
{
	size_t i;
	int rc = begin(t, comm, r);

	for (i = PARAMETERS; i-- > 0 && rc == COHORT_OK;) {
		if (t->progress_ns >= 0)
			rc = cohort_reducer_progress(r,
			                             (uint64_t)t->progress_ns);
		if (rc == COHORT_OK || rc == COHORT_TIMED_OUT)
			rc = cohort_reducer_ready(r, i);
	}
	return rc == COHORT_OK ? finish(t, comm, r) : rc;
}

static int worker(struct cohort_comm *comm, void *user)
{
	const struct trainer *t = user;
	struct cohort_parameter p[PARAMETERS] = { { .name = NULL } };
	struct cohort_reducer_options options;
	struct cohort_reducer *r;
	size_t i;
	int k, rc;

	cohort_reducer_options_init(&options);
	options.first_bytes = options.bucket_bytes = t->count * sizeof(float);
	for (i = 0; i < PARAMETERS; i++) {
		p[i].count = t->count;
		p[i].type = COHORT_F32;
	}
	rc = cohort_reducer_create(comm, p, PARAMETERS, &options, &r);
	for (k = 0; k < 2 && rc == COHORT_OK; k++)
		rc = step(t, comm, r);
	return rc == COHORT_OK ? cohort_reducer_free(r) : rc;
}

/* Return the number of flushes in two steps of all ranks. */
static int count_flushes(struct trainer t)
{
	struct cohort_group *group = ranks_open(RANKS, NULL);

	expect_run_in(group, worker, &t);
	expect_close(group);
	return flushes;
}

/* The last bucket needs no flush, because the call of finish executes it. */
Test(reducer_flush, each_large_bucket_but_the_last_is_flushed)
{
	const struct trainer t = { .count = LARGE, .progress_ns = -1 };

	spread_not("the test counts what one process calls");
	cr_assert_eq(count_flushes(t), 2 * RANKS * (PARAMETERS - 1));
}

Test(reducer_flush, last_bucket_is_flushed_if_a_stream_waits_for_it)
{
	const struct trainer t = { .count = LARGE,
		                   .progress_ns = -1,
		                   .finishes_on = true };

	spread_not("the test counts what one process calls");
	cr_assert_eq(count_flushes(t), 2 * RANKS * PARAMETERS);
}

Test(reducer_flush, small_buckets_are_not_flushed)
{
	const struct trainer t = { .count = SMALL, .progress_ns = -1 };

	cr_assert_eq(count_flushes(t), 0);
}

Test(reducer_flush, owner_that_calls_progress_needs_no_flush)
{
	const struct trainer t = { .count = LARGE, .progress_ns = 1 };

	cr_assert_eq(count_flushes(t), 0);
}

Test(reducer_flush, owner_that_only_launches_for_helpers_needs_flushes)
{
	const struct trainer t = { .count = LARGE, .progress_ns = 0 };

	spread_not("the test counts what one process calls");
	cr_assert_eq(count_flushes(t), 2 * RANKS * (PARAMETERS - 1));
}

Test(reducer_flush, reducer_accumulate_needs_no_flush)
{
	const struct trainer t = { .count = LARGE,
		                   .progress_ns = -1,
		                   .is_alone = true };

	cr_assert_eq(count_flushes(t), 0);
}
