/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of every call that moves data: the order of NCCL's argument checks,
 * counts of 0, a single rank, and every scripted fault
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cohort/sim.h>

#include "support/calls.h"
#include "support/place.h"
#include "support/ranks.h"

static const struct platform *p;

static void open_platform(void)
{
	p = native_open(NATIVE_RANKS);
}

TestSuite(calls, .init = open_platform, .timeout = 60);

/* Number of elements of a call. Each rank's buffers have room for twice as
 * many, which is enough for every call. */
#define COUNT 2

struct pair {
	struct native_clique c;
	int32_t send[2][2 * COUNT], recv[2][2 * COUNT];
};

static void pair_open(struct pair *pair)
{
	native_clique_open(&pair->c, p, 2);
	memset(pair->send, 1, sizeof(pair->send));
	memset(pair->recv, 0, sizeof(pair->recv));
}

/* Return the arguments of a valid call of rank @r. The root is rank 1, and the
 * peer of a message is the other rank. */
static struct call_args good_args(struct pair *pair, enum call_name name, int r)
{
	return (struct call_args){
		.send = pair->send[r],
		.recv = pair->recv[r],
		.count = COUNT,
		.type = ncclInt32,
		.op = ncclSum,
		.root = call_is_message(name) ? 1 - r : 1,
	};
}

static ncclResult_t make(struct pair *pair, enum call_name name, int r,
                         const struct call_args *a)
{
	return call_by_name(p, name, a, pair->c.comm[r], pair->c.stream[r]);
}

/* Make the call @name on rank 1, or the matching call on rank 0. */
static ncclResult_t make_good(struct pair *pair, enum call_name name, int r)
{
	const enum call_name mine = r ? name : call_opposite(name);
	const struct call_args a = good_args(pair, mine, r);

	return make(pair, mine, r, &a);
}

static void make_both(struct pair *pair, enum call_name name)
{
	int r;

	for (r = 0; r < 2; r++)
		cr_expect_eq(make_good(pair, name, r), ncclSuccess, "%s",
		             call_text(name));
}

static cudaError_t state(const struct pair *pair, int r)
{
	return p->cudaStreamQuery(pair->c.stream[r]);
}

static void finish_both(struct pair *pair)
{
	int r;

	for (r = 0; r < 2; r++)
		cr_expect_eq(p->cudaStreamSynchronize(pair->c.stream[r]),
		             cudaSuccess);
}

/* ---- arguments -------------------------------------------------------- */

/*
 * Expect @bad to be refused with any count, both alone and in a group, which
 * then fails.
 */
static void refuses(struct pair *pair, enum call_name name,
                    struct call_args bad, const char *what)
{
	size_t count;

	for (count = 0; count < 2; count++) {
		bad.count = count;
		cr_expect_eq(make(pair, name, 0, &bad), ncclInvalidArgument,
		             "%s: %s", call_text(name), what);
		p->ncclGroupStart();
		make_good(pair, name, 0);
		cr_expect_eq(make(pair, name, 0, &bad), ncclInvalidArgument,
		             "%s: %s", call_text(name), what);
		cr_expect_eq(p->ncclGroupEnd(), ncclInvalidArgument, "%s: %s",
		             call_text(name), what);
		cr_expect_eq(state(pair, 0), cudaSuccess);
	}
}

Test(calls, every_nccl_call_refuses_bad_arguments)
{
	struct pair pair;
	enum call_name name;
	struct call_args a;

	pair_open(&pair);
	for (name = 0; name < NAMES; name++) {
		a = good_args(&pair, name, 0);
		cr_expect_eq(call_by_name(p, name, &a, NULL, pair.c.stream[0]),
		             ncclInvalidArgument);
		a.type = -1;
		refuses(&pair, name, a, "type below the first");
		a.type = ncclNumTypes;
		refuses(&pair, name, a, "type above the last");
		a = good_args(&pair, name, 0);
		a.root = -1;
		if (call_has_root(name))
			refuses(&pair, name, a, "root below the first");
		a.root = 2;
		if (call_has_root(name))
			refuses(&pair, name, a, "root above the last");
		a = good_args(&pair, name, 0);
		a.op = -1;
		if (call_has_op(name))
			refuses(&pair, name, a, "operation below the first");
		a.op = ncclNumOps;
		if (call_has_op(name))
			refuses(&pair, name, a, "operation above the last");
		a.op = ncclMaxRedOp;
		if (call_has_op(name))
			refuses(&pair, name, a, "the last number there is");
		make_both(&pair, name);
		finish_both(&pair);
	}
	native_clique_destroy(&pair.c);
}

