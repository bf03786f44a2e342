/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program of bench/peers.py with one process per rank: measures in-place
 * float32 sums by MPI_Allreduce() or, with -DPEER_COHORT, by
 * cohort_all_reduce()
 *
 * The loop, the pauses between timed parts, the barriers (a counter in shared
 * memory, not MPI_Barrier()) and the cores are the same as in cohort bench.
 * Prints mode, bytes and nanoseconds for each round of each case.
 *
 *  mpirun -n RANKS peer ROUNDS SIZE...
 *  peer RANKS ROUNDS SIZE...    with -DPEER_COHORT
 */

#ifdef PEER_COHORT
#include <cohort/bootstrap.h>
#include <cohort/cohort.h>
#include <sys/wait.h>
#else
#include <mpi.h>
#endif

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The length of a round, as in cohort bench. */
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
	float pattern[PERIOD]; /* repeated input of this rank */
	unsigned long long
		met;    /* value of arrived that completes the next barrier */
	double *begins; /* start of each operation, if buffers are rewritten */
	double *ends;

	/* Atomic, shared by the processes; total arrivals of all ranks. */
	atomic_ullong *arrived;

#ifdef PEER_COHORT
	/* Shared by the processes; one number per rank, for set_largest(). */
	double *numbers;
	struct cohort_group *group;
	struct cohort_comm *comm;
	void *stream;
#else
	MPI_Win window;
#endif
};

/* ---- barrier ---------------------------------------------------------- */

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
	/* Release and acquire: ranks see each other's earlier writes. */
	atomic_fetch_add_explicit(p->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(p->arrived, memory_order_acquire) <
	       p->met) {
		if (p->ranks > p->cores || ++spins > MEET_SPINS)
			sched_yield();
		else
			relax();
	}
}

/* ---- the library ------------------------------------------------------ */

/*
 * reduce      - sum p->count elements in place
 * set_largest - replace each of @n values by the largest over all ranks
 * give_up     - end all processes
 */
#ifdef PEER_COHORT

static void give_up(int status)
{
	/* The parent notices the exit, and ends the other processes. */
	_exit(status);
}

static void must(int rc)
{
	if (rc == COHORT_OK)
		return;
	fprintf(stderr, "peer: %s\n", cohort_last_error());
	give_up(1);
}

static void reduce(struct peer *p)
{
	uint64_t ticket;

	must(cohort_all_reduce(p->comm, p->buffer, p->buffer, (size_t)p->count,
	                       COHORT_F32, COHORT_SUM, p->stream, &ticket));
	must(cohort_wait(p->comm, ticket, COHORT_FOREVER));
}

static void set_largest(struct peer *p, double *values, int n)
{
	for (int i = 0; i < n; i++) {
		meet(p);
		p->numbers[p->rank] = values[i];
		meet(p);
		for (int r = 0; r < p->ranks; r++)
			if (p->numbers[r] > values[i])
				values[i] = p->numbers[r];
	}
}

#else

static void give_up(int status)
{
	MPI_Abort(MPI_COMM_WORLD, status);
}

static void reduce(struct peer *p)
{
	MPI_Allreduce(MPI_IN_PLACE, p->buffer, p->count, MPI_FLOAT, MPI_SUM,
	              MPI_COMM_WORLD);
}

static void set_largest(struct peer *p, double *values, int n)
{
	(void)p;
	MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX,
	              MPI_COMM_WORLD);
}

#endif

/* ---- timed part ------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void rewrite(struct peer *p)
{
	for (int at = 0; at < p->count; at += PERIOD) {
		int n = p->count - at < PERIOD ? p->count - at : PERIOD;

		memcpy(p->buffer + at, p->pattern, (size_t)n * sizeof(float));
	}
}

/* Return the time of the slowest rank, on every rank. */
static double time_loop(struct peer *p, int n)
{
	double from, own;

	meet(p);
	from = now();
	for (int i = 0; i < n; i++)
		reduce(p);
	own = (now() - from) / n;
	set_largest(p, &own, 1);
	return own;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Return the median time from the last rank's start to the last rank's end, on
 * every rank.
 */
static double time_rewritten(struct peer *p, int n)
{
	for (int i = 0; i < n; i++) {
		rewrite(p);
		meet(p);
		p->begins[i] = now();
		reduce(p);
		p->ends[i] = now();
	}
	set_largest(p, p->begins, n);
	set_largest(p, p->ends, n);
	for (int i = 0; i < n; i++)
		p->ends[i] -= p->begins[i];
	qsort(p->ends, (size_t)n, sizeof(double), compare);
	return (p->ends[(n - 1) / 2] + p->ends[n / 2]) / 2;
}

static double time_row(struct peer *p, int mode, int n)
{
	return mode == LOOP ? time_loop(p, n) : time_rewritten(p, n);
}

/* Return the number of operations that make a round long enough. */
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

/* Exit with an error if the sums are wrong. */
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
		give_up(1);
	}
}

