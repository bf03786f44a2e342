/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the reducer: gradients become ready in any order, marked by any thread,
 * while ranks are late and groups are aborted
 *
 * Each round is a group of four ranks, each with two helpers, that runs a
 * hundred steps with random options. In each step, every rank marks its
 * gradients in its own order, some on its own thread and some on helpers. The
 * result must equal what one thread computes, bit for bit. In some rounds:
 *
 *  - Ranks get shards. The shards must be right, and so must the parameters
 *    that every rank then gathers from them.
 *  - Ranks cancel steps at random. No rank may count such a step, and all ranks
 *    must count the others.
 *  - Delays are scripted.
 *  - A rank aborts during or after a step. Then nothing may access gradients
 *    after finish has returned, nor parameters after gather has.
 *
 * However short the given time, the test runs 10,000 steps. On devices that
 * wait for each other's kernels it runs 1,000: ranks launch together there, so
 * on a busy machine each launch needs every rank's thread to get a core in
 * turn.
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
#include "support/chance.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS CHANCE_RANKS
#define STEPS 100
#define PARAMETERS CHANCE_PARAMETERS
#define HELPERS 2

struct round {
	struct cohort_reducer_options options;
	struct chance chance;
	bool views;
	unsigned cancels; /* one step in this many is canceled, or none if 0 */
	/* Atomic. Number of ranks that canceled each step, and that counted
	 * it. */
	atomic_int cancelled[STEPS], counted[STEPS];
	bool is_unbound;
	int abort_rank; /* rank that aborts, or -1 */
	uint64_t abort_step;
	bool aborts_late; /* whether it aborts after the step */
};

/* Atomic. Number of steps that rank 0 finished in all rounds. */
static atomic_ulong steps;

struct rank;

struct helper {
	struct rank *rank;
	int who; /* number of the helper, from 1 */
	sem_t begin, end;
	pthread_t thread;
};

struct rank {
	struct round *round;
	struct cohort_comm *comm;
	struct cohort_reducer *reducer;
	struct buffer *gradients[PARAMETERS];
	struct buffer *parameters[PARAMETERS]; /* gathered from shards */
	struct helper helpers[HELPERS];
	uint64_t step;
	/* index in the owner's order at which the owner stops; -1 if it
	 * completes */
	int fails_at;
	bool is_skipped; /* whether the step is skipped */
	bool is_over;    /* written while the helpers wait */
};

/* ---- values ----------------------------------------------------------- */

static void set(struct rank *rank, int i)
{
	float *x = cohort_reducer_view(rank->reducer, (size_t)i);
	int r = cohort_comm_rank(rank->comm);
	size_t k;

	for (k = 0; k < chance_count(i); k++)
		x[k] = chance_value(r, rank->step, i, k);
}

static void is_mean(const struct rank *rank, int i, size_t k, float x,
                    const float *factor)
{
	float want =
		chance_mean(&rank->round->chance, rank->step, i, k, factor);

	if (x != want)
		stress_fail("step %lu, parameter %d, %zu: %a, not %a",
		            (unsigned long)rank->step, i, k, (double)x,
		            (double)want);
}

static void get_shard(const struct rank *rank, int i, size_t *begin,
                      size_t *end)
{
	size_t count;

	ranks_must(cohort_reducer_shard(rank->reducer, (size_t)i, begin,
	                                &count),
	           "shard");
	*end = *begin + count;
}

/* Check this rank's shard of the gradients, which can be all of them. */
static void check(const struct rank *rank, const float *factor)
{
	size_t k, begin, end;
	const float *x;
	int i;

	for (i = 0; i < PARAMETERS; i++) {
		x = cohort_reducer_view(rank->reducer, (size_t)i);
		get_shard(rank, i, &begin, &end);
		for (k = begin; k < end; k++)
			is_mean(rank, i, k, x[k], factor);
	}
}

/* ---- marks ------------------------------------------------------------ */

/* Do thread @who's part of the step (0 is the owner), in random order. */
static int mark(struct rank *rank, int who)
{
	int r = cohort_comm_rank(rank->comm), order[PARAMETERS];
	uint64_t seed = chance_mix(rank->round->chance.seed, rank->step,
	                           (uint64_t)(r * 10 + who));
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
		if (!who && j == rank->fails_at)
			break;
		if (chance_mix(rank->step, (uint64_t)i, (uint64_t)r) %
		                    (HELPERS + 1) !=
		            (uint64_t)who ||
		    !chance_used(&rank->round->chance, r, rank->step, i))
			continue;
		set(rank, i);
		rc = cohort_reducer_ready(rank->reducer, (size_t)i);
		if (rc == COHORT_BUSY || rc > COHORT_OK)
			stress_fail("ready returned %d", rc);
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
				 chance_weight(&rank->round->chance, r,
	                                       rank->step),
				 stream)
	               : cohort_reducer_begin(rank->reducer, stream);
}

