/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waits across communicators: in random trees of communicators, in which all ranks but
 * one wait for others somewhere, in collectives or in sends and receives, that one is named
 * and no other
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clique_tree.h"
#include "core/pair.h"
#include "watch/verdict.h"
#include "watch/waits.h"

#define SLOTS 8
#define MAX_RANKS 9
#define MAX_CLIQUES 12
#define TREES 10000

static const struct platform platform;
static struct clique *cliques[MAX_CLIQUES];
static bool
	has_transfers[MAX_CLIQUES]; /* ranks wait in sends and receives there */
static int count;

/* A number from 0 to @n - 1. */
static int pick(int n)
{
	return (int)(lrand48() % n);
}

/* ---- trees ------------------------------------------------------------- */

static void make_comm(struct clique *q, int i, struct cohort_comm *above)
{
	struct cohort_comm *c = &q->comms[i];

	c->clique = q;
	c->rank = i;
	c->above = above;
	c->world_rank = above ? above->world_rank : i;
	c->device = c->world_rank;
	atomic_store(&c->lock.tid, 1000 + c->world_rank);
	c->tickets.done = calloc(SLOTS, sizeof(*c->tickets.done));
	c->tickets.started = calloc(SLOTS, sizeof(*c->tickets.started));
	c->agreement.slots = calloc(SLOTS, sizeof(*c->agreement.slots));
	cr_assert_eq(recorder_init(&c->recorder, SLOTS), COHORT_OK);
	cr_assert_eq(call_shapes_init(&c->shapes, SLOTS), COHORT_OK);
}

/* Make a clique of @n ranks, which are those at @above in @parent. */
static struct clique *make(struct clique *parent, const int *above, int n)
{
	const size_t bytes =
		sizeof(struct clique) + (size_t)n * sizeof(struct cohort_comm);
	struct clique *q = aligned_alloc(_Alignof(struct clique), bytes);
	int i;

	cr_assert(q);
	memset(q, 0, bytes);
	snprintf(q->name, sizeof(q->name), "g.%d", count);
	q->platform = &platform;
	q->size = q->world_size = n;
	q->slots = SLOTS;
	q->generation = 1;
	q->parent = parent;
	q->end = cause_create();
	q->config.connect = COHORT_CONNECT_ALL;
	for (i = 0; i < n; i++)
		make_comm(q, i, parent ? &parent->comms[above[i]] : NULL);
	clique_tree_enter(q);
	has_transfers[count] = false;
	cliques[count++] = q;
	return q;
}

static void unmake(struct clique *q)
{
	struct cohort_comm *c;

	clique_tree_leave(q);
	for (c = q->comms; c < q->comms + q->size; c++) {
		free(c->tickets.done);
		free(c->tickets.started);
		free(c->agreement.slots);
		pairs_free(c->transfers.pairs);
		recorder_fini(&c->recorder);
		call_shapes_fini(&c->shapes);
	}
	free(q->halves);
	cause_put(q->end);
	free(q);
}

static void unmake_all(void)
{
	while (count)
		unmake(cliques[--count]);
}

/* Split random ranks off random cliques, at least two each. */
static void make_tree(void)
{
	struct clique *parent = make(NULL, NULL, 2 + pick(MAX_RANKS - 1));
	int above[MAX_RANKS], children = pick(MAX_CLIQUES), i, n;

	while (children--) {
		parent = cliques[pick(count)];
		for (i = n = 0; i < parent->size; i++)
			if (pick(2))
				above[n++] = i;
		if (n > 1)
			make(parent, above, n);
	}
	for (i = 0; i < count; i++)
		has_transfers[i] = pick(2);
}

/* ---- waits ------------------------------------------------------------- */

/* The thread of @c waits in the first collective of its clique. */
static void wait_in(struct cohort_comm *c)
{
	const struct limits forever = { COHORT_FOREVER, COHORT_FOREVER };
	const struct cohort_tensor tensor = { .count = 1, .type = COHORT_I32 };
	const struct op op = {
		.kind = OP_ALL_REDUCE,
		.tensors = &tensor,
		.n = 1,
	};

	agree_publish(c, &op, 1, 7, 1, 1, &forever);
	atomic_store(&c->tickets.last, 1);
	atomic_store(&c->agreement.collectives, 1);
	atomic_store(&c->thread.waits, 1);
}

/* The thread of @c waits in its first send to @peer, or in its first receive from it. */
static void wait_for(struct cohort_comm *c, const struct cohort_comm *peer)
{
	const struct cohort_tensor tensor = { .count = 1, .type = COHORT_I32 };
	const struct op op = {
		.kind = pick(2) ? OP_SEND : OP_RECV,
		.root = peer->rank,
		.tensors = &tensor,
		.n = 1,
	};

	cr_assert_eq(pair_prepare(c, &op), COHORT_OK);
	cr_assert_eq(pair_agree(c, &op, 1, 1, false), COHORT_OK);
	atomic_store(&c->tickets.last, 1);
	atomic_store(&c->thread.waits, 1);
}

