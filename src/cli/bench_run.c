/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The measurement: one thread per rank, all cases in every round
 *
 * In the timed part there is nothing but the operations: the clock is read once
 * before and once after, and the ranks meet outside of it.  A round's time of a case
 * is, where operations follow each other, that of the slowest rank; where buffers are
 * rewritten, the median over the operations of the time from the last rank's begin to
 * the last rank's end.
 *
 * The limit takes the place of the operation in the same loop.
 */

#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench_data.h"
#include "bench_limit.h"
#include "cli.h"
#include "progress.h"

/* How long a round of a case takes, if it is not said how often; within limits. */
#define AUTO_NS UINT64_C(5000000)
#define AUTO_LEAST 2
#define AUTO_MOST 10000

/* Rounds of waiting for another rank before the core is given away, and before it is
 * asked whether there is anybody left to come. */
#define MEET_SPINS 20000
#define MEET_ASKS (UINT64_C(1) << 20)

/* After which the run does not wait for a rank that does not come back. */
#define ABORT_DEADLINE_NS NS_PER_S

/* In the place of results before they are checked. */
#define POISON 0xa5

enum who { WHO_API, WHO_TABLE, WHO_LIMIT };

/* A rank's, of its own thread; but for what the others read between two meetings. */
struct lane {
	struct bench *bench;
	struct caller caller;
	struct call call;
	enum who who;
	const struct collective *collective;
	size_t block; /* bytes of one */
	uint64_t met; /* arrivals of all ranks that make this rank's meeting */
	char *buffer[2]; /* to receive; to send from, if not in place */
	char *staging;   /* where device memory cannot be written, else NULL */
	char *send;      /* what the call sends, writable */
	struct pattern pattern;  /* of what it sends */
	struct pattern expected; /* of a block of the result */

	/* Read by rank 0's between two meetings. */
	double ns;        /* of an operation, back to back */
	uint64_t *begins; /* of each operation; rewritten */
	uint64_t *ends;   /* likewise */
};

struct bench {
	struct bench_plan *plan;
	struct cohort_group *group;
	int ranks;
	int cores;
	struct lane **lanes;
	struct limit_place
		*places; /* written by their ranks before a meeting */
	const struct platform *platform;

	/* Owned by rank 0's thread. */
	struct progress progress;
	double *scratch;

	/* Atomic; counts arrivals of all ranks, never reset. */
	_Alignas(64) atomic_ullong arrived;

	/* Atomic; set once by the first rank that fails, which then writes the
	 * complaint; read by the others, and by the main thread after the run. */
	_Alignas(64) atomic_bool has_failed;
	char complaint[1200];
};

/* ---- failures --------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool fail(struct lane *lane,
                                                       const char *format, ...)
{
	struct bench *b = lane->bench;
	va_list args;

	/* Relaxed: the complaint is read after the threads have ended. */
	if (!atomic_exchange_explicit(&b->has_failed, true,
	                              memory_order_relaxed)) {
		va_start(args, format);
		vsnprintf(b->complaint, sizeof(b->complaint), format, args);
		va_end(args);
	}
	return false;
}

static bool is_lost(struct lane *lane)
{
	struct cohort_cause cause;

	cohort_comm_cause(lane->caller.comm, &cause);
	return cause.status != COHORT_OK && !fail(lane, "%s", cause.text);
}

/* ---- meeting ---------------------------------------------------------- */

static void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

/* Wait for all ranks.  False if one has failed. */
static bool meet(struct lane *lane)
{
	struct bench *b = lane->bench;
	bool crowded = b->ranks > b->cores;
	uint64_t spins = 0;

	lane->met += (uint64_t)b->ranks;
	/* Release, and acquire: what each has done before is seen by all. */
	atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(&b->arrived, memory_order_acquire) <
	       lane->met) {
		if (atomic_load_explicit(&b->has_failed, memory_order_relaxed))
			return false;
		if (++spins % MEET_ASKS == 0 && is_lost(lane))
			return false;
		if (crowded || spins > MEET_SPINS)
			sched_yield();
		else
			relax();
	}
	return true;
}

/* ---- one operation ---------------------------------------------------- */

static inline int submit(struct lane *lane)
{
	switch (lane->who) {
	case WHO_API:
		return lane->collective->by_api(&lane->caller, &lane->call);
	case WHO_TABLE:
		return (int)lane->collective->by_table(&lane->caller,
		                                       &lane->call);
	case WHO_LIMIT:
		limit_run(lane->collective, lane->bench->places,
		          lane->caller.rank, lane->caller.ranks,
		          lane->call.root, lane->block);
	}
	return 0;
}

