/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queues on one stream from several threads at the same time
 *
 * There are two groups of two ranks. The first ranks of both groups use one
 * stream, each from its own thread. The second ranks use their own streams. So
 * both threads can find the stream empty, one can start it while the other
 * queues, or a thread that waits for the other's sum can execute it. Checks all
 * sums.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/native.h"
#include "support/ranks.h"
#include "support/stress.h"

#define GROUPS 2
#define RANKS 2
#define STEPS 60
#define MOST 20000

static int32_t *data[GROUPS][RANKS][STEPS];
static void *stream; /* the shared stream */

struct side {
	int number;
	struct cohort_group *group;
	size_t counts[STEPS];
	uint32_t spins[RANKS][STEPS]; /* delay before each call */
	bool waits[RANKS][STEPS];
};

static int step(const struct side *side, struct cohort_comm *c, int k)
{
	const int rank = cohort_comm_rank(c);
	int32_t *x = data[side->number][rank][k];
	const size_t n = side->counts[k];
	uint64_t ticket;
	size_t i;
	int rc;

	for (i = 0; i < n; i++)
		x[i] = (int32_t)i * (rank + 1) + k;
	stress_spin(side->spins[rank][k]);
	rc = cohort_all_reduce(c, x, x, n, COHORT_I32, COHORT_SUM,
	                       rank ? cohort_comm_stream(c) : stream, &ticket);
	if (rc == COHORT_OK && side->waits[rank][k])
		rc = cohort_wait(c, ticket, RANKS_SOON);
	return rc;
}

static int worker(struct cohort_comm *c, void *user)
{
	const struct side *side = user;
	const int rank = cohort_comm_rank(c);
	size_t i;
	int k;

	for (k = 0; k < STEPS; k++)
		ranks_must(step(side, c, k), "step");
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
	for (k = 0; k < STEPS; k++)
		for (i = 0; i < side->counts[k]; i++)
			if (data[side->number][rank][k][i] !=
			    (int32_t)i * 3 + 2 * k)
				stress_fail("group %d, rank %d, step %d, "
				            "element %zu of %zu",
				            side->number, rank, k, i,
				            side->counts[k]);
	return 0;
}

static void *run(void *arg)
{
	struct side *side = arg;

	ranks_must(cohort_group_run(side->group, worker, side, NULL), "run");
	return NULL;
}

static void choose(struct side *side, uint64_t *seed)
{
	int k, r;

	for (k = 0; k < STEPS; k++) {
		side->counts[k] = 1 + stress_random(seed) % 12;
		if (stress_random(seed) % 4 == 0)
			side->counts[k] = 1 + stress_random(seed) % MOST;
		for (r = 0; r < RANKS; r++) {
			side->spins[r][k] = stress_random(seed) % 2000;
			side->waits[r][k] = stress_random(seed) % 3 == 0;
		}
	}
}

static void run_both_sides(struct side *sides)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, &sides[1]))
		stress_fail("no thread");
	run(&sides[0]);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	struct side sides[GROUPS];
	uint64_t seed = 1;
	unsigned long rounds;
	int g, r, k;

	for (g = 0; g < GROUPS; g++) {
		sides[g].number = g;
		sides[g].group = ranks_open(RANKS, NULL);
		for (r = 0; r < RANKS; r++)
			for (k = 0; k < STEPS; k++)
				data[g][r][k] =
					malloc(MOST * sizeof(*data[g][r][k]));
	}
	stream = native_stream(place_table(), 0);
	for (rounds = 0; stress_continue(argc, argv); rounds++) {
		choose(&sides[0], &seed);
		choose(&sides[1], &seed);
		run_both_sides(sides);
	}
	for (g = 0; g < GROUPS; g++) {
		ranks_must(cohort_group_close(sides[g].group), "close");
		for (r = 0; r < RANKS; r++)
			for (k = 0; k < STEPS; k++)
				free(data[g][r][k]);
	}
	printf("%lu rounds of %d steps\n", rounds, STEPS);
	return 0;
}
