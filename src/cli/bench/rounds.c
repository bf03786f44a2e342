/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The measurement: one thread per rank, all cases in every round
 *
 * The timed part has nothing but the operations: the clock is read once before
 * and once after them, and the ranks meet outside.  The time of a case in a
 * round is that of the slowest rank; where buffers are rewritten, it is the
 * median over the operations of the time from the last rank's begin to the last
 * rank's end.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/* Fills the room for results before these are checked. */
#define POISON 0xa5

/* How long the run waits for a rank that does not come back. */
#define ABORT_DEADLINE_NS (2 * NS_PER_S)

/* Spins before a thread that waits for another rank starts to yield. */
#define MEET_SPINS 20000

/* Spins between checks whether the others can still come. */
#define MEET_ASKS (UINT64_C(1) << 20)

/* ---- meetings --------------------------------------------------------- */

/* Leave a complaint, unless there is one already. */
static bool complain(struct bench *b, const char *text)
{
	/* Relaxed: the complaint is read after the threads have ended. */
	if (!atomic_exchange_explicit(&b->has_failed, true,
	                              memory_order_relaxed))
		snprintf(b->complaint, sizeof(b->complaint), "%s", text);
	return false;
}

/* The first group ends once this rank's worker returns. */
bool lane_fail(struct lane *l, const char *what, const char *why)
{
	struct bench *b = l->bench;
	char text[sizeof(b->complaint)];

	snprintf(text, sizeof(text), "rank %d, %s: %s", l->rank, what, why);
	complain(b, text);
	for (int i = 1; i < BENCH_GROUPS; i++)
		if (b->groups[i])
			cohort_group_abort(b->groups[i], what);
	return false;
}

static bool is_lost(struct lane *l)
{
	struct cohort_cause cause;

	cohort_comm_cause(l->comm, &cause);
	return cause.status != COHORT_OK && !complain(l->bench, cause.text);
}

static void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

bool lane_meet(struct lane *l)
{
	struct bench *b = l->bench;
	bool is_crowded = b->options->ranks > b->cores;
	uint64_t spins = 0;

	l->met += (uint64_t)b->options->ranks;
	/* Release and acquire: each rank sees what the others have done
	 * before. */
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
			relax();
	}
	return true;
}

/* ---- buffers ---------------------------------------------------------- */

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
	/* Not cohort_copy(), because the thread may be inside the native
	 * communicator. */
	err = p->cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
	if (err == cudaSuccess)
		err = p->cudaDeviceSynchronize();
	return err == cudaSuccess ||
	       lane_fail(l, "copy", p->cudaGetErrorString(err));
}

/* ---- the timed part --------------------------------------------------- */

static bool time_row(struct lane *l, uint64_t n)
{
	bool (*operate)(struct lane * lane) = l->bench->operation->operate;
	bool ok = true;
	uint64_t from;

	if (!lane_meet(l))
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
		bool ok = operation->rewrite(l) && lane_meet(l);

		l->begins[i] = clock_now();
		ok = ok && operation->operate(l);
		l->ends[i] = clock_now();
		if (!ok)
			return false;
	}
	return true;
}

/* Make @n operations on all ranks, which meet at the end. */
static bool run_row(struct lane *l, uint64_t n)
{
	return (l->c->rewrites ? time_rewritten : time_row)(l, n) &&
	       lane_meet(l);
}

/* ---- a round's time, by rank 0 ---------------------------------------- */

static double slowest(const struct bench *b)
{
	double most = 0.0;

	for (int r = 0; r < b->options->ranks; r++)
		most = MAX(most, b->lanes[r]->ns);
	return most;
}

/* The time from the last begin to the last end. */
static double span(const struct bench *b, uint64_t i)
{
	uint64_t begin = 0, end = 0;

	for (int r = 0; r < b->options->ranks; r++) {
		begin = MAX(begin, b->lanes[r]->begins[i]);
		end = MAX(end, b->lanes[r]->ends[i]);
	}
	return (double)(end - begin);
}

static double evaluate(const struct lane *l, uint64_t n)
{
	const struct bench *b = l->bench;

	if (!l->c->rewrites)
		return slowest(b);
	for (uint64_t i = 0; i < n; i++)
		b->scratch[i] = span(b, i);
	return cli_quantile(b->scratch, n, 0.5);
}

bool lane_time(struct lane *l, uint64_t n, double *ns_out)
{
	if (!run_row(l, n))
		return false;
	if (l->rank == 0)
		*ns_out = evaluate(l, n);
	return lane_meet(l);
}

/* ---- a case ----------------------------------------------------------- */

/* Find how many operations make a round long enough, by making more and more.
 * Rank 0 writes the number between meetings. */
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
		if (!lane_meet(l))
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

/* Fill the results' room with other values first, because old results could be
 * right. */
static bool check(struct lane *l)
{
	const struct bench_operation *operation = l->bench->operation;

	return (!operation->fill || operation->fill(l, POISON)) &&
	       operation->rewrite(l) && lane_meet(l) && operation->operate(l) &&
	       operation->compare(l) && lane_meet(l);
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
	/* Zeros stay zeros, however often they are reduced. */
	ok = ok &&
	     (l->c->rewrites || !operation->fill || operation->fill(l, 0)) &&
	     measure(l, &l->c->times_ns[round]);
	if (operation->leave)
		operation->leave(l);
	return ok;
}

/* ---- a rank's thread -------------------------------------------------- */

/* Pin the thread to one of the cores that the process may use, in turn. */
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

/* Allocate the rank's memory. */
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

