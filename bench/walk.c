/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What Cohort's own layer costs per call: cohort_all_reduce() against the bare
 * call of the platform's table with one mark behind it
 *
 * Each rank queues BATCH all-reduces of one float on its stream and waits for the
 * last; both ways take turns, round by round, in one run, so that the ratio
 * means something on a noisy machine.  Printed are the medians over the rounds
 * of the slowest rank's time per operation, for 1 and 2 ranks, and their
 * difference: the walk.
 *
 *	build/release/bench/walk [ROUNDS]
 */

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/clique.h"

#define BATCH 16
#define REPEAT 500
#define MAX_ROUNDS 1000
#define MAX_RANKS 2

struct bench {
	int ranks;
	int rounds;
	pthread_barrier_t start;
	double bare[MAX_RANKS][MAX_ROUNDS]; /* ns per operation */
	double ours[MAX_RANKS][MAX_ROUNDS];
};

static float buffer[MAX_RANKS][16];

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "%s: %d: %s\n", what, failed, cohort_last_error());
	exit(1);
}

/* BATCH bare calls, each with a mark, and wait for the last word. */
static void bare_batch(struct cohort_comm *c, float *data, uint32_t *word,
                       uint32_t *value)
{
	const struct platform *p = c->clique->platform;
	int i;

	for (i = 0; i < BATCH; i++) {
		must((int)p->ncclAllReduce(data, data, 1, ncclFloat32, ncclMax,
		                           c->native, c->stream),
		     "ncclAllReduce");
		must((int)p->mark(c->stream, word, ++*value), "mark");
	}
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != *value) {
		p->progress(c->stream, word, *value, UINT64_MAX);
		sched_yield();
	}
}

static void our_batch(struct cohort_comm *c, float *data)
{
	uint64_t ticket;
	int i;

	for (i = 0; i < BATCH; i++)
		must(cohort_all_reduce(c, data, data, 1, COHORT_F32, COHORT_MAX,
		                       c->stream, &ticket),
		     "cohort_all_reduce");
	must(cohort_wait(c, ticket, COHORT_FOREVER), "cohort_wait");
}

static double per_operation(uint64_t from)
{
	return (double)(clock_now() - from) / (REPEAT * BATCH);
}

static int worker(struct cohort_comm *c, void *user)
{
	const struct platform *p = c->clique->platform;
	struct bench *b = user;
	uint32_t value = 0, *word;
	float *data = buffer[c->rank];
	uint64_t from;
	void *pinned;
	int round, i;

	must((int)p->cudaMallocHost(&pinned, sizeof(*word)), "cudaMallocHost");
	word = pinned;
	*word = 0;
	for (round = 0; round < b->rounds; round++) {
		pthread_barrier_wait(&b->start);
		from = clock_now();
		for (i = 0; i < REPEAT; i++)
			bare_batch(c, data, word, &value);
		b->bare[c->rank][round] = per_operation(from);
		pthread_barrier_wait(&b->start);
		from = clock_now();
		for (i = 0; i < REPEAT; i++)
			our_batch(c, data);
		b->ours[c->rank][round] = per_operation(from);
	}
	p->cudaFreeHost(word);
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median over the rounds of the slowest rank. */
static double median(double times[MAX_RANKS][MAX_ROUNDS], int ranks, int rounds)
{
	int r, i;

	for (r = 1; r < ranks; r++)
		for (i = 0; i < rounds; i++)
			if (times[r][i] > times[0][i])
				times[0][i] = times[r][i];
	qsort(times[0], (size_t)rounds, sizeof(double), compare);
	return times[0][rounds / 2];
}

static void bench(int ranks, int rounds)
{
	static struct bench b;
	struct cohort_group_options o;
	struct cohort_group *group;
	double bare, ours;

	b.ranks = ranks;
	b.rounds = rounds;
	pthread_barrier_init(&b.start, NULL, (unsigned)ranks);
	cohort_group_options_init(&o);
	o.platform = COHORT_PLATFORM_HOST;
	must(cohort_group_open(NULL, ranks, &o, &group), "open");
	must(cohort_group_run(group, worker, &b, NULL), "run");
	must(cohort_group_close(group), "close");
	pthread_barrier_destroy(&b.start);
	bare = median(b.bare, ranks, rounds);
	ours = median(b.ours, ranks, rounds);
	printf("%5d  %10.0f  %10.0f  %10.0f\n", ranks, bare, ours, ours - bare);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 21;
	int ranks;

	if (rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "ROUNDS is %s, not 1 to %d\n", argv[1],
		        MAX_ROUNDS);
		return 2;
	}
	printf("host platform, %d operations a batch, median of %d rounds, ns "
	       "per operation\n"
	       "ranks  table+mark      cohort        walk\n",
	       BATCH, rounds);
	for (ranks = 1; ranks <= MAX_RANKS; ranks++)
		bench(ranks, rounds);
	return 0;
}
