/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The measurement: one thread per rank, all methods in every round
 *
 * As run.c does it: in the timed part there is nothing but the operations.  A
 * round's time is that of the slowest rank; where gradients are rewritten, the median
 * over the operations of the time from the last rank's begin to the last rank's end.
 * Methods take turns, each round from another one on.  Each way of lists has a group
 * of its own.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/bench/average.h"
#include "cli/bench/bench.h"
#include "cli/bench/data.h"
#include "cli/bench/limit.h"
#include "cli/bench/meet.h"
#include "cli/common/cli.h"
#include "cli/common/progress.h"

/* How long a method takes in a round. */
#define ROUND_NS 20e6
#define MOST_OFTEN 1000

/* What gradients live in. */
#define BUCKET_BYTES ((size_t)25 << 20)

#define ABORT_DEADLINE_NS NS_PER_S

/* What is timed beside the methods. */
#define THE_LIMIT METHODS
#define TIMED (METHODS + 1)

/* Of the rank's thread, but for what others read between two meetings. */
struct lane {
	struct runner *runner;
	struct cohort_comm *comm[METHODS]; /* of the method's group */
	int rank;
	uint64_t met;
	char *memory;  /* of the rank's device: all gradients */
	char *staging; /* where that cannot be written, else NULL */
	struct cohort_tensor *tensors;
	struct cohort_tensor *buckets;
	size_t bucket_count;
	struct pattern pattern, expected;

	/* Read by rank 0's between two meetings. */
	double ns;
	uint64_t begins[MOST_OFTEN];
	uint64_t ends[MOST_OFTEN];
};

struct runner {
	struct average *average;
	struct cohort_group *groups[METHODS]; /* NULL: uses the first */
	struct cohort_comm *comms[METHODS][COHORT_MAX_RANKS];
	const struct platform *platform;
	struct lane *lanes[COHORT_MAX_RANKS];
	struct limit_place places[COHORT_MAX_RANKS];
	uint64_t often[TIMED]; /* written by rank 0 between meetings */
	struct progress progress;
	double spans[MOST_OFTEN];
	struct meeting meeting;
};

/* ---- failures and meetings -------------------------------------------- */

/* Others may wait in any of the groups. */
static bool fail(struct lane *l, const char *what)
{
	struct runner *r = l->runner;

	meeting_fail(&r->meeting, "rank %d, %s: %s", l->rank, what,
	             cohort_last_error());
	for (int m = 0; m < METHODS; m++)
		if (r->groups[m])
			cohort_group_abort(r->groups[m], what);
	return false;
}

static bool meet(struct lane *l)
{
	return meeting_meet(&l->runner->meeting, &l->met, l->comm[0]);
}

/* ---- operations ------------------------------------------------------- */

static int submit_each(struct lane *l, int method,
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

static int submit(struct lane *l, int method, uint64_t *ticket)
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

/* The rank's part of all bytes; nobody waits for anybody. */
static void run_limit(struct lane *l)
{
	const struct runner *r = l->runner;
	const size_t lines = r->average->room / 64;
	const size_t n = (size_t)r->average->options->ranks;
	const size_t from = lines * (size_t)l->rank / n * 64;
	const size_t end = lines * ((size_t)l->rank + 1) / n * 64;

	limit_reduce(r->places, (int)n, from, end - from);
}

static bool operate(struct lane *l, int what)
{
	uint64_t ticket;

	if (what == THE_LIMIT) {
		run_limit(l);
		return true;
	}
	if (submit(l, what, &ticket) != COHORT_OK ||
	    cohort_wait(l->comm[what], ticket, COHORT_FOREVER) != COHORT_OK)
		return fail(l, average_method_name(what));
	return true;
}

/* ---- gradients -------------------------------------------------------- */

static char *host_side(struct lane *l)
{
	return l->staging ? l->staging : l->memory;
}

static bool transfer(struct lane *l, void *to, const void *from)
{
	if (!l->staging)
		return true;
	if (cohort_copy(l->comm[0], to, from, l->runner->average->room,
	                cohort_comm_stream(l->comm[0])) != COHORT_OK ||
	    cohort_synchronize(l->comm[0], COHORT_FOREVER) != COHORT_OK)
		return fail(l, "copy");
	return true;
}

static bool rewrite(struct lane *l)
{
	const struct average_shapes *s = &l->runner->average->shapes;

	for (size_t i = 0; i < s->n; i++)
		pattern_put(&l->pattern, host_side(l) + s->all[i].at,
		            s->all[i].count);
	return transfer(l, l->memory, l->staging);
}

/* Sums of zeros stay what they are, however often. */
static bool wipe(struct lane *l)
{
	memset(host_side(l), 0, l->runner->average->room);
	return transfer(l, l->memory, l->staging) && meet(l);
}

static bool check(struct lane *l, int method)
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

static bool time_loop(struct lane *l, int what, uint64_t n)
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

static bool time_rewritten(struct lane *l, int what, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (!rewrite(l) || !meet(l))
			return false;
		l->begins[i] = clock_now();
		if (!operate(l, what))
			return false;
		l->ends[i] = clock_now();
		/* Nothing else keeps it from what others still work on. */
		if (what == THE_LIMIT && !meet(l))
			return false;
	}
	return meet(l);
}

