/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes calls on host memory whose callers time out at any moment and free
 * their memory as soon as the call returns, while the group can end
 *
 * In every round, the ranks of a group make the same random calls, each with
 * its own timeout. In every second round, a thread aborts the group. Checks
 * that nothing accesses freed memory, and that every result is right, whichever
 * caller timed out. Without an abort, a call must return COHORT_OK,
 * COHORT_TIMED_OUT or COHORT_BUSY (which means that the call was not made).
 */

#include <stdatomic.h>
#include <stdio.h>

#include "support/buffer.h"
#include "support/crew.h"
#include "support/ranks.h"
#include "support/stress.h"

#define MOST_RANKS 4
#define CALLS 8
#define ONES 0x01010101 /* pattern that fills the buffers */

/* A transfer is a send to the next rank. */
enum kind { ALL_REDUCE, BROADCAST, ALL_GATHER, TRANSFER, KINDS };

struct round {
	struct cohort_group *group;
	struct cohort_comm *comms[MOST_RANKS];
	int size;
	uint64_t seed;
	bool aborts;
	uint32_t delay;
};

static atomic_ulong done, given_up, cut;

static size_t random_count(uint64_t *seed)
{
	static const size_t most[] = { 4, 300, 5000, 40000 };

	return 1 + stress_random(seed) % most[stress_random(seed) % 4];
}

/* Return COHORT_FOREVER, or a random timeout below 0.3 ms. */
static uint64_t random_timeout(uint64_t *seed)
{
	static const uint64_t most[] = { 1, 10000, 300000 };
	uint32_t which = stress_random(seed) % 4;

	return which == 3 ? COHORT_FOREVER : stress_random(seed) % most[which];
}

static void check(const struct buffer *b, size_t count, int32_t value)
{
	const int32_t *data = (const int32_t *)(const void *)b->data;
	size_t i;

	for (i = 0; i < count; i++)
		if (data[i] != value)
			stress_fail("element %zu of %zu is %x, not %x", i,
			            count, (unsigned)data[i], (unsigned)value);
}

/*
 * Return the number of kinds of calls that are usable, starting from the first.
 * Where memory functions wait for devices, transfers are not: a rank's
 * allocation could wait for the other rank's transfer, which is launched
 * immediately in either launch mode.
 */
static uint32_t kinds(void)
{
	return place_has_sync() ? TRANSFER : KINDS;
}

static int call(struct cohort_comm *c, enum kind kind, size_t count, int root,
                uint64_t timeout)
{
	const int rank = cohort_comm_rank(c), size = cohort_comm_size(c);
	const int next = (root + 1) % size;
	const size_t all = kind == ALL_GATHER ? count * (size_t)size : count;
	struct buffer *b = buffer_get(all * sizeof(int32_t));
	int32_t *data = (int32_t *)(void *)b->data;
	int rc = COHORT_OK;

	switch (kind) {
	case ALL_REDUCE:
		rc = cohort_all_reduce_host(c, data, count, COHORT_I32,
		                            COHORT_SUM, timeout);
		break;
	case BROADCAST:
		rc = cohort_broadcast_host(c, data, count, COHORT_I32, root,
		                           timeout);
		break;
	case ALL_GATHER:
		rc = cohort_all_gather_host(c, data + (size_t)rank * count,
		                            data, count, COHORT_I32, timeout);
		break;
	case TRANSFER:
		if (rank == root)
			rc = cohort_send_host(c, data, count, COHORT_I32, next,
			                      timeout);
		else if (rank == next)
			rc = cohort_recv_host(c, data, count, COHORT_I32, root,
			                      timeout);
		break;
	case KINDS:
		break;
	}
	if (rc == COHORT_OK)
		check(b, all, kind == ALL_REDUCE ? size * ONES : ONES);
	buffer_put(b);
	return rc;
}

static void rank_main(void *arg, int rank)
{
	struct round *round = arg;
	uint64_t seed = round->seed, own = round->seed * 31 + (unsigned)rank;
	int i, rc;

	if (rank == MOST_RANKS) {
		stress_spin(round->delay);
		if (round->aborts)
			cohort_group_abort(round->group, "at any moment");
		return;
	}
	for (i = 0; i < CALLS && rank < round->size; i++) {
		enum kind kind = stress_random(&seed) % kinds();
		int root = (int)(stress_random(&seed) % (unsigned)round->size);
		size_t count = random_count(&seed);
		struct cohort_comm *c = round->comms[rank];

		rc = call(c, kind, count, root, random_timeout(&own));
		while (rc == COHORT_BUSY)
			rc = call(c, kind, count, root, RANKS_SOON);
		if (rc == COHORT_ABORTED && round->aborts)
			break;
		if (rc != COHORT_OK && rc != COHORT_TIMED_OUT)
			stress_fail("rank %d, call %d returned %d: %s", rank, i,
			            rc, cohort_last_error());
		atomic_fetch_add(rc == COHORT_OK ? &done : &given_up, 1);
	}
	if (i < CALLS && rank < round->size)
		atomic_fetch_add(&cut, 1);
}

int main(int argc, char **argv)
{
	static struct crew crew;
	static struct round round;
	uint64_t seed = 1;
	unsigned long rounds = 0;

	if (place_has_sync())
		puts("[SKIP] sends and receives: a rank's memory would wait "
		     "for "
		     "the other's part, which is launched at once");
	place_set_chunk(8192);
	crew_start(&crew, MOST_RANKS + 1, rank_main);
	while (stress_continue(argc, argv)) {
		round.size = 2 + (int)(stress_random(&seed) % (MOST_RANKS - 1));
		round.seed = stress_random(&seed);
		round.aborts = rounds % 2;
		round.delay = stress_random(&seed) % 200000;
		round.group = ranks_small(round.size, round.comms);
		crew_begin(&crew, &round);
		crew_end(&crew);
		ranks_must(cohort_group_close(round.group), "close");
		buffers_check();
		rounds++;
	}
	printf("%lu rounds: %lu calls done, %lu given up, %lu ranks cut "
	       "short\n",
	       rounds, done, given_up, cut);
	return !done || !given_up;
}
