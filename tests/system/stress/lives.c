/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creates and ends communicators of the host platform, without the library
 *
 * In each round, one thread per rank joins, blocking or nonblocking. The
 * threads make sums, split or shrink their communicator, make sums on the
 * children, and end everything in one of several ways: by destroy, by finalize
 * and destroy, by revoke, or by aborts from another thread while the owners are
 * in calls.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/native.h"
#include "support/place.h"
#include "support/stress.h"

#define RANKS 4
#define COUNT 100

enum end {
	END_DESTROY,
	END_FINALIZE,
	END_REVOKE,
	END_SHRINK, /* the last rank, which is left out, never sums */
	END_ABORT_INIT,
	END_ABORT,
	ENDS
};

struct round {
	const struct platform *p;
	enum end end;
	bool blocking, shares;
	ncclUniqueId id;

	/*
	 * Atomic. The owner publishes it with a release store, and the aborting
	 * thread takes it.
	 */
	ncclComm_t comm[RANKS];
	atomic_int sums; /* number of right sums */
	pthread_barrier_t before_abort;
};

struct member {
	struct round *round;
	int rank;
	cudaStream_t stream;
	int32_t value[COUNT];
};

/* ---- steps ------------------------------------------------------------ */

/*
 * Wait for a call's result. Return ncclInternalError if the communicator was
 * aborted.
 */
static ncclResult_t finish(const struct platform *p, ncclComm_t comm,
                           ncclResult_t result)
{
	/*
	 * A split or a shrink returns success once the child is being created.
	 */
	if (result == ncclSuccess)
		result = ncclInProgress;
	while (result == ncclInProgress) {
		sched_yield();
		native_must(p->ncclCommGetAsyncError(comm, &result),
		            "ncclCommGetAsyncError");
	}
	return result;
}

static void must_finish(const struct platform *p, ncclComm_t comm,
                        ncclResult_t result, const char *what)
{
	native_must(finish(p, comm, result), what);
}

static ncclResult_t join(struct member *m)
{
	struct round *round = m->round;
	const struct platform *p = round->p;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t result;

	config.blocking = round->blocking;
	config.splitShare = config.shrinkShare = round->shares;
	native_must(p->cudaSetDevice(m->rank), "cudaSetDevice");
	result = p->ncclCommInitRankConfig(&round->comm[m->rank], RANKS,
	                                   round->id, m->rank, &config);
	return finish(p, round->comm[m->rank], result);
}

static ncclResult_t queue_sum(struct member *m, ncclComm_t comm)
{
	const struct platform *p = m->round->p;
	int i;

	for (i = 0; i < COUNT; i++)
		m->value[i] = i;
	return finish(p, comm,
	              p->ncclAllReduce(m->value, m->value, COUNT, ncclInt32,
	                               ncclSum, comm, m->stream));
}

static void check_sum(struct member *m, int n)
{
	int i;

	native_must(m->round->p->cudaStreamSynchronize(m->stream), "wait");
	for (i = 0; i < COUNT; i++)
		if (m->value[i] != n * i)
			stress_fail("rank %d has %d at %d", m->rank,
			            (int)m->value[i], i);
	atomic_fetch_add(&m->round->sums, 1);
}

static void sum(struct member *m, ncclComm_t comm, int n)
{
	native_must(queue_sum(m, comm), "ncclAllReduce");
	check_sum(m, n);
}

static void destroy(struct member *m, ncclComm_t comm)
{
	native_must(m->round->p->ncclCommDestroy(comm), "ncclCommDestroy");
}

/* ---- children --------------------------------------------------------- */

/*
 * Split the ranks into two halves, and each half into single ranks. The last
 * rank gets no communicator from the second split.
 */
