/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The MPI program of bench/average.py: measures in-place sums of a list of
 * float32 tensors, with one process per rank
 *
 * The methods are: one call per tensor; nonblocking calls for all tensors, then
 * one wait; and tensors packed into buffers of 25 MiB, including the copies.
 * The list, the layout in memory, the barriers outside the timed part, and the
 * cores are the same as in cohort bench average.  Prints the name and the
 * nanoseconds of each method in each round.
 *
 *  mpirun -n RANKS average_peer ROUNDS loop|rewrite MAX_COUNT FILE
 */

#include <mpi.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The length of a round, as in cohort bench average. */
#define ROUND_NS 20e6
#define MOST_OFTEN 1000
#define BUCKET ((size_t)25 << 18) /* elements */
#define MEET_SPINS 20000
#define PERIOD 1021
#define MOST_TENSORS 100000

static const char *const methods[] = { "alone", "nonblocking", "flat" };

enum { ALONE, NONBLOCKING, FLAT, METHODS };

struct peer {
	int rank, ranks, cores;
	int n;
	size_t *count, *at; /* size and offset of each tensor, in elements */
	size_t room;        /* elements of all tensors, with padding */
	float *memory, *bucket;
	MPI_Request *requests;
	float pattern[PERIOD];
	unsigned long long met;
	double begins[MOST_OFTEN], ends[MOST_OFTEN];

	/* Atomic, shared by the processes; counts the arrivals of all ranks. */
	atomic_ullong *arrived;
};

