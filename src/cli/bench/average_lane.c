/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A rank's thread of cohort bench average
 *
 * As in run.c, the timed part has nothing but the operations.  The time of a round is
 * that of the slowest rank; where gradients are rewritten, it is the median over the
 * operations of the time from the last rank's begin to the last rank's end.
 */

#include "cli/bench/average_lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* How long each method takes in a round. */
#define ROUND_NS 20e6

/* The size of the buffers that gradients live in. */
#define BUCKET_BYTES ((size_t)25 << 20)

/* ---- failures and meetings -------------------------------------------- */

/* Abort all groups, because other ranks may wait in any of them. */
static bool fail(struct average_lane *l, const char *what)
{
	struct average_runner *r = l->runner;

	meeting_fail(&r->meeting, "rank %d, %s: %s", l->rank, what,
	             cohort_last_error());
	for (int m = 0; m < METHODS; m++)
		if (r->groups[m])
			cohort_group_abort(r->groups[m], what);
	return false;
}

static bool meet(struct average_lane *l)
{
	return meeting_meet(&l->runner->meeting, &l->met, l->comm[0]);
}

/* ---- operations ------------------------------------------------------- */

static int submit_each(struct average_lane *l, int method,
                       const struct cohort_tensor *t, size_t n,
                       uint64_t *ticket)
{
	struct cohort_comm *c = l->comm[method];
	int op = l->runner->average->options->op, rc = COHORT_OK;

	for (size_t i = 0; i < n && rc == COHORT_OK; i++)
		rc = cohort_all_reduce(c, t[i].send, t[i].recv, t[i].count,
		                       t[i].type, op, cohort_comm_stream(c),
		                       ticket);
	return rc;
}

static int submit(struct average_lane *l, int method, uint64_t *ticket)
{
	const struct average *a = l->runner->average;
	struct cohort_comm *c = l->comm[method];

	switch (method) {
	case METHOD_ALONE:
		return submit_each(l, method, l->tensors, a->shapes.n, ticket);
	case METHOD_VIEWS:
		return submit_each(l, method, l->buckets, l->bucket_count,
		                   ticket);
	}
	return cohort_all_reduce_many(c, l->tensors, a->shapes.n,
	                              a->options->op, cohort_comm_stream(c),
	                              ticket);
}

static bool operate(struct average_lane *l, int method)
{
	uint64_t ticket;

	if (submit(l, method, &ticket) != COHORT_OK ||
	    cohort_wait(l->comm[method], ticket, COHORT_FOREVER) != COHORT_OK)
		return fail(l, average_method_name(method));
	return true;
}

/* ---- gradients -------------------------------------------------------- */

static char *host_side(struct average_lane *l)
{
	return l->staging ? l->staging : l->memory;
}

static bool transfer(struct average_lane *l, void *to, const void *from)
{
	if (!l->staging)
		return true;
	if (cohort_copy(l->comm[0], to, from, l->runner->average->room,
	                cohort_comm_stream(l->comm[0])) != COHORT_OK ||
	    cohort_synchronize(l->comm[0], COHORT_FOREVER) != COHORT_OK)
		return fail(l, "copy");
	return true;
}

static bool rewrite(struct average_lane *l)
{
	const struct average_shapes *s = &l->runner->average->shapes;

	for (size_t i = 0; i < s->n; i++)
		pattern_put(&l->pattern, host_side(l) + s->all[i].at,
		            s->all[i].count);
	return transfer(l, l->memory, l->staging);
}

/* Zeros stay zeros, however often they are reduced. */
static bool wipe(struct average_lane *l)
{
	memset(host_side(l), 0, l->runner->average->room);
	return transfer(l, l->memory, l->staging) && meet(l);
}

static bool check(struct average_lane *l, int method)
{
	struct average *a = l->runner->average;
	const struct average_shapes *s = &a->shapes;
	size_t wrong = 0;

	if (!rewrite(l) || !meet(l) || !operate(l, method) ||
	    !transfer(l, l->staging, l->memory))
		return false;
	for (size_t i = 0; i < s->n; i++)
		wrong +=
			pattern_wrong(&l->expected, host_side(l) + s->all[i].at,
		                      0, s->all[i].count);
	atomic_fetch_add(&a->wrong[method], wrong);
	return meet(l);
}

/* ---- the timed part --------------------------------------------------- */

static bool time_loop(struct average_lane *l, int what, uint64_t n)
{
	uint64_t from;

	if (!meet(l))
		return false;
	from = clock_now();
	for (uint64_t i = 0; i < n; i++)
		if (!operate(l, what))
			return false;
	l->ns = (double)(clock_now() - from) / (double)n;
	return meet(l);
}

static bool time_rewritten(struct average_lane *l, int what, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (!rewrite(l) || !meet(l))
			return false;
		l->begins[i] = clock_now();
		if (!operate(l, what))
			return false;
		l->ends[i] = clock_now();
	}
	return meet(l);
}

static double slowest(const struct average_runner *r)
{
	double most = 0.0;

	for (int i = 0; i < r->average->options->ranks; i++)
		if (r->lanes[i]->ns > most)
			most = r->lanes[i]->ns;
	return most;
}

static double middle_span(struct average_runner *r, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t begin = 0, end = 0;

		for (int k = 0; k < r->average->options->ranks; k++) {
			const struct average_lane *l = r->lanes[k];

			if (l->begins[i] > begin)
				begin = l->begins[i];
			if (l->ends[i] > end)
				end = l->ends[i];
		}
		r->spans[i] = (double)(end - begin);
	}
	return bench_quantile(r->spans, n, 0.5);
}

