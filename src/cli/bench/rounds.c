/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The measurement: one thread per rank, set after set, all cases of a set in
 * every round
 *
 * The timed part contains only the operations: the clock is read once before
 * and once after them, and the barriers are outside. The time of a case in a
 * round is the time of its slowest rank. If buffers are rewritten, each
 * operation is timed from the last rank's start to the last rank's end, and the
 * time of the case is the median of these times.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/util.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/* Byte that fills the buffer of the result before it is checked */
#define POISON 0xa5

/* Time that the run waits for a rank that does not return */
#define ABORT_DEADLINE_NS (2 * NS_PER_S)

/* Minimum interval between updates of the progress bar */
#define BAR_NS (NS_PER_S / 20)

/* Number of spins after which a waiting thread starts to yield */
#define MEET_SPINS 20000

/* Number of spins between checks of whether the group has ended */
#define MEET_ASKS (UINT64_C(1) << 20)

/* Store an error message, unless one is stored already. Return false. */
static bool record_error(struct bench *b, const char *text)
{
	/* Relaxed, because the message is read after the threads have
	 * ended. */
	if (!atomic_exchange_explicit(&b->has_failed, true,
	                              memory_order_relaxed))
		snprintf(b->complaint, sizeof(b->complaint), "%s", text);
	return false;
}

/* Store the message, and end all groups except group 0, which ends when this
 * rank's worker returns. */
bool lane_fail(struct lane *l, const char *what, const char *why)
{
	struct bench *b = l->bench;
	char text[sizeof(b->complaint)];

	snprintf(text, sizeof(text), "rank %d, %s: %s", l->rank, what, why);
	record_error(b, text);
	for (int i = 1; i < BENCH_GROUPS; i++)
		if (b->groups[i])
			cohort_group_abort(b->groups[i], what);
	return false;
}

static bool is_lost(struct lane *l)
{
	struct cohort_cause cause;

	cohort_comm_cause(l->comm, &cause);
	return cause.status != COHORT_OK && !record_error(l->bench, cause.text);
}

bool lane_barrier(struct lane *l)
{
	struct bench *b = l->bench;
	bool is_crowded = b->options->ranks > b->cores;
	uint64_t spins = 0;

	l->met += (uint64_t)b->options->ranks;
	/* Acquire and release, so that each rank sees everything that the other
	 * ranks wrote before the barrier. */
	atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(&b->arrived, memory_order_acquire) <
	       l->met) {
		if (atomic_load_explicit(&b->has_failed, memory_order_relaxed))
			return false;
		if (++spins % MEET_ASKS == 0 && is_lost(l))
			return false;
		if (is_crowded || spins > MEET_SPINS)
			sched_yield();
		else
			cpu_pause();
	}
	return true;
}

char *lane_host(const struct lane *l, char *at)
{
	return l->staging && !l->is_plain ? l->staging : at;
}

bool lane_copy(struct lane *l, void *to, const void *from, size_t bytes)
{
	const struct platform *p = l->bench->platform;
	cudaError_t err;

	if (to == from)
		return true;
	/* cohort_copy() cannot be used, because the thread may be inside the
	 * native communicator. */
	err = p->cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
	if (err == cudaSuccess)
		err = p->cudaDeviceSynchronize();
	return err == cudaSuccess ||
	       lane_fail(l, "copy", p->cudaGetErrorString(err));
}

static bool time_row(struct lane *l, uint64_t n)
{
	bool (*operate)(struct lane * lane) = l->bench->operation->operate;
	bool ok = true;
	uint64_t from;

	if (!lane_barrier(l))
		return false;
	from = clock_now();
	for (uint64_t i = 0; i < n && ok; i++)
		ok = operate(l);
	l->ns = (double)(clock_now() - from) / (double)n;
	return ok;
}

static bool time_rewritten(struct lane *l, uint64_t n)
{
	const struct bench_operation *operation = l->bench->operation;

	for (uint64_t i = 0; i < n; i++) {
		bool ok = operation->rewrite(l) && lane_barrier(l);

		l->begins[i] = clock_now();
		ok = ok && operation->operate(l);
		l->ends[i] = clock_now();
		if (!ok)
			return false;
	}
	return true;
}

static bool run_row(struct lane *l, uint64_t n)
{
	return (l->c->rewrites ? time_rewritten : time_row)(l, n) &&
	       lane_barrier(l);
}

static double evaluate(const struct lane *l, uint64_t n)
{
	const struct bench *b = l->bench;
	double slowest = 0.0;

	for (int r = 0; r < b->options->ranks; r++)
		slowest = MAX(slowest, b->lanes[r]->ns);
	if (!l->c->rewrites)
		return slowest;
	/* time of each operation: from the last rank's start to the last rank's
	 * end */
	for (uint64_t i = 0; i < n; i++) {
		uint64_t begin = 0, end = 0;

		for (int r = 0; r < b->options->ranks; r++) {
			begin = MAX(begin, b->lanes[r]->begins[i]);
			end = MAX(end, b->lanes[r]->ends[i]);
		}
		b->scratch[i] = (double)(end - begin);
	}
	return cli_quantile(b->scratch, n, 0.5);
}