static double slowest(const struct runner *r)
{
	double most = 0.0;

	for (int i = 0; i < r->average->options->ranks; i++)
		if (r->lanes[i]->ns > most)
			most = r->lanes[i]->ns;
	return most;
}

static double middle_span(struct runner *r, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t begin = 0, end = 0;

		for (int k = 0; k < r->average->options->ranks; k++) {
			const struct lane *l = r->lanes[k];

			if (l->begins[i] > begin)
				begin = l->begins[i];
			if (l->ends[i] > end)
				end = l->ends[i];
		}
		r->spans[i] = (double)(end - begin);
	}
	return bench_quantile(r->spans, n, 0.5);
}

/* By all; the answer is for rank 0. */
static bool time_some(struct lane *l, int what, uint64_t n, double *ns_out)
{
	struct runner *r = l->runner;
	bool rewrites = r->average->options->rewrites;

	if (!(rewrites ? time_rewritten : time_loop)(l, what, n))
		return false;
	if (l->rank == 0)
		*ns_out = rewrites ? middle_span(r, n) : slowest(r);
	return meet(l);
}

/* Once to warm up, and in the first round to see how often. */
static bool measure(struct lane *l, int what, double *ns_out)
{
	struct runner *r = l->runner;
	double ns = 0.0;

	if (!time_some(l, what, 1, &ns))
		return false;
	if (!r->often[what] && !time_some(l, what, 1, &ns))
		return false;
	if (l->rank == 0 && !r->often[what]) {
		double most = ROUND_NS / (ns + 1.0);

		r->often[what] = most < 1.0          ? 1
		                 : most > MOST_OFTEN ? MOST_OFTEN
		                                     : (uint64_t)most;
	}
	return meet(l) && time_some(l, what, r->often[what], ns_out);
}

static bool run_one(struct lane *l, int what, uint64_t round)
{
	const struct average *a = l->runner->average;
	const struct average_options *o = a->options;
	double *times = what == THE_LIMIT ? a->limits_ns : a->times_ns[what];

	if (!times)
		return true;
	if (o->check && what != THE_LIMIT &&
	    (round == 0 || round + 1 == o->rounds) && !check(l, what))
		return false;
	return wipe(l) && measure(l, what, &times[round]);
}

/* ---- a rank's thread -------------------------------------------------- */

static void show_progress(struct runner *r, uint64_t round, int nth, int what)
{
	uint64_t rounds = r->average->options->rounds;
	char text[80];

	if (!progress_is_due(&r->progress))
		return;
	snprintf(text, sizeof(text), "round %llu/%llu  %s",
	         (unsigned long long)round + 1, (unsigned long long)rounds,
	         what == THE_LIMIT ? "limit" : average_method_name(what));
	progress_draw(&r->progress, round * TIMED + (uint64_t)nth,
	              rounds * TIMED, text);
}

static bool run_rounds(struct lane *l)
{
	uint64_t rounds = l->runner->average->options->rounds;

	for (uint64_t round = 0; round < rounds; round++)
		for (int i = 0; i < TIMED; i++) {
			int what = (int)((round + (uint64_t)i) % TIMED);

			if (l->rank == 0)
				show_progress(l->runner, round, i, what);
			if (!run_one(l, what, round))
				return false;
		}
	return true;
}

/* The tensors in the rank's memory, and buckets of neighbours. */
static void lay(struct lane *l)
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

