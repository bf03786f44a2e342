/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The cases of cohort bench: all chosen collectives, types, operations, modes and sizes,
 * in this order
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

/* Cases are counted first, then made. */
struct maker {
	struct bench_plan *plan;
	bool counts_only;
	bool failed;
};

static bool is_blockwise(const struct collective *c)
{
	return c->sends_blocks || c->receives_blocks;
}

/* Set the size to @bytes or less: whole elements, one or more; and as many blocks
 * as there are ranks if the collective takes blocks. */
static void set_size(struct bench_case *c, size_t bytes, int ranks)
{
	size_t blocks = is_blockwise(c->collective) ? (size_t)ranks : 1;
	size_t size = cohort_type_size(c->type);

	c->count = bytes / size / blocks;
	if (c->count == 0)
		c->count = 1;
	c->bytes = c->count * size * blocks;
}

/* Room for one time for each round. */
static double *make_times(struct maker *m)
{
	double *times = calloc(m->plan->options->rounds, sizeof(double));

	m->failed |= !times;
	return times;
}

static void add_case(struct maker *m, const struct bench_case *like,
                     size_t bytes)
{
	const struct bench_options *o = m->plan->options;
	struct bench_case *c;

	m->plan->count++;
	if (m->counts_only || m->failed)
		return;
	c = &m->plan->cases[m->plan->count - 1];
	*c = *like;
	set_size(c, bytes, o->ranks);
	c->iterations = o->iterations;
	c->times_ns = make_times(m);
	if (c->bytes > m->plan->bytes)
		m->plan->bytes = c->bytes;
	m->plan->needs_two |= !c->mode.in_place;
	m->plan->needs_plain |= c->mode.path == PATH_HOST;
}

static void add_sizes(struct maker *m, const struct bench_case *like)
{
	const struct bench_options *o = m->plan->options;

	for (size_t i = 0; i < o->size_count; i++)
		add_case(m, like, o->sizes[i]);
}

/* A collective without a form in place is measured once, out of place. */
static void add_places(struct maker *m, struct bench_case like)
{
	const struct bench_options *o = m->plan->options;
	bool can = like.collective->has_in_place;
	bool must =
		like.mode.path == PATH_HOST && like.collective->host_in_place;

	like.mode.in_place = true;
	if ((o->in_place && can) || must)
		add_sizes(m, &like);
	like.mode.in_place = false;
	if ((o->out_of_place || !can) && !must)
		add_sizes(m, &like);
}

static void add_modes(struct maker *m, struct bench_case like)
{
	const struct bench_options *o = m->plan->options;

	for (int pace = 0; pace < BENCH_PACES; pace++) {
		if (!o->paces[pace])
			continue;
		like.mode.pace = (enum bench_pace)pace;
		for (int path = 0; path < BENCH_PATHS; path++) {
			like.mode.path = (enum bench_path)path;
			if (o->paths[path] &&
			    (path != PATH_HOST || like.collective->by_host))
				add_places(m, like);
		}
	}
}

static void add_ops(struct maker *m, struct bench_case like)
{
	const struct bench_options *o = m->plan->options;

	if (!like.collective->has_op) {
		like.op = -1;
		add_modes(m, like);
		return;
	}
	for (like.op = COHORT_SUM; like.op <= COHORT_AVG; like.op++)
		if (o->op < 0 || like.op == o->op)
			add_modes(m, like);
}

static void add_all(struct maker *m)
{
	const struct bench_options *o = m->plan->options;

	m->plan->count = 0;
	for (size_t i = 0; i < collective_count; i++) {
		struct bench_case like = { .collective = &collectives[i] };

		if (o->collective && o->collective != like.collective)
			continue;
		for (like.type = 0; like.type <= COHORT_F8E5M2; like.type++)
			if (o->type < 0 || like.type == o->type)
				add_ops(m, like);
	}
}

bool bench_plan_init(struct bench_plan *plan,
                     const struct bench_options *options)
{
	struct maker m = { .plan = plan, .counts_only = true };

	*plan = (struct bench_plan){ .options = options };
	add_all(&m);
	plan->cases = calloc(plan->count, sizeof(*plan->cases));
	if (!plan->cases)
		return false;
	m.counts_only = false;
	add_all(&m);
	return !m.failed;
}

void bench_plan_fini(struct bench_plan *plan)
{
	for (size_t i = 0; plan->cases && i < plan->count; i++)
		free(plan->cases[i].times_ns);
	free(plan->cases);
}

const char *bench_mode_text(const struct bench_mode *mode,
                            char text[BENCH_MODE_TEXT])
{
	static const char *const paths[BENCH_PATHS] = { "", " raw", " host" };

	snprintf(text, BENCH_MODE_TEXT, "%s%s%s",
	         mode->pace == PACE_LOOP ? "loop" : "rewrite",
	         paths[mode->path], mode->in_place ? "" : " out-of-place");
	return text;
}
