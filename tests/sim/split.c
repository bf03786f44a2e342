/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ncclCommSplit(): which ranks are in which child, the lifetime of a
 * child, and the abort of its parent
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/native.h"

TestSuite(split, .timeout = 20);

/* ---- one thread with all ranks ---------------------------------------- */

/* Split all ranks of @parent in one group. Return the result of
 * ncclGroupEnd(). */
static ncclResult_t split_all(struct native_clique *parent, const int color[],
                              const int key[], ncclComm_t child[],
                              ncclConfig_t *config)
{
	const struct platform *p = parent->p;
	int r;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < parent->n; r++) {
		child[r] = (ncclComm_t)parent;
		cr_assert_eq(p->ncclCommSplit(parent->comm[r], color[r], key[r],
		                              &child[r], config),
		             ncclSuccess);
		cr_assert_null(child[r]);
	}
	return p->ncclGroupEnd();
}

static void is_rank(const struct platform *p, ncclComm_t comm, int rank, int n,
                    int device)
{
	int value = -1;

	cr_assert_eq(p->ncclCommUserRank(comm, &value), ncclSuccess);
	cr_assert_eq(value, rank);
	cr_assert_eq(p->ncclCommCount(comm, &value), ncclSuccess);
	cr_assert_eq(value, n);
	cr_assert_eq(p->ncclCommCuDevice(comm, &value), ncclSuccess);
	cr_assert_eq(value, device);
}

/*
 * Make a clique of the communicators in @child that have one color. Rank r of
 * the clique is @child[@ranks[r]].
 */
static void clique_of(struct native_clique *c, const struct platform *p,
                      const ncclComm_t child[], const int ranks[], int n)
{
	int i;

	c->p = p;
	c->n = n;
	for (i = 0; i < n; i++) {
		c->comm[i] = child[ranks[i]];
		c->stream[i] = native_stream(p, ranks[i]);
		is_rank(p, c->comm[i], i, n, ranks[i]);
	}
}

Test(split, split_sorts_by_color_then_key_then_rank)
{
	const struct platform *p = native_open(6);
	const int color[] = { 7, 0, 7, 0, 7, NCCL_SPLIT_NOCOLOR };
	const int key[] = { 1, 5, -3, 5, 1, 0 };
	const int sevens[] = { 2, 0, 4 }, zeros[] = { 1, 3 };
	struct native_clique parent, seven, zero;
	ncclComm_t child[6];

	native_clique_open(&parent, p, 6);
	cr_assert_eq(split_all(&parent, color, key, child, NULL), ncclSuccess);
	cr_assert_null(child[5]);
	clique_of(&seven, p, child, sevens, 3);
	clique_of(&zero, p, child, zeros, 2);
	native_sum_all(&seven);
	native_sum_all(&zero);
	native_sum_all(&parent);
	native_clique_destroy(&zero);
	native_sum_all(&seven);
	native_clique_destroy(&seven);
	native_clique_destroy(&parent);
}

