/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory of NCCL that is registered with a communicator in both ways
 */

#include "program.h"

static struct rank ranks[MAX_RANKS];
static int n;

/* All-reduce from @send to @recv on all ranks. */
static void reduce(float *const *send, float *const *recv)
{
	int i;

	for (i = 0; i < n; i++) {
		fill(&ranks[i], send[i], COUNT, (float)i, 1);
		fill(&ranks[i], recv[i], COUNT, -1, 0);
	}
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		NCCL(ncclAllReduce(send[i], recv[i], COUNT, ncclFloat, ncclSum,
		                   ranks[i].comm, ranks[i].stream));
	NCCL(ncclGroupEnd());
	for (i = 0; i < n; i++)
		expect(&ranks[i], recv[i], COUNT, (float)(n * (n - 1)) / 2,
		       (float)n);
}

static void buffers(float *const *send, float *const *recv, size_t bytes)
{
	void *sends[MAX_RANKS], *recvs[MAX_RANKS];
	int i;

	for (i = 0; i < n; i++) {
		NCCL(ncclCommRegister(ranks[i].comm, send[i], bytes,
		                      &sends[i]));
		NCCL(ncclCommRegister(ranks[i].comm, recv[i], bytes,
		                      &recvs[i]));
	}
	reduce(send, recv);
	for (i = 0; i < n; i++) {
		NCCL(ncclCommDeregister(ranks[i].comm, sends[i]));
		NCCL(ncclCommDeregister(ranks[i].comm, recvs[i]));
	}
}

/* Register windows, which all ranks do together. */
static void windows(float *const *send, float *const *recv, size_t bytes)
{
	ncclWindow_t sends[MAX_RANKS], recvs[MAX_RANKS];
	int i;

	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		NCCL(ncclCommWindowRegister(ranks[i].comm, send[i], bytes,
		                            &sends[i],
		                            NCCL_WIN_COLL_SYMMETRIC));
	NCCL(ncclGroupEnd());
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		NCCL(ncclCommWindowRegister(ranks[i].comm, recv[i], bytes,
		                            &recvs[i],
		                            NCCL_WIN_COLL_SYMMETRIC));
	NCCL(ncclGroupEnd());
	reduce(send, recv);
	for (i = 0; i < n; i++) {
		NCCL(ncclCommWindowDeregister(ranks[i].comm, sends[i]));
		NCCL(ncclCommWindowDeregister(ranks[i].comm, recvs[i]));
	}
}

int main(void)
{
	float *send[MAX_RANKS], *recv[MAX_RANKS];
	size_t bytes = COUNT * sizeof(float);
	int i;

	n = open_ranks(ranks);
	for (i = 0; i < n; i++) {
		CUDA(cudaSetDevice(i));
		NCCL(ncclMemAlloc((void **)&send[i], bytes));
		NCCL(ncclMemAlloc((void **)&recv[i], bytes));
	}
	buffers(send, recv, bytes);
	windows(send, recv, bytes);
	for (i = 0; i < n; i++) {
		NCCL(ncclMemFree(send[i]));
		NCCL(ncclMemFree(recv[i]));
	}
	close_ranks(ranks, n);
	puts("OK");
	return 0;
}