/* All ranks call this; only rank 0 gets the time. */
static bool time_some(struct average_lane *l, int what, uint64_t n,
                      double *ns_out)
{
	struct average_runner *r = l->runner;
	bool rewrites = r->average->options->rewrites;

	if (!(rewrites ? time_rewritten : time_loop)(l, what, n))
		return false;
	if (l->rank == 0)
		*ns_out = rewrites ? middle_span(r, n) : slowest(r);
	return meet(l);
}

/* Operate once to warm up, and in the first round once more to choose how often. */
static bool measure(struct average_lane *l, int what, double *ns_out)
{
	struct average_runner *r = l->runner;
	double ns = 0.0;

	if (!time_some(l, what, 1, &ns))
		return false;
	if (!r->often[what] && !time_some(l, what, 1, &ns))
		return false;
	if (l->rank == 0 && !r->often[what]) {
		double most = ROUND_NS / (ns + 1.0);

		r->often[what] = most < 1.0 ? 1
		                 : most > AVERAGE_MOST_OFTEN
		                         ? AVERAGE_MOST_OFTEN
		                         : (uint64_t)most;
	}
	return meet(l) && time_some(l, what, r->often[what], ns_out);
}

static bool run_one(struct average_lane *l, int what, uint64_t round)
{
	const struct average *a = l->runner->average;
	const struct average_options *o = a->options;
	double *times = a->times_ns[what];

	if (!times)
		return true;
	if (o->check && (round == 0 || round + 1 == o->rounds) &&
	    !check(l, what))
		return false;
	return wipe(l) && measure(l, what, &times[round]);
}

/* ---- a rank's thread -------------------------------------------------- */

static void show_progress(struct average_runner *r, uint64_t round, int nth,
                          int what)
{
	uint64_t rounds = r->average->options->rounds;
	char text[80];

	if (!progress_is_due(&r->progress))
		return;
	snprintf(text, sizeof(text), "round %llu/%llu  %s",
	         (unsigned long long)round + 1, (unsigned long long)rounds,
	         average_method_name(what));
	progress_draw(&r->progress, round * METHODS + (uint64_t)nth,
	              rounds * METHODS, text);
}

static bool run_rounds(struct average_lane *l)
{
	uint64_t rounds = l->runner->average->options->rounds;

	for (uint64_t round = 0; round < rounds; round++)
		for (int i = 0; i < METHODS; i++) {
			int what = (int)((round + (uint64_t)i) % METHODS);

			if (l->rank == 0)
				show_progress(l->runner, round, i, what);
			if (!run_one(l, what, round))
				return false;
		}
	return true;
}

/* Lay the tensors out in the rank's memory, and make buckets of neighbours. */
static void lay(struct average_lane *l)
{
	const struct average *a = l->runner->average;
	const struct average_shapes *s = &a->shapes;
	int type = a->options->type;
	size_t i, size = cohort_type_size(type), from = 0;

	for (i = 0; i < s->n; i++) {
		char *at = l->memory + s->all[i].at;
		size_t end = i + 1 < s->n ? s->all[i + 1].at : a->room;

		l->tensors[i] =
			(struct cohort_tensor){ at, at, s->all[i].count, type };
		if (i + 1 < s->n && end - from < BUCKET_BYTES)
			continue;
		l->buckets[l->bucket_count++] =
			(struct cohort_tensor){ l->memory + from,
			                        l->memory + from,
			                        (end - from) / size, type };
		from = end;
	}
}

static bool lane_open(struct average_lane *l)
{
	struct average_runner *r = l->runner;
	const struct average *a = r->average;
	const struct average_options *o = a->options;
	void *memory;

	if (o->pin)
		meeting_pin(l->rank, a->cores);
	if (cohort_alloc(l->comm[0], a->room, &memory) != COHORT_OK)
		return fail(l, "alloc");
	l->memory = memory;
	if (a->platform != COHORT_PLATFORM_HOST) {
		l->staging = malloc(a->room);
		if (!l->staging)
			return meeting_fail(&r->meeting, "out of memory");
	}
	lay(l);
	pattern_of_rank(&l->pattern, o->type, o->op, l->rank, o->ranks);
	pattern_of_fold(&l->expected, o->type, o->op, o->ranks);
	return wipe(l);
}

int average_worker(struct cohort_comm *comm, void *user)
{
	struct average_runner *r = user;
	struct average_lane *l = r->lanes[cohort_comm_rank(comm)];

	for (int m = 0; m < METHODS; m++)
		l->comm[m] = r->comms[m][l->rank] ? r->comms[m][l->rank] : comm;
	if (!lane_open(l) || !run_rounds(l))
		return -1;
	cohort_free(comm, l->memory);
	return 0;
}

/* ---- a lane ----------------------------------------------------------- */

void average_lane_destroy(struct average_lane *l)
{
	if (l) {
		free(l->tensors);
		free(l->buckets);
		free(l->staging);
	}
	free(l);
}

struct average_lane *average_lane_create(struct average_runner *r, int rank)
{
	size_t n = r->average->shapes.n;
	struct average_lane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->runner = r;
	l->rank = rank;
	l->tensors = calloc(n, sizeof(*l->tensors));
	l->buckets = calloc(n, sizeof(*l->buckets));
	if (l->tensors && l->buckets)
		return l;
	average_lane_destroy(l);
	return NULL;
}