Test(split, child_of_a_split_can_be_split)
{
	const struct platform *p = native_open(4);
	const int halves[] = { 0, 0, 1, 1 }, none[] = { 0, 0, 0, 0 };
	const int second[] = { 2, 3 }, last[] = { 3 };
	const int alone[] = { 0, 1 };
	struct native_clique parent, half, single;
	ncclComm_t child[4], grandchild[4] = { NULL };

	native_clique_open(&parent, p, 4);
	cr_assert_eq(split_all(&parent, halves, none, child, NULL),
	             ncclSuccess);
	clique_of(&half, p, child, second, 2);
	cr_assert_eq(split_all(&half, alone, none, grandchild + 2, NULL),
	             ncclSuccess);
	clique_of(&single, p, grandchild, last, 1);
	native_sum_all(&single);
	native_clique_destroy(&single);
	cr_assert_eq(p->ncclCommDestroy(grandchild[2]), ncclSuccess);
	native_clique_destroy(&half);
	cr_assert_eq(p->ncclCommDestroy(child[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(child[1]), ncclSuccess);
	native_clique_destroy(&parent);
}

Test(split, child_of_a_split_outlives_its_parent)
{
	const struct platform *p = native_open(3);
	const int color[] = { 1, 1, 1 }, key[] = { 3, 2, 1 };
	const int order[] = { 2, 1, 0 };
	struct native_clique parent, reversed;
	ncclComm_t child[3];

	native_clique_open(&parent, p, 3);
	cr_assert_eq(split_all(&parent, color, key, child, NULL), ncclSuccess);
	native_clique_abort(&parent);
	clique_of(&reversed, p, child, order, 3);
	native_sum_all(&reversed);
	native_clique_destroy(&reversed);
}

/* Split k of each rank matches split k of all other ranks, even in one
 * group. */
Test(split, splits_of_one_group_match_in_order)
{
	const struct platform *p = native_open(2);
	struct native_clique parent, c;
	ncclComm_t first[2], second[2];
	const int both[] = { 0, 1 }, swapped[] = { 1, 0 };
	int r;

	native_clique_open(&parent, p, 2);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->ncclCommSplit(parent.comm[r], 0, r, &first[r],
		                              NULL),
		             ncclSuccess);
		cr_assert_eq(p->ncclCommSplit(parent.comm[r], 0, -r, &second[r],
		                              NULL),
		             ncclSuccess);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	clique_of(&c, p, first, both, 2);
	native_sum_all(&c);
	native_clique_destroy(&c);
	clique_of(&c, p, second, swapped, 2);
	native_sum_all(&c);
	native_clique_destroy(&c);
	native_clique_destroy(&parent);
}

/* ---- arguments -------------------------------------------------------- */

/*
 * As in NCCL, the first invalid argument decides, even if others are also
 * invalid.
 */
Test(split, split_checks_its_arguments_in_order)
{
	const struct platform *p = native_open(2);
	ncclConfig_t bad = NCCL_CONFIG_INITIALIZER;
	struct native_clique c;
	ncclComm_t child = (ncclComm_t)&c;

	bad.CTAPolicy = 9;
	native_clique_open(&c, p, 2);
	cr_assert_eq(p->ncclCommSplit(NULL, 0, 0, &child, &bad),
	             ncclInvalidArgument);
	expect_text(p->ncclGetLastError(NULL), "not a communicator");
	cr_assert_eq(p->ncclCommSplit(c.comm[0], 0, 0, NULL, &bad),
	             ncclInvalidArgument);
	expect_text(p->ncclGetLastError(NULL), "is NULL");
	cr_assert_eq(child, (ncclComm_t)&c);
	cr_assert_eq(p->ncclCommSplit(c.comm[0], 0, 0, &child, &bad),
	             ncclInvalidArgument);
	expect_text(p->ncclGetLastError(NULL), "CTAPolicy");
	cr_assert_null(child);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
	             "no group may be left open");
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(split, split_without_a_color_needs_no_configuration)
{
	const struct platform *p = native_open(1);
	ncclConfig_t bad = NCCL_CONFIG_INITIALIZER;
	struct native_clique c;
	ncclComm_t child = (ncclComm_t)&c;

	bad.CTAPolicy = 9;
	native_clique_open(&c, p, 1);
	cr_assert_eq(p->ncclCommSplit(c.comm[0], NCCL_SPLIT_NOCOLOR, 0, &child,
	                              &bad),
	             ncclSuccess);
	cr_assert_null(child);
	native_clique_destroy(&c);
}

Test(split, refused_split_makes_the_group_fail)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 2);
	ncclComm_t child[2];

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommSplit(c.comm[0], 0, 0, &child[0], NULL),
	             ncclSuccess);
	cr_assert_eq(p->ncclCommSplit(c.comm[1], 0, 0, NULL, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
	cr_assert_null(child[0]);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(split, split_restores_the_current_device)
{
	const struct platform *p = native_open(3);
	const int color[] = { 0, 0 }, key[] = { 0, 0 };
	struct native_clique c;
	ncclComm_t child[2];
	int device = -1, r;

	native_clique_open(&c, p, 2);
	cr_assert_eq(p->cudaSetDevice(2), cudaSuccess);
	cr_assert_eq(split_all(&c, color, key, child, NULL), ncclSuccess);
	cr_assert_eq(p->cudaGetDevice(&device), cudaSuccess);
	cr_assert_eq(device, 2);
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->ncclCommDestroy(child[r]), ncclSuccess);
	native_clique_destroy(&c);
}

/* ---- a thread per rank ------------------------------------------------ */

struct splitter {
	const struct platform *p;
	ncclComm_t parent, child;
	int color;
	ncclResult_t result;
	sem_t calls;
	pid_t task;
	pthread_t thread;
};

static void *split(void *user)
{
	struct splitter *s = user;

	s->task = gettid();
	sem_post(&s->calls);
	s->result =
		s->p->ncclCommSplit(s->parent, s->color, 0, &s->child, NULL);
	return NULL;
}

static void start(struct splitter *s, struct native_clique *c, int r, int color)
{
	*s = (struct splitter){ .p = c->p,
		                .parent = c->comm[r],
		                .color = color };
	sem_init(&s->calls, 0, 0);
	pthread_create(&s->thread, NULL, split, s);
}

/* Wait until the thread of @s sleeps inside its call. */
static void is_inside(struct splitter *s)
{
	while (sem_wait(&s->calls) != 0)
		continue;
	native_await_sleep(s->task);
}

static void ends_with(struct splitter *s, ncclResult_t result)
{
	pthread_join(s->thread, NULL);
	cr_assert_eq(s->result, result);
}

/* A rank without a color must also call. */
Test(split, split_waits_for_every_rank_of_the_parent)
{
	const struct platform *p = native_open(3);
	struct splitter ranks[3];
	struct native_clique parent, c;
	const int both[] = { 0, 2 };
	ncclComm_t child[3];
	int r;

	native_clique_open(&parent, p, 3);
	start(&ranks[0], &parent, 0, 4);
	start(&ranks[2], &parent, 2, 4);
	is_inside(&ranks[0]);
	is_inside(&ranks[2]);
	start(&ranks[1], &parent, 1, NCCL_SPLIT_NOCOLOR);
	for (r = 0; r < 3; r++) {
		ends_with(&ranks[r], ncclSuccess);
		child[r] = ranks[r].child;
	}
	cr_assert_null(child[1]);
	clique_of(&c, p, child, both, 2);
	native_sum_all(&c);
	native_clique_destroy(&c);
	native_clique_destroy(&parent);
}

Test(split, abort_of_a_parent_rank_ends_its_split)
{
	struct native_clique parent;
	const struct platform *p = native_clique_begin(&parent, 2);
	struct splitter rank;

	start(&rank, &parent, 0, 1);
	is_inside(&rank);
	cr_assert_eq(p->ncclCommAbort(parent.comm[0]), ncclSuccess);
	ends_with(&rank, ncclInternalError);
	cr_assert_not_null(rank.child);
	cr_assert_eq(p->ncclCommAbort(rank.child), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(parent.comm[1]), ncclSuccess);
}

/*
 * Both ranks are aborted, so the parent is freed while a rank is inside the
 * split.
 */
Test(split, abort_of_all_parent_ranks_ends_a_split)
{
	struct native_clique parent;
	const struct platform *p = native_clique_begin(&parent, 2);
	struct splitter rank;

	start(&rank, &parent, 0, 1);
	is_inside(&rank);
	native_clique_abort(&parent);
	ends_with(&rank, ncclInternalError);
	cr_assert_eq(p->ncclCommAbort(rank.child), ncclSuccess);
}

/* ---- shared resources ------------------------------------------------- */

static void open_sharing(struct native_clique *c, const struct platform *p,
                         int n, int share)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	int r;

	memset(c, 0, sizeof(*c));
	config.splitShare = share;
	c->p = p;
	c->n = n;
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = 0; r < n; r++) {
		native_must(p->cudaSetDevice(r), "cudaSetDevice");
		native_must(p->ncclCommInitRankConfig(&c->comm[r], n, id, r,
		                                      &config),
		            "ncclCommInitRankConfig");
	}
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = 0; r < n; r++)
		c->stream[r] = native_stream(p, r);
	native_fill(c);
}

