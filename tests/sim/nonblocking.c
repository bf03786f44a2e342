/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of non-blocking communicators: calls that return ncclInProgress, the
 * state that programs poll, and the calls that are allowed in this state
 */

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/native.h"

TestSuite(nonblocking, .timeout = 20);

static ncclConfig_t config_of(int blocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = blocking;
	return config;
}

static ncclResult_t state(const struct platform *p, ncclComm_t comm)
{
	ncclResult_t s = ncclInternalError;

	native_must(p->ncclCommGetAsyncError(comm, &s),
	            "ncclCommGetAsyncError");
	return s;
}

/* Poll until nothing is in progress. Return the state. */
static ncclResult_t await(const struct platform *p, ncclComm_t comm)
{
	ncclResult_t s;

	while ((s = state(p, comm)) == ncclInProgress)
		sched_yield();
	return s;
}

/* Return the final result of a call that may return ncclInProgress. */
static ncclResult_t finish(const struct platform *p, ncclComm_t comm,
                           ncclResult_t result)
{
	return result == ncclInProgress ? await(p, comm) : result;
}

static ncclResult_t init(const struct platform *p, ncclComm_t *comm, int n,
                         const ncclUniqueId *id, int rank, int blocking)
{
	ncclConfig_t config = config_of(blocking);

	native_must(p->cudaSetDevice(rank), "cudaSetDevice");
	return p->ncclCommInitRankConfig(comm, n, *id, rank, &config);
}

/*
 * Open all ranks on one thread, one call after the other. No call may wait for
 * the next one.
 */
static void open_clique(struct native_clique *c, const struct platform *p,
                        int n)
{
	ncclUniqueId id;
	int r;

	memset(c, 0, sizeof(*c));
	c->p = p;
	c->n = n;
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	for (r = 0; r < n; r++) {
		init(p, &c->comm[r], n, &id, r, 0);
		cr_assert_not_null(c->comm[r]);
		c->stream[r] = native_stream(p, r);
	}
	for (r = 0; r < n; r++)
		cr_assert_eq(await(p, c->comm[r]), ncclSuccess);
	native_fill(c);
}

/* Make the sum of each rank separately. One thread can do this, because no call
 * blocks. */
static void sum_each(struct native_clique *c)
{
	int r;

	native_fill(c);
	for (r = 0; r < c->n; r++)
		cr_assert_eq(finish(c->p, c->comm[r], native_sum(c, r)),
		             ncclSuccess);
	for (r = 0; r < c->n; r++) {
		cr_assert_eq(c->p->cudaStreamSynchronize(c->stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_wrong(c, r), 0);
	}
}

Test(nonblocking, nonblocking_init_returns_before_the_others_join)
{
	const struct platform *p = native_open(3);
	struct native_clique c;
	ncclUniqueId id;
	int r;

	memset(&c, 0, sizeof(c));
	c.p = p;
	c.n = 3;
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	for (r = 0; r < 2; r++) {
		cr_assert_eq(init(p, &c.comm[r], 3, &id, r, 0), ncclInProgress);
		cr_assert_eq(state(p, c.comm[r]), ncclInProgress);
	}
	init(p, &c.comm[2], 3, &id, 2, 0);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(await(p, c.comm[r]), ncclSuccess);
		c.stream[r] = native_stream(p, r);
	}
	sum_each(&c);
	native_clique_destroy(&c);
}

Test(nonblocking, nonblocking_group_end_returns_before_it_is_done)
{
	const struct platform *p = native_open(2);
	ncclComm_t comm[2];
	ncclUniqueId id;
	int r;

	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(init(p, &comm[r], 2, &id, r, 0), ncclSuccess);
		cr_assert_eq(state(p, comm[r]), ncclSuccess);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclInProgress);
	for (r = 0; r < 2; r++)
		cr_assert_eq(await(p, comm[r]), ncclSuccess);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->ncclCommFinalize(comm[r]), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInProgress);
	for (r = 0; r < 2; r++)
		cr_assert_eq(await(p, comm[r]), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->ncclCommDestroy(comm[r]), ncclSuccess);
}

/* A refused call must not change the state. */
Test(nonblocking, calls_are_refused_while_an_init_is_in_progress)
{
	const struct platform *p = native_open(2);
	ncclComm_t comm, child;
	ncclUniqueId id;
	int value = 0, list[] = { 0 };
	ncclRedOp_t op;

	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(init(p, &comm, 2, &id, 1, 0), ncclInProgress);
	cr_assert_eq(p->ncclRedOpCreatePreMulSum(&op, &value, ncclInt32,
	                                         ncclScalarHostImmediate, comm),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommCount(comm, &value), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommUserRank(comm, &value), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommCuDevice(comm, &value), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommSplit(comm, 0, 0, &child, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommShrink(comm, list, 1, &child, NULL, 0),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommDestroy(comm), ncclInvalidArgument);
	expect_text(p->ncclGetLastError(NULL), "before its last");
	cr_assert_eq(state(p, comm), ncclInProgress);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
	             "no group may be left open");
	cr_assert_eq(p->ncclCommAbort(comm), ncclSuccess);
}