static void run_case(struct peer *p, int mode, long bytes, int *often)
{
	double ns;

	p->count = (int)(bytes / (long)sizeof(float));
	if (!*often)
		check(p);
	/* Sums of zeros stay zero after any number of calls. */
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

/* ---- setup and teardown ----------------------------------------------- */

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

static void peer_init(struct peer *p)
{
	pin(p);
	p->begins = calloc(AUTO_MOST, sizeof(double));
	p->ends = calloc(AUTO_MOST, sizeof(double));
	if (!p->begins || !p->ends)
		give_up(1);
	for (int i = 0; i < PERIOD; i++)
		p->pattern[i] = (float)(i % 7 + p->rank);
}

static void peer_fini(struct peer *p)
{
	free(p->ends);
	free(p->begins);
}

static size_t largest(char **sizes, int n)
{
	size_t bytes = 0;

	for (int i = 0; i < n; i++)
		if ((size_t)atol(sizes[i]) > bytes)
			bytes = (size_t)atol(sizes[i]);
	return bytes;
}

static void usage(const char *what)
{
	fprintf(stderr, "usage: peer %sROUNDS SIZE...\n", what);
	exit(2);
}

#ifdef PEER_COHORT

static void library_open(struct peer *p, size_t bytes)
{
	const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_AUTO,
	};
	struct cohort_group_options options;
	void *memory;

	cohort_group_options_init(&options);
	options.bootstrap = &bootstrap;
	must(cohort_group_open(&p->rank, 1, &options, &p->group));
	must(cohort_group_split(p->group, &p->comm));
	must(cohort_alloc(p->comm, bytes, &memory));
	p->buffer = memory;
	p->stream = cohort_comm_stream(p->comm);
}

/* Run one of the processes. */
static int peer_main(struct peer *p, int rounds, char **sizes, int n)
{
	char number[12];

	snprintf(number, sizeof(number), "%d", p->rank);
	setenv("COHORT_PROCESS", number, 1);
	peer_init(p);
	library_open(p, largest(sizes, n));
	run(p, rounds, sizes, n);
	fflush(stdout);
	must(cohort_free(p->comm, p->buffer));
	must(cohort_group_close(p->group));
	peer_fini(p);
	return 0;
}

/* Allocate shared memory and start all processes; in each, @p is its rank. */
static int start_all(struct peer *p, int rounds, char **sizes, int n)
{
	int status, failed = 0;
	pid_t child;

	for (p->rank = 0; p->rank < p->ranks; p->rank++) {
		child = fork();
		if (child == 0)
			_exit(peer_main(p, rounds, sizes, n));
		failed |= child < 0;
	}
	while (wait(&status) > 0)
		if (status && !failed) {
			failed = 1;
			/* End the other processes, which would wait forever. */
			signal(SIGTERM, SIG_IGN);
			kill(0, SIGTERM);
		}
	return failed;
}

int main(int argc, char **argv)
{
	struct peer p = { .met = 0 };
	char number[12];
	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (argc < 4 || shared == MAP_FAILED)
		usage("RANKS ");
	p.ranks = atoi(argv[1]);
	p.arrived = shared;
	p.numbers = (double *)shared + 8;
	setenv("COHORT_PROCESSES", argv[1], 1);
	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv("COHORT_JOB", number, 1);
	setpgid(0, 0);
	return start_all(&p, atoi(argv[2]), argv + 3, argc - 3);
}

#else

/* Allocate the counter on rank 0, in memory that all processes share. */
static void share_counter(struct peer *p)
{
	MPI_Aint bytes = p->rank == 0 ? 64 : 0;
	void *memory;
	int unit;

	MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
	                        &memory, &p->window);
	MPI_Win_shared_query(p->window, 0, &bytes, &unit, &memory);
	p->arrived = memory;
	if (p->rank == 0)
		atomic_store(p->arrived, 0);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	struct peer p = { .met = 0 };
	size_t bytes;

	MPI_Init(&argc, &argv);
	if (argc < 3)
		usage("");
	MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &p.ranks);
	peer_init(&p);
	bytes = largest(argv + 2, argc - 2);
	p.buffer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	if (!p.buffer)
		give_up(1);
	share_counter(&p);
	run(&p, atoi(argv[1]), argv + 2, argc - 2);
	MPI_Win_free(&p.window);
	free(p.buffer);
	peer_fini(&p);
	MPI_Finalize();
	return 0;
}

#endif
