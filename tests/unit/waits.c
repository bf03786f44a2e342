/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of waits across communicators
 *
 * In random trees of communicators, all ranks but one wait for other ranks, in
 * collectives or in sends and receives. Every verdict must name the rank that
 * does not wait.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "core/clique_tree.h"
#include "core/pair.h"
#include "support/expect.h"
#include "support/place.h"
#include "watch/crossing.h"
#include "watch/verdict.h"
#include "watch/waits.h"

#define SLOTS 8
#define MAX_RANKS 9
#define MAX_CLIQUES 12
#define TREES 10000

static const struct platform platform;
static struct clique *cliques[MAX_CLIQUES];
static bool has_transfers[MAX_CLIQUES]; /* ranks wait in sends and receives */
static int count;

/* Return a random number from 0 to @n - 1. */
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

/* Create a clique of @n ranks of @parent. @above has their numbers in
 * @parent. */
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
		if (c->former)
			cause_put(c->former);
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

/* Create a random tree: repeatedly split two or more random ranks from a random
 * clique. */
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

static const struct cohort_tensor tensor = { .count = 1, .type = COHORT_I32 };
static const struct op sum = {
	.kind = OP_ALL_REDUCE,
	.tensors = &tensor,
	.n = 1,
};

/* Make the thread of @c wait in the first collective of its clique. */
static void wait_in(struct cohort_comm *c)
{
	const struct limits forever = { COHORT_FOREVER, COHORT_FOREVER };

	agree_publish(c, &sum, 1, 7, 1, 1, &forever);
	atomic_store(&c->tickets.last, 1);
	atomic_store(&c->agreement.collectives, 1);
	atomic_store(&c->thread.waits, 1);
}

/* Let thread @tid call the first collective of the clique of @c at time @ns,
 * without a wait. */
static void queue_in(struct cohort_comm *c, int tid, uint64_t ns)
{
	wait_in(c);
	recorder_begin(&c->recorder, 1, &sum, 0, tid, ns);
	recorder_end(&c->recorder, 1, COHORT_OK);
	atomic_store(&agree_slot(c, 1)->arrived_ns, ns);
	atomic_store(&c->thread.waits, 0);
}

/* Make the thread of @c wait in its first send to @peer, or in its first
 * receive from @peer. */
static void wait_for(struct cohort_comm *c, const struct cohort_comm *peer)
{
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

/* Return a rank of @q in @placed, other than @but, that does not wait in @q, or
 * NULL if there is none. If @anywhere, the rank can wait in @q as well. */
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

/* Make every rank except @culprit wait for a rank placed before it, in a
 * collective that this rank does not join, or in a transfer with it. */
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

Test(waits, verdicts_in_random_trees_of_waits_name_only_the_culprit,
     .timeout = 120)
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

/* Each rank waits for the next rank, each in a different communicator. */
Test(waits, waits_in_a_ring_of_communicators_are_a_cycle)
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
	expect_text(out.line, "wait for each other in a cycle");
	verdict_fini(&out);
	snapshot_fini(&s);
	unmake_all();
}

/* Line of the last verdict */
static char line[512];
static int kind;
static uint64_t missing;

/* Return the rank that is blamed for the waits in @q, or -1, and free all. */
static int blamed(struct clique *q, bool is_transfer)
{
	const struct expiry due = { .what = EXPIRY_VERDICT,
		                    .deadline_ns = 1,
		                    .is_transfer = is_transfer };
	struct verdict out;
	struct snapshot s;
	int rank;

	cr_assert(snapshot_init(&s, q));
	cr_assert(verdict_init(&out, q->size));
	snapshot_take(&s, q);
	waits_take(&s, q, is_transfer);
	verdict_stalled(&s, &due, &out);
	rank = out.v.kind == COHORT_VERDICT_CYCLE ? -1 : out.v.world_rank;
	kind = out.v.kind;
	missing = out.v.missing[0];
	snprintf(line, sizeof(line), "%s", out.line);
	verdict_fini(&out);
	snapshot_fini(&s);
	unmake_all();
	return rank;
}

/* Rank 1 waits in a send to rank 2, which waits in a collective for ranks 0 and
 * 1.  Return the rank that is blamed.
 * @join_ns: limit of the collective */
static int blame_for_send(uint64_t join_ns)
{
	static const int pair[] = { 1, 2 };
	struct clique *root = make(NULL, NULL, 3);
	struct clique *q = make(root, pair, 2);

	root->deadlines.join_ns = join_ns;
	wait_for(comm_of(q, 1), comm_of(q, 2));
	atomic_store(&comm_of(q, 1)->thread.waits, 1);
	wait_in(comm_of(root, 2));
	return blamed(q, true);
}

Test(waits, rank_within_its_deadline_is_not_blamed_for_a_cycle)
{
	cr_assert_eq(blame_for_send(COHORT_FOREVER), -1);
	cr_assert_eq(blame_for_send(1), 0);
}