/* The state keeps the error of a refused collective, but not of any other
 * refused call. */
Test(nonblocking, collective_that_is_refused_during_init_stays_in_the_state)
{
	const struct platform *p = native_open(2);
	ncclComm_t comm;
	ncclUniqueId id;
	int32_t one = 1;

	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(init(p, &comm, 2, &id, 1, 0), ncclInProgress);
	cr_assert_eq(p->ncclAllReduce(&one, &one, 1, ncclInt32, ncclSum, comm,
	                              NULL),
	             ncclInvalidArgument);
	cr_assert_eq(state(p, comm), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommAbort(comm), ncclSuccess);
}

Test(nonblocking, abort_ends_a_nonblocking_init_that_never_finishes)
{
	const struct platform *p = native_open(2);
	ncclComm_t comm[2];
	ncclUniqueId id;

	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(init(p, &comm[0], 2, &id, 0, 0), ncclInProgress);
	cr_assert_eq(p->ncclCommAbort(comm[0]), ncclSuccess);
	/* The device can be used for another init, with a new id. */
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(init(p, &comm[0], 2, &id, 0, 0), ncclInProgress);
	init(p, &comm[1], 2, &id, 1, 0);
	cr_assert_eq(await(p, comm[0]), ncclSuccess);
	cr_assert_eq(await(p, comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(comm[1]), ncclSuccess);
}

/*
 * The abort of one communicator waits for its whole group, whose other
 * communicators cannot continue.
 */
Test(nonblocking, abort_of_a_completed_init_ends_the_rest_of_its_group)
{
	const struct platform *p = native_open(2);
	ncclComm_t comm[2];
	ncclUniqueId ids[2];
	int i;

	native_must(p->ncclGetUniqueId(&ids[0]), "ncclGetUniqueId");
	native_must(p->ncclGetUniqueId(&ids[1]), "ncclGetUniqueId");
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(init(p, &comm[0], 1, &ids[0], 0, 0), ncclSuccess);
	cr_assert_eq(init(p, &comm[1], 2, &ids[1], 1, 0), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInProgress);
	/* Give the first init time to complete. */
	for (i = 0; i < 10000; i++)
		sched_yield();
	cr_assert_eq(p->ncclCommAbort(comm[0]), ncclSuccess);
	cr_assert_eq(await(p, comm[1]), ncclInternalError);
	cr_assert_eq(p->ncclCommAbort(comm[1]), ncclSuccess);
}

Test(nonblocking, abort_during_a_collective_ends_an_init_of_its_group)
{
	const struct platform *p = native_open(2);
	struct native_clique c;
	ncclComm_t waits;
	ncclUniqueId id;

	open_clique(&c, p, 2);
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(init(p, &waits, 2, &id, 1, 0), ncclSuccess);
	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInProgress);
	native_clique_abort(&c);
	cr_assert_eq(await(p, waits), ncclInternalError);
	cr_assert_eq(p->ncclCommAbort(waits), ncclSuccess);
}