bool lane_time(struct lane *l, uint64_t n, double *ns_out)
{
	if (!run_row(l, n))
		return false;
	if (l->rank == 0)
		*ns_out = evaluate(l, n);
	return lane_barrier(l);
}

/* Find the number of operations that make a round long enough, by trying larger
 * and larger numbers. Rank 0 writes the number between two barriers. */
static bool calibrate(struct lane *l)
{
	const struct bench_operation *operation = l->bench->operation;
	uint64_t limit = operation->most;

	for (uint64_t n = 1; !l->c->iterations; n *= 8) {
		if (!run_row(l, n))
			return false;
		if (l->rank == 0) {
			double ns = evaluate(l, n) + 1.0;
			uint64_t most = (uint64_t)(operation->round_ns / ns);

			most = MAX(most, operation->least);
			if (most <= 8 * n || 8 * n > limit)
				l->c->iterations = MIN(most, limit);
		}
		if (!lane_barrier(l))
			return false;
	}
	return true;
}

static bool measure(struct lane *l, double *ns_out)
{
	uint64_t warm_up = l->bench->options->warm_up;

	return calibrate(l) && (!warm_up || run_row(l, warm_up)) &&
	       lane_time(l, l->c->iterations, ns_out);
}

/* Check a result. First overwrite the result buffer, because it could still
 * hold the right result of an earlier operation. */
static bool check(struct lane *l)
{
	const struct bench_operation *operation = l->bench->operation;

	return (!operation->fill || operation->fill(l, POISON)) &&
	       operation->rewrite(l) && lane_barrier(l) &&
	       operation->operate(l) && operation->compare(l) &&
	       lane_barrier(l);
}

static bool run_case(struct lane *l, uint64_t round)
{
	const struct bench_operation *operation = l->bench->operation;
	const struct bench_options *o = l->bench->options;
	bool ok;

	if (operation->enter && !operation->enter(l))
		return false;
	ok = !o->check || !l->c->is_checked ||
	     (round != 0 && round + 1 != o->rounds) || check(l);
	/* Start from zeros, which stay zeros no matter how often they are
	 * reduced. */
	ok = ok &&
	     (l->c->rewrites || !operation->fill || operation->fill(l, 0)) &&
	     measure(l, &l->c->times_ns[round]);
	if (operation->leave)
		operation->leave(l);
	return ok;
}

/* Pin the thread to one of the process's cores; consecutive ranks get
 * consecutive cores. */
static void pin(const struct lane *l)
{
	int skip = l->rank % l->bench->cores, cpu = 0;
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

static bool allocate(struct lane *l)
{
	struct bench *b = l->bench;
	char what[40];
	bool ok;

	snprintf(what, sizeof(what), "%zu bytes", b->bytes);
	for (int i = 0; i < b->buffers; i++) {
		void *memory;

		if (cohort_alloc(l->comm, b->bytes, &memory) != COHORT_OK)
			return lane_fail(l, what, cohort_last_error());
		l->buffer[i] = memory;
	}
	if (b->platform->memory_is_host)
		return true;
	l->staging = malloc(b->bytes);
	ok = l->staging;
	for (int i = 0; i < b->buffers && b->needs_plain; i++)
		ok = (l->plain[i] = malloc(b->bytes)) && ok;
	return ok || lane_fail(l, what, "out of memory");
}

/* Draw how much is done before case @nth of @n in @round of the set that starts
 * with case @first. */
static void draw_bar(struct bench *b, const struct bench_case *c, size_t first,
                     size_t n, uint64_t round, size_t nth)
{
	const uint64_t rounds = b->options->rounds;
	char bar[] = "....................", line[160];

	if (!b->bar_width || clock_now() - b->drawn_ns < BAR_NS)
		return;
	b->drawn_ns = clock_now();
	memset(bar, '#',
	       (first * rounds + round * n + nth) * strlen(bar) /
	               (rounds * b->count));
	snprintf(line, sizeof(line), "[%s] round %llu/%llu  %s, %zu bytes, %s",
	         bar, (unsigned long long)round + 1, (unsigned long long)rounds,
	         c->title, c->bytes, c->mode);
	fprintf(stderr, "\r%-*.*s", b->bar_width, b->bar_width, line);
}

static void clear_bar(const struct bench *b)
{
	if (b->bar_width)
		fprintf(stderr, "\r%*s\r", b->bar_width, "");
}

/* Measure the set of @n cases that starts with @first.  Each round starts with
 * another case. */
static bool run_set(struct lane *l, size_t first, size_t n)
{
	struct bench *b = l->bench;

	for (uint64_t round = 0; round < b->options->rounds; round++)
		for (size_t i = 0; i < n; i++) {
			l->c = &b->cases[first + (round + i) % n];
			if (l->rank == 0)
				draw_bar(b, l->c, first, n, round, i);
			if (!run_case(l, round))
				return false;
		}
	return true;
}

static bool run_sets(struct lane *l)
{
	struct bench *b = l->bench;
	const bool shows = l->rank == 0 && !b->options->json;

	for (size_t first = 0, n; first < b->count; first += n) {
		for (n = 1; first + n < b->count; n++)
			if (b->cases[first + n].set != b->cases[first].set)
				break;
		if (!run_set(l, first, n))
			return false;
		if (!shows)
			continue;
		clear_bar(b);
		bench_print_rows(b, first, n);
	}
	return true;
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct bench *b = user;
	struct lane *l = b->lanes[cohort_comm_rank(comm)];
	bool ok;

	l->comm = comm;
	if (b->options->pin)
		pin(l);
	ok = allocate(l) && (!b->operation->open || b->operation->open(l)) &&
	     run_sets(l);
	if (b->operation->close)
		b->operation->close(l);
	/* After a failure other ranks may still use this rank's memory. */
	for (int i = 0; ok && i < b->buffers; i++)
		cohort_free(comm, l->buffer[i]);
	return ok ? 0 : -1;
}

int bench_open_group(struct bench *b, int i, int many)
{
	const struct bench_options *o = b->options;
	struct cohort_group_options options;

	cohort_group_options_init(&options);
	options.log = "none";
	options.name = "bench";
	options.platform = o->platform;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	options.stack_signal = CLI_STACK_SIGNAL;
	options.many = many;
	return cohort_group_open(NULL, o->ranks, &options, &b->groups[i]);
}

static int open_groups(struct bench *b)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	int rc = bench_open_group(b, 0, COHORT_MANY_AUTO);

	if (rc == COHORT_OK && b->operation->open_groups)
		rc = b->operation->open_groups(b);
	if (rc == COHORT_OK) {
		b->kind = cohort_group_platform(b->groups[0]);
		cohort_platform_probe(b->kind, &info);
		b->launch = info.launch;
		rc = platform_open(b->kind, &b->platform);
	}
	if (rc == COHORT_OK)
		return CLI_OK;
	return cli_fail("%s", cohort_last_error());
}

