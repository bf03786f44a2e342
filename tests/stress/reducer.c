/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reducer: gradients that are ready in any order, marked by any thread, with
 * ranks that come late and groups that are aborted
 *
 * A round is a group of four ranks, each with two helpers, that makes a hundred
 * steps with options by chance.  In each step every rank marks its gradients in an
 * order of its own, some by its own thread and some by helpers.  What comes out must
 * be, to the bit, what one thread makes of it.  In some rounds delays are scripted,
 * in some a rank aborts in the middle of a step: then nobody may touch gradients
 * once finish has answered.  However short the time that it is given, 10,000 steps are
 * done.
 */

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cohort/reducer.h>

#include "support/buffer.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 4
#define STEPS 100
#define STEPS_AT_LEAST 10000
#define PARAMETERS 12
#define HELPERS 2
#define MOST 40

struct round {
	struct cohort_reducer_options options;
	bool views;
	uint64_t seed;
	int abort_rank; /* -1: none */
	uint64_t abort_step;
};

/* Atomic; those of rank 0 that came to their ends, over all rounds. */
static atomic_ulong steps;

struct rank;

struct helper {
	struct rank *rank;
	int who; /* 1, ... */
	sem_t begin, end;
	pthread_t thread;
};

struct rank {
	const struct round *round;
	struct cohort_comm *comm;
	struct cohort_reducer *reducer;
	struct buffer *gradients[PARAMETERS];
	struct helper helpers[HELPERS];
	uint64_t step;
	bool is_over; /* written while the helpers wait */
};

/* ---- what is computed ------------------------------------------------- */

static size_t count_of(int i)
{
	return (size_t)(i * i * 3 % MOST);
}

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t x = a * 7919 + b * 104729 + c * 1299709;

	x ^= x >> 29;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 32;
}

static float value(int rank, uint64_t step, int i, size_t k)
{
	uint64_t x = mix((uint64_t)rank, step, (uint64_t)i * MOST + k);

	return (float)((double)(x >> 40) / 1048576.0 - 8.0);
}

static double weight(const struct round *round, int rank, uint64_t step)
{
	return (double)(mix(round->seed, step, (uint64_t)rank) % 4);
}

static bool is_used(const struct round *round, int rank, uint64_t step, int i)
{
	return !round->options.find_unused ||
	       mix(round->seed + 1, step, (uint64_t)(rank * 100 + i)) % 5;
}

/* Each rank's factor, and whether there is any. */
static bool factors(const struct round *round, uint64_t step,
                    float factor[RANKS])
{
	double sum = 0.0;
	int r;

	for (r = 0; r < RANKS; r++)
		sum += weight(round, r, step);
	for (r = 0; r < RANKS; r++)
		factor[r] = (float)(weight(round, r, step) / sum);
	return sum > 0.0;
}

static float fold(const struct round *round, uint64_t step, int i, size_t k,
                  const float *factor)
{
	bool is_weighted = round->options.weighted;
	float sum = 0.0f, x;
	int r;

	for (r = 0; r < RANKS; r++) {
		x = is_used(round, r, step, i) ? value(r, step, i, k) : 0.0f;
		if (is_weighted)
			x = factor[r] == 0.0f ? 0.0f * 0.0f : x * factor[r];
		sum = r ? sum + x : x;
	}
	return is_weighted ? sum : sum / RANKS;
}

static void set(struct rank *rank, int i)
{
	float *x = cohort_reducer_view(rank->reducer, (size_t)i);
	int r = cohort_comm_rank(rank->comm);
	size_t k;

	for (k = 0; k < count_of(i); k++)
		x[k] = value(r, rank->step, i, k);
}

static void check(struct rank *rank, const float *factor)
{
	const float *x;
	float want;
	size_t k;
	int i;

	for (i = 0; i < PARAMETERS; i++) {
		x = cohort_reducer_view(rank->reducer, (size_t)i);
		for (k = 0; k < count_of(i); k++) {
			want = fold(rank->round, rank->step, i, k, factor);
			if (x[k] != want)
				stress_fail("step %lu, parameter %d, %zu: %a, "
				            "not %a",
				            (unsigned long)rank->step, i, k,
				            (double)x[k], (double)want);
		}
	}
}

