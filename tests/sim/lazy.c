/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of COHORT_HOST_CONNECT=first, which makes the first calls of a
 * communicator wait for the other ranks' calls
 */

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "sim/host.h"
#include "sim/nccl/enqueue.h"
#include "support/doomed.h"
#include "support/native.h"
#include "support/place.h"
#include "support/ranks.h"

TestSuite(lazy, .timeout = 20);

static const struct platform *open_late(void)
{
	place_skip_if_shared("ranks are connected from the start");
	setenv("COHORT_HOST_CONNECT", "first", 1);
	return native_open_host(3);
}

/* ---- a call on a thread ------------------------------------------------ */

static struct native_clique clique;
static atomic_bool has_returned;

static ncclResult_t sum_of_rank_0(void *user)
{
	const ncclResult_t result = native_sum(&clique, 0);

	(void)user;
	has_returned = true;
	return result;
}

static ncclResult_t send_to_rank_1(void *user)
{
	const ncclResult_t result =
		clique.p->ncclSend(clique.send[0], NATIVE_COUNT, ncclInt32, 1,
	                           clique.comm[0], clique.stream[0]);

	(void)user;
	has_returned = true;
	return result;
}

static ncclResult_t recv_on_rank_1(void)
{
	return clique.p->ncclRecv(clique.recv[1], NATIVE_COUNT, ncclInt32, 0,
	                          clique.comm[1], clique.stream[1]);
}

/* Check that the thread of @call waits inside it. */
static void must_wait(const struct native_call *call)
{
	native_await_sleep(call->task);
	cr_assert_not(has_returned, "the call does not wait for its peer");
}

static void await_streams(int n)
{
	int r;

	for (r = 0; r < n; r++)
		cr_assert_eq(clique.p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
}

/* ---- collectives ------------------------------------------------------- */

Test(lazy, late_connection_makes_only_the_first_collective_wait)
{
	struct native_call call;
	int r;

	native_clique_open(&clique, open_late(), 3);
	native_call_begin(&call, sum_of_rank_0, NULL);
	must_wait(&call);
	cr_assert_eq(clique.p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 2), ncclSuccess);
	cr_assert_eq(clique.p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(native_call_end(&call), ncclSuccess);
	await_streams(3);
	for (r = 0; r < 3; r++)
		cr_assert_eq(native_wrong(&clique, r), 0);
	for (r = 0; r < 3; r++)
		cr_assert_eq(native_sum(&clique, r), ncclSuccess);
	await_streams(3);
	native_clique_destroy(&clique);
}

Test(lazy, ncclGroupSimulateEnd_connects_the_ranks)
{
	ncclSimInfo_t info = { .size = sizeof(info),
		               .magic = NCCL_SIM_INFO_MAGIC };
	int r;

	native_clique_open(&clique, open_late(), 3);
	cr_assert_eq(clique.p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(native_sum(&clique, r), ncclSuccess);
	cr_assert_eq(clique.p->ncclGroupSimulateEnd(&info), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(native_touched(&clique, r), 0);
	for (r = 0; r < 3; r++)
		cr_assert_eq(native_sum(&clique, r), ncclSuccess);
	await_streams(3);
	for (r = 0; r < 3; r++)
		cr_assert_eq(native_wrong(&clique, r), 0);
	native_clique_destroy(&clique);
}

Test(lazy, abort_ends_the_wait_for_a_connection)
{
	struct native_call call;
	int r;

	native_clique_open(&clique, open_late(), 2);
	native_call_begin(&call, sum_of_rank_0, NULL);
	must_wait(&call);
	cr_assert_eq(clique.p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(clique.p->ncclCommAbort(clique.comm[r]),
		             ncclSuccess);
	cr_assert_eq(native_call_end(&call), ncclInternalError);
	cr_assert_eq(native_touched(&clique, 0), 0);
	cr_assert_eq(clique.p->ncclGroupEnd(), ncclSuccess);
}

/* ---- messages ---------------------------------------------------------- */

Test(lazy, late_connection_makes_only_the_first_send_wait)
{
	struct native_call call;

	native_clique_open(&clique, open_late(), 2);
	native_call_begin(&call, send_to_rank_1, NULL);
	must_wait(&call);
	cr_assert_eq(recv_on_rank_1(), ncclSuccess);
	cr_assert_eq(native_call_end(&call), ncclSuccess);
	cr_assert_eq(send_to_rank_1(NULL), ncclSuccess);
	cr_assert_eq(recv_on_rank_1(), ncclSuccess);
	await_streams(2);
	native_clique_destroy(&clique);
}

static void both_send_first(struct native_clique *c)
{
	struct native_call call;

	clique = *c;
	native_call_begin(&call, send_to_rank_1, NULL);
	c->p->ncclSend(c->send[1], NATIVE_COUNT, ncclInt32, 0, c->comm[1],
	               c->stream[1]);
}

Test(lazy, strict_mode_names_ranks_that_both_send_first)
{
	place_skip_if_shared("ranks are connected from the start");
	setenv("COHORT_HOST_CONNECT", "first", 1);
	doomed_expect(
		both_send_first,
		"ncclSend: rank 0, device 0, communicator 0: this rank and "
		"rank 1 both start with a send, or both with a receive: NCCL "
		"would mistake one connection for the other");
}

/* ---- the environment and faults ---------------------------------------- */

Test(lazy, bad_value_of_COHORT_HOST_CONNECT_is_named)
{
	const struct platform *p;

	place_need_built_in("a variable of the environment");
	setenv("COHORT_HOST_CONNECT", "last", 1);
	cr_assert_eq(platform_open(COHORT_PLATFORM_HOST, &p), COHORT_INVALID);
	cr_assert_str_eq(cohort_last_error(),
	                 "COHORT_HOST_CONNECT is \"last\", not init or first");
}

Test(lazy, faults_do_not_strike_calls_marked_as_uncounted)
{
	native_clique_open(&clique, native_open_host(2), 2);
	ranks_fault(0, 0, COHORT_FAULT_ERROR, ncclSystemError);
	clique.p->uncounted(true);
	native_sum_all(&clique);
	clique.p->uncounted(false);
	cr_assert_eq(native_sum(&clique, 0), ncclSystemError);
	native_clique_abort(&clique);
}
