/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ncclCommShrink(): the remaining ranks, with and without an abort of
 * operations in flight
 */

#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "platform/platform.h"
#include "support/native.h"

TestSuite(shrink, .timeout = 20);

static bool is_in(const int list[], int n, int rank)
{
	while (n--)
		if (list[n] == rank)
			return true;
	return false;
}

/* Shrink @parent by the ranks in @list. One thread makes the calls of all
 * remaining ranks, in one group. The child is @c. */
static void shrink_all(struct native_clique *parent, const int list[], int n,
                       int flags, struct native_clique *c)
{
	const struct platform *p = parent->p;
	int copy[NATIVE_RANKS];
	int r;

	c->p = p;
	c->n = 0;
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < parent->n; r++) {
		if (is_in(list, n, r))
			continue;
		memcpy(copy, list, (size_t)n * sizeof(*list));
		c->comm[c->n] = (ncclComm_t)c;
		c->stream[c->n] = native_stream(p, r);
		cr_assert_eq(p->ncclCommShrink(parent->comm[r], copy, n,
		                               &c->comm[c->n], NULL, flags),
		             ncclSuccess);
		cr_assert_null(c->comm[c->n]);
		c->n++;
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < c->n; r++)
		cr_assert_not_null(c->comm[r]);
}

Test(shrink, shrink_renumbers_the_ranks_that_stay)
{
	const struct platform *p = native_open(5);
	const int list[] = { 3, 0 }, devices[] = { 1, 2, 4 };
	struct native_clique parent, c;
	int r, value;

	native_clique_open(&parent, p, 5);
	shrink_all(&parent, list, 2, NCCL_SHRINK_DEFAULT, &c);
	cr_assert_eq(c.n, 3);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(p->ncclCommUserRank(c.comm[r], &value),
		             ncclSuccess);
		cr_assert_eq(value, r);
		cr_assert_eq(p->ncclCommCuDevice(c.comm[r], &value),
		             ncclSuccess);
		cr_assert_eq(value, devices[r]);
	}
	native_sum_all(&c);
	native_sum_all(&parent);
	native_clique_destroy(&parent);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(shrink, shrink_sorts_the_list_in_place)
{
	const struct platform *p = native_open(4);
	int list[] = { 3, 1, 2 };
	struct native_clique parent;
	ncclComm_t child;

	native_clique_open(&parent, p, 4);
	cr_assert_eq(p->ncclCommShrink(parent.comm[0], list, 3, &child, NULL,
	                               NCCL_SHRINK_DEFAULT),
	             ncclSuccess);
	cr_assert_eq(list[0], 1);
	cr_assert_eq(list[1], 2);
	cr_assert_eq(list[2], 3);
	cr_assert_eq(p->ncclCommDestroy(child), ncclSuccess);
	native_clique_destroy(&parent);
}

/* The remaining ranks hang in an operation that a lost rank does not join. */
Test(shrink, shrink_with_abort_ends_operations_in_flight)
{
	const struct platform *p = native_open(4);
	const int lost[] = { 2 };
	struct native_clique parent, c;
	int r;

	native_clique_open(&parent, p, 4);
	for (r = 0; r < 4; r++)
		if (r != 2)
			cr_assert_eq(native_sum(&parent, r), ncclSuccess);
	shrink_all(&parent, lost, 1, NCCL_SHRINK_ABORT, &c);
	for (r = 0; r < 4; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(parent.stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_touched(&parent, r), 0);
	}
	native_sum_all(&c);
	native_clique_abort(&parent);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

/* No operation was in flight, so the parent is not affected. */
Test(shrink, shrink_with_abort_does_not_affect_an_idle_parent)
{
	const struct platform *p = native_open(3);
	const int lost[] = { 0 };
	struct native_clique parent, c;

	native_clique_open(&parent, p, 3);
	native_sum_all(&parent);
	shrink_all(&parent, lost, 1, NCCL_SHRINK_ABORT, &c);
	native_sum_all(&parent);
	native_sum_all(&c);
	native_clique_destroy(&c);
	native_clique_destroy(&parent);
}

struct held {
	struct native_clique *parent;
	ncclComm_t child;
};

static ncclResult_t shrink_held(void *user)
{
	struct held *h = user;
	int lost[] = { 2 };

	return h->parent->p->ncclCommShrink(h->parent->comm[0], lost, 1,
	                                    &h->child, NULL, NCCL_SHRINK_ABORT);
}

/*
 * A shrink with an abort sets the abort flags, and clears them after the
 * operations in flight have ended. It must not clear a flag that another abort
 * has set.
 */
Test(shrink, shrink_does_not_clear_the_flag_of_another_abort)
{
	struct native_clique parent;
	const struct platform *p = native_clique_begin(&parent, 3);
	struct native_gate gate;
	struct held h = { .parent = &parent };
	struct native_call call;
	int r;

	native_gate_hold(p, &gate, parent.stream[0]);
	cr_assert_eq(native_sum(&parent, 0), ncclSuccess);
	native_call_begin(&call, shrink_held, &h);
	native_gate_reached(&gate);
	native_await_sleep(call.task);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommAbort(parent.comm[r]), ncclSuccess);
	native_gate_open(&gate);
	cr_assert_eq(native_call_end(&call), ncclInternalError);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(h.child), ncclSuccess);
}