/* ---- marks ------------------------------------------------------------ */

/* Thread @who's part of the step, 0: the owner, in an order by chance. */
static int mark(struct rank *rank, int who)
{
	int r = cohort_comm_rank(rank->comm), order[PARAMETERS];
	uint64_t seed =
		mix(rank->round->seed, rank->step, (uint64_t)(r * 10 + who));
	int i, j, swap, rc = COHORT_OK;

	for (i = 0; i < PARAMETERS; i++)
		order[i] = i;
	for (i = PARAMETERS - 1; i > 0; i--) {
		j = (int)(stress_random(&seed) % (unsigned)(i + 1));
		swap = order[i];
		order[i] = order[j];
		order[j] = swap;
	}
	for (j = 0; j < PARAMETERS && rc >= COHORT_OK; j++) {
		i = order[j];
		if (mix(rank->step, (uint64_t)i, (uint64_t)r) % (HELPERS + 1) !=
		            (uint64_t)who ||
		    !is_used(rank->round, r, rank->step, i))
			continue;
		set(rank, i);
		rc = cohort_reducer_ready(rank->reducer, (size_t)i);
		if (rc == COHORT_BUSY || rc > COHORT_OK)
			stress_fail("ready answers %d", rc);
	}
	return rc;
}

static void *help(void *arg)
{
	struct helper *h = arg;

	for (;;) {
		while (sem_wait(&h->begin))
			;
		if (h->rank->is_over)
			return NULL;
		mark(h->rank, h->who);
		sem_post(&h->end);
	}
}

static void await_helpers(struct rank *rank)
{
	int k;

	for (k = 0; k < HELPERS; k++)
		while (sem_wait(&rank->helpers[k].end))
			;
}

/* ---- steps ------------------------------------------------------------ */

static int begin(struct rank *rank)
{
	int r = cohort_comm_rank(rank->comm);
	void *stream = cohort_comm_stream(rank->comm);

	return rank->round->options.weighted
	               ? cohort_reducer_begin_weighted(
				 rank->reducer,
				 weight(rank->round, r, rank->step), stream)
	               : cohort_reducer_begin(rank->reducer, stream);
}

static int finish(struct rank *rank)
{
	int rc;

	/* Sometimes in small parts. */
	while ((rc = cohort_reducer_finish(rank->reducer,
	                                   rank->step % 3 ? COHORT_FOREVER
	                                                  : 20000)) ==
	       COHORT_TIMED_OUT)
		;
	return rc;
}

static int step(struct rank *rank)
{
	const struct round *round = rank->round;
	bool counts = round->options.find_unused;
	float factor[RANKS];
	bool any = factors(round, rank->step, factor);
	int k, rc = begin(rank);

	if (rc != COHORT_OK)
		return rc;
	for (k = 0; k < HELPERS; k++)
		sem_post(&rank->helpers[k].begin);
	rc = mark(rank, 0);
	if (round->abort_rank == cohort_comm_rank(rank->comm) &&
	    round->abort_step == rank->step) {
		struct cohort_abort *handle =
			cohort_comm_abort_handle(rank->comm);

		cohort_abort_fire(handle, "by chance");
		cohort_abort_put(handle);
	}
	/* What is not used is marked by nobody: helpers have to be done before the
	 * finish.  Else they may be on their way out of ready meanwhile. */
	if (counts)
		await_helpers(rank);
	else if (rc == COHORT_OK)
		rc = cohort_reducer_progress(rank->reducer, COHORT_FOREVER);
	rc = finish(rank);
	if (!counts)
		await_helpers(rank);
	if (rc == (round->options.weighted && !any ? COHORT_SKIP : COHORT_OK)) {
		if (rc == COHORT_OK)
			check(rank, factor);
		rc = COHORT_OK;
	}
	return rc;
}

/* ---- rounds ----------------------------------------------------------- */