/* If an init fails later, the error becomes the state, until the abort. */
Test(nonblocking, error_of_a_failed_nonblocking_init_becomes_its_async_error)
{
	const struct platform *p = native_open(2);
	ncclComm_t comm[2];
	ncclUniqueId id;
	int value;

	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(init(p, &comm[0], 2, &id, 0, 0), ncclInProgress);
	init(p, &comm[1], 2, &id, 0, 0);
	/* Let comm[1] be the rank that has failed, which is the one that joined
	 * second. */
	while (state(p, comm[0]) == ncclInProgress &&
	       state(p, comm[1]) == ncclInProgress)
		sched_yield();
	if (state(p, comm[1]) == ncclInProgress) {
		ncclComm_t swap = comm[0];

		comm[0] = comm[1];
		comm[1] = swap;
	}
	cr_assert_eq(state(p, comm[1]), ncclInvalidUsage);
	cr_assert_eq(p->ncclCommCount(comm[1], &value), ncclInvalidUsage);
	cr_assert_eq(p->ncclCommDestroy(comm[1]), ncclInvalidUsage);
	cr_assert_eq(p->ncclCommAbort(comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(comm[0]), ncclSuccess);
}

/* After any failure, even of an argument check, all later calls return the
 * first error. */
Test(nonblocking, error_of_a_nonblocking_communicator_stays)
{
	const struct platform *p = native_open(2);
	struct native_clique c;
	ncclComm_t child;
	int value;

	open_clique(&c, p, 2);
	cr_assert_eq(p->ncclBroadcast(c.send[0], c.recv[0], 1, ncclInt32, 7,
	                              c.comm[0], c.stream[0]),
	             ncclInvalidArgument);
	cr_assert_eq(state(p, c.comm[0]), ncclInvalidArgument);
	cr_assert_eq(native_sum(&c, 0), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommCount(c.comm[0], &value), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommSplit(c.comm[0], 0, 0, &child, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommFinalize(c.comm[0]), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommDestroy(c.comm[0]), ncclInvalidArgument);
	expect_text(p->ncclGetLastError(NULL), "already failed");
	cr_assert_eq(state(p, c.comm[1]), ncclSuccess);
	native_clique_abort(&c);
}

Test(nonblocking, async_error_of_a_blocking_communicator_is_not_kept)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 2);

	cr_assert_eq(p->ncclBroadcast(c.send[0], c.recv[0], 1, ncclInt32, 7,
	                              c.comm[0], c.stream[0]),
	             ncclInvalidArgument);
	cr_assert_eq(state(p, c.comm[0]), ncclSuccess);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(nonblocking, error_of_a_failed_native_group_becomes_its_async_error)
{
	const struct platform *p = native_open(2);
	struct native_clique c;

	open_clique(&c, p, 2);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	cr_assert_eq(p->ncclAllReduce(NULL, NULL, 1, ncclInt32, ncclSum, NULL,
	                              NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
	cr_assert_eq(state(p, c.comm[0]), ncclInvalidArgument);
	cr_assert_eq(state(p, c.comm[1]), ncclSuccess);
	native_clique_abort(&c);
}

/* The inits and finalizes of a group must be all blocking or all
 * non-blocking. */
Test(nonblocking, blocking_and_nonblocking_inits_cannot_share_a_group)
{
	const struct platform *p = native_open(2);
	ncclComm_t comm[2];
	ncclUniqueId ids[2];
	int first;

	for (first = 0; first < 2; first++) {
		native_must(p->ncclGetUniqueId(&ids[0]), "ncclGetUniqueId");
		native_must(p->ncclGetUniqueId(&ids[1]), "ncclGetUniqueId");
		cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
		cr_assert_eq(init(p, &comm[0], 1, &ids[0], 0, first),
		             ncclSuccess);
		cr_assert_eq(init(p, &comm[1], 1, &ids[1], 0, !first),
		             ncclInvalidArgument);
		cr_assert_null(comm[1]);
		cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
		cr_assert_eq(p->ncclCommAbort(comm[0]), ncclSuccess);
	}
}

/* Make sums on two communicators in one group. The communicator of the last
 * collective determines whether the group blocks. */
static void sum_of_two(struct native_clique *first, struct native_clique *last,
                       ncclResult_t result)
{
	const struct platform *p = first->p;
	int r;

	native_fill(first);
	native_fill(last);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(native_sum(first, r), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(native_sum(last, r), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), result);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(await(p, first->comm[r]), ncclSuccess);
		cr_assert_eq(await(p, last->comm[r]), ncclSuccess);
		p->cudaStreamSynchronize(first->stream[r]);
		p->cudaStreamSynchronize(last->stream[r]);
		cr_assert_eq(native_wrong(first, r), 0);
		cr_assert_eq(native_wrong(last, r), 0);
	}
}

Test(nonblocking, last_collective_decides_whether_a_group_blocks)
{
	const struct platform *p = native_open(2);
	struct native_clique waits, goes_on;

	native_clique_open(&waits, p, 2);
	open_clique(&goes_on, p, 2);
	sum_of_two(&waits, &goes_on, ncclInProgress);
	sum_of_two(&goes_on, &waits, ncclSuccess);
	native_clique_destroy(&waits);
	native_clique_destroy(&goes_on);
}

/* ---- children --------------------------------------------------------- */

Test(nonblocking, child_of_a_nonblocking_split_exists_when_parent_is_ready)
{
	const struct platform *p = native_open(3);
	struct native_clique parent, c;
	int r;

	open_clique(&parent, p, 3);
	c = parent;
	for (r = 0; r < 3; r++) {
		c.comm[r] = (ncclComm_t)&c;
		/* Unlike other functions, a split returns success immediately.
		 * Its result is in the state. */
		cr_assert_eq(p->ncclCommSplit(parent.comm[r], 0, -r,
		                              &c.comm[2 - r], NULL),
		             ncclSuccess);
		if (r < 2)
			cr_assert_eq(state(p, parent.comm[r]), ncclInProgress);
	}
	for (r = 0; r < 3; r++)
		cr_assert_eq(await(p, parent.comm[r]), ncclSuccess);
	for (r = 0; r < 3; r++) {
		cr_assert_not_null(c.comm[r]);
		c.stream[r] = native_stream(p, 2 - r);
	}
	native_clique_destroy(&parent);
	sum_each(&c);
	native_clique_destroy(&c);
}

Test(nonblocking, abort_of_a_parent_ends_a_nonblocking_split)
{
	const struct platform *p = native_open(2);
	struct native_clique c;
	ncclComm_t child = NULL;

	open_clique(&c, p, 2);
	cr_assert_eq(p->ncclCommSplit(c.comm[0], 0, 0, &child, NULL),
	             ncclSuccess);
	native_clique_abort(&c);
	cr_assert_not_null(child);
	cr_assert_eq(p->ncclCommAbort(child), ncclSuccess);
}

/* ---- ends ------------------------------------------------------------- */

Test(nonblocking, nonblocking_finalize_can_be_awaited)
{
	const struct platform *p = native_open(2);
	struct native_clique c;
	int r;

	open_clique(&c, p, 2);
	sum_each(&c);
	for (r = 0; r < 2; r++)
		cr_assert_eq(finish(p, c.comm[r],
		                    p->ncclCommFinalize(c.comm[r])),
		             ncclSuccess);
	cr_assert_eq(p->ncclCommFinalize(c.comm[0]), ncclInvalidArgument);
	cr_assert_eq(state(p, c.comm[0]), ncclInvalidArgument);
	native_clique_abort(&c);
}

/* A finalize that waits for work is in progress until an abort. */
Test(nonblocking, nonblocking_finalize_that_hangs_can_be_aborted)
{
	const struct platform *p = native_open(2);
	struct native_clique c;

	open_clique(&c, p, 2);
	cr_assert_eq(finish(p, c.comm[0], native_sum(&c, 0)), ncclSuccess);
	cr_assert_eq(p->ncclCommFinalize(c.comm[0]), ncclInProgress);
	native_clique_abort(&c);
}

Test(nonblocking, nonblocking_revoke_waits_for_earlier_work)
{
	const struct platform *p = native_open(2);
	struct native_clique c;
	struct native_gate gate;

	open_clique(&c, p, 2);
	native_gate_hold(p, &gate, c.stream[0]);
	native_gate_reached(&gate);
	cr_assert_eq(finish(p, c.comm[0], native_sum(&c, 0)), ncclSuccess);
	cr_assert_eq(p->ncclCommRevoke(c.comm[0], 0), ncclInProgress);
	cr_assert_eq(state(p, c.comm[0]), ncclInProgress);
	native_gate_open(&gate);
	cr_assert_eq(await(p, c.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(c.stream[0]), cudaSuccess);
	cr_assert_eq(native_touched(&c, 0), 0);
	cr_assert_eq(native_sum(&c, 0), ncclInvalidUsage);
	cr_assert_eq(state(p, c.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommFinalize(c.comm[0]), ncclInvalidArgument);
	cr_assert_eq(state(p, c.comm[0]), ncclInvalidArgument);
	native_clique_abort(&c);
}

/* ---- the environment -------------------------------------------------- */

Test(nonblocking, environment_can_make_communicators_nonblocking)
{
	const struct platform *p;
	ncclComm_t comm[2], one;
	ncclUniqueId id;
	int r;

	setenv("NCCL_COMM_BLOCKING", "0", 1);
	p = native_open(2);
	cr_assert_eq(p->ncclCommInitAll(comm, 2, NULL), ncclInProgress);
	for (r = 0; r < 2; r++)
		cr_assert_eq(await(p, comm[r]), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->ncclCommDestroy(comm[r]), ncclSuccess);
	/* Outside a group, ncclCommInitRank() always waits. */
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(p->ncclCommInitRank(&one, 1, id, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommFinalize(one), ncclInProgress);
	cr_assert_eq(await(p, one), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(one), ncclSuccess);
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(init(p, &one, 2, &id, 0, 1), ncclInProgress,
	             "the variable overrides the configuration");
	cr_assert_eq(p->ncclCommAbort(one), ncclSuccess);
}

Test(nonblocking, environment_can_make_communicators_blocking)
{
	const struct platform *p;
	ncclUniqueId id;
	ncclComm_t comm;

	setenv("NCCL_COMM_BLOCKING", "1", 1);
	p = native_open(1);
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(init(p, &comm, 1, &id, 0, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(comm), ncclSuccess);
}