static void split(struct member *m, ncclComm_t comm)
{
	const struct platform *p = m->round->p;
	ncclComm_t half, single;

	must_finish(p, comm,
	            p->ncclCommSplit(comm, m->rank % 2, -m->rank, &half, NULL),
	            "ncclCommSplit");
	sum(m, half, RANKS / 2);
	must_finish(p, half,
	            p->ncclCommSplit(half,
	                             m->rank == RANKS - 1 ? NCCL_SPLIT_NOCOLOR
	                                                  : m->rank,
	                             0, &single, NULL),
	            "ncclCommSplit");
	if (single) {
		sum(m, single, 1);
		destroy(m, single);
	}
	destroy(m, half);
}

/* Shrink to all ranks but the last, which does not call. */
static void shrink(struct member *m, ncclComm_t comm, int flags)
{
	const struct platform *p = m->round->p;
	int list[] = { RANKS - 1 };
	ncclComm_t rest;

	if (m->rank == RANKS - 1)
		return;
	must_finish(p, comm,
	            p->ncclCommShrink(comm, list, 1, &rest, NULL, flags),
	            "ncclCommShrink");
	sum(m, rest, RANKS - 1);
	destroy(m, rest);
}

/* ---- teardown --------------------------------------------------------- */

static void end_revoke(struct member *m, ncclComm_t comm)
{
	const struct platform *p = m->round->p;
	int32_t value = 0;
	ncclComm_t child;

	if (m->rank)
		native_must(queue_sum(m, comm), "ncclAllReduce");
	must_finish(p, comm, p->ncclCommRevoke(comm, 0), "ncclCommRevoke");
	native_must(p->cudaStreamSynchronize(m->stream), "wait");
	must_finish(p, comm, p->ncclCommSplit(comm, 0, 0, &child, NULL),
	            "ncclCommSplit");
	sum(m, child, RANKS);
	destroy(m, child);
	if (p->ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm,
	                     m->stream) != ncclInvalidUsage)
		stress_fail("rank %d can sum on a revoked communicator",
		            m->rank);
	native_must(p->ncclCommAbort(comm), "ncclCommAbort");
}

static void end_shrink(struct member *m, ncclComm_t comm)
{
	const struct platform *p = m->round->p;

	if (m->rank < RANKS - 1)
		native_must(queue_sum(m, comm), "ncclAllReduce");
	shrink(m, comm, NCCL_SHRINK_ABORT);
	native_must(p->ncclCommAbort(comm), "ncclCommAbort");
	native_must(p->cudaStreamSynchronize(m->stream), "wait");
}

/*
 * Make sums in which one rank never takes part, until another thread aborts all
 * ranks.
 */
static void end_abort(struct member *m, ncclComm_t comm)
{
	const struct platform *p = m->round->p;

	if (m->rank)
		native_must(queue_sum(m, comm), "ncclAllReduce");
	pthread_barrier_wait(&m->round->before_abort);
	native_must(p->cudaStreamSynchronize(m->stream), "wait");
}

static void end(struct member *m, ncclComm_t comm)
{
	const struct platform *p = m->round->p;

	switch (m->round->end) {
	case END_FINALIZE:
		must_finish(p, comm, p->ncclCommFinalize(comm), "finalize");
		destroy(m, comm);
		break;
	case END_DESTROY:
		destroy(m, comm);
		break;
	case END_REVOKE:
		end_revoke(m, comm);
		break;
	case END_SHRINK:
		end_shrink(m, comm);
		break;
	case END_ABORT:
		end_abort(m, comm);
		break;
	case END_ABORT_INIT:
	case ENDS:
		break;
	}
}

/* ---- rounds ----------------------------------------------------------- */

/* Join, although one rank never does. The others are aborted while they
 * wait. */
static void join_in_vain(struct member *m)
{
	struct round *round = m->round;
	const struct platform *p = round->p;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t result;

	if (!m->rank)
		return;
	config.blocking = round->blocking;
	native_must(p->cudaSetDevice(m->rank), "cudaSetDevice");
	result = p->ncclCommInitRankConfig(&round->comm[m->rank], RANKS,
	                                   round->id, m->rank, &config);
	/* Once another rank was aborted, the id is unusable. */
	if (result != ncclInternalError && result != ncclInvalidUsage &&
	    (round->blocking || result != ncclInProgress))
		stress_fail("rank %d's join returned %d", m->rank, (int)result);
}

