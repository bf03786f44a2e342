/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sums that first multiply each rank's input by a factor in host or device
 * memory
 */

#include "program.h"

static struct rank ranks[MAX_RANKS];
static int n;

/* Return rank i's factor, which is 2 to the power of i. Every input is 1. */
static float scale_of(int rank)
{
	return (float)(1 << rank % 8);
}

static float sum_of_scales(void)
{
	float sum = 0;
	int i;

	for (i = 0; i < n; i++)
		sum += scale_of(i);
	return sum;
}

static void reduce(const ncclRedOp_t *ops)
{
	int i;

	for (i = 0; i < n; i++) {
		fill(&ranks[i], ranks[i].send, COUNT, 1, 0);
		fill(&ranks[i], ranks[i].recv, COUNT, -1, 0);
	}
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		NCCL(ncclAllReduce(ranks[i].send, ranks[i].recv, COUNT,
		                   ncclFloat, ops[i], ranks[i].comm,
		                   ranks[i].stream));
	NCCL(ncclGroupEnd());
	/* The operations can be destroyed before the sums complete. */
	for (i = 0; i < n; i++)
		NCCL(ncclRedOpDestroy(ops[i], ranks[i].comm));
	for (i = 0; i < n; i++)
		expect(&ranks[i], ranks[i].recv, COUNT, sum_of_scales(), 0);
}

static void by_host(void)
{
	ncclRedOp_t ops[MAX_RANKS];
	int i;

	for (i = 0; i < n; i++) {
		float scale = scale_of(i);

		NCCL(ncclRedOpCreatePreMulSum(&ops[i], &scale, ncclFloat,
		                              ncclScalarHostImmediate,
		                              ranks[i].comm));
	}
	reduce(ops);
}

static void by_device(void)
{
	ncclRedOp_t ops[MAX_RANKS];
	float *scales[MAX_RANKS];
	int i;

	for (i = 0; i < n; i++) {
		CUDA(cudaSetDevice(i));
		CUDA(cudaMalloc((void **)&scales[i], sizeof(float)));
		fill(&ranks[i], scales[i], 1, scale_of(i), 0);
		NCCL(ncclRedOpCreatePreMulSum(&ops[i], scales[i], ncclFloat,
		                              ncclScalarDevice, ranks[i].comm));
	}
	reduce(ops);
	for (i = 0; i < n; i++)
		CUDA(cudaFree(scales[i]));
}

int main(void)
{
	n = open_ranks(ranks);
	by_host();
	by_device();
	close_ranks(ranks, n);
	puts("OK");
	return 0;
}
