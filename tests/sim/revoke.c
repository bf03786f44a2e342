/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ncclCommRevoke(): how operations in flight end, and which calls are
 * possible afterwards
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/native.h"

TestSuite(revoke, .timeout = 20);

static void revoke_all(struct native_clique *c)
{
	int r;

	cr_assert_eq(c->p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < c->n; r++)
		cr_assert_eq(c->p->ncclCommRevoke(c->comm[r],
		                                  NCCL_REVOKE_DEFAULT),
		             ncclSuccess);
	cr_assert_eq(c->p->ncclGroupEnd(), ncclSuccess);
}

Test(revoke, revoke_ends_operations_in_flight)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 3);
	int r;

	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	cr_assert_eq(native_sum(&c, 2), ncclSuccess);
	revoke_all(&c);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(p->cudaStreamQuery(c.stream[r]), cudaSuccess);
		cr_assert_eq(native_touched(&c, r), 0);
	}
	native_clique_destroy(&c);
}

Test(revoke, revoke_affects_only_one_rank)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 2);

	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommRevoke(c.comm[0], 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), cudaSuccess);
	cr_assert_eq(native_sum(&c, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(c.stream[1]), cudaErrorNotReady);
	cr_assert_eq(p->ncclCommRevoke(c.comm[1], 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(c.stream[1]), cudaSuccess);
	native_clique_destroy(&c);
}

static ncclResult_t revoke_first(void *user)
{
	struct native_clique *c = user;

	return c->p->ncclCommRevoke(c->comm[0], 0);
}

/* The revoke ends an operation that was enqueued after other work, and waits
 * for the other work. */
Test(revoke, revoke_waits_for_earlier_work_on_the_stream)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 2);
	struct native_gate gate;
	struct native_call call;

	native_gate_hold(p, &gate, c.stream[0]);
	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	native_call_begin(&call, revoke_first, &c);
	native_gate_reached(&gate);
	native_await_sleep(call.task);
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(native_call_end(&call), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(c.stream[0]), cudaSuccess);
	cr_assert_eq(native_touched(&c, 0), 0);
	native_clique_abort(&c);
}

/*
 * After a revoke, only collectives and finalize are refused.
 */
Test(revoke, revoke_leaves_management_calls_working)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 2);
	ncclResult_t state = ncclSystemError;
	int value = -1, r;

	native_sum_all(&c);
	revoke_all(&c);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(native_sum(&c, r), ncclInvalidUsage);
		cr_assert_eq(p->ncclCommFinalize(c.comm[r]),
		             ncclInvalidArgument);
		cr_assert_eq(p->ncclCommRevoke(c.comm[r], 0),
		             ncclInvalidArgument);
		cr_assert_eq(p->ncclCommCount(c.comm[r], &value), ncclSuccess);
		cr_assert_eq(value, 2);
		cr_assert_eq(p->ncclCommGetAsyncError(c.comm[r], &state),
		             ncclSuccess);
		cr_assert_eq(state, ncclSuccess);
	}
	cr_assert_eq(p->ncclCommDestroy(c.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(c.comm[1]), ncclSuccess);
}

Test(revoke, revoked_communicator_can_be_split_and_shrunk)
{
	const struct platform *p = native_open(3);
	struct native_clique c, whole, rest;
	int list[] = { 0 };
	int r;

	native_clique_open(&c, p, 3);
	cr_assert_eq(native_sum(&c, 1), ncclSuccess);
	revoke_all(&c);
	whole = c;
	rest = c;
	rest.n = 2;
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommSplit(c.comm[r], 0, r, &whole.comm[r],
		                              NULL),
		             ncclSuccess);
	for (r = 1; r < 3; r++)
		cr_assert_eq(p->ncclCommShrink(c.comm[r], list, 1,
		                               &rest.comm[r - 1], NULL, 0),
		             ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < 2; r++)
		rest.stream[r] = native_stream(p, r + 1);
	for (r = 0; r < 3; r++)
		whole.stream[r] = native_stream(p, r);
	native_clique_destroy(&c);
	native_sum_all(&whole);
	native_sum_all(&rest);
	native_clique_destroy(&whole);
	native_clique_destroy(&rest);
}

/* As in NCCL, the check for NULL comes first. */
Test(revoke, revoke_checks_its_arguments_in_order)
{
	const struct platform *p = native_open(2);
	struct native_clique c;
	long foreign[512] = { 0 };

	cr_assert_eq(p->ncclCommRevoke(NULL, 3), ncclSuccess);
	cr_assert_eq(p->ncclCommRevoke((ncclComm_t)foreign, 1),
	             ncclInvalidArgument);
	expect_text(p->ncclGetLastError(NULL), "flags");
	cr_assert_eq(p->ncclCommRevoke((ncclComm_t)foreign, 0),
	             ncclInvalidArgument);
	expect_text(p->ncclGetLastError(NULL), "not a communicator");
	native_clique_open(&c, p, 2);
	cr_assert_eq(p->ncclCommFinalize(c.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommRevoke(c.comm[0], 0), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommDestroy(c.comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclCommRevoke(c.comm[1], 0), ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
	             "no group may be left open");
	cr_assert_eq(p->ncclCommDestroy(c.comm[0]), ncclSuccess);
}
