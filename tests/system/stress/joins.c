/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Joins ranks by a unique id, while other ranks are refused
 *
 * In every round, two threads join with two ranks each in an NCCL group, two
 * join with one rank each, and an odd thread joins with a group that cannot
 * succeed. Checks that all ranks get a communicator and the odd thread none,
 * and that a sum over all ranks is right. The odd thread is not used on devices
 * that wait for each other's kernels, nor on NVIDIA's NCCL, where ranks that
 * join twice keep all others from joining.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/native.h"
#include "support/place.h"
#include "support/stress.h"

#define RANKS 6

struct round {
	const struct platform *p;
	ncclUniqueId id;
	ncclComm_t comm[RANKS];
	atomic_int sum; /* sum of all ranks' results */
	atomic_int refused;
};

struct member {
	struct round *round;
	int rank;  /* first rank of the thread */
	int ranks; /* number of its consecutive ranks */
};

static ncclResult_t join_all(struct member *m)
{
	const struct platform *p = m->round->p;
	int r;

	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = m->rank; r < m->rank + m->ranks; r++) {
		native_must(p->cudaSetDevice(r), "cudaSetDevice");
		native_must(p->ncclCommInitRank(&m->round->comm[r], RANKS,
		                                m->round->id, r),
		            "ncclCommInitRank");
	}
	return p->ncclGroupEnd();
}

/* Sum ones over all ranks, for all ranks of this thread. */
static void sum_all(struct member *m)
{
	const struct platform *p = m->round->p;
	int32_t value[RANKS];
	int r;

	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = m->rank; r < m->rank + m->ranks; r++) {
		value[r] = 1;
		native_must(p->ncclAllReduce(&value[r], &value[r], 1, ncclInt32,
		                             ncclSum, m->round->comm[r], NULL),
		            "ncclAllReduce");
	}
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = m->rank; r < m->rank + m->ranks; r++) {
		native_must(p->cudaSetDevice(r), "cudaSetDevice");
		native_must(p->cudaStreamSynchronize(NULL), "synchronize");
	}
	/*
	 * Since NCCL 2.31 the end of a rank waits for the ends of all others.
	 */
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = m->rank; r < m->rank + m->ranks; r++)
		native_must(p->ncclCommFinalize(m->round->comm[r]), "finalize");
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = m->rank; r < m->rank + m->ranks; r++) {
		atomic_fetch_add(&m->round->sum, value[r]);
		native_must(p->ncclCommDestroy(m->round->comm[r]), "destroy");
	}
}

static void *member_main(void *user)
{
	struct member *m = user;

	native_must(join_all(m), "ncclGroupEnd");
	sum_all(m);
	return NULL;
}

/*
 * Join twice with one rank, in one NCCL group. This must fail whether or not
 * the other threads join first.
 */
static void *odd_main(void *user)
{
	struct round *round = user;
	const struct platform *p = round->p;
	ncclComm_t comm[2];
	ncclResult_t result;
	int i;

	native_must(p->cudaSetDevice(RANKS), "cudaSetDevice");
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (i = 0; i < 2; i++)
		native_must(p->ncclCommInitRank(&comm[i], RANKS, round->id, 1),
		            "ncclCommInitRank");
	result = p->ncclGroupEnd();
	if (result != ncclInvalidUsage)
		stress_fail("the odd thread's join returned %d", (int)result);
	for (i = 0; i < 2; i++)
		native_must(p->ncclCommAbort(comm[i]), "ncclCommAbort");
	atomic_fetch_add(&round->refused, 1);
	return NULL;
}

static void one_round(const struct platform *p)
{
	static const int first[] = { 0, 2, 4, 5 };
	static const int ranks[] = { 2, 2, 1, 1 };
	/* No order exists between the odd thread's init and other launches. */
	const bool has_odd = !place_is_nvidia() && !place_has_sync();
	struct round round = { .p = p };
	struct member members[4];
	pthread_t threads[4], odd;
	int i;

	native_must(p->ncclGetUniqueId(&round.id), "ncclGetUniqueId");
	for (i = 0; i < 4; i++) {
		members[i] = (struct member){ &round, first[i], ranks[i] };
		pthread_create(&threads[i], NULL, member_main, &members[i]);
		if (i == 0 && has_odd)
			pthread_create(&odd, NULL, odd_main, &round);
	}
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	if (has_odd)
		pthread_join(odd, NULL);
	if (round.sum != RANKS * RANKS || round.refused != has_odd)
		stress_fail("the sums add up to %d", (int)round.sum);
}

int main(int argc, char **argv)
{
	const struct platform *p = native_open(RANKS + 1);
	unsigned long rounds;

	for (rounds = 0; stress_continue(argc, argv); rounds++)
		one_round(p);
	printf("%lu rounds\n", rounds);
	return 0;
}
