/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The operation of cohort bench average: all-reduce a model's gradients by each
 * method
 *
 * Each rank's tensors are contiguous in one block of memory, which all methods
 * use. The method that goes first changes from round to round. Each way to
 * launch lists of tensors (enum cohort_many) needs a group of its own.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/* Size of the buffers that hold the gradients */
#define BUCKET_BYTES ((size_t)25 << 20)

const char *const bench_method_names[LIST_METHODS] = {
	[METHOD_ALONE] = "alone", [METHOD_GROUP] = "group",
	[METHOD_FLAT] = "flat",   [METHOD_VIEWS] = "views",
	[METHOD_AUTO] = "auto",
};

static int plan(struct bench *b)
{
	const struct bench_options *o = b->options;
	const size_t size = cohort_type_size(o->type);

	if (gradients_read(b, size) != CLI_OK)
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

/* Index of the group that each method uses. Group 0 serves every method that
 * needs no special group. */
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

static bool fill(struct lane *l, int byte)
{
	size_t room = l->bench->shapes.room;
	char *at = lane_host(l, l->buffer[0]);

	memset(at, byte, room);
	return lane_copy(l, l->buffer[0], at, room);
}

static char *place(struct lane *l, size_t i)
{
	return l->buffer[0] + l->bench->shapes.all[i].at;
}

/* Prepare the rank: place its tensors and make buckets of adjacent tensors. */
static bool open_lane(struct lane *l)
{
	const struct bench_shapes *s = &l->bench->shapes;
	int type = l->bench->options->type;
	size_t from = 0;

	if (!gradients_place(l, place))
		return false;
	l->buckets = calloc(s->n, sizeof(*l->buckets));
	if (!l->buckets)
		return lane_fail(l, "buckets", "out of memory");
	for (size_t i = 0; i < s->n; i++) {
		size_t end = i + 1 < s->n ? s->all[i + 1].at : s->room;
		char *at = l->buffer[0] + from;

		if (i + 1 < s->n && end - from < BUCKET_BYTES)
			continue;
		l->buckets[l->bucket_count++] = (struct cohort_tensor){
			at, at, (end - from) / cohort_type_size(type), type
		};
		from = end;
	}
	/* A bucket includes the gaps between its tensors, so initialize all
	 * memory. */
	return fill(l, 0);
}

static void describe(const struct bench *b)
{
	const struct bench_options *o = b->options;

	printf("# %s: %zu tensors of %s, %zu bytes, %s%s\n", o->shapes,
	       b->shapes.n, cohort_type_name(o->type), b->cases->bytes,
	       cohort_op_name(o->op), o->rewrites ? ", rewritten" : "");
}

/* Return the median, over the rounds, of the speedup of case @c over @method,
 * or NaN if @method was not measured. */
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
		return cli_quantile(b->scratch, rounds, 0.5);
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
	.round_ns = 20e6,
	.least = 1,
	.most = 1000,
	.row = 1,
	.plan = plan,
	.open_groups = open_groups,
	.open = open_lane,
	.fill = fill,
	.rewrite = gradients_rewrite,
	.operate = operate,
	.compare = gradients_compare,
	.describe = describe,
	.report = report,
	.legend = "vs X: speedup over method X",
};