/* A revoked communicator is reported first, before any invalid argument. */
Test(calls, every_nccl_call_refuses_a_revoked_communicator_first)
{
	struct pair pair;
	enum call_name name;
	struct call_args a;

	pair_open(&pair);
	cr_assert_eq(p->ncclCommRevoke(pair.c.comm[0], 0), ncclSuccess);
	for (name = 0; name < NAMES; name++) {
		a = good_args(&pair, name, 0);
		a.root = a.type = a.op = -1;
		cr_expect_eq(make(&pair, name, 0, &a), ncclInvalidUsage, "%s",
		             call_text(name));
	}
	native_clique_abort(&pair.c);
}

Test(calls, zero_count_collectives_do_not_wait_but_messages_do)
{
	struct pair pair;
	enum call_name name;
	struct call_args a;

	pair_open(&pair);
	for (name = 0; name < NAMES; name++) {
		a = good_args(&pair, name, 0);
		a.send = a.recv = NULL;
		a.count = 0;
		cr_expect_eq(make(&pair, name, 0, &a), ncclSuccess);
		cr_expect_eq(state(&pair, 0),
		             call_is_message(name) ? cudaErrorNotReady
		                                   : cudaSuccess,
		             "%s", call_text(name));
		if (!call_is_message(name))
			continue;
		a.root = 0;
		make(&pair, call_opposite(name), 1, &a);
		finish_both(&pair);
	}
	native_clique_destroy(&pair.c);
}

Test(calls, one_rank_collectives_do_not_wait_for_ncclGroupEnd)
{
	struct native_clique c;
	enum call_name name;
	int32_t x, y;

	native_clique_open(&c, p, 1);
	for (name = 0; name < NAME_SEND; name++) {
		const struct call_args a = { &x, &y, 1, ncclInt32, ncclSum, 0 };

		x = 7;
		y = name == NAME_BCAST ? 7 : 0;
		p->ncclGroupStart();
		cr_expect_eq(call_by_name(p, name, &a, c.comm[0], c.stream[0]),
		             ncclSuccess);
		p->cudaStreamSynchronize(c.stream[0]);
		cr_expect_eq(y, 7, "%s", call_text(name));
		p->ncclGroupEnd();
	}
	native_clique_destroy(&c);
}

/* ---- scripted faults -------------------------------------------------- */

/* Script a fault for rank 1's next call. */
static void add(struct pair *pair, int kind, uint64_t value)
{
	pair_open(pair);
	ranks_fault(1, 0, kind, value);
}

static void expect_failure(enum call_name name, int kind, uint64_t value,
                           ncclResult_t result)
{
	struct pair pair;

	add(&pair, kind, value);
	cr_expect_eq(make_good(&pair, name, 1), result, "%s", call_text(name));
	cr_expect_eq(state(&pair, 1), cudaSuccess);
	make_both(&pair, name);
	finish_both(&pair);
	native_clique_destroy(&pair.c);
}

Test(calls, scripted_error_makes_every_kind_of_call_fail)
{
	enum call_name name;

	for (name = 0; name < NAMES; name++) {
		expect_failure(name, COHORT_FAULT_ERROR, ncclSystemError,
		               ncclSystemError);
		expect_failure(name, COHORT_FAULT_MEMORY, 0,
		               ncclUnhandledCudaError);
	}
}

/* Make the call on both ranks. Both streams must stay blocked until the
 * abort. */
static void expect_held(enum call_name name, int kind, uint64_t value)
{
	ncclResult_t error;
	struct pair pair;
	int r;

	add(&pair, kind, value);
	make_both(&pair, name);
	for (r = 0; r < 2; r++)
		cr_expect_eq(state(&pair, r), cudaErrorNotReady, "%s",
		             call_text(name));
	cr_expect_eq(p->ncclCommGetAsyncError(pair.c.comm[1], &error),
	             ncclSuccess);
	cr_expect_eq((int)error, kind == COHORT_FAULT_ASYNC ? (int)value : 0);
	native_clique_abort(&pair.c);
	for (r = 0; r < 2; r++)
		cr_expect_eq(pair.recv[r][0], 0, "%s", call_text(name));
}

