/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of snapshots of a clique with ranks in given states
 */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "watch/snapshot.h"

#define SLOTS 4
#define RANKS 2

static const struct platform platform;
static struct clique *q;
static struct snapshot s;

/* Create a clique whose ranks have made no call. */
static void set_up(void)
{
	const size_t size = sizeof(*q) + RANKS * sizeof(q->comms[0]);
	struct cohort_comm *c;
	int r;

	q = aligned_alloc(_Alignof(struct clique), size);
	cr_assert(q);
	memset(q, 0, size);
	q->size = q->world_size = RANKS;
	q->slots = SLOTS;
	q->platform = &platform;
	q->end = cause_create();
	for (r = 0; r < RANKS; r++) {
		c = &q->comms[r];
		c->clique = q;
		c->rank = r;
		c->tickets.done = calloc(SLOTS, sizeof(*c->tickets.done));
		c->tickets.started = calloc(SLOTS, sizeof(*c->tickets.started));
		c->agreement.slots = calloc(SLOTS, sizeof(*c->agreement.slots));
		cr_assert_eq(recorder_init(&c->recorder, SLOTS), COHORT_OK);
	}
	cr_assert(snapshot_init(&s, q));
}

static void tear_down(void)
{
	struct cohort_comm *c;

	for (c = q->comms; c < q->comms + RANKS; c++) {
		free(c->tickets.done);
		free(c->tickets.started);
		free(c->agreement.slots);
		recorder_fini(&c->recorder);
	}
	snapshot_fini(&s);
	cause_put(q->end);
	free(q);
}

TestSuite(snapshot, .init = set_up, .fini = tear_down, .timeout = 60);

/* Call one more collective on a rank, and finish it. */
static void call_and_finish(struct cohort_comm *c)
{
	uint64_t n = c->tickets.last + 1;
	struct agree_slot *slot = agree_slot(c, n);

	slot->ticket = n;
	slot->arrived_ns = clock_now();
	slot->word = n << 32;
	c->agreement.collectives = n;
	c->tickets.done[n % SLOTS] = (uint32_t)n;
	c->tickets.last = n;
}

/* Rank 1 is ahead of rank 0 by more collectives than it has slots. So its
 * record of the front (the oldest collective in flight) is overwritten, and the
 * time of that call is unknown. The snapshot must use the time of the previous
 * snapshot. With 0, the front would seem to have waited forever. */
Test(snapshot, unknown_call_time_becomes_the_time_of_the_last_snapshot)
{
	uint64_t before;
	int i;

	snapshot_take(&s, q);
	cr_assert_eq(s.front, 0);
	before = s.now_ns;
	for (i = 0; i < SLOTS + 2; i++)
		call_and_finish(&q->comms[1]);
	snapshot_take(&s, q);
	cr_assert_eq(s.front, 1);
	cr_assert_not(s.ranks[0].joined);
	cr_assert(s.ranks[1].joined && s.ranks[1].done);
	cr_assert_eq(s.ranks[1].arrived_ns, before);
	/* A later snapshot must keep this time, because it has no better
	 * one. */
	snapshot_take(&s, q);
	cr_assert_eq(s.ranks[1].arrived_ns, before);
}

Test(snapshot, unknown_call_time_is_the_time_of_the_cliques_creation)
{
	uint64_t made = s.now_ns;
	int i;

	cr_assert_neq(made, 0);
	for (i = 0; i < SLOTS + 2; i++)
		call_and_finish(&q->comms[1]);
	snapshot_take(&s, q);
	cr_assert_eq(s.front, 1);
	cr_assert_eq(s.ranks[1].arrived_ns, made);
}