static inline int finish(struct lane *lane)
{
	switch (lane->who) {
	case WHO_API:
		return cohort_wait(lane->caller.comm, lane->call.ticket,
		                   COHORT_FOREVER);
	case WHO_TABLE:
		return (int)lane->caller.platform->cudaStreamSynchronize(
			lane->caller.stream);
	case WHO_LIMIT:
		break;
	}
	return 0;
}

/* Both; what they answer was 0, or it is told. */
static bool explain(struct lane *lane, int submitted, int finished)
{
	const struct platform *p = lane->caller.platform;
	const char *why;

	if (!submitted && !finished)
		return true;
	if (lane->who == WHO_API)
		why = cohort_last_error();
	else if (submitted)
		why = p->ncclGetErrorString((ncclResult_t)submitted);
	else
		why = p->cudaGetErrorString((cudaError_t)finished);
	return fail(lane, "rank %d, %s: %s", lane->caller.rank,
	            lane->collective->name, why);
}

/* ---- buffers ---------------------------------------------------------- */

/* Where @bytes for @at are to be written, or have been read. */
static char *host_side(struct lane *lane, char *at)
{
	return lane->staging ? lane->staging : at;
}

static bool transfer(struct lane *lane, void *to, const void *from,
                     size_t bytes)
{
	const struct platform *p = lane->caller.platform;
	cudaError_t err;

	if (!lane->staging)
		return true;
	err = p->cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
	if (err == cudaSuccess)
		err = p->cudaDeviceSynchronize();
	return err == cudaSuccess ||
	       fail(lane, "rank %d, copy: %s", lane->caller.rank,
	            p->cudaGetErrorString(err));
}

/* What the rank sends. */
static bool rewrite(struct lane *lane)
{
	size_t blocks =
		collective_send_blocks(lane->collective, lane->caller.ranks);
	char *at = host_side(lane, lane->send);

	pattern_put(&lane->pattern, at, blocks * lane->call.count);
	return transfer(lane, lane->send, at, blocks * lane->block);
}

/* All that the case uses. */
static bool wipe(struct lane *lane, int byte)
{
	const struct collective *c = lane->collective;
	size_t ranks = (size_t)lane->caller.ranks;
	size_t bytes = lane->block *
	               (c->sends_blocks || c->receives_blocks ? ranks : 1);

	for (int i = 0; i < 2; i++) {
		char *at = host_side(lane, lane->buffer[i]);

		if (!lane->buffer[i])
			continue;
		memset(at, byte, bytes);
		if (!transfer(lane, lane->buffer[i], at, bytes))
			return false;
	}
	return true;
}

/* Get ready for a case. */
static void aim(struct lane *lane, const struct bench_case *c)
{
	const struct caller *w = &lane->caller;
	size_t block = c->count * cohort_type_size(c->type);
	char *base = lane->buffer[0], *recv = base;

	lane->send = lane->buffer[1];
	if (c->mode.in_place) {
		lane->send = base + collective_send_offset(c->collective,
		                                           w->rank, block);
		recv += collective_recv_offset(c->collective, w->rank, block);
	}
	lane->collective = c->collective;
	lane->block = block;
	lane->call = (struct call){
		.send = lane->send,
		.recv = recv,
		.count = c->count,
		.type = c->type,
		.op = c->op < 0 ? COHORT_SUM : c->op,
		.root = lane->bench->plan->options->root,
	};
	lane->bench->places[w->rank] = (struct limit_place){ lane->send, recv };
	pattern_of_rank(&lane->pattern, c->type, c->op, w->rank, w->ranks);
}

/* ---- checking --------------------------------------------------------- */

/* What is to be in block @b of the result. */
static void expect(struct lane *lane, const struct bench_case *c, int b)
{
	int rank = lane->caller.rank, ranks = lane->caller.ranks, from = b;

	switch (c->collective->source) {
	case SOURCE_FOLD:
		pattern_of_fold(&lane->expected, c->type, c->op, ranks);
		return;
	case SOURCE_ROOT:
		from = lane->call.root;
		break;
	case SOURCE_EACH:
		break;
	case SOURCE_PREVIOUS:
		from = (rank + ranks - 1) % ranks;
		break;
	}
	pattern_of_rank(&lane->expected, c->type, c->op, from, ranks);
}

static bool count_wrong(struct lane *lane, struct bench_case *c)
{
	int rank = lane->caller.rank, ranks = lane->caller.ranks;
	int blocks = c->collective->receives_blocks ? ranks : 1;
	size_t first =
		c->collective->sends_blocks ? (size_t)rank * c->count : 0;
	char *at = host_side(lane, lane->call.recv);
	size_t wrong = 0;

	if (c->collective->only_root && rank != lane->call.root)
		return true;
	if (!transfer(lane, at, lane->call.recv, (size_t)blocks * lane->block))
		return false;
	for (int b = 0; b < blocks; b++) {
		expect(lane, c, b);
		wrong += pattern_wrong(&lane->expected,
		                       at + (size_t)b * lane->block, first,
		                       c->count);
	}
	/* Relaxed: a sum that is read after the threads have ended. */
	atomic_fetch_add_explicit(&c->wrong, wrong, memory_order_relaxed);
	return true;
}

