/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A buffer that was freed: the device of its rank fails, the process goes on, and an
 * abort ends the other ranks
 */

#include <pthread.h>

#include "program.h"

static struct rank ranks[MAX_RANKS];

static void *call(void *argument)
{
	struct rank *r = (struct rank *)argument;
	ncclResult_t result;

	CUDA(cudaSetDevice(r->rank));
	result = ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum,
	                       r->comm, r->stream);
	/* Rank 0's device may fail before its call is over. */
	CHECK(result == ncclSuccess ||
	      (r->rank == 0 && result == ncclUnhandledCudaError));
	return NULL;
}

/* Every call on the device of rank 0 says what happened. */
static void check_failed_device(void)
{
	void *memory;

	CUDA(cudaSetDevice(0));
	CHECK(cudaStreamSynchronize(ranks[0].stream) ==
	      cudaErrorIllegalAddress);
	CHECK(cudaStreamQuery(ranks[0].stream) == cudaErrorIllegalAddress);
	CHECK(cudaMalloc(&memory, 1) == cudaErrorIllegalAddress);
	CHECK(cudaMemset(ranks[0].recv, 0, 1) == cudaErrorIllegalAddress);
}

int main(void)
{
	int i, n = count_devices();
	ncclComm_t comms[MAX_RANKS];
	pthread_t threads[MAX_RANKS];

	for (i = 0; i < n; i++)
		rank_open(&ranks[i], i, n);
	NCCL(ncclCommInitAll(comms, n, NULL));
	CUDA(cudaSetDevice(0));
	CUDA(cudaFree(ranks[0].send));
	for (i = 0; i < n; i++) {
		ranks[i].comm = comms[i];
		CHECK(!pthread_create(&threads[i], NULL, call, &ranks[i]));
	}
	for (i = 0; i < n; i++)
		CHECK(!pthread_join(threads[i], NULL));
	check_failed_device();
	for (i = 1; i < n; i++)
		CHECK(cudaStreamQuery(ranks[i].stream) == cudaErrorNotReady);
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		ncclCommAbort(comms[i]);
	ncclGroupEnd();
	for (i = 1; i < n; i++)
		CUDA(cudaStreamSynchronize(ranks[i].stream));
	puts("OK");
	return 0;
}