/*
 * Shrink a communicator with @flags and shrinkShare, abort the parent, and
 * check that the child's stream is in @state. After a shrink with an abort, the
 * child shares nothing with the parent.
 */
static void abort_parent_of(int flags, cudaError_t state)
{
	const struct platform *p = native_open(3);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const int lost[] = { 2 };
	struct native_clique parent, c;
	ncclUniqueId id;
	int r;

	config.shrinkShare = 1;
	memset(&parent, 0, sizeof(parent));
	parent.p = p;
	parent.n = 3;
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = 0; r < 3; r++) {
		native_must(p->cudaSetDevice(r), "cudaSetDevice");
		native_must(p->ncclCommInitRankConfig(&parent.comm[r], 3, id, r,
		                                      &config),
		            "ncclCommInitRankConfig");
		parent.stream[r] = native_stream(p, r);
	}
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	shrink_all(&parent, lost, 1, flags, &c);
	native_fill(&c);
	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	native_clique_abort(&parent);
	if (state == cudaSuccess)
		cr_assert_eq(p->cudaStreamSynchronize(c.stream[0]), state);
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), state);
	native_clique_abort(&c);
}

Test(shrink, child_with_shrinkShare_is_aborted_with_its_parent)
{
	abort_parent_of(NCCL_SHRINK_DEFAULT, cudaSuccess);
}

Test(shrink, shrink_with_abort_shares_nothing)
{
	abort_parent_of(NCCL_SHRINK_ABORT, cudaErrorNotReady);
}

/* Arguments of rank 1 of 4, and the expected error */
static const struct refusal {
	const char *why;
	bool no_comm, no_out, no_list;
	int count;
	int list[3];
	bool bad_config;
} refusals[] = {
	{ "not a communicator", true, true, true, 0, { 1 }, true },
	{ "newcomm is NULL", false, true, true, 0, { 1 }, true },
	{ "list is NULL", false, false, true, 0, { 1 }, true },
	{ "list is empty", false, false, false, 0, { 1 }, true },
	{ "list is empty", false, false, false, -1, { 1 }, true },
	{ "calling rank", false, false, false, 1, { 1 }, true },
	{ "calling rank", false, false, false, 3, { 3, 1, 2 }, true },
	{ "calling rank", false, false, false, 1, { -1 }, true },
	{ "calling rank", false, false, false, 1, { 4 }, true },
	{ "calling rank", false, false, false, 2, { 2, 2 }, true },
	{ "CTAPolicy", false, false, false, 1, { 2 }, true },
};

Test(shrink, shrink_checks_its_arguments_in_order)
{
	const struct platform *p = native_open(4);
	ncclConfig_t bad = NCCL_CONFIG_INITIALIZER;
	const struct refusal *f;
	struct native_clique c;
	ncclComm_t child;
	int list[3];
	size_t i;

	bad.CTAPolicy = 9;
	native_clique_open(&c, p, 4);
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		f = &refusals[i];
		memcpy(list, f->list, sizeof(list));
		cr_assert_eq(p->ncclCommShrink(f->no_comm ? NULL : c.comm[1],
		                               f->no_list ? NULL : list,
		                               f->count,
		                               f->no_out ? NULL : &child,
		                               f->bad_config ? &bad : NULL,
		                               NCCL_SHRINK_DEFAULT),
		             ncclInvalidArgument, "%zu", i);
		cr_assert_not_null(strstr(p->ncclGetLastError(NULL), f->why),
		                   "%zu: %s", i, p->ncclGetLastError(NULL));
		cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
		             "no group may be left open");
	}
	cr_assert_eq(p->ncclCommShrink(NULL, list, 1, &child, NULL,
	                               NCCL_SHRINK_ABORT),
	             ncclInvalidArgument);
	native_sum_all(&c);
	native_clique_destroy(&c);
}
