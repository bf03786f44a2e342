/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures how much longer a call and its wait take if ranks launch together:
 * in each round, groups with COHORT_LAUNCH_TOGETHER and _AHEAD take turns on
 * the same threads
 *
 * The ranks call at the same time, or the last rank is late each time, which no
 * other benchmark measures.  (`cohort bench` with COHORT_LAUNCH measures every
 * collective and size, without a late rank.)  Prints the median time of a call and its
 * wait on rank 0, and the median, 5th and 95th percentile of the ratios within
 * a round.
 *
 *  build/release/bench/together [--rounds N] [--bytes N] [--platform host|gpu]
 */

#include <cohort/cohort.h>
#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"

#define MAX_RANKS 8
#define MAX_ROUNDS 10000
#define CALLS 32 /* number of calls in one group in a round */

enum { TOGETHER, AHEAD, KINDS };

static const int launches[KINDS] = { COHORT_LAUNCH_TOGETHER,
	                             COHORT_LAUNCH_AHEAD };

/* The conditions of a measurement. */
struct scene {
	int ranks;
	uint64_t late_ns; /* delay of the last rank */
};

static const struct scene scenes[] = {
	{ 2, 0 }, { 2, 10000 }, { 2, 1000000 },
	{ 4, 0 }, { 4, 10000 }, { 4, 1000000 },
};

/* Constant while the ranks run. */
static const struct scene *scene;
static int rounds = 201, platform;
static size_t bytes = 4;
static struct cohort_comm *comms[KINDS][MAX_RANKS];

static atomic_ulong met; /* counts the arrivals of all ranks */

/* Written by rank 0, in ns per call. */
static double times[KINDS][MAX_ROUNDS];

static void must(int rc, const char *what)
{
	if (rc == COHORT_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, cohort_last_error());
	exit(1);
}

static void meet(unsigned long *turn)
{
	struct backoff b = BACKOFF;

	*turn += (unsigned long)scene->ranks;
	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < *turn)
		backoff_wait(&b, UINT64_MAX);
}

static void be_late(int rank)
{
	const uint64_t until = clock_now() + scene->late_ns;

	while (rank == scene->ranks - 1 && clock_now() < until)
		cpu_pause();
}

/* Return the time of one call and its wait, in ns. */
static double take_turn(struct cohort_comm *c, void *data, unsigned long *turn)
{
	uint64_t from, sum = 0, ticket;
	int i;

	for (i = 0; i < CALLS; i++) {
		meet(turn);
		from = clock_now();
		be_late(cohort_comm_rank(c));
		must(cohort_all_reduce(c, data, data, bytes / 4, COHORT_F32,
		                       COHORT_SUM, cohort_comm_stream(c),
		                       &ticket),
		     "all_reduce");
		must(cohort_wait(c, ticket, COHORT_FOREVER), "wait");
		sum += clock_now() - from;
	}
	return (double)sum / CALLS;
}

static int worker(struct cohort_comm *comm, void *user)
{
	const int rank = cohort_comm_rank(comm);
	unsigned long turn = 0;
	int round, kind;
	double time;
	void *data;

	(void)user;
	must(cohort_alloc(comm, bytes, &data), "alloc");
	for (round = -1; round < rounds; round++)
		for (kind = 0; kind < KINDS; kind++) {
			time = take_turn(comms[kind][rank], data, &turn);
			/* The first round is a warm-up. */
			if (!rank && round >= 0)
				times[kind][round] = time;
		}
	must(cohort_free(comm, data), "free");
	return 0;
}

static struct cohort_group *open_kind(int kind)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.platform = platform;
	o.launch = launches[kind];
	must(cohort_group_open(NULL, scene->ranks, &o, &group), "open");
	must(cohort_group_split(group, comms[kind]), "split");
	return group;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double *sort(double *d)
{
	qsort(d, (size_t)rounds, sizeof(*d), compare);
	return d;
}

static void report(void)
{
	static double ratios[MAX_ROUNDS];
	int i, n = rounds;

	for (i = 0; i < n; i++)
		ratios[i] = times[TOGETHER][i] / times[AHEAD][i];
	sort(ratios);
	printf("%5d  %7.0f  %11.2f  %8.2f  %5.3f [%.3f, %.3f]\n", scene->ranks,
	       (double)scene->late_ns / 1000,
	       sort(times[TOGETHER])[n / 2] / 1000,
	       sort(times[AHEAD])[n / 2] / 1000, ratios[n / 2], ratios[n / 20],
	       ratios[n - 1 - n / 20]);
}

static void measure(void)
{
	struct cohort_group *groups[KINDS];
	int kind;

	atomic_store(&met, 0);
	for (kind = 0; kind < KINDS; kind++)
		groups[kind] = open_kind(kind);
	must(cohort_group_run(groups[0], worker, NULL, NULL), "run");
	for (kind = 0; kind < KINDS; kind++)
		must(cohort_group_close(groups[kind]), "close");
	report();
	fflush(stdout);
}

static const struct option long_options[] = {
	{ "rounds", required_argument, NULL, 'r' },
	{ "bytes", required_argument, NULL, 'b' },
	{ "platform", required_argument, NULL, 'p' },
	{ NULL, 0, NULL, 0 },
};

static int parse(int argc, char **argv)
{
	int option;

	platform = COHORT_PLATFORM_HOST;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) >= 0)
		if (option == 'r')
			rounds = atoi(optarg);
		else if (option == 'b')
			bytes = (size_t)atoll(optarg);
		else if (option == 'p' && strcmp(optarg, "gpu") == 0)
			platform = COHORT_PLATFORM_GPU;
		else if (option != 'p' || strcmp(optarg, "host") != 0)
			return -1;
	return optind == argc && rounds > 0 && rounds <= MAX_ROUNDS &&
	                       bytes >= 4 && bytes % 4 == 0
	               ? 0
	               : -1;
}

int main(int argc, char **argv)
{
	size_t i;

	if (parse(argc, argv)) {
		fprintf(stderr,
		        "usage: together [--rounds N] [--bytes N] "
		        "[--platform host|gpu]\n"
		        "N rounds are 1 to %d, bytes a multiple of 4\n",
		        MAX_ROUNDS);
		return 2;
	}
	printf("all_reduce of %zu bytes and a wait; %d rounds of %d of each "
	       "kind, by turns\n"
	       "ranks  late us  together us  ahead us  ratio [5 %%, 95 %%]\n",
	       bytes, rounds, CALLS);
	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		scene = &scenes[i];
		measure();
	}
	return 0;
}