static int run_group(struct bench *b)
{
	struct cohort_cause cause;
	int rc;

	if (isatty(STDERR_FILENO))
		b->bar_width = cli_columns(STDERR_FILENO);
	rc = cohort_group_run(b->groups[0], worker, b, &cause);
	clear_bar(b);
	b->bar_width = 0;
	b->is_abandoned = cohort_group_abandoned(b->groups[0], NULL, 0) != 0;
	if (rc == COHORT_OK)
		return CLI_OK;
	return cli_fail("%s", *b->complaint ? b->complaint : cause.text);
}

int bench_measure(struct bench *b)
{
	int status = open_groups(b);

	if (status == CLI_OK && !b->options->json)
		bench_print_head(b);
	if (status == CLI_OK)
		status = run_group(b);
	for (int i = BENCH_GROUPS - 1; i >= 0; i--)
		if (cohort_group_close(b->groups[i]) != COHORT_OK &&
		    status == CLI_OK)
			status = cli_fail("%s", cohort_last_error());
	return status;
}

void *bench_allocate(size_t n, size_t size)
{
	const size_t bytes = (n * size + 63) / 64 * 64;

	return memset(cli_need(aligned_alloc(64, bytes)), 0, bytes);
}

/* The array is full when @n is 0 or a power of two. Double it then. */
void *bench_grow(void *array, size_t n, size_t size)
{
	return n & (n - 1) ? array
	                   : cli_need(realloc(array, (n ? 2 * n : 1) * size));
}

void bench_add_case(struct bench *b, const struct bench_case *c)
{
	b->cases = bench_grow(b->cases, b->count, sizeof(*c));
	b->cases[b->count] = *c;
	b->cases[b->count++].times_ns =
		bench_allocate(b->options->rounds, sizeof(double));
}

void bench_destroy(struct bench *b)
{
	struct lane *l;

	if (b->is_abandoned)
		return;
	for (int r = 0; r < b->options->ranks; r++) {
		l = b->lanes[r];
		free(l->staging);
		free(l->plain[0]);
		free(l->plain[1]);
		free(l->tensors);
		free(l->buckets);
		free(l->begins);
		free(l->ends);
		free(l);
	}
	for (size_t i = 0; i < b->count; i++)
		free(b->cases[i].times_ns);
	free(b->cases);
	free(b->shapes.all);
	free(b->scratch);
	free(b);
}

struct bench *bench_create(const struct bench_options *o, int cores)
{
	struct bench *b = bench_allocate(1, sizeof(*b));
	uint64_t samples = MAX(o->warm_up, o->iterations);
	struct lane *l;

	if (!o->iterations)
		samples = MAX(samples, o->operation->most);
	b->options = o;
	b->operation = o->operation;
	b->cores = cores;
	b->scratch = bench_allocate(MAX(samples, o->rounds), sizeof(double));
	for (int r = 0; r < o->ranks; r++) {
		l = b->lanes[r] = bench_allocate(1, sizeof(*l));
		l->bench = b;
		l->rank = r;
		l->begins = bench_allocate(samples, sizeof(*l->begins));
		l->ends = bench_allocate(samples, sizeof(*l->ends));
	}
	if (b->operation->plan(b) == CLI_OK)
		return b;
	bench_destroy(b);
	return NULL;
}
