/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One thread per device. The threads join by one unique id, and measure the
 * time of their work.
 */

#include <string.h>

#include "program.h"

#define ROUNDS 20

static ncclUniqueId id;

static void check_identity(const struct rank *r)
{
	int rank, ranks, device;

	NCCL(ncclCommUserRank(r->comm, &rank));
	NCCL(ncclCommCount(r->comm, &ranks));
	NCCL(ncclCommCuDevice(r->comm, &device));
	CHECK(rank == r->rank && ranks == r->ranks && device == r->rank);
}

static void *worker(void *argument)
{
	struct rank *r = (struct rank *)argument;
	cudaEvent_t begin, end;
	ncclResult_t state;
	float ms = -1;
	int round;

	rank_open(r, r->rank, r->ranks);
	NCCL(ncclCommInitRank(&r->comm, r->ranks, id, r->rank));
	check_identity(r);
	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	fill(r, r->recv, COUNT, 1, 1);
	CUDA(cudaEventRecord(begin, r->stream));
	/* Each result is the maximum of equal values, so it changes nothing. */
	for (round = 0; round < ROUNDS; round++)
		NCCL(ncclAllReduce(r->recv, r->recv, COUNT, ncclFloat, ncclMax,
		                   r->comm, r->stream));
	CUDA(cudaEventRecord(end, r->stream));
	CUDA(cudaEventSynchronize(end));
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	CHECK(ms >= 0);
	expect(r, r->recv, COUNT, 1, 1);
	NCCL(ncclCommGetAsyncError(r->comm, &state));
	CHECK(state == ncclSuccess);
	CUDA(cudaEventDestroy(begin));
	CUDA(cudaEventDestroy(end));
	NCCL(ncclCommFinalize(r->comm));
	NCCL(ncclCommDestroy(r->comm));
	rank_close(r);
	return NULL;
}

int main(void)
{
	NCCL(ncclGetUniqueId(&id));
	run_devices(worker);
	puts("OK");
	return 0;
}
