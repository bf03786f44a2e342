/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The operation of cohort bench overlap: measure how much of the averaging of
 * gradients is hidden behind a backward pass
 *
 * The backward pass is simulated: each gradient becomes ready after a time
 * proportional to its number of elements, and the rank's thread waits until
 * then. In every round, for each length of the pass, the ranks measure the pass
 * alone, the averaging alone with all gradients ready at the start, and a step
 * in which gradients become ready one after the other.
 *
 * The gradients live in the reducer. The times at which they become ready count
 * from the start of the pass. So a thread that wakes up late does not prolong
 * the pass, which on a GPU would have continued.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/reducer.h>

#include "base/clock.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/* Intended time of each part in a round */
#define ROUND_NS 30e6
#define MOST_OFTEN 200

/* Number of measurements of the averaging, from which the lengths of the passes
 * are computed */
#define FIRST_LOOKS 5

enum overlap_part {
	PART_BACKWARD, /* the backward pass alone */
	PART_COMM,     /* the averaging alone */
	PART_STEP,     /* the averaging during the pass */
	PARTS,
};

static int plan(struct bench *b)
{
	static const char *const names[PARTS] = { "backward", "comm", "step" };
	const struct bench_options *o = b->options;
	const size_t size = cohort_type_size(o->type);

	if (gradients_read(b, size) != CLI_OK)
		return CLI_FAILED;
	b->bytes = b->shapes.most * size;
	for (size_t i = 0; i < o->length_count * PARTS; i++) {
		struct bench_case c = {
			.title = "overlap",
			.set = i / PARTS,
			.is_checked = i % PARTS == PART_STEP,
			.bytes = b->shapes.values * size,
			.variant = (int)(i % PARTS),
		};

		snprintf(c.mode, sizeof(c.mode), "%s", names[c.variant]);
		bench_add_case(b, &c);
	}
	return CLI_OK;
}

static bool succeeded(struct lane *l, const char *what, int rc)
{
	return rc == COHORT_OK || lane_fail(l, what, cohort_last_error());
}

static bool await(struct lane *l, bool sleeps, uint64_t when)
{
	uint64_t now = clock_now();
	int rc;

	if (now >= when)
		return true;
	if (sleeps) {
		cli_sleep_until(when);
		return true;
	}
	rc = cohort_reducer_progress(l->reducer, when - now);
	return rc == COHORT_TIMED_OUT || succeeded(l, "progress", rc);
}

/* Run the current part of a step. Without a backward pass, all gradients are
 * ready at the start. */
static bool operate(struct lane *l)
{
	const struct bench_shapes *s = &l->bench->shapes;
	bool has_pass = l->c->variant != PART_COMM;
	bool averages = l->c->variant != PART_BACKWARD;
	bool sleeps = !averages || l->bench->options->sleeps;
	double each = l->c->length_ns / (double)s->values;
	uint64_t from = clock_now(), values = 0;

	if (averages &&
	    !succeeded(l, "begin",
	               cohort_reducer_begin(l->reducer,
	                                    cohort_comm_stream(l->comm))))
		return false;
	for (size_t i = s->n; i-- > 0;) {
		values += s->all[i].count;
		if (has_pass &&
		    !await(l, sleeps, from + (uint64_t)(each * (double)values)))
			return false;
		if (averages &&
		    !succeeded(l, "ready", cohort_reducer_ready(l->reducer, i)))
			return false;
	}
	return !averages ||
	       succeeded(l, "finish",
	                 cohort_reducer_finish(l->reducer, COHORT_FOREVER));
}

static void set_lengths(struct bench *b, double comm_ns)
{
	for (size_t i = 0; i < b->count; i++) {
		const struct overlap_length *length =
			&b->options->lengths[i / PARTS];
		double ns = length->value * (length->is_factor ? comm_ns : 1e6);
		double often = ROUND_NS / fmax(ns, comm_ns);

		b->cases[i].length_ns = ns;
		b->cases[i].iterations = often < 1.0          ? 1
		                         : often > MOST_OFTEN ? MOST_OFTEN
		                                              : (uint64_t)often;
	}
}

