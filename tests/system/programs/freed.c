/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A collective on a freed buffer. The device of its rank fails, the process
 * survives, and an abort ends the other ranks.
 */

#include "program.h"

static struct rank ranks[MAX_RANKS];

static void *call(void *argument)
{
	struct rank *r = (struct rank *)argument;
	ncclResult_t result;

	CUDA(cudaSetDevice(r->rank));
	result = ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum,
	                       r->comm, r->stream);
	/* Rank 0's device may fail before its call returns. */
	CHECK(result == ncclSuccess ||
	      (r->rank == 0 && result == ncclUnhandledCudaError));
	return NULL;
}

/* Check that every call on rank 0's device reports the failure. */
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
	int i, n = open_ranks(ranks);

	CUDA(cudaSetDevice(0));
	CUDA(cudaFree(ranks[0].send));
	run_ranks(ranks, n, call);
	check_failed_device();
	for (i = 1; i < n; i++)
		CHECK(cudaStreamQuery(ranks[i].stream) == cudaErrorNotReady);
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		ncclCommAbort(ranks[i].comm);
	ncclGroupEnd();
	for (i = 1; i < n; i++)
		CUDA(cudaStreamSynchronize(ranks[i].stream));
	puts("OK");
	return 0;
}
