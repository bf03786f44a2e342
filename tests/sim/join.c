/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ranks that join a communicator one by one, with a unique id
 */

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cohort/sim.h>

#include "base/process.h"
#include "platform/platform.h"
#include "sim/nccl/root.h"
#include "support/expect.h"
#include "support/native.h"
#include "support/place.h"
#include "support/ranks.h"

static ncclUniqueId new_id(const struct platform *p)
{
	ncclUniqueId id;

	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	return id;
}

static ncclResult_t join_on(const struct platform *p, ncclComm_t *comm, int n,
                            const ncclUniqueId *id, int rank, int device)
{
	native_must(p->cudaSetDevice(device), "cudaSetDevice");
	return p->ncclCommInitRank(comm, n, *id, rank);
}

/* Make a clique of existing communicators, with new streams. */
static void clique_with_streams(struct native_clique *c,
                                const struct platform *p, int n)
{
	int r;

	c->p = p;
	c->n = n;
	for (r = 0; r < n; r++)
		c->stream[r] = native_stream(p, r);
	native_fill(c);
}

/* ---- a thread per rank ------------------------------------------------ */

struct joiner {
	const struct platform *p;
	ncclUniqueId id;
	int n, rank, device;
	ncclComm_t comm;
	ncclResult_t result;
	atomic_bool returned;
	sem_t calls;
	pid_t task; /* thread id, set when the thread is about to call */
	pthread_t thread;
};

static void *join(void *user)
{
	struct joiner *j = user;

	j->task = gettid();
	sem_post(&j->calls);
	j->result = join_on(j->p, &j->comm, j->n, &j->id, j->rank, j->device);
	atomic_store(&j->returned, true);
	return NULL;
}

static void start(struct joiner *j, const struct platform *p,
                  const ncclUniqueId *id, int n, int rank)
{
	memset(j, 0, sizeof(*j));
	j->p = p;
	j->id = *id;
	j->n = n;
	j->rank = rank;
	j->device = rank;
	sem_init(&j->calls, 0, 0);
	pthread_create(&j->thread, NULL, join, j);
}

/* Wait until the thread of @j sleeps inside its call. */
static void stays_inside(struct joiner *j)
{
	while (sem_wait(&j->calls) != 0)
		continue;
	native_await_sleep(j->task);
	cr_assert(!atomic_load(&j->returned));
}

static void start_all(struct joiner joiners[], const struct platform *p, int n)
{
	const ncclUniqueId id = new_id(p);
	int r;

	for (r = 0; r < n; r++)
		start(&joiners[r], p, &id, n, r);
}

static void collect(struct joiner joiners[], struct native_clique *c, int n)
{
	int r;

	for (r = 0; r < n; r++) {
		pthread_join(joiners[r].thread, NULL);
		cr_assert_eq(joiners[r].result, ncclSuccess);
		c->comm[r] = joiners[r].comm;
	}
	clique_with_streams(c, joiners[0].p, n);
}

