/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The operation of cohort bench average: how long a model's gradients take to
 * all-reduce, by each method
 *
 * Each rank's tensors are contiguous in one memory, which all methods use.  Methods take
 * turns, and each round begins with another one.  Each way of lists has a group of its
 * own.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/* The size of the buffers that gradients live in. */
#define BUCKET_BYTES ((size_t)25 << 20)

const char *const bench_method_names[LIST_METHODS] = {
	[METHOD_ALONE] = "alone", [METHOD_GROUP] = "group",
	[METHOD_FLAT] = "flat",   [METHOD_VIEWS] = "views",
	[METHOD_AUTO] = "auto",
};

/* ---- cases ------------------------------------------------------------ */

static int plan(struct bench *b)
{
	const struct bench_options *o = b->options;
	const size_t size = cohort_type_size(o->type);

	if (bench_read_shapes(b, size) != CLI_OK)
		return CLI_FAILED;
	b->bytes = b->shapes.room;
	b->buffers = 1;
	for (int m = 0; m < LIST_METHODS; m++) {
		struct bench_case c = {
			.title = "average",
			.rewrites = o->rewrites,
			.is_checked = true,
			.bytes = b->shapes.values * size,
			.variant = m,
		};

		snprintf(c.mode, sizeof(c.mode), "%s", bench_method_names[m]);
		if (o->methods[m])
			bench_add_case(b, &c);
	}
	return CLI_OK;
}

/* The group of each method; the first serves all that need no group of their own. */
static const int groups[LIST_METHODS] = {
	[METHOD_GROUP] = 1, [METHOD_FLAT] = 2
};

static int open_groups(struct bench *b)
{
	static const int ways[BENCH_GROUPS] = { COHORT_MANY_AUTO,
		                                COHORT_MANY_GROUP,
		                                COHORT_MANY_FLAT };
	int rc = COHORT_OK;

	for (int m = 0; m < LIST_METHODS && rc == COHORT_OK; m++) {
		int i = groups[m];

		if (!i || !b->options->methods[m])
			continue;
		rc = bench_open_group(b, i, ways[i]);
		if (rc == COHORT_OK)
			rc = cohort_group_split(b->groups[i], b->comms[i]);
	}
	return rc;
}

/* ---- operations ------------------------------------------------------- */

static int reduce_each(struct lane *l, const struct cohort_tensor *t, size_t n,
                       uint64_t *ticket)
{
	int op = l->bench->options->op, rc = COHORT_OK;

	for (size_t i = 0; i < n && rc == COHORT_OK; i++)
		rc = cohort_all_reduce(l->comm, t[i].send, t[i].recv,
		                       t[i].count, t[i].type, op,
		                       cohort_comm_stream(l->comm), ticket);
	return rc;
}

static bool operate(struct lane *l)
{
	const struct bench *b = l->bench;
	int i = groups[l->c->variant], rc;
	struct cohort_comm *comm = i ? b->comms[i][l->rank] : l->comm;
	uint64_t ticket;

	switch (l->c->variant) {
	case METHOD_ALONE:
		rc = reduce_each(l, l->tensors, b->shapes.n, &ticket);
		break;
	case METHOD_VIEWS:
		rc = reduce_each(l, l->buckets, l->bucket_count, &ticket);
		break;
	default:
		rc = cohort_all_reduce_many(comm, l->tensors, b->shapes.n,
		                            b->options->op,
		                            cohort_comm_stream(comm), &ticket);
	}
	if (rc == COHORT_OK)
		rc = cohort_wait(comm, ticket, COHORT_FOREVER);
	return rc == COHORT_OK || lane_fail(l, l->c->mode, cohort_last_error());
}

/* ---- gradients -------------------------------------------------------- */

static bool rewrite(struct lane *l)
{
	const struct bench_shapes *s = &l->bench->shapes;
	char *at = lane_host(l, l->buffer[0]);

	for (size_t i = 0; i < s->n; i++)
		pattern_put(&l->pattern, at + s->all[i].at, s->all[i].count);
	return lane_copy(l, l->buffer[0], at, s->room);
}

static bool fill(struct lane *l, int byte)
{
	size_t room = l->bench->shapes.room;
	char *at = lane_host(l, l->buffer[0]);

	memset(at, byte, room);
	return lane_copy(l, l->buffer[0], at, room);
}