static const int same[] = { 0, 0, 0 };

/* Abort a parent while rank 0's call on the child hangs, and check that the
 * child's stream is in @state. */
static void abort_of_parent(int share, cudaError_t state)
{
	const struct platform *p = native_open(2);
	const int order[] = { 0, 1 };
	struct native_clique parent, c;
	ncclComm_t child[2];

	open_sharing(&parent, p, 2, share);
	cr_assert_eq(split_all(&parent, same, same, child, NULL), ncclSuccess);
	clique_of(&c, p, child, order, 2);
	native_fill(&c);
	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(parent.comm[0]), ncclSuccess);
	if (state == cudaSuccess)
		cr_assert_eq(p->cudaStreamSynchronize(c.stream[0]), state);
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), state);
	cr_assert_eq(p->ncclCommAbort(parent.comm[1]), ncclSuccess);
	native_clique_abort(&c);
}

Test(split, child_with_splitShare_is_aborted_with_its_parent)
{
	abort_of_parent(1, cudaSuccess);
}

Test(split, child_without_splitShare_is_not_aborted_with_its_parent)
{
	abort_of_parent(0, cudaErrorNotReady);
}

Test(split, abort_of_a_child_with_splitShare_aborts_its_parent)
{
	const struct platform *p = native_open(2);
	const int order[] = { 0, 1 };
	struct native_clique parent, c;
	ncclComm_t child[2];

	open_sharing(&parent, p, 2, 1);
	cr_assert_eq(split_all(&parent, same, same, child, NULL), ncclSuccess);
	clique_of(&c, p, child, order, 2);
	cr_assert_eq(native_sum(&parent, 1), ncclSuccess);
	native_clique_abort(&c);
	cr_assert_eq(p->cudaStreamSynchronize(parent.stream[1]), cudaSuccess);
	cr_assert_eq(native_touched(&parent, 1), 0);
	native_clique_abort(&parent);
}

