/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The measurement: one thread per rank, all cases in every round
 *
 * The timed part has nothing but the operations: the clock is read once before and once
 * after them, and the ranks meet outside.  The time of a case in a round is that of the
 * slowest rank; where buffers are rewritten, it is the median over the operations of the
 * time from the last rank's begin to the last rank's end.
 */

#include "cli/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/bench/lane.h"
#include "cli/common/cli.h"

/* How long a round of a case takes, within limits, if -n is not given. */
#define AUTO_NS UINT64_C(5000000)
#define AUTO_LEAST 2
#define AUTO_MOST 10000

/* How long the run waits for a rank that does not come back. */
#define ABORT_DEADLINE_NS (2 * NS_PER_S)

/* ---- the timed part --------------------------------------------------- */

static bool time_row(struct lane *lane, uint64_t n)
{
	int submitted = 0, finished = 0;
	uint64_t from;

	if (!lane_meet(lane))
		return false;
	from = clock_now();
	for (uint64_t i = 0; i < n; i++) {
		submitted = lane_submit(lane);
		if (submitted || (finished = lane_finish(lane)))
			break;
	}
	lane->ns = (double)(clock_now() - from) / (double)n;
	return lane_explain(lane, submitted, finished);
}

static bool time_rewritten(struct lane *lane, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		int submitted, finished;

		if (!lane_rewrite(lane) || !lane_meet(lane))
			return false;
		lane->begins[i] = clock_now();
		submitted = lane_submit(lane);
		finished = submitted ? 0 : lane_finish(lane);
		lane->ends[i] = clock_now();
		if (!lane_explain(lane, submitted, finished))
			return false;
	}
	return true;
}

/* Make @n operations on all ranks, which meet at the end. */
static bool run_row(struct lane *lane, enum bench_pace pace, uint64_t n)
{
	return (pace == PACE_REWRITE ? time_rewritten : time_row)(lane, n) &&
	       lane_meet(lane);
}

/* ---- a round's time, by rank 0 ---------------------------------------- */

static double slowest(const struct bench *b)
{
	double most = 0.0;

	for (int r = 0; r < b->ranks; r++)
		if (b->lanes[r]->ns > most)
			most = b->lanes[r]->ns;
	return most;
}

/* The time from the last begin to the last end. */
static double span(const struct bench *b, uint64_t i)
{
	uint64_t begin = 0, end = 0;

	for (int r = 0; r < b->ranks; r++) {
		if (b->lanes[r]->begins[i] > begin)
			begin = b->lanes[r]->begins[i];
		if (b->lanes[r]->ends[i] > end)
			end = b->lanes[r]->ends[i];
	}
	return (double)(end - begin);
}

static double evaluate(const struct bench *b, enum bench_pace pace, uint64_t n)
{
	if (pace != PACE_REWRITE)
		return slowest(b);
	for (uint64_t i = 0; i < n; i++)
		b->scratch[i] = span(b, i);
	return bench_quantile(b->scratch, n, 0.5);
}

/* ---- a case ----------------------------------------------------------- */

/* Find how many operations make a round long enough, by making more and more.
 * Rank 0 writes the number between meetings. */
static bool calibrate(struct lane *lane, enum bench_pace pace, uint64_t *often)
{
	for (uint64_t n = 1; !*often; n *= 8) {
		if (!run_row(lane, pace, n))
			return false;
		if (lane->caller.rank == 0) {
			double ns = evaluate(lane->bench, pace, n) + 1.0;
			uint64_t most = (uint64_t)((double)AUTO_NS / ns);

			if (most < AUTO_LEAST)
				most = AUTO_LEAST;
			if (most <= 8 * n || 8 * n > AUTO_MOST)
				*often = most < AUTO_MOST ? most : AUTO_MOST;
		}
		if (!lane_meet(lane))
			return false;
	}
	return true;
}

static bool run_timed(struct lane *lane, enum bench_pace pace, uint64_t *often,
                      double *ns_out)
{
	const struct bench_options *o = lane->bench->plan->options;

	if (!calibrate(lane, pace, often) ||
	    (o->warm_up && !run_row(lane, pace, o->warm_up)) ||
	    !run_row(lane, pace, *often))
		return false;
	if (lane->caller.rank == 0)
		*ns_out = evaluate(lane->bench, pace, *often);
	return true;
}

static bool measure(struct lane *lane, struct bench_case *c, double *ns_out)
{
	bool ok;

	/* Zeros stay zeros, however often they are reduced. */
	if (c->mode.pace != PACE_REWRITE && !lane_wipe(lane, 0))
		return false;
	if (!lane_enter(lane, c->mode.path))
		return false;
	ok = run_timed(lane, c->mode.pace, &c->iterations, ns_out);
	lane_leave(lane);
	return ok;
}

static bool run_case(struct lane *lane, struct bench_case *c, uint64_t round)
{
	const struct bench_options *o = lane->bench->plan->options;

	lane_aim(lane, c);
	if (o->check && (round == 0 || round + 1 == o->rounds) &&
	    !lane_check(lane, c))
		return false;
	return measure(lane, c, &c->times_ns[round]);
}