Test(calls, scripted_hang_blocks_every_kind_of_call)
{
	enum call_name name;

	for (name = 0; name < NAMES; name++) {
		expect_held(name, COHORT_FAULT_NEVER, 0);
		expect_held(name, COHORT_FAULT_ASYNC, ncclRemoteError);
		expect_held(name, COHORT_FAULT_DELAY, UINT64_C(3600000000000));
	}
}

Test(calls, scripted_delay_makes_every_kind_of_call_late)
{
	enum call_name name;
	struct pair pair;

	for (name = 0; name < NAMES; name++) {
		add(&pair, COHORT_FAULT_DELAY, 2000000);
		make_both(&pair, name);
		finish_both(&pair);
		native_clique_destroy(&pair.c);
	}
}

/* If rank 1's count is wrong, a collective never ends, and a message has one
 * element fewer. */
Test(calls, scripted_wrong_count_affects_every_kind_of_call)
{
	enum call_name name;
	struct pair pair;
	int to;

	for (name = 0; name < NAMES; name++) {
		add(&pair, COHORT_FAULT_ARGUMENT, 0);
		make_both(&pair, name);
		if (!call_is_message(name)) {
			cr_expect_eq(state(&pair, 0), cudaErrorNotReady, "%s",
			             call_text(name));
			native_clique_abort(&pair.c);
			continue;
		}
		finish_both(&pair);
		to = name == NAME_RECV;
		cr_expect_neq(pair.recv[to][0], 0);
		cr_expect_eq(pair.recv[to][1], 0);
		native_clique_destroy(&pair.c);
	}
}

struct caller {
	struct pair pair;
	enum call_name name;
	pid_t id; /* thread id, set when the thread is about to call */
	sem_t calls;
	ncclResult_t result;
	bool returned;
};

static void *call_main(void *user)
{
	struct caller *caller = user;

	caller->id = gettid();
	sem_post(&caller->calls);
	caller->result = make_good(&caller->pair, caller->name, 1);
	caller->returned = true;
	return NULL;
}

static void start(struct caller *caller, pthread_t *thread)
{
	sem_init(&caller->calls, 0, 0);
	pthread_create(thread, NULL, call_main, caller);
	while (sem_wait(&caller->calls) != 0)
		continue;
}

Test(calls, scripted_stuck_call_of_every_kind_ends_with_the_abort)
{
	struct caller caller;
	pthread_t thread;
	int name, i;

	for (i = 0; i < 2 * NAMES; i++) {
		name = i / 2;
		memset(&caller, 0, sizeof(caller));
		caller.name = (enum call_name)name;
		add(&caller.pair,
		    i % 2 ? COHORT_FAULT_STUCK : COHORT_FAULT_HUNG, 0);
		start(&caller, &thread);
		native_await_sleep(caller.id);
		p->ncclGroupStart();
		p->ncclCommAbort(caller.pair.c.comm[0]);
		p->ncclCommAbort(caller.pair.c.comm[1]);
		if (i % 2 == 0)
			cohort_sim_faults_clear();
		pthread_join(thread, NULL);
		cr_expect_eq(caller.result, ncclInternalError, "%s",
		             call_text(caller.name));
		p->ncclGroupEnd();
	}
}

Test(calls, scripted_die_ends_the_thread_in_every_kind_of_call)
{
	struct caller caller;
	pthread_t thread;
	int name;

	for (name = 0; name < NAMES; name++) {
		memset(&caller, 0, sizeof(caller));
		caller.name = (enum call_name)name;
		add(&caller.pair, COHORT_FAULT_DIE, 0);
		start(&caller, &thread);
		pthread_join(thread, NULL);
		cr_expect(!caller.returned);
		cr_expect_eq(make_good(&caller.pair, caller.name, 0),
		             ncclSuccess);
		cr_expect_eq(state(&caller.pair, 0), cudaErrorNotReady);
		native_clique_abort(&caller.pair.c);
	}
}