static ncclResult_t revoke_first(void *user)
{
	struct native_clique *c = user;

	return c->p->ncclCommRevoke(c->comm[0], NCCL_REVOKE_DEFAULT);
}

/* Shrink rank 0's communicator to rank 0 alone. */
static ncclResult_t shrink_first(void *user)
{
	struct native_clique *c = user;
	ncclComm_t child = NULL;
	int lost[] = { 1 };
	ncclResult_t result = c->p->ncclCommShrink(c->comm[0], lost, 1, &child,
	                                           NULL, NCCL_SHRINK_ABORT);

	if (child)
		c->p->ncclCommDestroy(child);
	return result;
}

/*
 * Check that @call_on_parent ends the child's operation, and clears the abort
 * flags only after the operation has ended. The call is made before the child's
 * stream reaches the operation.
 */
static void end_what_the_child_does(native_call_fn *call_on_parent)
{
	const struct platform *p = native_open(2);
	const int order[] = { 0, 1 };
	struct native_clique parent, c;
	struct native_call call;
	struct native_gate gate;
	ncclComm_t child[2];

	open_sharing(&parent, p, 2, 1);
	cr_assert_eq(split_all(&parent, same, same, child, NULL), ncclSuccess);
	clique_of(&c, p, child, order, 2);
	native_fill(&c);
	native_gate_hold(p, &gate, c.stream[0]);
	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	native_gate_reached(&gate);
	native_call_begin(&call, call_on_parent, &parent);
	native_await_sleep(call.task);
	native_gate_open(&gate);
	cr_assert_eq(native_call_end(&call), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(c.stream[0]), cudaSuccess);
	cr_assert_eq(native_touched(&c, 0), 0);
	native_clique_abort(&c);
	native_clique_abort(&parent);
}

Test(split, revoke_of_a_parent_waits_for_a_child_with_splitShare)
{
	end_what_the_child_does(revoke_first);
}

Test(split, shrink_of_a_parent_waits_for_a_child_with_splitShare)
{
	end_what_the_child_does(shrink_first);
}

/* A child inherits its parent's configuration, or gets a new one. */
Test(split, child_of_a_split_inherits_the_configuration)
{
	const struct platform *p = native_open(2);
	ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
	const int order[] = { 0, 1 };
	struct native_clique parent, heir, other, grandchild;
	ncclComm_t child[2];

	open_sharing(&parent, p, 2, 1);
	cr_assert_eq(split_all(&parent, same, same, child, NULL), ncclSuccess);
	clique_of(&heir, p, child, order, 2);
	cr_assert_eq(split_all(&heir, same, same, child, &own), ncclSuccess);
	clique_of(&other, p, child, order, 2);
	cr_assert_eq(split_all(&other, same, same, child, NULL), ncclSuccess);
	clique_of(&grandchild, p, child, order, 2);
	/*
	 * The abort of the parent ends all communicators that share its
	 * resources. The grandchild shares none, because its parent's
	 * configuration has no splitShare.
	 */
	native_clique_abort(&parent);
	native_sum_all(&grandchild);
	native_fill(&other);
	cr_assert_eq(native_sum(&other, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(other.stream[0]), cudaSuccess);
	cr_assert_eq(native_touched(&other, 0), 0);
	native_clique_destroy(&grandchild);
	native_clique_abort(&heir);
	native_clique_abort(&other);
}