static bool lane_open(struct lane *l)
{
	struct runner *r = l->runner;
	const struct average *a = r->average;
	const struct average_options *o = a->options;
	void *memory;

	if (o->pin)
		meeting_pin(l->rank, a->cores);
	if (cohort_alloc(l->comm[0], a->room, &memory) != COHORT_OK)
		return fail(l, "alloc");
	l->memory = memory;
	if (!r->platform->memory_is_host) {
		l->staging = malloc(a->room);
		if (!l->staging)
			return meeting_fail(&r->meeting, "out of memory");
	}
	lay(l);
	r->places[l->rank] = (struct limit_place){ l->memory, l->memory };
	pattern_of_rank(&l->pattern, o->type, o->op, l->rank, o->ranks);
	pattern_of_fold(&l->expected, o->type, o->op, o->ranks);
	return wipe(l);
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct runner *r = user;
	struct lane *l = r->lanes[cohort_comm_rank(comm)];

	for (int m = 0; m < METHODS; m++)
		l->comm[m] = r->comms[m][l->rank] ? r->comms[m][l->rank] : comm;
	if (!lane_open(l) || !run_rounds(l))
		return -1;
	cohort_free(comm, l->memory);
	return 0;
}

/* ---- the whole -------------------------------------------------------- */

static void lane_destroy(struct lane *l)
{
	if (l) {
		free(l->tensors);
		free(l->buckets);
		free(l->staging);
	}
	free(l);
}

static struct lane *lane_create(struct runner *r, int rank)
{
	size_t n = r->average->shapes.n;
	struct lane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->runner = r;
	l->rank = rank;
	l->tensors = calloc(n, sizeof(*l->tensors));
	l->buckets = calloc(n, sizeof(*l->buckets));
	if (l->tensors && l->buckets)
		return l;
	lane_destroy(l);
	return NULL;
}

static int open_one(struct runner *r, int method, int way)
{
	const struct average_options *o = r->average->options;
	struct cohort_group_options options;

	cohort_group_options_init(&options);
	options.name = "bench";
	options.platform = o->platform;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	options.stack_signal = CLI_STACK_SIGNAL;
	options.many = way;
	return cohort_group_open(NULL, o->ranks, &options, &r->groups[method]);
}

/* The first is that of all methods without a way of their own. */
static int open_groups(struct runner *r)
{
	const bool *asked = r->average->options->methods;
	int rc = open_one(r, METHOD_ALONE, COHORT_MANY_AUTO);

	if (rc == COHORT_OK && asked[METHOD_GROUP])
		rc = open_one(r, METHOD_GROUP, COHORT_MANY_GROUP);
	if (rc == COHORT_OK && asked[METHOD_FLAT])
		rc = open_one(r, METHOD_FLAT, COHORT_MANY_FLAT);
	for (int m = METHOD_GROUP; m <= METHOD_FLAT; m++)
		if (rc == COHORT_OK && r->groups[m])
			rc = cohort_group_split(r->groups[m], r->comms[m]);
	if (rc == COHORT_OK) {
		r->average->platform =
			cohort_group_platform(r->groups[METHOD_ALONE]);
		rc = platform_open(r->average->platform, &r->platform);
	}
	if (rc == COHORT_OK)
		return CLI_OK;
	cli_complain("bench average", "%s", cohort_last_error());
	return CLI_FAILED;
}

static int close_groups(struct runner *r, int status)
{
	for (int m = METHODS - 1; m >= 0; m--)
		if (cohort_group_close(r->groups[m]) != COHORT_OK &&
		    status == CLI_OK) {
			cli_complain("bench average", "%s",
			             cohort_last_error());
			status = CLI_FAILED;
		}
	return status;
}

static int run(struct runner *r, bool *all_back_out)
{
	struct cohort_cause cause;
	int rc;

	progress_start(&r->progress);
	rc = cohort_group_run(r->groups[METHOD_ALONE], worker, r, &cause);
	progress_erase(&r->progress);
	*all_back_out =
		cohort_group_abandoned(r->groups[METHOD_ALONE], NULL, 0) == 0;
	if (rc == COHORT_OK)
		return CLI_OK;
	cli_complain("bench average", "%s",
	             *r->meeting.complaint ? r->meeting.complaint : cause.text);
	return CLI_FAILED;
}

int average_measure(struct average *a)
{
	struct runner *r = aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
	int status = CLI_OK, ranks = a->options->ranks;
	bool all_back = true;

	if (r)
		memset(r, 0, sizeof(*r));
	for (int i = 0; r && i < ranks && status == CLI_OK; i++) {
		r->average = a;
		r->lanes[i] = lane_create(r, i);
		status = r->lanes[i] ? CLI_OK : CLI_FAILED;
	}
	if (!r || status != CLI_OK) {
		cli_complain("bench average", "out of memory");
		status = CLI_FAILED;
		goto out;
	}
	meeting_init(&r->meeting, ranks, a->cores);
	status = open_groups(r);
	if (status == CLI_OK)
		status = run(r, &all_back);
	status = close_groups(r, status);
out:
	for (int i = 0; r && all_back && i < ranks; i++)
		lane_destroy(r->lanes[i]);
	if (all_back)
		free(r);
	return status;
}
