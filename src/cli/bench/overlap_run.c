/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The measurement: one thread per rank, all parts of all cases in every round
 *
 * The time of a part in a round is the mean of several in a row, on the slowest rank.
 * The gradients live in the reducer.  The times at which they become ready count from
 * the begin of the pass, so that a thread that looks late does not prolong the pass,
 * which on a GPU would have gone on.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cohort/reducer.h>

#include "base/clock.h"
#include "cli/bench/bench.h"
#include "cli/bench/data.h"
#include "cli/bench/meet.h"
#include "cli/bench/overlap.h"
#include "cli/common/cli.h"
#include "cli/common/progress.h"

/* How long each part takes in a round. */
#define ROUND_NS 30e6
#define MOST_OFTEN 200

/* How often the averaging is measured first, for lengths that are multiples of it. */
#define FIRST_LOOKS 5

#define ABORT_DEADLINE_NS (2 * NS_PER_S)

/* Belongs to the rank's thread; others read some of it between two meetings. */
struct lane {
	struct runner *runner;
	struct cohort_comm *comm;
	struct cohort_reducer *reducer;
	int rank;
	uint64_t met;
	struct cohort_parameter *parameters;
	char *staging; /* of the largest gradient's size, if device memory is
	                  not host memory; else NULL */
	struct pattern pattern, expected;

	/* Read by rank 0's thread between two meetings. */
	double ns;
};

struct runner {
	struct overlap *overlap;
	struct cohort_group *group;
	bool is_host;
	struct lane *lanes[COHORT_MAX_RANKS];
	double comm_ns; /* written by rank 0 between meetings */
	struct progress progress;
	struct meeting meeting;
};

static bool fail(struct lane *l, const char *what)
{
	struct runner *r = l->runner;

	meeting_fail(&r->meeting, "rank %d, %s: %s", l->rank, what,
	             cohort_last_error());
	cohort_group_abort(r->group, what);
	return false;
}

static bool meet(struct lane *l)
{
	return meeting_meet(&l->runner->meeting, &l->met, l->comm);
}

/* ---- a pass ----------------------------------------------------------- */

