/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MPI's part of make bench-peers: in-place float32 sums by MPI_Allreduce(), with one
 * process per rank, measured as cohort bench measures
 *
 * The loop, the pauses between timed parts, the meetings (by a counter in shared memory,
 * not by MPI_Barrier()) and the cores are those of cohort bench.  Prints for each round
 * of each case: mode, bytes, nanoseconds.
 *
 *	mpirun -n RANKS peer ROUNDS SIZE...
 */

#include <mpi.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* As in cohort bench. */
#define AUTO_NS 5e6
#define AUTO_LEAST 2
#define AUTO_MOST 10000
#define WARM_UP 2
#define MEET_SPINS 20000
#define PERIOD 1021

static const char *const modes[] = { "loop", "rewrite" };

enum { LOOP, REWRITE, MODES };

struct peer {
	int rank;
	int ranks;
	int cores;
	float *buffer;
	int count;             /* number of elements */
	float pattern[PERIOD]; /* what this rank sends, repeatedly */
	unsigned long long
		met; /* how many arrivals complete this rank's next meeting */
	double *begins; /* of each operation, if buffers are rewritten */
	double *ends;

	/* Atomic, shared by the processes; counts the arrivals of all ranks, never
	 * reset. */
	atomic_ullong *arrived;
};

/* ---- meeting ---------------------------------------------------------- */

static void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

static void meet(struct peer *p)
{
	unsigned long spins = 0;

	p->met += (unsigned long long)p->ranks;
	/* Release and acquire: each rank sees what the others have done before. */
	atomic_fetch_add_explicit(p->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(p->arrived, memory_order_acquire) <
	       p->met) {
		if (p->ranks > p->cores || ++spins > MEET_SPINS)
			sched_yield();
		else
			relax();
	}
}

/* ---- the timed part --------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void reduce(struct peer *p)
{
	MPI_Allreduce(MPI_IN_PLACE, p->buffer, p->count, MPI_FLOAT, MPI_SUM,
	              MPI_COMM_WORLD);
}

static void rewrite(struct peer *p)
{
	for (int at = 0; at < p->count; at += PERIOD) {
		int n = p->count - at < PERIOD ? p->count - at : PERIOD;

		memcpy(p->buffer + at, p->pattern, (size_t)n * sizeof(float));
	}
}

/* Returns the time of the slowest rank, on every rank. */
static double time_loop(struct peer *p, int n)
{
	double from, own, slowest;

	meet(p);
	from = now();
	for (int i = 0; i < n; i++)
		reduce(p);
	own = (now() - from) / n;
	MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the median of the times from the last begin to the last end, on every
 * rank. */
static double time_rewritten(struct peer *p, int n)
{
	for (int i = 0; i < n; i++) {
		rewrite(p);
		meet(p);
		p->begins[i] = now();
		reduce(p);
		p->ends[i] = now();
	}
	MPI_Allreduce(MPI_IN_PLACE, p->begins, n, MPI_DOUBLE, MPI_MAX,
	              MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, p->ends, n, MPI_DOUBLE, MPI_MAX,
	              MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		p->ends[i] -= p->begins[i];
	qsort(p->ends, (size_t)n, sizeof(double), compare);
	return (p->ends[(n - 1) / 2] + p->ends[n / 2]) / 2;
}

static double time_row(struct peer *p, int mode, int n)
{
	return mode == LOOP ? time_loop(p, n) : time_rewritten(p, n);
}

/* How many operations make a round long enough. */
static int calibrate(struct peer *p, int mode)
{
	for (int n = 1;; n *= 8) {
		int most = (int)(AUTO_NS / (time_row(p, mode, n) + 1.0));

		if (most < AUTO_LEAST)
			most = AUTO_LEAST;
		if (most <= 8 * n || 8 * n > AUTO_MOST)
			return most < AUTO_MOST ? most : AUTO_MOST;
	}
}

/* ---- cases ------------------------------------------------------------ */

/* End the program if the sums are wrong. */
static void check(struct peer *p)
{
	rewrite(p);
	reduce(p);
	for (int i = 0; i < p->count; i++) {
		int k = i % PERIOD % 7 * p->ranks;

		if (p->buffer[i] == (float)(k + p->ranks * (p->ranks - 1) / 2))
			continue;
		fprintf(stderr, "peer: element %d of %d is %g\n", i, p->count,
		        (double)p->buffer[i]);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void run_case(struct peer *p, int mode, long bytes, int *often)
{
	double ns;

	p->count = (int)(bytes / (long)sizeof(float));
	if (!*often)
		check(p);
	/* Zeros stay zeros, however often they are summed. */
	memset(p->buffer, 0, (size_t)bytes);
	if (!*often)
		*often = calibrate(p, mode);
	time_row(p, mode, WARM_UP);
	ns = time_row(p, mode, *often);
	if (p->rank == 0)
		printf("%s %ld %.1f\n", modes[mode], bytes, ns);
}

static void run(struct peer *p, int rounds, char **sizes, int n)
{
	int *often = calloc((size_t)(n * MODES), sizeof(int));

	for (int round = 0; often && round < rounds; round++)
		for (int i = 0; i < n * MODES; i++)
			run_case(p, i / n, atol(sizes[i % n]), &often[i]);
	free(often);
}

/* ---- begin and end ---------------------------------------------------- */

/* Pin the process to one of the cores that it may use, by its rank. */
static void pin(struct peer *p)
{
	cpu_set_t allowed, one;
	int skip, cpu = 0;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	p->cores = CPU_COUNT(&allowed);
	for (skip = p->rank % p->cores; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && skip-- == 0)
			break;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Allocate the counter on rank 0, where all processes see it. */
static void share_counter(struct peer *p, MPI_Win *window)
{
	MPI_Aint bytes = p->rank == 0 ? 64 : 0;
	void *memory;
	int unit;

	MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
	                        &memory, window);
	MPI_Win_shared_query(*window, 0, &bytes, &unit, &memory);
	p->arrived = memory;
	if (p->rank == 0)
		atomic_store(p->arrived, 0);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void peer_init(struct peer *p, size_t bytes)
{
	MPI_Comm_rank(MPI_COMM_WORLD, &p->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &p->ranks);
	pin(p);
	p->buffer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	p->begins = calloc(AUTO_MOST, sizeof(double));
	p->ends = calloc(AUTO_MOST, sizeof(double));
	if (!p->buffer || !p->begins || !p->ends)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = 0; i < PERIOD; i++)
		p->pattern[i] = (float)(i % 7 + p->rank);
}

static void peer_fini(struct peer *p)
{
	free(p->ends);
	free(p->begins);
	free(p->buffer);
}

int main(int argc, char **argv)
{
	struct peer p = { .met = 0 };
	size_t bytes = 0;
	MPI_Win window;

	MPI_Init(&argc, &argv);
	if (argc < 3) {
		fprintf(stderr, "usage: peer ROUNDS SIZE...\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int i = 2; i < argc; i++)
		if ((size_t)atol(argv[i]) > bytes)
			bytes = (size_t)atol(argv[i]);
	peer_init(&p, bytes);
	share_counter(&p, &window);
	run(&p, atoi(argv[1]), argv + 2, argc - 2);
	MPI_Win_free(&window);
	peer_fini(&p);
	MPI_Finalize();
	return 0;
}
