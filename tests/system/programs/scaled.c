/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sums whose parts are multiplied first: by a number on the host, and by one
 * that is read on the device
 */

#include "program.h"

static struct rank ranks[MAX_RANKS];
static int n;

/* Rank i sends ones and multiplies them by 2 to the power of i. */
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
	/* The handles may go before the sums complete. */
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
	ncclComm_t comms[MAX_RANKS];
	int i;

	n = count_devices();
	NCCL(ncclCommInitAll(comms, n, NULL));
	for (i = 0; i < n; i++) {
		rank_open(&ranks[i], i, n);
		ranks[i].comm = comms[i];
	}
	by_host();
	by_device();
	for (i = 0; i < n; i++)
		NCCL(ncclCommDestroy(comms[i]));
	for (i = 0; i < n; i++)
		rank_close(&ranks[i]);
	puts("OK");
	return 0;
}