static bool compare(struct lane *l)
{
	const struct bench_shapes *s = &l->bench->shapes;
	char *at = lane_host(l, l->buffer[0]);

	if (!lane_copy(l, at, l->buffer[0], s->room))
		return false;
	for (size_t i = 0; i < s->n; i++)
		lane_add_wrong(l, pattern_wrong(&l->expected, at + s->all[i].at,
		                                0, s->all[i].count));
	return true;
}

/* Lay the tensors out in the rank's memory, and make buckets of neighbours. */
static bool open_lane(struct lane *l)
{
	const struct bench_options *o = l->bench->options;
	const struct bench_shapes *s = &l->bench->shapes;
	size_t size = cohort_type_size(o->type), from = 0;

	l->tensors = calloc(s->n, sizeof(*l->tensors));
	l->buckets = calloc(s->n, sizeof(*l->buckets));
	if (!l->tensors || !l->buckets)
		return lane_fail(l, "open", "out of memory");
	for (size_t i = 0; i < s->n; i++) {
		char *at = l->buffer[0] + s->all[i].at;
		size_t end = i + 1 < s->n ? s->all[i + 1].at : s->room;

		l->tensors[i] = (struct cohort_tensor){ at, at, s->all[i].count,
			                                o->type };
		if (i + 1 < s->n && end - from < BUCKET_BYTES)
			continue;
		at = l->buffer[0] + from;
		l->buckets[l->bucket_count++] =
			(struct cohort_tensor){ at, at, (end - from) / size,
			                        o->type };
		from = end;
	}
	pattern_of_rank(&l->pattern, o->type, o->op, l->rank, o->ranks);
	pattern_of_fold(&l->expected, o->type, o->op, o->ranks);
	/* Buckets include what is between the tensors. */
	return fill(l, 0);
}

/* ---- the report ------------------------------------------------------- */

static void describe(const struct bench *b)
{
	const struct bench_options *o = b->options;

	printf("# %s: %zu tensors of %s, %zu bytes, %s%s\n", o->shapes,
	       b->shapes.n, cohort_type_name(o->type), b->cases->bytes,
	       cohort_op_name(o->op), o->rewrites ? ", rewritten" : "");
}

/* The median, over the rounds, of the speedup of @c over @method; NaN if that was not
 * measured. */
static double speedup(const struct bench *b, const struct bench_case *c,
                      int method)
{
	size_t rounds = b->options->rounds;

	for (size_t i = 0; i < b->count; i++) {
		const double *other = b->cases[i].times_ns;

		if (b->cases[i].variant != method)
			continue;
		for (size_t k = 0; k < rounds; k++)
			b->scratch[k] = other[k] / c->times_ns[k];
		return bench_quantile(b->scratch, rounds, 0.5);
	}
	return NAN;
}

static void report(struct row *row, const struct bench *b,
                   const struct bench_case *c)
{
	double ranks = b->options->ranks, time_us = bench_time(b, c, 0.5);

	row_text(row, 8, "method", "method", c->mode);
	row_number(row, 0, NULL, "tensors", (long long)b->shapes.n);
	row_number(row, 0, NULL, "bytes", (long long)c->bytes);
	row_times(row, b, c);
	row_figure(row, 8, 3, "busbw", "busbw",
	           (double)c->bytes / time_us * 1e-3 * 2.0 * (ranks - 1.0) /
	                   ranks);
	row_figure(row, 8, 3, "vs alone", "vs_alone",
	           speedup(b, c, METHOD_ALONE));
	row_figure(row, 8, 3, "vs flat", "vs_flat", speedup(b, c, METHOD_FLAT));
	row_wrong(row, b, c, 1, true);
}

const struct bench_operation bench_average = {
	.command = "bench average",
	.round_ns = 20e6,
	.least = 1,
	.most = 1000,
	.row = 1,
	.plan = plan,
	.open_groups = open_groups,
	.open = open_lane,
	.fill = fill,
	.rewrite = rewrite,
	.operate = operate,
	.compare = compare,
	.describe = describe,
	.report = report,
	.legend = "vs: how many times as fast",
};
