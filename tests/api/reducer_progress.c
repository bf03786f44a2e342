/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that cohort_reducer_progress() executes launched buckets
 *
 * One thread has all ranks and calls progress for one of them, so no thread
 * waits for the operations of the other ranks. After some milliseconds, the
 * host platform executes queued work on its own threads. So the test checks not
 * only that a bucket is finished, but that this thread finishes it.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include <cohort/reducer.h>

#include "support/ranks.h"

TestSuite(reducer_progress, .timeout = 60);

#define RANKS 2
/* more elements than one call reduces at a time */
#define COUNT ((size_t)30000)
#define STEPS 100
#define MS UINT64_C(1000000)

static const struct platform *below;
static struct platform table;
static pthread_t tester;
/* number of operations that were completed by the test's own thread */
static int ended;

static bool is_reached(const uint32_t *word, uint32_t value)
{
	return (int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0;
}

static void progress(int device, cudaStream_t stream, const uint32_t *word,
                     uint32_t value, uint64_t until_ns)
{
	bool before = is_reached(word, value);

	below->progress(device, stream, word, value, until_ns);
	if (!before && is_reached(word, value) &&
	    pthread_equal(pthread_self(), tester))
		ended++;
}

static void flush(int device, cudaStream_t stream)
{
	(void)device;
	(void)stream;
}

static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];
static struct cohort_reducer *reducers[RANKS];
static float gradients[RANKS][COUNT];

static void open_all(void)
{
	struct cohort_reducer_options o;
	int r;

	tester = pthread_self();
	below = place_table();
	table = *below;
	table.progress = progress;
	/* so that no other thread continues the work immediately */
	table.flush = flush;
	platform_override(&table);
	group = ranks_ahead(RANKS, NULL, comms);
	cohort_reducer_options_init(&o);
	o.first_bytes = 1; /* gives the last parameter a separate bucket */
	o.keep_plan = 1;
	for (r = 0; r < RANKS; r++) {
		const struct cohort_parameter list[] = {
			{ "first", NULL, 1, COHORT_F32 },
			{ "last", gradients[r], COUNT, COHORT_F32 },
		};

		ranks_must(cohort_reducer_create(comms[r], list, 2, &o,
		                                 &reducers[r]),
		           "create");
	}
}

static void close_all(void)
{
	int r;

	for (r = 0; r < RANKS; r++)
		ranks_must(cohort_reducer_free(reducers[r]), "free");
	ranks_must(cohort_group_close(group), "close");
}

static void begin_all(void)
{
	size_t k;
	int r;

	for (r = 0; r < RANKS; r++) {
		for (k = 0; k < COUNT; k++)
			gradients[r][k] = (float)(r + 1);
		ranks_must(cohort_reducer_begin(reducers[r],
		                                cohort_comm_stream(comms[r])),
		           "begin");
	}
}

static void ready_all(size_t i)
{
	int r;

	for (r = 0; r < RANKS; r++)
		ranks_must(cohort_reducer_ready(reducers[r], i), "ready");
}

static void finish_all(void)
{
	int r;

	for (r = 0; r < RANKS; r++)
		ranks_must(cohort_reducer_finish(reducers[r], RANKS_SOON),
		           "finish");
}

/* Return whether @x is the mean of the ranks' gradients, which are 1 and 2. */
static bool is_mean(const float *x)
{
	const float mean = 1.5f;
	float is;

	__atomic_load(x, &is, __ATOMIC_ACQUIRE);
	return memcmp(&is, &mean, sizeof(is)) == 0;
}

/*
 * Call only progress, on rank 0, until the launched bucket is done. Return
 * whether this thread has finished the bucket.
 */
static bool carry_on(void)
{
	ended = 0;
	while (!is_mean(&gradients[0][COUNT - 1]))
		cr_assert_eq(cohort_reducer_progress(reducers[0], MS),
		             COHORT_TIMED_OUT);
	return ended;
}

static void check_all(void)
{
	size_t k;
	int r;

	for (r = 0; r < RANKS; r++)
		for (k = 0; k < COUNT; k++)
			cr_assert(is_mean(&gradients[r][k]));
}

/* If this thread waits long for a core, another thread may finish the bucket,
 * so try several times. */
Test(reducer_progress, reducer_progress_executes_launched_buckets)
{
	bool has_ended = false;
	int i;

	place_need_our_nccl("which thread does the work");
	open_all();
	for (i = 0; i < STEPS && !has_ended; i++) {
		begin_all();
		ready_all(1);
		has_ended = carry_on();
		ready_all(0);
		finish_all();
		check_all();
	}
	cr_assert(has_ended, "never in %d steps", STEPS);
	close_all();
}