/* ---- a rank's thread -------------------------------------------------- */

static void show_progress(struct bench *b, const struct bench_case *c,
                          uint64_t round)
{
	const struct bench_plan *plan = b->plan;
	uint64_t rounds = plan->options->rounds;
	size_t at = (size_t)(c - plan->cases);
	char text[160], mode[BENCH_MODE_TEXT];

	if (!progress_is_due(&b->progress))
		return;
	snprintf(text, sizeof(text), "round %llu/%llu  %s, %zu bytes, %s",
	         (unsigned long long)round + 1, (unsigned long long)rounds,
	         c->collective->name, c->bytes,
	         bench_mode_text(&c->mode, mode));
	progress_draw(&b->progress, round * plan->count + at,
	              rounds * plan->count, text);
}

static bool run_rounds(struct lane *lane)
{
	struct bench *b = lane->bench;

	for (uint64_t round = 0; round < b->plan->options->rounds; round++) {
		for (size_t i = 0; i < b->plan->count; i++) {
			struct bench_case *c = &b->plan->cases[i];

			if (lane->caller.rank == 0)
				show_progress(b, c, round);
			if (!run_case(lane, c, round))
				return false;
		}
	}
	return true;
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct bench *b = user;
	struct lane *lane = b->lanes[cohort_comm_rank(comm)];

	/* The others may wait for this rank: return without freeing anything. */
	if (!lane_open(lane, comm) || !run_rounds(lane))
		return -1;
	lane_close(lane);
	return 0;
}

/* ---- the whole -------------------------------------------------------- */

static void bench_fini(struct bench *b)
{
	for (int r = 0; b->lanes && r < b->ranks; r++)
		lane_destroy(b->lanes[r]);
	free(b->lanes);
	free(b->scratch);
}

/* How many operations a rank keeps the times of. */
static size_t samples_of(const struct bench_options *options)
{
	uint64_t n = options->iterations ? options->iterations : AUTO_MOST;

	return options->warm_up > n ? options->warm_up : n;
}

static bool bench_init(struct bench *b, struct bench_plan *plan)
{
	size_t ranks = (size_t)plan->options->ranks;
	size_t samples = samples_of(plan->options);

	memset(b, 0, sizeof(*b));
	b->plan = plan;
	b->ranks = plan->options->ranks;
	b->cores = plan->cores;
	meeting_init(&b->meeting, b->ranks, b->cores);
	b->lanes = calloc(ranks, sizeof(struct lane *));
	b->scratch = calloc(samples, sizeof(double));
	if (!b->lanes || !b->scratch)
		return false;
	for (int r = 0; r < b->ranks; r++)
		if (!(b->lanes[r] = lane_create(b, samples)))
			return false;
	return true;
}

static int open_group(struct bench *b)
{
	struct cohort_group_options options;

	cohort_group_options_init(&options);
	options.log = "none";
	options.name = "bench";
	options.platform = b->plan->options->platform;
	options.launch = b->plan->options->launch;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	options.stack_signal = CLI_STACK_SIGNAL;
	if (cohort_group_open(NULL, b->ranks, &options, &b->group) !=
	    COHORT_OK) {
		cli_complain("bench", "%s", cohort_last_error());
		return CLI_FAILED;
	}
	b->plan->platform = cohort_group_platform(b->group);
	b->plan->launch = cohort_group_launch(b->group);
	if (platform_open(b->plan->platform, &b->platform) == COHORT_OK)
		return CLI_OK;
	cli_complain("bench", "%s", cohort_last_error());
	cohort_group_close(b->group);
	return CLI_FAILED;
}

/* True if no thread is left that may use the lanes. */
static bool run_group(struct bench *b, int *status_out)
{
	struct cohort_cause cause;
	bool all_back;
	int rc;

	progress_start(&b->progress);
	rc = cohort_group_run(b->group, worker, b, &cause);
	progress_erase(&b->progress);
	all_back = cohort_group_abandoned(b->group, NULL, 0) == 0;
	*status_out = rc == COHORT_OK ? CLI_OK : CLI_FAILED;
	if (rc != COHORT_OK)
		cli_complain("bench", "%s",
		             *b->meeting.complaint ? b->meeting.complaint
		                                   : cause.text);
	return all_back;
}

int bench_measure(struct bench_plan *plan)
{
	struct bench *b = aligned_alloc(64, sizeof(*b));
	int status = CLI_FAILED;
	bool all_back = true;

	if (!b || !bench_init(b, plan)) {
		cli_complain("bench", "out of memory");
		goto out;
	}
	status = open_group(b);
	if (status != CLI_OK)
		goto out;
	if (!plan->options->json)
		bench_print_head(plan);
	all_back = run_group(b, &status);
	if (cohort_group_close(b->group) != COHORT_OK && status == CLI_OK) {
		cli_complain("bench", "%s", cohort_last_error());
		status = CLI_FAILED;
	}
out:
	if (b && all_back)
		bench_fini(b);
	if (all_back)
		free(b);
	return status;
}