static void show_progress(struct bench *b, const struct bench_case *c,
                          uint64_t round, size_t nth)
{
	uint64_t rounds = b->options->rounds;
	char text[160];

	if (!progress_is_due(&b->progress))
		return;
	snprintf(text, sizeof(text), "round %llu/%llu  %s, %zu bytes, %s",
	         (unsigned long long)round + 1, (unsigned long long)rounds,
	         c->title, c->bytes, c->mode);
	progress_draw(&b->progress, round * b->count + nth, rounds * b->count,
	              text);
}

static bool run_rounds(struct lane *l)
{
	struct bench *b = l->bench;
	size_t turn = b->operation->turn ? b->operation->turn : b->count;

	for (uint64_t round = 0; round < b->options->rounds; round++)
		for (size_t i = 0; i < b->count; i++) {
			size_t first = i - i % turn;

			l->c = &b->cases[first + (round + i) % turn];
			if (l->rank == 0)
				show_progress(b, l->c, round, i);
			if (!run_case(l, round))
				return false;
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
	     run_rounds(l);
	if (b->operation->close)
		b->operation->close(l);
	/* After a failure the others may still wait for this rank's memory. */
	for (int i = 0; ok && i < b->buffers; i++)
		cohort_free(comm, l->buffer[i]);
	return ok ? 0 : -1;
}

/* ---- the groups ------------------------------------------------------- */

int bench_open_group(struct bench *b, int i, int many)
{
	const struct bench_options *o = b->options;
	struct cohort_group_options options;

	cohort_group_options_init(&options);
	options.log = "none";
	options.name = "bench";
	options.platform = o->platform;
	options.launch = o->launch;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	options.stack_signal = CLI_STACK_SIGNAL;
	options.many = many;
	return cohort_group_open(NULL, o->ranks, &options, &b->groups[i]);
}

static int open_groups(struct bench *b)
{
	int rc = bench_open_group(b, 0, COHORT_MANY_AUTO);

	if (rc == COHORT_OK && b->operation->open_groups)
		rc = b->operation->open_groups(b);
	if (rc == COHORT_OK) {
		b->kind = cohort_group_platform(b->groups[0]);
		b->launch = cohort_group_launch(b->groups[0]);
		rc = platform_open(b->kind, &b->platform);
	}
	if (rc == COHORT_OK)
		return CLI_OK;
	cli_complain(b->operation->command, "%s", cohort_last_error());
	return CLI_FAILED;
}

static int close_groups(struct bench *b, int status)
{
	for (int i = BENCH_GROUPS - 1; i >= 0; i--)
		if (cohort_group_close(b->groups[i]) != COHORT_OK &&
		    status == CLI_OK) {
			cli_complain(b->operation->command, "%s",
			             cohort_last_error());
			status = CLI_FAILED;
		}
	return status;
}

static int run_group(struct bench *b)
{
	struct cohort_cause cause;
	int rc;

	progress_start(&b->progress);
	rc = cohort_group_run(b->groups[0], worker, b, &cause);
	progress_erase(&b->progress);
	b->is_abandoned = cohort_group_abandoned(b->groups[0], NULL, 0) != 0;
	if (rc == COHORT_OK)
		return CLI_OK;
	cli_complain(b->operation->command, "%s",
	             *b->complaint ? b->complaint : cause.text);
	return CLI_FAILED;
}

int bench_measure(struct bench *b)
{
	int status = open_groups(b);

	if (status == CLI_OK && !b->options->json)
		bench_print_head(b);
	if (status == CLI_OK)
		status = run_group(b);
	return close_groups(b, status);
}

/* ---- the whole -------------------------------------------------------- */

void *bench_allocate(size_t n, size_t size)
{
	const size_t bytes = (n * size + 63) / 64 * 64;

	return memset(cli_need("bench", aligned_alloc(64, bytes)), 0, bytes);
}

/* The room doubles whenever it is full. */
void *bench_grow(void *array, size_t n, size_t size)
{
	void *larger;

	if (n & (n - 1))
		return array;
	larger = bench_allocate(n ? 2 * n : 1, size);
	if (n)
		memcpy(larger, array, n * size);
	free(array);
	return larger;
}

void bench_add_case(struct bench *b, const struct bench_case *c)
{
	b->cases = bench_grow(b->cases, b->count, sizeof(*c));
	b->cases[b->count] = *c;
	b->cases[b->count++].times_ns =
		bench_allocate(b->options->rounds, sizeof(double));
}

static struct lane *lane_create(struct bench *b, int rank, size_t samples)
{
	struct lane *l = bench_allocate(1, sizeof(*l));

	l->bench = b;
	l->rank = rank;
	l->begins = bench_allocate(samples, sizeof(*l->begins));
	l->ends = bench_allocate(samples, sizeof(*l->ends));
	return l;
}

static void lane_destroy(struct lane *l)
{
	free(l->staging);
	free(l->plain[0]);
	free(l->plain[1]);
	free(l->tensors);
	free(l->buckets);
	free(l->begins);
	free(l->ends);
	free(l);
}

void bench_destroy(struct bench *b)
{
	if (b->is_abandoned)
		return;
	for (int r = 0; r < b->options->ranks; r++)
		lane_destroy(b->lanes[r]);
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

	if (!o->iterations)
		samples = MAX(samples, o->operation->most);
	b->options = o;
	b->operation = o->operation;
	b->cores = cores;
	b->scratch = bench_allocate(MAX(samples, o->rounds), sizeof(double));
	for (int r = 0; r < o->ranks; r++)
		b->lanes[r] = lane_create(b, r, samples);
	if (b->operation->plan(b) == CLI_OK)
		return b;
	bench_destroy(b);
	return NULL;
}