Test(join, ranks_on_several_threads_join_one_communicator, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct joiner joiners[4];
	struct native_clique c;
	int r, value;

	start_all(joiners, p, 4);
	collect(joiners, &c, 4);
	for (r = 0; r < 4; r++) {
		cr_assert_eq(p->ncclCommUserRank(c.comm[r], &value),
		             ncclSuccess);
		cr_assert_eq(value, r);
		cr_assert_eq(p->ncclCommCount(c.comm[r], &value), ncclSuccess);
		cr_assert_eq(value, 4);
		cr_assert_eq(p->ncclCommCuDevice(c.comm[r], &value),
		             ncclSuccess);
		cr_assert_eq(value, r);
	}
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(join, join_of_a_single_rank_waits_for_no_other, .timeout = 60)
{
	const struct platform *p = native_open(4);
	const ncclUniqueId id = new_id(p);
	ncclComm_t comm;
	int device = -1;

	cr_assert_eq(join_on(p, &comm, 1, &id, 0, 3), ncclSuccess);
	cr_assert_eq(p->ncclCommCuDevice(comm, &device), ncclSuccess);
	cr_assert_eq(device, 3);
	cr_assert_eq(p->cudaGetDevice(&device), cudaSuccess);
	cr_assert_eq(device, 3);
	cr_assert_eq(p->ncclCommDestroy(comm), ncclSuccess);
}

Test(join, join_waits_for_the_last_rank, .timeout = 60)
{
	const struct platform *p = native_open(3);
	const ncclUniqueId id = new_id(p);
	struct joiner joiners[3];
	struct native_clique c;

	start(&joiners[2], p, &id, 3, 2);
	start(&joiners[0], p, &id, 3, 0);
	stays_inside(&joiners[2]);
	stays_inside(&joiners[0]);
	start(&joiners[1], p, &id, 3, 1);
	collect(joiners, &c, 3);
	native_sum_all(&c);
	native_clique_abort(&c);
}

Test(join, joins_with_two_ids_make_two_communicators, .timeout = 60)
{
	const struct platform *p = native_open(3);
	struct joiner first[3], second[3];
	struct native_clique one, two;

	start_all(first, p, 3);
	start_all(second, p, 3);
	collect(second, &two, 3);
	collect(first, &one, 3);
	native_clique_abort(&one);
	native_sum_all(&two);
	native_clique_destroy(&two);
}

/* The ranks share memory, which must exist until the last rank is freed. */
Test(join, joined_communicator_is_freed_by_its_last_rank, .timeout = 60)
{
	const struct platform *p = native_open(2);
	struct joiner joiners[2];
	struct native_clique c;
	int value = -1;

	start_all(joiners, p, 2);
	collect(joiners, &c, 2);
	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(c.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommUserRank(c.comm[0], &value), ncclSuccess);
	cr_assert_eq(value, 0);
	cr_assert_eq(p->ncclCommAbort(c.comm[1]), ncclSuccess);
}

/* ---- all ranks on one thread ------------------------------------------ */

Test(join, join_in_a_native_group_is_deferred_to_its_end, .timeout = 60)
{
	const struct platform *p = native_open(4);
	const ncclUniqueId id = new_id(p);
	struct native_clique c;
	int r;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 4; r++) {
		c.comm[r] = (ncclComm_t)&c;
		cr_assert_eq(join_on(p, &c.comm[r], 4, &id, r, r), ncclSuccess);
		cr_assert_neq(c.comm[r], (ncclComm_t)&c);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	clique_with_streams(&c, p, 4);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

/* Two communicators of two ranks, which two threads join at the same time */
struct half {
	const struct platform *p;
	ncclUniqueId ids[2];
	struct native_clique cliques[2];
	pid_t task; /* thread id of the second thread */
};

static void join_half(struct half *h, int first)
{
	int i, r;

	native_must(h->p->ncclGroupStart(), "ncclGroupStart");
	for (i = 0; i < 2; i++)
		for (r = first; r < first + 2; r++)
			native_must(join_on(h->p, &h->cliques[i].comm[r], 4,
			                    &h->ids[i], r, r),
			            "ncclCommInitRank");
	native_must(h->p->ncclGroupEnd(), "ncclGroupEnd");
}

static void *join_second_half(void *user)
{
	join_half(user, 2);
	return NULL;
}

Test(join, native_group_can_join_ranks_with_several_ids, .timeout = 60)
{
	struct half h = { .p = native_open(4) };
	pthread_t thread;
	int i;

	for (i = 0; i < 2; i++)
		h.ids[i] = new_id(h.p);
	pthread_create(&thread, NULL, join_second_half, &h);
	join_half(&h, 0);
	pthread_join(thread, NULL);
	for (i = 0; i < 2; i++) {
		clique_with_streams(&h.cliques[i], h.p, 4);
		native_sum_all(&h.cliques[i]);
		native_clique_destroy(&h.cliques[i]);
	}
}

/*
 * Abort a communicator whose join has failed. As in NCCL, a failed join still
 * creates a communicator.
 */
static void give_back(const struct platform *p, ncclComm_t comm)
{
	cr_assert_not_null(comm);
	cr_assert_eq(p->ncclCommAbort(comm), ncclSuccess);
}

/* If one rank of a group cannot join, none does. */
Test(join, joins_of_a_native_group_succeed_or_fail_together, .timeout = 60)
{
	const struct platform *p = native_open(2);
	const ncclUniqueId id = new_id(p);
	struct native_clique c;

	place_skip_if_shared("a join that fails uses the id up");
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(join_on(p, &c.comm[0], 2, &id, 0, 0), ncclSuccess);
	cr_assert_eq(join_on(p, &c.comm[1], 2, &id, 0, 1), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage);
	give_back(p, c.comm[0]);
	give_back(p, c.comm[1]);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(join_on(p, &c.comm[0], 2, &id, 0, 0), ncclSuccess);
	cr_assert_eq(join_on(p, &c.comm[1], 2, &id, 1, 1), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	clique_with_streams(&c, p, 2);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(join, join_is_dropped_with_its_failed_native_group, .timeout = 60)
{
	const struct platform *p = native_open(2);
	const ncclUniqueId id = new_id(p);
	ncclComm_t comm;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(join_on(p, &comm, 1, &id, 0, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommInitRank(NULL, 2, id, 0), ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
	give_back(p, comm);
	cr_assert_eq(join_on(p, &comm, 1, &id, 0, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(comm), ncclSuccess);
}

/* ---- refused joins ---------------------------------------------------- */

Test(join, join_checks_its_arguments, .timeout = 60)
{
	const struct platform *p = native_open(2);
	const ncclUniqueId id = new_id(p);
	ncclComm_t comm = NULL;

	cr_assert_eq(p->ncclGetUniqueId(NULL), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRank(&comm, -1, id, 0),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRank(NULL, 2, id, 0), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRank(&comm, 2, id, -1),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
	if (!place_is_real())
		cr_assert_eq(p->ncclCommInitRank(&comm, 3, id, 0),
		             ncclInvalidUsage);
	cr_assert_null(comm);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
	             "no group may be left open");
}

/*
 * Check that a join as @rank of @n is refused, and that the first rank still
 * waits for a valid one.
 */
static void refuse_second(int n, int rank, const char *why)
{
	const struct platform *p = native_open(3);
	const ncclUniqueId id = new_id(p);
	struct joiner first;
	struct native_clique c;
	ncclComm_t comm;

	start(&first, p, &id, 2, 0);
	stays_inside(&first);
	cr_assert_eq(join_on(p, &comm, n, &id, rank, 1), ncclInvalidUsage);
	expect_text(p->ncclGetLastError(NULL), why);
	give_back(p, comm);
	cr_assert_eq(join_on(p, &c.comm[1], 2, &id, 1, 1), ncclSuccess);
	pthread_join(first.thread, NULL);
	c.comm[0] = first.comm;
	clique_with_streams(&c, p, 2);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(join, join_refuses_a_rank_that_has_joined, .timeout = 60)
{
	refuse_second(2, 0, "the rank has already joined");
}

Test(join, join_refuses_another_number_of_ranks, .timeout = 60)
{
	refuse_second(3, 1, "a different number of ranks");
}

/* All ranks get the error after the last one has joined. */
Test(join, join_fails_if_a_device_is_used_twice, .timeout = 60)
{
	const struct platform *p = native_open(3);
	const ncclUniqueId id = new_id(p);
	struct joiner first[2];
	ncclComm_t comm;
	int r;

	for (r = 0; r < 2; r++) {
		start(&first[r], p, &id, 3, r);
		stays_inside(&first[r]);
	}
	cr_assert_eq(join_on(p, &comm, 3, &id, 2, 0), ncclInvalidUsage);
	expect_text(p->ncclGetLastError(NULL), "joined with this device");
	give_back(p, comm);
	for (r = 0; r < 2; r++) {
		pthread_join(first[r].thread, NULL);
		cr_assert_eq(first[r].result, ncclInvalidUsage);
		give_back(p, first[r].comm);
	}
}

Test(join, join_refuses_an_id_that_was_used, .timeout = 60)
{
	const struct platform *p = native_open(2);
	const ncclUniqueId id = new_id(p);
	ncclComm_t comm, second;

	cr_assert_eq(join_on(p, &comm, 1, &id, 0, 0), ncclSuccess);
	cr_assert_eq(join_on(p, &second, 1, &id, 0, 0), ncclInvalidUsage);
	expect_text(p->ncclGetLastError(NULL), "already used");
	give_back(p, second);
	cr_assert_eq(p->ncclCommDestroy(comm), ncclSuccess);
}

static void refuse_foreign(const struct platform *p, const ncclUniqueId *id)
{
	ncclComm_t comm;

	native_must(join_on(p, &comm, 2, id, 0, 0) != ncclInvalidUsage,
	            "joined by a foreign id");
	native_must(!strstr(p->ncclGetLastError(NULL),
	                    "created by another process"),
	            "another error");
}

Test(join, join_refuses_bytes_that_are_not_an_id, .timeout = 60)
{
	const struct platform *p = native_open(2);
	ncclUniqueId id = { { 0 } };

	place_need_our_nccl("what an id holds");
	place_skip_if_shared("ids of other processes are valid");
	refuse_foreign(p, &id);
	id = new_id(p);
	id.internal[8]++;
	refuse_foreign(p, &id);
}

Test(join, join_refuses_an_id_of_another_process, .timeout = 60)
{
	const struct platform *p = native_open(2);
	const ncclUniqueId id = new_id(p);
	pid_t child;
	int status;

	place_need_built_in("the child of a fork");
	place_skip_if_shared("ids of other processes are valid");
	child = fork();
	if (child == 0) {
		refuse_foreign(p, &id);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- aborts of an init that waits ------------------------------------- */

/* Return the communicator that the thread's call has stored before the other
 * ranks joined. */
static ncclComm_t early_comm(struct joiner *j)
{
	stays_inside(j);
	/* The acquire pairs with the release in ncclCommInitRank(). */
	return __atomic_load_n(&j->comm, __ATOMIC_ACQUIRE);
}

static void ends_with(struct joiner *j, ncclResult_t result)
{
	pthread_join(j->thread, NULL);
	cr_assert_eq(j->result, result);
}

Test(join, join_that_never_finishes_can_be_aborted, .timeout = 60)
{
	const struct platform *p = native_open(2);
	const ncclUniqueId id = new_id(p);
	struct joiner first;
	ncclComm_t comm;
	int rank = -1;

	start(&first, p, &id, 2, 1);
	comm = early_comm(&first);
	cr_assert_not_null(comm);
	cr_assert_eq(p->ncclCommUserRank(comm, &rank), ncclSuccess);
	cr_assert_eq(rank, 1);
	cr_assert_eq(p->ncclCommAbort(comm), ncclSuccess);
	ends_with(&first, ncclInternalError);
	expect_text(p->ncclGetLastError(NULL), "aborted");
}

static void refuse_spoiled(const struct platform *p, const ncclUniqueId *id,
                           int rank)
{
	ncclComm_t comm;

	cr_assert_eq(join_on(p, &comm, 3, id, rank, rank), ncclInvalidUsage);
	give_back(p, comm);
}

/* In NCCL, a rank that later joins with the aborted id waits forever, even
 * while other ranks are still waiting in the first join. */
Test(join, join_that_is_aborted_uses_up_its_id, .timeout = 60)
{
	const struct platform *p = native_open(3);
	const ncclUniqueId id = new_id(p);
	struct joiner first, second;
	ncclComm_t joined, waits;

	start(&first, p, &id, 3, 0);
	joined = early_comm(&first);
	/* Start the second join only now, because it must not sleep on a lock
	 * of the first one. */
	start(&second, p, &id, 3, 1);
	waits = early_comm(&second);
	cr_assert_eq(p->ncclCommAbort(joined), ncclSuccess);
	ends_with(&first, ncclInternalError);
	refuse_spoiled(p, &id, 0);
	refuse_spoiled(p, &id, 2);
	cr_assert_eq(p->ncclCommAbort(waits), ncclSuccess);
	ends_with(&second, ncclInternalError);
	refuse_spoiled(p, &id, 0);
}

static void *join_two(void *user)
{
	struct half *h = user;

	h->task = gettid();
	native_must(h->p->ncclGroupStart(), "ncclGroupStart");
	native_must(join_on(h->p, &h->cliques[0].comm[0], 1, &h->ids[0], 0, 0),
	            "ncclCommInitRank");
	native_must(join_on(h->p, &h->cliques[1].comm[1], 3, &h->ids[1], 1, 1),
	            "ncclCommInitRank");
	return (void *)(intptr_t)h->p->ncclGroupEnd();
}

static ncclComm_t await_comm(const ncclComm_t *comm)
{
	ncclComm_t c;

	while (!(c = __atomic_load_n(comm, __ATOMIC_ACQUIRE)))
		sched_yield();
	return c;
}

/*
 * The abort of one communicator ends its whole group. A communicator of the
 * group that all ranks have joined still exists, and must be aborted.
 */
Test(join, join_that_is_aborted_makes_its_group_fail, .timeout = 60)
{
	struct half h = { .p = native_open(3) };
	ncclComm_t waits;
	pthread_t thread;
	void *result;
	int i;

	for (i = 0; i < 2; i++)
		h.ids[i] = new_id(h.p);
	pthread_create(&thread, NULL, join_two, &h);
	waits = await_comm(&h.cliques[1].comm[1]);
	cr_assert_eq(h.p->ncclCommAbort(waits), ncclSuccess);
	pthread_join(thread, &result);
	cr_assert_eq((intptr_t)result, ncclInternalError);
	give_back(h.p, h.cliques[0].comm[0]);
}

/*
 * The group's first join fails when all of its ranks have arrived. Then the
 * second join stops waiting.
 */
Test(join, join_that_fails_makes_its_group_fail, .timeout = 60)
{
	const struct platform *p = native_open(2);
	const ncclUniqueId ids[2] = { new_id(p), new_id(p) };
	ncclComm_t comm[3];
	int i;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(join_on(p, &comm[0], 2, &ids[0], 0, 0), ncclSuccess);
	cr_assert_eq(join_on(p, &comm[1], 2, &ids[0], 1, 0), ncclSuccess);
	cr_assert_eq(join_on(p, &comm[2], 2, &ids[1], 0, 0), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage);
	for (i = 0; i < 3; i++)
		give_back(p, comm[i]);
}

/*
 * All ranks have joined the first communicator, and it was freed. At the end of
 * the group, only the group still refers to it.
 */
Test(join, native_group_can_end_after_its_joined_rank_was_freed, .timeout = 60)
{
	struct half h = { .p = native_open(3) };
	ncclComm_t waits;
	pthread_t thread;
	void *result;
	int i;

	for (i = 0; i < 2; i++)
		h.ids[i] = new_id(h.p);
	pthread_create(&thread, NULL, join_two, &h);
	waits = await_comm(&h.cliques[1].comm[1]);
	native_await_sleep(h.task);
	give_back(h.p, h.cliques[0].comm[0]);
	give_back(h.p, waits);
	pthread_join(thread, &result);
	cr_assert_eq((intptr_t)result, ncclInternalError);
}

/* ---- joins with several ids ------------------------------------------- */

struct scalable {
	struct joiner joiner;
	ncclUniqueId ids[3];
	int id_count;
};

static void *join_scalable(void *user)
{
	struct scalable *s = user;
	struct joiner *j = &s->joiner;

	j->task = gettid();
	sem_post(&j->calls);
	native_must(j->p->cudaSetDevice(j->device), "cudaSetDevice");
	j->result = j->p->ncclCommInitRankScalable(&j->comm, j->n, j->rank,
	                                           s->id_count, s->ids, NULL);
	atomic_store(&j->returned, true);
	return NULL;
}

static void start_scalable(struct scalable *s, const struct platform *p,
                           const ncclUniqueId ids[], int id_count, int n,
                           int rank)
{
	*s = (struct scalable){ .id_count = id_count };
	s->joiner.p = p;
	s->joiner.n = n;
	s->joiner.rank = s->joiner.device = rank;
	memcpy(s->ids, ids, (size_t)id_count * sizeof(*ids));
	sem_init(&s->joiner.calls, 0, 0);
	pthread_create(&s->joiner.thread, NULL, join_scalable, s);
}

Test(join, ranks_can_join_with_several_ids, .timeout = 60)
{
	const struct platform *p = native_open(3);
	const ncclUniqueId ids[3] = { new_id(p), new_id(p), new_id(p) };
	struct scalable ranks[3];
	struct native_clique c;
	ncclComm_t late;
	int r;

	for (r = 0; r < 3; r++)
		start_scalable(&ranks[r], p, ids, 3, 3, r);
	for (r = 0; r < 3; r++) {
		ends_with(&ranks[r].joiner, ncclSuccess);
		c.comm[r] = ranks[r].joiner.comm;
	}
	clique_with_streams(&c, p, 3);
	native_sum_all(&c);
	native_clique_destroy(&c);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(join_on(p, &late, 1, &ids[r], 0, 0),
		             ncclInvalidUsage, "id %d is not used up", r);
		give_back(p, late);
	}
}

Test(join, join_refuses_ids_that_differ_from_those_of_its_peer, .timeout = 60)
{
	const struct platform *p = native_open(2);
	const ncclUniqueId ids[3] = { new_id(p), new_id(p), new_id(p) };
	const ncclUniqueId others[2] = { ids[0], ids[2] };
	struct scalable first, other;
	ncclComm_t waits;

	start_scalable(&first, p, ids, 2, 2, 0);
	waits = early_comm(&first.joiner);
	start_scalable(&other, p, others, 2, 2, 1);
	ends_with(&other.joiner, ncclInvalidUsage);
	expect_text(p->ncclGetLastError(NULL), "different ids");
	give_back(p, other.joiner.comm);
	give_back(p, waits);
	ends_with(&first.joiner, ncclInternalError);
}

Test(join, join_with_several_ids_checks_their_number, .timeout = 60)
{
	const struct platform *p = native_open(2);
	ncclUniqueId ids[3] = { new_id(p), new_id(p), new_id(p) };
	ncclComm_t comm = NULL;

	cr_assert_eq(p->ncclCommInitRankScalable(&comm, 2, 0, 0, ids, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRankScalable(&comm, 2, 0, -1, ids, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRankScalable(&comm, 2, 0, 3, ids, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRankScalable(NULL, 2, 0, 2, ids, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitRankScalable(&comm, 2, 2, 2, ids, NULL),
	             ncclInvalidArgument);
	memset(&ids[1], 0, sizeof(ids[1]));
	cr_assert_eq(p->ncclCommInitRankScalable(&comm, 2, 0, 2, ids, NULL),
	             ncclInvalidUsage);
	cr_assert_null(comm);
	cr_assert_eq(p->ncclCommInitRankScalable(&comm, 1, 0, 1, ids, NULL),
	             ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(comm), ncclSuccess);
}

/* ---- faults ----------------------------------------------------------- */

Test(join, init_fault_blocks_a_join, .timeout = 60)
{
	const struct platform *p = native_open(2);
	struct joiner joiners[2];
	struct native_clique c;

	ranks_fault(1, 0, COHORT_FAULT_INIT, 0);
	start_all(joiners, p, 2);
	stays_inside(&joiners[0]);
	stays_inside(&joiners[1]);
	cohort_sim_faults_clear();
	collect(joiners, &c, 2);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

/* ---- a process that is stopped ---------------------------------------- */

/* Connect to the root of id 1 of process @number, and send nothing. Return the
 * socket. */
static int connect_silently(uint64_t number)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const int n =
		snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
	                 "cohort-nccl-%016llx-1", (unsigned long long)number);

	cr_assert_geq(fd, 0);
	cr_assert_eq(
		connect(fd, (struct sockaddr *)&name,
	                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
	                            (size_t)n)),
		0);
	return fd;
}

static void stop_and_continue(pid_t child)
{
	int status;

	kill(child, SIGSTOP);
	cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
	cr_assert(WIFSTOPPED(status));
	kill(child, SIGCONT);
	cr_assert_eq(waitpid(child, &status, WCONTINUED), child);
	cr_assert(WIFCONTINUED(status));
}

/* Stopping a process interrupts its system calls that have a timeout, even
 * without a signal handler. */
Test(join, root_of_an_id_still_waits_for_a_rank_after_a_stop)
{
	struct pollfd silent = { .events = POLLIN };
	uint64_t number;
	int pipes[2], i;
	pid_t child;

	place_need_built_in("the root of an id");
	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		number = root_open(1) ? process_number() : 0;
		_exit(write(pipes[1], &number, sizeof(number)) < 0 || pause());
	}
	cr_assert_eq(read(pipes[0], &number, sizeof(number)),
	             (ssize_t)sizeof(number));
	cr_assert_neq(number, 0);
	silent.fd = connect_silently(number);
	for (i = 0; i < 200 && !silent.revents; i++) {
		stop_and_continue(child);
		poll(&silent, 1, 1);
	}
	cr_assert_eq(silent.revents, 0, "turned away by stop %d", i);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(silent.fd);
	close(pipes[0]);
	close(pipes[1]);
}