static void *member_main(void *user)
{
	struct member *m = user;
	struct round *round = m->round;
	ncclComm_t comm;

	if (round->end == END_ABORT_INIT) {
		join_in_vain(m);
		return NULL;
	}
	native_must(join(m), "ncclCommInitRankConfig");
	comm = round->comm[m->rank];
	sum(m, comm, RANKS);
	split(m, comm);
	shrink(m, comm, NCCL_SHRINK_DEFAULT);
	sum(m, comm, RANKS);
	end(m, comm);
	return NULL;
}

/*
 * Abort the ranks from @first on, each as soon as its communicator exists.  If
 * @first is 0, abort all ranks in one NCCL group.
 */
static void abort_all(struct round *round, int first)
{
	const struct platform *p = round->p;
	ncclComm_t comm;
	int r;

	if (!first)
		native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = first; r < RANKS; r++) {
		while (!(comm = __atomic_load_n(&round->comm[r],
		                                __ATOMIC_ACQUIRE)))
			sched_yield();
		native_must(p->ncclCommAbort(comm), "ncclCommAbort");
	}
	if (!first)
		native_must(p->ncclGroupEnd(), "ncclGroupEnd");
}

/* Abort communicators of other threads. */
static void *aborter_main(void *user)
{
	struct round *round = user;

	if (round->end == END_ABORT_INIT) {
		abort_all(round, 1);
	} else if (round->end == END_ABORT) {
		pthread_barrier_wait(&round->before_abort);
		abort_all(round, 0);
	}
	return NULL;
}

/* Return the number of right sums that a round must have. */
static int sums_of(enum end end)
{
	/*
	 * Two sums of all ranks, one of each half, one of each single rank, and
	 * one of the ranks that stay.
	 */
	const int always = 2 * RANKS + RANKS + RANKS - 1 + RANKS - 1;

	switch (end) {
	case END_ABORT_INIT:
		return 0;
	case END_REVOKE:
		return always + RANKS;
	case END_SHRINK:
		return always + RANKS - 1;
	case END_DESTROY:
	case END_FINALIZE:
	case END_ABORT:
	case ENDS:
		break;
	}
	return always;
}

static void one_round(const struct platform *p, unsigned long number)
{
	static cudaStream_t streams[RANKS];
	struct member members[RANKS];
	pthread_t threads[RANKS + 1];
	struct round round = {
		.p = p,
		.end = number % ENDS,
		.blocking = number / ENDS % 2 == 0,
		.shares = number / ENDS / 2 % 2,
	};
	int r;

	pthread_barrier_init(&round.before_abort, NULL, RANKS + 1);
	native_must(p->ncclGetUniqueId(&round.id), "ncclGetUniqueId");
	for (r = 0; r < RANKS; r++) {
		if (!streams[r])
			streams[r] = native_stream(p, r);
		members[r] = (struct member){ &round, r, streams[r], { 0 } };
		pthread_create(&threads[r], NULL, member_main, &members[r]);
	}
	pthread_create(&threads[r], NULL, aborter_main, &round);
	for (r = 0; r < RANKS + 1; r++)
		pthread_join(threads[r], NULL);
	pthread_barrier_destroy(&round.before_abort);
	if (round.sums != sums_of(round.end))
		stress_fail("round %lu has %d sums", number, (int)round.sums);
}

int main(int argc, char **argv)
{
	const struct platform *p;
	unsigned long rounds;

	place_need_no_sync("nothing orders launches and memory functions of "
	                   "native communicators");
	p = native_open(RANKS);
	for (rounds = 0; stress_continue(argc, argv); rounds++)
		one_round(p, rounds);
	printf("%lu rounds\n", rounds);
	return 0;
}
