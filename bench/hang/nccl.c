/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program that scripts/compare-hang.sh runs on NCCL alone: the last of N
 * ranks, each a thread, does not call the second all-reduce
 *
 *	hang RANKS
 *
 * Prints "waits" when the ranks start to wait.  NCCL has no deadline, so the
 * program prints nothing else, and hangs until it is killed.
 */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cuda_runtime.h>
#include <nccl.h>

#define COUNT 1000
#define MAX_RANKS 64

static ncclUniqueId id;
static int ranks;

static void must(int rc)
{
	if (rc == 0)
		return;
	printf("failed %d\n", rc);
	exit(1);
}

static void all_reduce(ncclComm_t comm, float *data, cudaStream_t stream)
{
	must(ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm,
	                   stream));
	must(cudaStreamSynchronize(stream));
}

static void *work(void *argument)
{
	int rank = (int)(intptr_t)argument;
	cudaStream_t stream;
	ncclComm_t comm;
	float *data;

	must(cudaSetDevice(rank));
	must(ncclCommInitRank(&comm, ranks, id, rank));
	must(cudaStreamCreate(&stream));
	must(cudaMalloc((void **)&data, COUNT * sizeof(*data)));
	all_reduce(comm, data, stream);
	if (rank == ranks - 1)
		pause();
	if (rank == 0) {
		printf("waits\n");
		fflush(stdout);
	}
	all_reduce(comm, data, stream);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_RANKS];
	int r;

	ranks = argc > 1 ? atoi(argv[1]) : 0;
	if (ranks < 2 || ranks > MAX_RANKS)
		return 2;
	must(ncclGetUniqueId(&id));
	for (r = 0; r < ranks; r++)
		must(pthread_create(&threads[r], NULL, work,
		                    (void *)(intptr_t)r));
	for (r = 0; r < ranks; r++)
		must(pthread_join(threads[r], NULL));
	return 0;
}