static int finish(struct rank *rank)
{
	int rc;

	/* Sometimes wait in small slices. */
	while ((rc = cohort_reducer_finish(rank->reducer,
	                                   rank->step % 3 ? COHORT_FOREVER
	                                                  : 20000)) ==
	       COHORT_TIMED_OUT)
		;
	return rc;
}

static void abort_if(const struct rank *rank, bool late)
{
	const struct round *round = rank->round;
	struct cohort_abort *handle;

	if (round->abort_rank != cohort_comm_rank(rank->comm) ||
	    round->abort_step != rank->step || round->aborts_late != late)
		return;
	handle = cohort_comm_abort_handle(rank->comm);
	cohort_abort_fire(handle, "by chance");
	cohort_abort_put(handle);
}

/* Choose whether and where this rank's pass fails. */
static void choose_failure(struct rank *rank)
{
	uint64_t x = chance_mix(rank->round->chance.seed + 7, rank->step,
	                        (uint64_t)cohort_comm_rank(rank->comm));

	rank->fails_at = -1;
	if (rank->round->cancels && x % rank->round->cancels == 0)
		rank->fails_at = (int)(x / 64 % (PARAMETERS / 2));
}

/* Cancel the step, sometimes in several calls. Return false if too late. */
static bool cancel(struct rank *rank, int *rc)
{
	struct round *round = rank->round;
	uint64_t timeout = rank->step % 3 ? COHORT_FOREVER : 20000;

	*rc = cohort_reducer_cancel(rank->reducer, timeout);
	if (*rc == COHORT_ALREADY)
		return false;
	atomic_fetch_add(&round->cancelled[rank->step], 1);
	while (*rc == COHORT_TIMED_OUT)
		*rc = rank->step % 2
		              ? cohort_reducer_finish(rank->reducer, timeout)
		              : cohort_reducer_cancel(rank->reducer, timeout);
	if (*rc == COHORT_OK)
		*rc = COHORT_SKIP;
	return true;
}

static int finish_or_cancel(struct rank *rank)
{
	int rc;

	if (rank->fails_at >= 0 && cancel(rank, &rc))
		return rc;
	return finish(rank);
}

/* Check and count the status of a finish. */
static void judge(struct rank *rank, int rc)
{
	struct round *round = rank->round;
	float factor[RANKS];
	bool any = chance_factors(&round->chance, rank->step, factor);

	rank->is_skipped = rc == COHORT_SKIP;
	if (rc == COHORT_OK) {
		atomic_fetch_add(&round->counted[rank->step], 1);
		if (round->options.weighted && !any)
			stress_fail(
				"step %lu counts, although all weights are 0",
				(unsigned long)rank->step);
		check(rank, factor);
	}
}

static int step(struct rank *rank)
{
	bool counts = rank->round->options.find_unused;
	int k, rc = begin(rank);

	if (rc != COHORT_OK)
		return rc;
	choose_failure(rank);
	for (k = 0; k < HELPERS; k++)
		sem_post(&rank->helpers[k].begin);
	rc = mark(rank, 0);
	abort_if(rank, false);
	/*
	 * Wait for the helpers before a cancel, and before a finish that finds
	 * unused gradients. Unused gradients are never marked, so the reducer's
	 * progress cannot show that every helper has returned from
	 * cohort_reducer_ready().
	 */
	if (counts || rank->fails_at >= 0)
		await_helpers(rank);
	else if (rc == COHORT_OK)
		rc = cohort_reducer_progress(rank->reducer, COHORT_FOREVER);
	rc = finish_or_cancel(rank);
	if (!counts && rank->fails_at < 0)
		await_helpers(rank);
	abort_if(rank, true);
	judge(rank, rc);
	return rc == COHORT_SKIP ? COHORT_OK : rc;
}

/* ---- parameters of shards --------------------------------------------- */

/* Set the parameter's result in this rank's shard, and NaNs elsewhere. */
static void set_parameter(const struct rank *rank, int i)
{
	const float *gradient = cohort_reducer_view(rank->reducer, (size_t)i);
	float *x = (float *)(void *)rank->parameters[i]->data;
	size_t k, begin, end;

	get_shard(rank, i, &begin, &end);
	for (k = 0; k < chance_count(i); k++)
		x[k] = k >= begin && k < end ? gradient[k] : NAN;
}