/* ---- several threads of a rank ------------------------------------------ */

static sem_t never;
static atomic_int sleeper_tid;

static void *sleep_in_futex(void *unused)
{
	(void)unused;
	atomic_store(&sleeper_tid, thread_id());
	sem_wait(&never);
	return NULL;
}

/* All ranks except rank 1 wait in the root communicator. In a child, a second
 * thread of rank 1 waits for a second thread of rank 2. Return the rank that is
 * blamed.
 * @tid:     first thread of rank 1
 * @join_ns: limit of the collectives */
static int blame_beside_threads(int tid, uint64_t join_ns)
{
	static const int pair[] = { 1, 2 };
	struct clique *root = make(NULL, NULL, 3);
	struct clique *q = make(root, pair, 2);

	atomic_store(&root->comms[1].lock.tid, tid);
	atomic_store(&comm_of(q, 1)->lock.tid, 2001);
	atomic_store(&comm_of(q, 2)->lock.tid, 2002);
	root->deadlines.join_ns = q->deadlines.join_ns = join_ns;
	wait_in(&root->comms[0]);
	wait_in(&root->comms[2]);
	wait_in(comm_of(q, 1));
	return blamed(root, false);
}

Test(waits, rank_whose_second_thread_has_waited_long_is_not_blamed)
{
	pthread_t sleeper;

	place_skip_in_qemu("/proc shows the host's system calls");
	cr_assert_eq(sem_init(&never, 0, 0), 0);
	cr_assert_eq(pthread_create(&sleeper, NULL, sleep_in_futex, NULL), 0);
	while (!sleeper_tid || thread_awaits(sleeper_tid) != -1)
		sched_yield();
	/* The first thread of rank 1 may wait for the second one. */
	cr_assert_eq(blame_beside_threads(sleeper_tid, 1), 2);
	/* The second thread of rank 2 may still call in time. */
	cr_assert_eq(blame_beside_threads(sleeper_tid, COHORT_FOREVER), 1);
	/* Either of the two threads that make no call may be at fault. */
	cr_assert_eq(blame_beside_threads(1001, 1), 1);
	sem_post(&never);
	pthread_join(sleeper, NULL);
}

/* ---- communicators that have ended --------------------------------------- */

/* Ranks 2 and 3 wait for ranks 0 and 1, whose child communicator has ended
 * because of rank 1. If @has_waited, rank 0 waited in the child. Return the
 * rank that is blamed. */
static int blame_after_end(bool has_waited)
{
	static const int pair[] = { 0, 1 };
	struct cohort_cause cause = { .status = COHORT_STALLED,
		                      .rank = 1,
		                      .world_rank = 1 };
	struct clique *root = make(NULL, NULL, 4);
	struct clique *q = make(root, pair, 2);

	wait_in(&root->comms[2]);
	wait_in(&root->comms[3]);
	cause.time_ns = clock_now();
	cr_assert_eq(cause_set(q->end, &cause), COHORT_OK);
	atomic_store(&q->comms[0].thread.waits, has_waited);
	return blamed(root, false);
}

Test(waits, communicator_that_ended_explains_only_waits_in_it)
{
	cr_assert_eq(blame_after_end(true), 1);
	cr_assert_eq(blame_after_end(false), 0);
}

/* Ranks 2 and 3 wait for rank 0, which closed its communicator after a child
 * communicator had ended because of rank @culprit. If @has_waited, rank 0
 * waited in the child. Return the rank that is blamed. */
static int blame_after_close(bool has_waited, int culprit)
{
	static const int pair[] = { 0, 1 };
	const struct cohort_cause cause = {
		.status = COHORT_STALLED,
		.kind = COHORT_VERDICT_DIFFERENT_CALL,
		.rank = culprit,
		.world_rank = culprit,
		.time_ns = clock_now()
	};
	struct clique *root = make(NULL, NULL, 4);
	struct clique *q = make(root, pair, 2);

	cr_assert_eq(cause_set(q->end, &cause), COHORT_OK);
	atomic_store(&q->comms[0].thread.waits, has_waited);
	wait_in(&root->comms[2]);
	wait_in(&root->comms[3]);
	atomic_store(&root->comms[0].lock.closed, true);
	return blamed(root, false);
}

Test(waits, rank_that_closes_after_an_end_by_another_rank_is_not_blamed)
{
	cr_assert_eq(blame_after_close(true, 1), 1);
	cr_assert_eq(blame_after_close(false, 1), 0);
	cr_assert_eq(kind, COHORT_VERDICT_LEFT);
	cr_assert_eq(blame_after_close(true, -1), -1);
	cr_assert_eq(missing, 0);
	expect_text(line, "rank 0 has left after \"g.1\" had "
	                  "ended (different call) (");
}