/* ---- the timed part --------------------------------------------------- */

static bool time_row(struct lane *lane, uint64_t n, uint64_t depth)
{
	int submitted = 0, finished = 0;
	uint64_t from;

	if (!meet(lane))
		return false;
	from = clock_now();
	for (uint64_t i = 0; i < n; i += depth) {
		for (uint64_t k = 0; k < depth && !submitted; k++)
			submitted = submit(lane);
		if (submitted || (finished = finish(lane)))
			break;
	}
	lane->ns = (double)(clock_now() - from) / (double)n;
	return explain(lane, submitted, finished);
}

static bool time_enqueue(struct lane *lane, uint64_t n, uint64_t depth)
{
	int submitted = 0, finished = 0;
	uint64_t from, sum = 0;

	if (!meet(lane))
		return false;
	for (uint64_t i = 0; i < n; i += depth) {
		from = clock_now();
		for (uint64_t k = 0; k < depth && !submitted; k++)
			submitted = submit(lane);
		sum += clock_now() - from;
		if (submitted || (finished = finish(lane)))
			break;
	}
	lane->ns = (double)sum / (double)n;
	return explain(lane, submitted, finished);
}

static bool time_rewritten(struct lane *lane, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		int submitted, finished;

		if (!rewrite(lane) || !meet(lane))
			return false;
		lane->begins[i] = clock_now();
		submitted = submit(lane);
		finished = submitted ? 0 : finish(lane);
		lane->ends[i] = clock_now();
		if (!explain(lane, submitted, finished))
			return false;
	}
	return true;
}

