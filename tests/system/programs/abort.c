/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A rank that never calls. The other ranks hang in their streams until another
 * thread aborts them. Then all ranks join new communicators.
 */

#include <pthread.h>

#include "program.h"

static struct rank ranks[MAX_RANKS];
static pthread_barrier_t launched;

static void *worker(void *argument)
{
	struct rank *r = (struct rank *)argument;

	CUDA(cudaSetDevice(r->rank));
	fill(r, r->send, COUNT, 1, 0);
	if (r->rank)
		NCCL(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum,
		                   r->comm, r->stream));
	pthread_barrier_wait(&launched);
	/* Only the abort ends this wait, whose result is undefined. */
	cudaStreamSynchronize(r->stream);
	return NULL;
}

static void hang_and_abort(int n)
{
	pthread_t threads[MAX_RANKS];
	ncclResult_t state;
	int i;

	CHECK(!pthread_barrier_init(&launched, NULL, (unsigned int)n + 1));
	for (i = 0; i < n; i++)
		CHECK(!pthread_create(&threads[i], NULL, worker, &ranks[i]));
	pthread_barrier_wait(&launched);
	for (i = 1; i < n; i++) {
		CHECK(cudaStreamQuery(ranks[i].stream) == cudaErrorNotReady);
		NCCL(ncclCommGetAsyncError(ranks[i].comm, &state));
		CHECK(state == ncclSuccess);
	}
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		NCCL(ncclCommAbort(ranks[i].comm));
	NCCL(ncclGroupEnd());
	for (i = 0; i < n; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(!pthread_barrier_destroy(&launched));
}

static void init(int n)
{
	ncclComm_t comms[MAX_RANKS];
	int i;

	NCCL(ncclCommInitAll(comms, n, NULL));
	for (i = 0; i < n; i++)
		ranks[i].comm = comms[i];
}

int main(void)
{
	int i, n = count_devices();

	for (i = 0; i < n; i++)
		rank_open(&ranks[i], i, n);
	init(n);
	hang_and_abort(n);

	init(n);
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		NCCL(ncclAllReduce(ranks[i].send, ranks[i].recv, COUNT,
		                   ncclFloat, ncclSum, ranks[i].comm,
		                   ranks[i].stream));
	NCCL(ncclGroupEnd());
	for (i = 0; i < n; i++)
		expect(&ranks[i], ranks[i].recv, COUNT, (float)n, 0);
	close_ranks(ranks, n);
	puts("OK");
	return 0;
}