static void sleep_until(uint64_t when)
{
	const struct timespec t = { .tv_sec = (time_t)(when / NS_PER_S),
		                    .tv_nsec = (long)(when % NS_PER_S) };

	while (clock_now() < when &&
	       clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* Wait until a gradient is computed. */
static bool await(struct lane *l, bool sleeps, uint64_t when)
{
	uint64_t now = clock_now();
	int rc;

	if (now >= when)
		return true;
	if (sleeps) {
		sleep_until(when);
		return true;
	}
	rc = cohort_reducer_progress(l->reducer, when - now);
	return rc == COHORT_TIMED_OUT || fail(l, "progress");
}

static bool run_backward(struct lane *l, double length)
{
	const struct average_shapes *s = &l->runner->overlap->shapes;
	double each = length / (double)s->values;
	uint64_t begin = clock_now(), values = 0;

	for (size_t i = s->n; i-- > 0;) {
		values += s->all[i].count;
		await(l, true, begin + (uint64_t)(each * (double)values));
	}
	return true;
}

static bool begin(struct lane *l)
{
	return cohort_reducer_begin(l->reducer, cohort_comm_stream(l->comm)) ==
	               COHORT_OK ||
	       fail(l, "begin");
}

/* Run a step; with a @length of 0 all gradients are ready at once. */
static bool run_step(struct lane *l, double length)
{
	const struct overlap *o = l->runner->overlap;
	const struct average_shapes *s = &o->shapes;
	double each = length / (double)s->values;
	uint64_t from = clock_now(), values = 0;

	if (!begin(l))
		return false;
	for (size_t i = s->n; i-- > 0;) {
		values += s->all[i].count;
		if (length > 0.0 &&
		    !await(l, o->options->sleeps,
		           from + (uint64_t)(each * (double)values)))
			return false;
		if (cohort_reducer_ready(l->reducer, i) != COHORT_OK)
			return fail(l, "ready");
	}
	return cohort_reducer_finish(l->reducer, COHORT_FOREVER) == COHORT_OK ||
	       fail(l, "finish");
}

static bool run_part(struct lane *l, enum overlap_part part, double length)
{
	switch (part) {
	case PART_BACKWARD:
		return run_backward(l, length);
	case PART_COMM:
		return run_step(l, 0.0);
	default:
		return run_step(l, length);
	}
}

/* ---- the timed part --------------------------------------------------- */

/* Only rank 0 gets the time. */
static bool time_some(struct lane *l, enum overlap_part part, double length,
                      uint64_t n, double *ns_out)
{
	const struct runner *r = l->runner;
	uint64_t from;

	if (!meet(l))
		return false;
	from = clock_now();
	for (uint64_t i = 0; i < n; i++)
		if (!run_part(l, part, length))
			return false;
	l->ns = (double)(clock_now() - from) / (double)n;
	if (!meet(l))
		return false;
	*ns_out = 0.0;
	for (int i = 0; l->rank == 0 && i < r->overlap->options->ranks; i++)
		if (r->lanes[i]->ns > *ns_out)
			*ns_out = r->lanes[i]->ns;
	return meet(l);
}

static uint64_t how_often(const struct runner *r, double length)
{
	double most = ROUND_NS / (length > r->comm_ns ? length : r->comm_ns);

	return most < 1.0 ? 1 : most > MOST_OFTEN ? MOST_OFTEN : (uint64_t)most;
}

/* Time the averaging, on which the lengths of passes depend. */
static bool time_averaging(struct lane *l)
{
	struct runner *r = l->runner;
	struct overlap *o = r->overlap;
	double ns[FIRST_LOOKS];

	for (int i = 0; i < FIRST_LOOKS; i++)
		if (!time_some(l, PART_COMM, 0.0, 2, &ns[i]))
			return false;
	if (l->rank == 0) {
		r->comm_ns = bench_quantile(ns, FIRST_LOOKS, 0.5);
		for (size_t i = 0; i < o->options->n; i++) {
			const struct overlap_length *length =
				&o->options->lengths[i];

			o->cases[i].target_ns =
				length->value *
				(length->is_factor ? r->comm_ns : 1e6);
		}
		o->buckets = cohort_reducer_buckets(l->reducer);
	}
	return meet(l);
}

/* ---- gradients -------------------------------------------------------- */

static bool copy(struct lane *l, void *to, const void *from, size_t bytes)
{
	return (cohort_copy(l->comm, to, from, bytes,
	                    cohort_comm_stream(l->comm)) == COHORT_OK &&
	        cohort_synchronize(l->comm, COHORT_FOREVER) == COHORT_OK) ||
	       fail(l, "copy");
}

static bool put(struct lane *l, size_t i)
{
	const struct overlap *o = l->runner->overlap;
	size_t count = o->shapes.all[i].count;
	void *at = cohort_reducer_view(l->reducer, i);

	pattern_put(&l->pattern, l->staging ? l->staging : at, count);
	return !l->staging || copy(l, at, l->staging,
	                           count * cohort_type_size(o->options->type));
}

static bool compare(struct lane *l, size_t i)
{
	struct overlap *o = l->runner->overlap;
	size_t count = o->shapes.all[i].count;
	void *at = cohort_reducer_view(l->reducer, i);

	if (l->staging && !copy(l, l->staging, at,
	                        count * cohort_type_size(o->options->type)))
		return false;
	atomic_fetch_add(&o->wrong,
	                 pattern_wrong(&l->expected,
	                               l->staging ? l->staging : at, 0, count));
	return true;
}

/* Check a step with gradients whose mean is known.  The mean is a whole number, so
 * the following steps may continue with it. */
static bool check(struct lane *l, double length)
{
	size_t i, n = l->runner->overlap->shapes.n;

	for (i = 0; i < n; i++)
		if (!put(l, i))
			return false;
	if (!meet(l) || !run_step(l, length))
		return false;
	for (i = 0; i < n; i++)
		if (!compare(l, i))
			return false;
	return meet(l);
}

/* ---- a rank's thread -------------------------------------------------- */

static void show_progress(struct runner *r, uint64_t round, size_t i)
{
	const struct overlap_options *o = r->overlap->options;
	char text[80];

	if (!progress_is_due(&r->progress))
		return;
	snprintf(text, sizeof(text), "round %llu/%llu",
	         (unsigned long long)round + 1, (unsigned long long)o->rounds);
	progress_draw(&r->progress, round * o->n + i, o->rounds * o->n, text);
}

static bool run_case(struct lane *l, struct overlap_case *c, uint64_t round)
{
	const struct overlap_options *o = l->runner->overlap->options;
	uint64_t n = how_often(l->runner, c->target_ns);
	double ns = 0.0;

	if (o->check && (round == 0 || round + 1 == o->rounds) &&
	    !check(l, c->target_ns))
		return false;
	for (int k = 0; k < PARTS; k++) {
		int part = (int)((round + (uint64_t)k) % PARTS);

		if (!time_some(l, (enum overlap_part)part, c->target_ns, n,
		               &ns))
			return false;
		if (l->rank == 0)
			c->ns[part][round] = ns;
	}
	return true;
}

static bool run_rounds(struct lane *l)
{
	struct overlap *o = l->runner->overlap;

	for (uint64_t round = 0; round < o->options->rounds; round++)
		for (size_t i = 0; i < o->options->n; i++) {
			if (l->rank == 0)
				show_progress(l->runner, round, i);
			if (!run_case(l, &o->cases[i], round))
				return false;
		}
	return true;
}

static bool lane_open(struct lane *l)
{
	const struct overlap *o = l->runner->overlap;
	struct cohort_reducer_options options;
	size_t i, most = 0;

	if (o->options->pin)
		meeting_pin(l->rank, o->cores);
	for (i = 0; i < o->shapes.n; i++) {
		l->parameters[i] = (struct cohort_parameter){
			.count = o->shapes.all[i].count,
			.type = o->options->type,
		};
		if (most < o->shapes.all[i].count)
			most = o->shapes.all[i].count;
	}
	if (!l->runner->is_host) {
		l->staging = malloc(most * cohort_type_size(o->options->type));
		if (!l->staging)
			return meeting_fail(&l->runner->meeting,
			                    "out of memory");
	}
	cohort_reducer_options_init(&options);
	options.first_bytes = o->options->first_bytes;
	options.bucket_bytes = o->options->bucket_bytes;
	options.full_buckets = o->options->full_buckets;
	pattern_of_rank(&l->pattern, o->options->type, options.op, l->rank,
	                o->options->ranks);
	pattern_of_fold(&l->expected, o->options->type, options.op,
	                o->options->ranks);
	return cohort_reducer_create(l->comm, l->parameters, o->shapes.n,
	                             &options, &l->reducer) == COHORT_OK ||
	       fail(l, "reducer");
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct runner *r = user;
	struct lane *l = r->lanes[cohort_comm_rank(comm)];
	bool ok;

	l->comm = comm;
	ok = lane_open(l) && time_averaging(l) && run_rounds(l);
	cohort_reducer_free(l->reducer);
	return ok ? 0 : -1;
}

/* ---- the whole -------------------------------------------------------- */

static void lane_destroy(struct lane *l)
{
	if (l) {
		free(l->parameters);
		free(l->staging);
	}
	free(l);
}

static struct lane *lane_create(struct runner *r, int rank)
{
	struct lane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->runner = r;
	l->rank = rank;
	l->parameters = calloc(r->overlap->shapes.n, sizeof(*l->parameters));
	if (l->parameters)
		return l;
	lane_destroy(l);
	return NULL;
}

static int complain(const char *why)
{
	cli_complain("bench overlap", "%s", why);
	return CLI_FAILED;
}

static int run(struct runner *r, bool *all_back_out)
{
	const struct overlap_options *o = r->overlap->options;
	struct cohort_group_options options;
	struct cohort_cause cause;
	int rc, status = CLI_OK;

	cohort_group_options_init(&options);
	options.log = "none";
	options.name = "bench";
	options.platform = o->platform;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	options.stack_signal = CLI_STACK_SIGNAL;
	if (cohort_group_open(NULL, o->ranks, &options, &r->group) != COHORT_OK)
		return complain(cohort_last_error());
	r->overlap->platform = cohort_group_platform(r->group);
	r->is_host = r->overlap->platform == COHORT_PLATFORM_HOST;
	progress_start(&r->progress);
	rc = cohort_group_run(r->group, worker, r, &cause);
	progress_erase(&r->progress);
	*all_back_out = cohort_group_abandoned(r->group, NULL, 0) == 0;
	if (rc != COHORT_OK)
		status = complain(*r->meeting.complaint ? r->meeting.complaint
		                                        : cause.text);
	if (cohort_group_close(r->group) != COHORT_OK && status == CLI_OK)
		status = complain(cohort_last_error());
	return status;
}

int overlap_measure(struct overlap *o)
{
	struct runner *r = aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
	int i, status = r ? CLI_OK : complain("out of memory");
	bool all_back = true;

	if (r) {
		memset(r, 0, sizeof(*r));
		r->overlap = o;
		meeting_init(&r->meeting, o->options->ranks, o->cores);
	}
	for (i = 0; i < o->options->ranks && status == CLI_OK; i++) {
		r->lanes[i] = lane_create(r, i);
		if (!r->lanes[i])
			status = complain("out of memory");
	}
	if (status == CLI_OK)
		status = run(r, &all_back);
	/* A thread that did not come back may still use them. */
	if (!r || !all_back)
		return status;
	for (i = 0; i < o->options->ranks; i++)
		lane_destroy(r->lanes[i]);
	free(r);
	return status;
}
