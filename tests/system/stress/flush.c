/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests collectives that run while no thread waits for them, or while a thread
 * starts to wait
 *
 * In each round, two ranks queue sums of random sizes, sometimes flush their
 * streams, and sometimes wait or give up a wait. So the thread that queues the
 * next collective, a waiting thread, the streams' own threads and the poller
 * can all reach one collective at the same time. Checks all sums, except those
 * after an abort.
 */

#include <stdio.h>
#include <stdlib.h>

#include "support/place.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 2
#define STEPS 40
#define MOST 60000 /* most elements of a sum: several shares */
#define MOST_NS 300000

struct step {
	size_t count;
	bool flush[RANKS];
	bool wait[RANKS];
	/* timeout of a wait that may expire, or 0 for no wait */
	uint64_t peek_ns[RANKS];
};

struct round {
	struct cohort_group *group;
	struct step steps[STEPS];
	int abort_rank; /* rank that aborts, or -1 */
	int abort_step;
};

/*
 * One buffer per step. All rounds use the same buffers, because an aborted
 * round no longer modifies them.
 */
static int32_t *data[RANKS][STEPS];

static void set(int rank, int k, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		data[rank][k][i] = (int32_t)i * (rank + 1) + k;
}

static void check(int rank, int k, size_t count)
{
	const int32_t *x = data[rank][k];
	size_t i;

	for (i = 0; i < count; i++)
		if (x[i] != (int32_t)i * 3 + 2 * k)
			stress_fail("rank %d, step %d, element %zu of %zu: %d",
			            rank, k, i, count, x[i]);
}

static int take_step(struct cohort_comm *c, const struct step *s, int k,
                     uint64_t *ticket)
{
	const int rank = cohort_comm_rank(c);
	int32_t *x = data[rank][k];
	int rc;

	set(rank, k, s->count);
	rc = cohort_all_reduce(c, x, x, s->count, COHORT_I32, COHORT_SUM, NULL,
	                       ticket);
	if (rc == COHORT_OK && s->flush[rank])
		place_table()->flush(cohort_comm_device(c),
		                     cohort_comm_stream(c));
	if (rc == COHORT_OK && s->peek_ns[rank]) {
		rc = cohort_wait(c, *ticket, s->peek_ns[rank]);
		if (rc == COHORT_TIMED_OUT)
			rc = COHORT_OK;
	}
	if (rc == COHORT_OK && s->wait[rank])
		rc = cohort_wait(c, *ticket, RANKS_SOON);
	return rc;
}

static int worker(struct cohort_comm *c, void *user)
{
	const struct round *round = user;
	const int rank = cohort_comm_rank(c);
	uint64_t tickets[STEPS];
	int i, k, rc = COHORT_OK;

	for (k = 0; k < STEPS && rc == COHORT_OK; k++) {
		if (rank == round->abort_rank && k == round->abort_step)
			cohort_group_abort(round->group, "by chance");
		rc = take_step(c, &round->steps[k], k, &tickets[k]);
	}
	if (rc == COHORT_OK)
		rc = cohort_synchronize(c, RANKS_SOON);
	for (i = 0; i < k; i++)
		if (rc == COHORT_OK ||
		    (i + 1 < k && cohort_wait(c, tickets[i], 0) == COHORT_OK))
			check(rank, i, round->steps[i].count);
	if (rc != COHORT_OK && (rc != COHORT_ABORTED || round->abort_rank < 0))
		stress_fail("step %d: %d, %s", k, rc, cohort_last_error());
	return 0;
}

static void choose(struct round *round, uint64_t *seed)
{
	int k, r;

	for (k = 0; k < STEPS; k++) {
		struct step *s = &round->steps[k];

		s->count = 1 + stress_random(seed) % 3000;
		if (stress_random(seed) % 2)
			s->count = 1 + stress_random(seed) % MOST;
		for (r = 0; r < RANKS; r++) {
			s->flush[r] = stress_random(seed) % 2;
			s->wait[r] = stress_random(seed) % 8 == 0;
			s->peek_ns[r] = 0;
			if (stress_random(seed) % 8 == 0)
				s->peek_ns[r] = stress_random(seed) % MOST_NS;
		}
	}
	round->abort_rank = -1;
	if (stress_random(seed) % 4 == 0) {
		round->abort_rank = (int)(stress_random(seed) % RANKS);
		round->abort_step = (int)(stress_random(seed) % STEPS);
	}
}

int main(int argc, char **argv)
{
	struct round round;
	uint64_t seed = 1;
	unsigned long rounds;
	int k, r;

	for (r = 0; r < RANKS; r++) {
		for (k = 0; k < STEPS; k++) {
			data[r][k] = malloc(MOST * sizeof(*data[r][k]));
			if (!data[r][k])
				stress_fail("out of memory");
		}
	}
	for (rounds = 0; stress_continue(argc, argv); rounds++) {
		choose(&round, &seed);
		round.group = ranks_open(RANKS, NULL);
		cohort_group_run(round.group, worker, &round, NULL);
		ranks_must(cohort_group_close(round.group), "close");
	}
	for (r = 0; r < RANKS; r++)
		for (k = 0; k < STEPS; k++)
			free(data[r][k]);
	printf("%lu rounds of %d steps\n", rounds, STEPS);
	return 0;
}