static bool waits_in(const struct cohort_comm *c)
{
	return atomic_load(&c->thread.waits);
}

/* A rank of @q other than @but that waits elsewhere, or is the culprit; or, if @anywhere,
 * that waits.  NULL if there is none. */
static const struct cohort_comm *find_missing(const struct clique *q, int but,
                                              const bool *placed, bool anywhere)
{
	const struct cohort_comm *c;

	for (c = q->comms; c < q->comms + q->size; c++)
		if (c->world_rank != but && placed[c->world_rank] &&
		    (anywhere || !waits_in(c)))
			return c;
	return NULL;
}

static struct cohort_comm *comm_of(struct clique *q, int world)
{
	int i;

	for (i = 0; i < q->size; i++)
		if (q->comms[i].world_rank == world)
			return &q->comms[i];
	return NULL;
}

/* Let every rank but @culprit wait in a clique where some rank is missing, or for one that
 * waits there. */
static void place_all(int culprit)
{
	bool placed[MAX_RANKS] = { false };
	const int size = cliques[0]->size;
	const struct cohort_comm *missing;
	struct cohort_comm *c;
	int rank, start = pick(size), i, k;

	placed[culprit] = true;
	for (i = 0; i < size; i++) {
		rank = (start + i) % size;
		if (rank == culprit)
			continue;
		do {
			k = pick(count);
			c = comm_of(cliques[k], rank);
			missing = find_missing(cliques[k], rank, placed,
			                       has_transfers[k]);
		} while (!c || !missing);
		if (has_transfers[k])
			wait_for(c, missing);
		else
			wait_in(c);
		placed[rank] = true;
	}
}

/* ---- verdicts ---------------------------------------------------------- */

static void check(struct clique *q, int culprit, long seed)
{
	struct expiry due = { .what = EXPIRY_VERDICT, .deadline_ns = 1 };
	const struct cohort_comm *c = comm_of(q, culprit);
	uint64_t missing[COHORT_RANK_WORDS] = { 0 };
	struct verdict out;
	struct snapshot s;

	cr_assert(snapshot_init(&s, q));
	cr_assert(verdict_init(&out, q->size));
	snapshot_take(&s, q);
	due.is_transfer = s.transfer.number;
	waits_take(&s, q, due.is_transfer);
	if (due.is_transfer || (s.front && !s.all_joined)) {
		verdict_stalled(&s, &due, &out);
		cr_assert_eq(out.v.world_rank, culprit,
		             "seed %ld: %d, not %d: %s", seed, out.v.world_rank,
		             culprit, out.text);
		cr_assert_eq(out.v.rank, c ? c->rank : -1);
		if (c)
			rank_set_add(missing, c->rank);
		cr_assert_eq(memcmp(out.v.missing, missing, sizeof(missing)), 0,
		             "%s", out.text);
	}
	verdict_fini(&out);
	snapshot_fini(&s);
}

Test(waits, name_the_culprit_in_every_tree_and_no_other_rank, .timeout = 120)
{
	const char *given = getenv("WAITS_SEED");
	const long seed = given ? atol(given) : time(NULL);
	int tree, culprit, i;

	cr_log_info("WAITS_SEED=%ld", seed);
	srand48(seed);
	for (tree = 0; tree < TREES; tree++) {
		make_tree();
		culprit = pick(cliques[0]->size);
		place_all(culprit);
		for (i = 0; i < count; i++)
			check(cliques[i], culprit, seed);
		unmake_all();
	}
}

/* Ranks 0 to n - 1 wait in a ring of communicators, each for the next one. */
Test(waits, of_a_ring_through_many_communicators_are_a_cycle)
{
	const struct expiry due = { .what = EXPIRY_VERDICT, .deadline_ns = 1 };
	struct clique *root = make(NULL, NULL, MAX_RANKS);
	struct verdict out;
	struct snapshot s;
	int i, pair[2];

	for (i = 0; i < MAX_RANKS; i++) {
		pair[0] = i;
		pair[1] = (i + 1) % MAX_RANKS;
		wait_in(comm_of(make(root, pair, 2), i));
	}
	cr_assert(snapshot_init(&s, cliques[3]));
	cr_assert(verdict_init(&out, 2));
	snapshot_take(&s, cliques[3]);
	waits_take(&s, cliques[3], false);
	verdict_stalled(&s, &due, &out);
	cr_assert_eq(out.v.kind, COHORT_VERDICT_CYCLE);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.world_rank, -1);
	cr_assert_not_null(strstr(out.line, "wait for each other in a cycle"));
	verdict_fini(&out);
	snapshot_fini(&s);
	unmake_all();
}