static int open_rank(struct rank *rank)
{
	struct cohort_parameter p[PARAMETERS];
	int i, rc;

	for (i = 0; i < PARAMETERS; i++) {
		rank->gradients[i] = rank->round->views && i % 3
		                             ? NULL
		                             : buffer_get(4 * MOST);
		p[i] = (struct cohort_parameter){
			.gradient = rank->gradients[i]
			                    ? rank->gradients[i]->data
			                    : NULL,
			.count = count_of(i),
			.type = COHORT_F32,
		};
	}
	rc = cohort_reducer_create(rank->comm, p, PARAMETERS,
	                           &rank->round->options, &rank->reducer);
	for (i = 0; i < HELPERS; i++) {
		struct helper *h = &rank->helpers[i];

		h->rank = rank;
		h->who = i + 1;
		sem_init(&h->begin, 0, 0);
		sem_init(&h->end, 0, 0);
		pthread_create(&h->thread, NULL, help, h);
	}
	return rc;
}

static void close_rank(struct rank *rank)
{
	int i;

	rank->is_over = true;
	for (i = 0; i < HELPERS; i++)
		sem_post(&rank->helpers[i].begin);
	for (i = 0; i < HELPERS; i++)
		pthread_join(rank->helpers[i].thread, NULL);
	ranks_must(cohort_reducer_free(rank->reducer), "free");
	for (i = 0; i < PARAMETERS; i++)
		buffer_put(rank->gradients[i]);
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct rank rank = { .round = user, .comm = comm };
	int rc;

	if (rank.round->options.helpers_launch)
		cohort_comm_unbind(comm);
	rc = open_rank(&rank);
	for (; rank.step < STEPS && rc == COHORT_OK; rank.step++) {
		rc = step(&rank);
		if (rc == COHORT_OK && cohort_comm_rank(comm) == 0)
			atomic_fetch_add(&steps, 1);
	}
	close_rank(&rank);
	cohort_comm_bind(comm);
	if (rc == COHORT_OK ||
	    (rc == COHORT_ABORTED && rank.round->abort_rank >= 0))
		return 0;
	stress_fail("step %lu: %d, %s", (unsigned long)rank.step, rc,
	            cohort_last_error());
}

static void choose(struct round *round, uint64_t *seed)
{
	struct cohort_reducer_options *o = &round->options;
	int k;

	cohort_reducer_options_init(o);
	o->first_bytes = 1 + stress_random(seed) % 200;
	o->bucket_bytes = 1 + stress_random(seed) % 600;
	o->weighted = stress_random(seed) % 3 == 0;
	o->find_unused = stress_random(seed) % 3 == 0;
	o->helpers_launch = stress_random(seed) % 2;
	o->check_finite = stress_random(seed) % 4 == 0;
	round->views = stress_random(seed) % 2;
	round->seed = stress_random(seed);
	round->abort_rank = -1;
	if (stress_random(seed) % 5 == 0) {
		round->abort_rank = (int)(stress_random(seed) % RANKS);
		round->abort_step = stress_random(seed) % STEPS;
	}
	for (k = 0; k < 8; k++)
		ranks_fault((int)(stress_random(seed) % RANKS),
		            stress_random(seed) % (STEPS * 4),
		            COHORT_FAULT_DELAY, stress_random(seed) % 500000);
}

/* Who asks for a number of rounds gets that. */
static bool has_enough(int argc, char **argv)
{
	return (argc > 1 && strchr(argv[1], 'r')) ||
	       atomic_load(&steps) >= STEPS_AT_LEAST;
}

int main(int argc, char **argv)
{
	struct cohort_group *group;
	struct cohort_cause cause;
	struct round round;
	unsigned long rounds;
	uint64_t seed = 1;
	int rc;

	place_need_built_in("memory that is the host's");
	for (rounds = 0; stress_go_on(argc, argv) || !has_enough(argc, argv);
	     rounds++) {
		choose(&round, &seed);
		group = ranks_open(RANKS, NULL);
		rc = cohort_group_run(group, worker, &round, &cause);
		if (rc != (round.abort_rank < 0 ? COHORT_OK : COHORT_ABORTED))
			stress_fail("run: %d, %s", rc, cause.text);
		ranks_must(cohort_group_close(group), "close");
		buffers_check();
		cohort_sim_faults_clear();
	}
	printf("%lu steps in %lu rounds\n", atomic_load(&steps), rounds);
	return 0;
}