static void die(const char *what)
{
	fprintf(stderr, "average_peer: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- barrier ---------------------------------------------------------- */

static void meet(struct peer *p)
{
	unsigned long spins = 0;

	p->met += (unsigned long long)p->ranks;
	/* Release and acquire: ranks see each other's earlier writes. */
	atomic_fetch_add_explicit(p->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(p->arrived, memory_order_acquire) <
	       p->met) {
		if (p->ranks > p->cores || ++spins > MEET_SPINS)
			sched_yield();
#ifdef __x86_64__
		else
			__builtin_ia32_pause();
#endif
	}
}

/* ---- methods ---------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void sum(float *at, size_t count)
{
	MPI_Allreduce(MPI_IN_PLACE, at, (int)count, MPI_FLOAT, MPI_SUM,
	              MPI_COMM_WORLD);
}

/*
 * Return the index after the last tensor that fits into a bucket with @first,
 * which always fits.
 */
static int bucket_end(const struct peer *p, int first)
{
	size_t values = p->count[first];
	int i = first + 1;

	while (i < p->n && values + p->count[i] <= BUCKET)
		values += p->count[i++];
	return i;
}

static void sum_flat(struct peer *p)
{
	int i, k, end;
	size_t at;

	for (i = 0; i < p->n; i = end) {
		end = bucket_end(p, i);
		for (at = 0, k = i; k < end; at += p->count[k++])
			memcpy(p->bucket + at, p->memory + p->at[k],
			       p->count[k] * sizeof(float));
		sum(p->bucket, at);
		for (at = 0, k = i; k < end; at += p->count[k++])
			memcpy(p->memory + p->at[k], p->bucket + at,
			       p->count[k] * sizeof(float));
	}
}

static void operate(struct peer *p, int method)
{
	int i;

	if (method == FLAT) {
		sum_flat(p);
		return;
	}
	for (i = 0; i < p->n; i++)
		if (method == ALONE)
			sum(p->memory + p->at[i], p->count[i]);
		else
			MPI_Iallreduce(MPI_IN_PLACE, p->memory + p->at[i],
			               (int)p->count[i], MPI_FLOAT, MPI_SUM,
			               MPI_COMM_WORLD, &p->requests[i]);
	if (method == NONBLOCKING)
		MPI_Waitall(p->n, p->requests, MPI_STATUSES_IGNORE);
}

/* ---- timed part ------------------------------------------------------- */

static void rewrite(struct peer *p)
{
	for (int i = 0; i < p->n; i++)
		for (size_t k = 0; k < p->count[i]; k += PERIOD) {
			size_t n = p->count[i] - k;

			memcpy(p->memory + p->at[i] + k, p->pattern,
			       (n < PERIOD ? n : PERIOD) * sizeof(float));
		}
}

static double time_loop(struct peer *p, int method, int n)
{
	double from, own, slowest;

	meet(p);
	from = now();
	for (int i = 0; i < n; i++)
		operate(p, method);
	own = (now() - from) / n;
	MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Return the median time from the last rank's start to the last rank's end. */
static double time_rewritten(struct peer *p, int method, int n)
{
	for (int i = 0; i < n; i++) {
		rewrite(p);
		meet(p);
		p->begins[i] = now();
		operate(p, method);
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

static double time_some(struct peer *p, int method, int rewrites, int n)
{
	return rewrites ? time_rewritten(p, method, n)
	                : time_loop(p, method, n);
}

/* Exit with an error if the sums are wrong. */
static void check(struct peer *p, int method)
{
	rewrite(p);
	operate(p, method);
	for (int i = 0; i < p->n; i++)
		for (size_t k = 0; k < p->count[i]; k++)
			if (p->memory[p->at[i] + k] !=
			    (float)((int)(k % PERIOD % 7) * p->ranks +
			            p->ranks * (p->ranks - 1) / 2))
				die("a sum is wrong");
}

static void run(struct peer *p, int rounds, int rewrites)
{
	int often[METHODS] = { 0 };

	for (int round = 0; round < rounds; round++)
		for (int m = 0; m < METHODS; m++) {
			double ns;

			if (!round)
				check(p, m);
			/* Sums of zeros stay zero after any number of calls. */
			memset(p->memory, 0, p->room * sizeof(float));
			ns = time_some(p, m, rewrites, 1);
			if (!often[m]) {
				ns = ROUND_NS /
				     (time_some(p, m, rewrites, 1) + 1.0);
				often[m] = ns < 1            ? 1
				           : ns > MOST_OFTEN ? MOST_OFTEN
				                             : (int)ns;
			}
			ns = time_some(p, m, rewrites, often[m]);
			if (p->rank == 0)
				printf("%s %.1f\n", methods[m], ns);
		}
}

/* ---- setup ------------------------------------------------------------ */

/* Read a list of tensors, which cohort bench average has already checked. */
static void read_list(struct peer *p, const char *file, size_t most)
{
	FILE *in = fopen(file, "r");
	char line[1024], *at;
	size_t largest = BUCKET;

	p->count = calloc(MOST_TENSORS, sizeof(size_t));
	p->at = calloc(MOST_TENSORS, sizeof(size_t));
	if (!in || !p->count || !p->at)
		die("no list");
	while (fgets(line, sizeof(line), in) && p->n < MOST_TENSORS) {
		at = strrchr(line, '\t');
		if (*line == '#' || !at)
			continue;
		p->count[p->n] = strtoull(at + 1, NULL, 10);
		if (most && p->count[p->n] > most)
			continue;
		if (p->count[p->n] > largest)
			largest = p->count[p->n];
		p->at[p->n] = p->room;
		p->room += (p->count[p->n++] + 15) / 16 * 16;
	}
	fclose(in);
	p->memory = aligned_alloc(4096, (p->room * sizeof(float) + 4095) /
	                                        4096 * 4096);
	p->bucket = aligned_alloc(4096, (largest * sizeof(float) + 4095) /
	                                        4096 * 4096);
	p->requests = calloc((size_t)p->n, sizeof(MPI_Request));
	if (!p->memory || !p->bucket || !p->requests)
		die("no memory");
}

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

/* Allocate the counter on rank 0, in memory that all processes share. */
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

int main(int argc, char **argv)
{
	static struct peer p;
	MPI_Win window;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &p.ranks);
	if (argc != 5)
		die("usage: average_peer ROUNDS loop|rewrite MAX_COUNT FILE");
	pin(&p);
	read_list(&p, argv[4], strtoull(argv[3], NULL, 10));
	for (int i = 0; i < PERIOD; i++)
		p.pattern[i] = (float)(i % 7 + p.rank);
	share_counter(&p, &window);
	run(&p, atoi(argv[1]), strcmp(argv[2], "rewrite") == 0);
	MPI_Win_free(&window);
	free(p.requests);
	free(p.bucket);
	free(p.memory);
	free(p.at);
	free(p.count);
	MPI_Finalize();
	return 0;
}