/* Time the averaging, and set the lengths of the passes that depend on it. */
static bool time_averaging(struct lane *l)
{
	double ns[FIRST_LOOKS];

	l->c = &l->bench->cases[PART_COMM];
	for (int i = 0; i < FIRST_LOOKS; i++)
		if (!lane_time(l, 2, &ns[i]))
			return false;
	if (l->rank == 0) {
		l->bench->buckets = cohort_reducer_buckets(l->reducer);
		set_lengths(l->bench, cli_quantile(ns, FIRST_LOOKS, 0.5));
	}
	return lane_barrier(l);
}

static bool create_reducer(struct lane *l)
{
	const struct bench *b = l->bench;
	const struct bench_options *o = b->options;
	size_t n = b->shapes.n;
	struct cohort_parameter *parameters = calloc(n, sizeof(*parameters));
	struct cohort_reducer_options options;
	int rc;

	if (!parameters)
		return lane_fail(l, "reducer", "out of memory");
	for (size_t i = 0; i < n; i++)
		parameters[i] = (struct cohort_parameter){
			.count = b->shapes.all[i].count,
			.type = o->type,
		};
	cohort_reducer_options_init(&options);
	options.op = o->op;
	options.first_bytes = o->first_bytes;
	options.bucket_bytes = o->bucket_bytes;
	options.full_buckets = o->full_buckets;
	rc = cohort_reducer_create(l->comm, parameters, n, &options,
	                           &l->reducer);
	free(parameters);
	return succeeded(l, "reducer", rc);
}

static char *place(struct lane *l, size_t i)
{
	return cohort_reducer_view(l->reducer, i);
}

/* Prepare the rank. A check leaves averages in the gradients, but these are
 * whole numbers, so later steps can use them. */
static bool open_lane(struct lane *l)
{
	return create_reducer(l) && gradients_place(l, place) &&
	       time_averaging(l);
}

static void close_lane(struct lane *l)
{
	cohort_reducer_free(l->reducer);
}

static void describe(const struct bench *b)
{
	const struct bench_options *o = b->options;

	printf("# %s: %zu tensors of %s, %zu bytes, in %d bucket%s, %s\n",
	       o->shapes, b->shapes.n, cohort_type_name(o->type),
	       b->cases->bytes, b->buckets, b->buckets == 1 ? "" : "s",
	       o->sleeps ? "sleeping" : "making progress");
}

/* Return a quantile, over the rounds, of the step's time divided by the sum of
 * the times of the other two parts if @by_sum is true, or by the longer one. */
static double ratio(const struct bench *b, const struct bench_case *c,
                    bool by_sum, double place)
{
	size_t rounds = b->options->rounds;

	for (size_t i = 0; i < rounds; i++) {
		double backward = c[PART_BACKWARD].times_ns[i];
		double comm = c[PART_COMM].times_ns[i];

		b->scratch[i] =
			c[PART_STEP].times_ns[i] /
			(by_sum ? backward + comm : fmax(backward, comm));
	}
	return cli_quantile(b->scratch, rounds, place);
}

static void report(struct row *row, const struct bench *b,
                   const struct bench_case *c)
{
	row_number(row, 0, NULL, "tensors", (long long)b->shapes.n);
	row_number(row, 0, NULL, "bytes", (long long)c->bytes);
	row_number(row, 0, NULL, "buckets", b->buckets);
	row_figure(row, 12, 1, "backward", "backward_us",
	           bench_time(b, &c[PART_BACKWARD], 0.5));
	row_figure(row, 12, 1, "comm", "comm_us",
	           bench_time(b, &c[PART_COMM], 0.5));
	row_figure(row, 12, 1, "step", "step_us",
	           bench_time(b, &c[PART_STEP], 0.5));
	row_figure(row, 8, 3, "by max", "by_max", ratio(b, c, false, 0.5));
	row_figure(row, 8, 3, "p95", "by_max_p95", ratio(b, c, false, 0.95));
	row_figure(row, 8, 3, "by sum", "by_sum", ratio(b, c, true, 0.5));
	row_wrong(row, b, c, PARTS, false);
}

const struct bench_operation bench_overlap = {
	.row = PARTS,
	.most = MOST_OFTEN,
	.plan = plan,
	.open = open_lane,
	.close = close_lane,
	.rewrite = gradients_rewrite,
	.operate = operate,
	.compare = gradients_compare,
	.describe = describe,
	.report = report,
	.legend = "by max: step / max(backward, comm), median and 95th "
		  "percentile; "
		  "by sum: step / (backward + comm)",
};