/* Gather after some steps, which are the same on all ranks. */
static int gather(struct rank *rank)
{
	void *stream = cohort_comm_stream(rank->comm), *at[PARAMETERS];
	float factor[RANKS];
	size_t k;
	int i, rc;

	if (!rank->round->options.sharded || rank->step % 4 == 3 ||
	    rank->is_skipped)
		return COHORT_OK;
	chance_factors(&rank->round->chance, rank->step, factor);
	for (i = 0; i < PARAMETERS; i++) {
		at[i] = chance_count(i) ? rank->parameters[i]->data : NULL;
		set_parameter(rank, i);
	}
	while ((rc = cohort_reducer_gather(rank->reducer, at, stream,
	                                   rank->step % 5 ? COHORT_FOREVER
	                                                  : 20000)) ==
	       COHORT_TIMED_OUT)
		;
	for (i = 0; i < PARAMETERS && rc == COHORT_OK; i++)
		for (k = 0; k < chance_count(i); k++)
			is_mean(rank, i, k, ((const float *)at[i])[k], factor);
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
		                             : buffer_get(4 * CHANCE_MOST);
		rank->parameters[i] = buffer_get(4 * CHANCE_MOST);
		p[i] = (struct cohort_parameter){
			.gradient = rank->gradients[i]
			                    ? rank->gradients[i]->data
			                    : NULL,
			.count = chance_count(i),
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
	for (i = 0; i < PARAMETERS; i++) {
		buffer_put(rank->gradients[i]);
		buffer_put(rank->parameters[i]);
	}
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct rank rank = { .round = user, .comm = comm };
	int rc;

	if (rank.round->is_unbound)
		cohort_comm_unbind(comm);
	rc = open_rank(&rank);
	for (; rank.step < STEPS && rc == COHORT_OK; rank.step++) {
		rc = step(&rank);
		if (rc == COHORT_OK)
			rc = gather(&rank);
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
	round->is_unbound = o->helpers_launch && stress_random(seed) % 2;
	o->sharded = stress_random(seed) % 2;
	round->views = stress_random(seed) % 2;
	round->chance.seed = stress_random(seed);
	round->chance.is_weighted = o->weighted;
	round->chance.has_unused = o->find_unused;
	round->abort_rank = -1;
	if (stress_random(seed) % 5 == 0) {
		round->abort_rank = (int)(stress_random(seed) % RANKS);
		round->abort_step = stress_random(seed) % STEPS;
		round->aborts_late = stress_random(seed) % 2;
	}
	round->cancels =
		stress_random(seed) % 2 * (1 + stress_random(seed) % 8);
	for (k = 0; k < STEPS; k++)
		round->cancelled[k] = round->counted[k] = 0;
	for (k = 0; k < 8; k++)
		ranks_fault((int)(stress_random(seed) % RANKS),
		            stress_random(seed) % (STEPS * 4),
		            COHORT_FAULT_DELAY, stress_random(seed) % 500000);
}

/*
 * Check that a step counted on all ranks or, if a rank canceled it or all
 * weights were 0, on none. After an abort, check only the latter.
 */
static void check_counted(struct round *round)
{
	float factor[RANKS];
	int k;

	for (k = 0; k < STEPS; k++) {
		bool any = chance_factors(&round->chance, (uint64_t)k, factor);
		bool counts = (any || !round->options.weighted) &&
		              !round->cancelled[k];

		if ((round->abort_rank < 0 || !counts) &&
		    round->counted[k] != (counts ? RANKS : 0))
			stress_fail("step %d: %d ranks have given it up, on %d "
			            "it counts",
			            k, round->cancelled[k], round->counted[k]);
	}
}

/* Return whether the rounds are enough. A given number is made exactly. */
static bool has_enough(int argc, char **argv)
{
	return (argc > 1 && strchr(argv[1], 'r')) ||
	       atomic_load(&steps) >= (place_has_sync() ? 1000 : 10000);
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
	for (rounds = 0; stress_continue(argc, argv) || !has_enough(argc, argv);
	     rounds++) {
		choose(&round, &seed);
		group = ranks_open(RANKS, NULL);
		rc = cohort_group_run(group, worker, &round, &cause);
		if (rc != (round.abort_rank < 0 ? COHORT_OK : COHORT_ABORTED))
			stress_fail("run: %d, %s", rc, cause.text);
		ranks_must(cohort_group_close(group), "close");
		check_counted(&round);
		buffers_check();
		cohort_sim_faults_clear();
	}
	printf("%lu steps in %lu rounds\n", atomic_load(&steps), rounds);
	return 0;
}