/* Ranks 1 and 2 wait for rank 0, which waited in a child communicator with rank
 * 3 of another process when @cause ended the child. Return the rank that is
 * blamed. */
static int blame_after_end_by_others(struct cohort_cause cause)
{
	static const int own[] = { 0 };
	struct clique *root = make(NULL, NULL, 3);
	struct clique *q = make(root, own, 1);

	root->world_size = 4;
	q->world_size = 2;
	wait_in(&root->comms[1]);
	wait_in(&root->comms[2]);
	cause.time_ns = clock_now();
	cr_assert_eq(cause_set(q->end, &cause), COHORT_OK);
	atomic_store(&q->comms[0].thread.waits, 1);
	return blamed(root, false);
}

/* Nothing is known about the other processes. */
Test(waits, rank_is_not_blamed_after_it_waited_for_other_processes)
{
	const struct cohort_cause cause = { .status = COHORT_STALLED,
		                            .kind = COHORT_VERDICT_REMOTE,
		                            .rank = -1,
		                            .world_rank = -1 };

	cr_assert_eq(blame_after_end_by_others(cause), -1);
	cr_assert_eq(kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(missing, 0);
}

Test(waits, stopped_process_is_named_after_a_communicator_ended)
{
	const struct cohort_cause cause = {
		.status = COHORT_STALLED,
		.kind = COHORT_VERDICT_PROCESS_STOPPED,
		.rank = 1,
		.world_rank = 3,
		.text = "process 1 (pid 7), which drives "
			"rank 3, is stopped (9 ms)"
	};

	cr_assert_eq(blame_after_end_by_others(cause), 3);
	cr_assert_eq(kind, COHORT_VERDICT_PROCESS_STOPPED);
	cr_assert_eq(missing, 8);
	cr_assert_eq(strncmp(line,
	                     "process 1 (pid 7), which drives rank 3, is "
	                     "stopped (",
	                     50),
	             0, "%s", line);
}

/* ---- calls in other communicators --------------------------------------- */

/* Rank 0 waits for rank 1, which is inside a call of a child communicator in
 * which no rank is missing. The line must say so. */
static void expect_call_in_child(bool is_transfer)
{
	static const int pair[] = { 0, 1 };
	struct clique *root = make(NULL, NULL, 2);
	struct clique *q = make(root, pair, 2);

	if (is_transfer)
		wait_for(&root->comms[0], &root->comms[1]);
	else
		wait_in(&root->comms[0]);
	atomic_store(&q->comms[1].lock.held, 1);
	cr_assert_eq(blamed(root, is_transfer), 1);
	cr_assert_eq(kind, COHORT_VERDICT_DIFFERENT_CALL);
	expect_text(line, ": it is inside a call of \"g.1\"");
}

Test(waits, rank_inside_a_call_of_a_child_is_not_called_busy)
{
	expect_call_in_child(false);
	expect_call_in_child(true);
}

/* ---- streams ------------------------------------------------------------- */

/* All ranks have called in the first child, in which rank 1 has not started,
 * because its stream waits in the second child for rank 2. */
Test(waits, blame_follows_a_stream_that_waits_in_another_communicator)
{
	static const int all[] = { 0, 1, 2 };
	struct clique *root = make(NULL, NULL, 3);
	struct clique *q = make(root, all, 3), *other = make(root, all, 3);
	int i;

	q->starts_are_marked = true;
	for (i = 0; i < 3; i++) {
		if (i == 2)
			queue_in(&q->comms[i], 1, 1);
		else
			wait_in(&q->comms[i]);
		q->comms[i].tickets.started[1] = i != 1;
		if (i < 2)
			queue_in(&other->comms[i], 1, 1);
	}
	cr_assert_eq(blamed(q, false), 2);
	expect_text(line, "rank 2 has not called all_reduce 1 of \"g.2\"");
}

/* ---- orders -------------------------------------------------------------- */

/* Ranks 0 and 1 have called in two communicators in different orders, and rank
 * 2 has not called. Return true if the library treats this as a crossing.
 * @tid: thread that has called in the second communicator; thread 1 has called
 *       in the first one */
static bool is_crossing(int tid)
{
	static const int pair[] = { 0, 1 };
	struct clique *root = make(NULL, NULL, 3);
	struct clique *q = make(root, pair, 2);
	struct snapshot s;
	bool exists;

	queue_in(&root->comms[0], 1, 1);
	queue_in(&q->comms[0], tid, 2);
	queue_in(&q->comms[1], tid, 1);
	queue_in(&root->comms[1], 1, 2);
	cr_assert(snapshot_init(&s, root));
	snapshot_take(&s, root);
	crossing_take(&s, root);
	exists = s.crossing.exists;
	snapshot_fini(&s);
	unmake_all();
	return exists;
}

Test(waits, calls_of_two_threads_have_no_order)
{
	cr_assert(is_crossing(1));
	cr_assert_not(is_crossing(2));
}