/* All ranks' @n operations; then they have met. */
static bool run_row(struct lane *lane, enum bench_pace pace, uint64_t n)
{
	uint64_t depth = lane->bench->plan->options->depth[pace];
	bool ok = pace == PACE_REWRITE   ? time_rewritten(lane, n)
	          : pace == PACE_ENQUEUE ? time_enqueue(lane, n, depth)
	                                 : time_row(lane, n, depth);

	return ok && meet(lane);
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

/* From the last begin to the last end. */
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

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* How often, so that a round takes a while: found by doing it more and more often.
 * Written by rank 0, between meetings. */
static bool calibrate(struct lane *lane, enum bench_pace pace, uint64_t *often)
{
	uint64_t depth = lane->bench->plan->options->depth[pace];

	for (uint64_t n = depth; !*often; n *= 8) {
		if (!run_row(lane, pace, n))
			return false;
		if (lane->caller.rank == 0) {
			double ns = evaluate(lane->bench, pace, n) + 1.0;
			uint64_t most = (uint64_t)(AUTO_NS / ns);

			if (most < AUTO_LEAST)
				most = AUTO_LEAST;
			if (most <= 8 * n || 8 * n > AUTO_MOST)
				*often = round_up(most < AUTO_MOST ? most
				                                   : AUTO_MOST,
				                  depth);
		}
		if (!meet(lane))
			return false;
	}
	return true;
}

static bool run_timed(struct lane *lane, enum bench_pace pace, uint64_t *often,
                      double *ns_out)
{
	const struct bench_options *o = lane->bench->plan->options;
	uint64_t warm_up = round_up(o->warm_up, o->depth[pace]);

	if (!calibrate(lane, pace, often) ||
	    (warm_up && !run_row(lane, pace, warm_up)) ||
	    !run_row(lane, pace, *often))
		return false;
	if (lane->caller.rank == 0)
		*ns_out = evaluate(lane->bench, pace, *often);
	return true;
}

static bool enter(struct lane *lane, enum who who)
{
	void *native;

	lane->who = who;
	if (who != WHO_TABLE)
		return true;
	if (cohort_comm_native_enter(lane->caller.comm, &native) != COHORT_OK)
		return fail(lane, "rank %d: %s", lane->caller.rank,
		            cohort_last_error());
	lane->caller.native = native;
	return true;
}

static void leave(struct lane *lane)
{
	if (lane->who == WHO_TABLE)
		cohort_comm_native_leave(lane->caller.comm);
}

/* Once with values that tell; what they were before could be right, too. */
static bool check(struct lane *lane, struct bench_case *c, enum who who)
{
	int submitted, finished;
	bool ok = wipe(lane, POISON) && rewrite(lane) && meet(lane) &&
	          enter(lane, who);

	if (!ok)
		return false;
	submitted = submit(lane);
	finished = submitted ? 0 : finish(lane);
	leave(lane);
	return explain(lane, submitted, finished) && count_wrong(lane, c);
}

static bool measure(struct lane *lane, const struct bench_case *c, enum who who,
                    uint64_t *often, double *ns_out)
{
	bool ok;

	/* Sums of zeros stay what they are, however often. */
	if (c->mode.pace != PACE_REWRITE && !wipe(lane, 0))
		return false;
	if (!enter(lane, who))
		return false;
	ok = run_timed(lane, c->mode.pace, often, ns_out);
	leave(lane);
	return ok;
}

static bool run_case(struct lane *lane, struct bench_case *c, uint64_t round)
{
	const struct bench_options *o = lane->bench->plan->options;
	enum who who = c->mode.raw ? WHO_TABLE : WHO_API;

	aim(lane, c);
	if (o->check && (round == 0 || round + 1 == o->rounds) &&
	    !check(lane, c, who))
		return false;
	if (c->limits_ns && !measure(lane, c, WHO_LIMIT, &c->limit_iterations,
	                             &c->limits_ns[round]))
		return false;
	return measure(lane, c, who, &c->iterations, &c->times_ns[round]);
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
	         bench_mode_text(plan->options, &c->mode, mode));
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

/* To one of the cores that the process may use, in turn. */
static void pin(int rank, int cores)
{
	int skip = rank % cores, cpu = 0;
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	for (; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && skip-- == 0)
			break;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static bool prepare(struct lane *lane)
{
	struct bench *b = lane->bench;
	size_t bytes = b->plan->bytes;

	for (int i = 0; i < (b->plan->needs_two ? 2 : 1); i++) {
		void *memory;

		if (cohort_alloc(lane->caller.comm, bytes, &memory) !=
		    COHORT_OK)
			return fail(lane, "rank %d, %zu bytes: %s",
			            lane->caller.rank, bytes,
			            cohort_last_error());
		lane->buffer[i] = memory;
	}
	if (b->platform->kind == COHORT_PLATFORM_HOST)
		return true;
	lane->staging = malloc(bytes);
	return lane->staging || fail(lane, "out of memory: %zu bytes", bytes);
}

/* What an operation may still use stays. */
static void give_back(struct lane *lane)
{
	struct cohort_comm *comm = lane->caller.comm;

	free(lane->staging);
	if (cohort_synchronize(comm, COHORT_FOREVER) == COHORT_WEDGED)
		return;
	for (int i = 0; i < 2; i++)
		cohort_free(comm, lane->buffer[i]);
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct bench *b = user;
	struct lane *lane = b->lanes[cohort_comm_rank(comm)];
	bool ok;

	lane->caller = (struct caller){
		.comm = comm,
		.platform = b->platform,
		.stream = cohort_comm_stream(comm),
		.rank = cohort_comm_rank(comm),
		.ranks = b->ranks,
	};
	if (b->plan->options->pin)
		pin(lane->caller.rank, b->cores);
	ok = prepare(lane) && run_rounds(lane);
	/* The others may wait for this one: no time to give anything back. */
	if (!ok)
		return -1;
	give_back(lane);
	return 0;
}

/* ---- the whole -------------------------------------------------------- */

static void lane_destroy(struct lane *lane)
{
	if (!lane)
		return;
	free(lane->begins);
	free(lane->ends);
	free(lane);
}

static struct lane *lane_create(struct bench *b, size_t samples)
{
	struct lane *lane = aligned_alloc(64, (sizeof(*lane) + 63) / 64 * 64);

	if (!lane)
		return NULL;
	memset(lane, 0, sizeof(*lane));
	lane->bench = b;
	lane->begins = calloc(samples, sizeof(*lane->begins));
	lane->ends = calloc(samples, sizeof(*lane->ends));
	if (lane->begins && lane->ends)
		return lane;
	lane_destroy(lane);
	return NULL;
}

static void bench_fini(struct bench *b)
{
	for (int r = 0; b->lanes && r < b->ranks; r++)
		lane_destroy(b->lanes[r]);
	free(b->lanes);
	free(b->places);
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
	b->lanes = calloc(ranks, sizeof(struct lane *));
	b->places = calloc(ranks, sizeof(struct limit_place));
	b->scratch = calloc(samples, sizeof(double));
	if (!b->lanes || !b->places || !b->scratch)
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
	options.name = "bench";
	options.platform = b->plan->options->platform;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	if (cohort_group_open(NULL, b->ranks, &options, &b->group) !=
	    COHORT_OK) {
		cli_complain("bench", "%s", cohort_last_error());
		return CLI_FAILED;
	}
	b->plan->platform = cohort_group_platform(b->group);
	if (platform_open(b->plan->platform, &b->platform) == COHORT_OK)
		return CLI_OK;
	cli_complain("bench", "%s", cohort_last_error());
	cohort_group_close(b->group);
	return CLI_FAILED;
}

/* True if no rank is left that still uses what it was given. */
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
		             *b->complaint ? b->complaint : cause.text);
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
