/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A thread that waits in ncclCommSplit() for a rank that does not call, until
 * another thread aborts the communicator
 */

#include <pthread.h>
#include <time.h>

#include "program.h"

#define RANKS 2

static ncclComm_t comms[RANKS];

static void *split(void *argument)
{
	ncclComm_t child;

	CUDA(cudaSetDevice(0));
	CHECK(ncclCommSplit(comms[0], 0, 0, &child, NULL) != ncclSuccess);
	return argument;
}

int main(void)
{
	const struct timespec in_split = { .tv_nsec = 300000000 };
	pthread_t thread;

	NCCL(ncclCommInitAll(comms, RANKS, NULL));
	CHECK(!pthread_create(&thread, NULL, split, NULL));
	nanosleep(&in_split, NULL);
	NCCL(ncclCommAbort(comms[0]));
	CHECK(!pthread_join(thread, NULL));
	NCCL(ncclCommAbort(comms[1]));
	return 0;
}
