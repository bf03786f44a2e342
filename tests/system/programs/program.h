/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRAM_H
#define PROGRAM_H

/*
 * Helpers of the programs: calls that must succeed, and a rank's stream and
 * buffers
 *
 * Each program could run on GPUs unchanged: it uses only NCCL, the CUDA runtime
 * and the number of devices.
 */

#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS 64
#define COUNT 1000 /* floats in a buffer, per rank */

#define CUDA(call)                                                             \
	do {                                                                   \
		cudaError_t error_ = (call);                                   \
                                                                               \
		if (error_ != cudaSuccess)                                     \
			failed(__FILE__, __LINE__, #call,                      \
			       cudaGetErrorString(error_));                    \
	} while (0)

#define NCCL(call)                                                             \
	do {                                                                   \
		ncclResult_t result_ = (call);                                 \
                                                                               \
		if (result_ != ncclSuccess)                                    \
			failed(__FILE__, __LINE__, #call,                      \
			       ncclGetErrorString(result_));                   \
	} while (0)

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition))                                              \
			failed(__FILE__, __LINE__, #condition, "is false");    \
	} while (0)

static inline void failed(const char *file, int line, const char *what,
                          const char *why)
{
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
	exit(1);
}

struct rank {
	int rank, ranks;
	ncclComm_t comm;
	cudaStream_t stream;
	float *send, *recv; /* COUNT floats per rank */
};

static inline int count_devices(void)
{
	int devices;

	CUDA(cudaGetDeviceCount(&devices));
	CHECK(devices >= 1 && devices <= MAX_RANKS);
	return devices;
}

/* Create a stream and buffers on device @rank, and make this device current. */
static inline void rank_open(struct rank *r, int rank, int ranks)
{
	size_t bytes = (size_t)ranks * COUNT * sizeof(float);

	r->rank = rank;
	r->ranks = ranks;
	CUDA(cudaSetDevice(rank));
	CUDA(cudaStreamCreate(&r->stream));
	CUDA(cudaMalloc((void **)&r->send, bytes));
	CUDA(cudaMalloc((void **)&r->recv, bytes));
}

static inline void rank_close(struct rank *r)
{
	CUDA(cudaSetDevice(r->rank));
	CUDA(cudaFree(r->send));
	CUDA(cudaFree(r->recv));
	CUDA(cudaStreamDestroy(r->stream));
}

/* Open a rank on each device, and connect all ranks.  Return their number. */
static inline int open_ranks(struct rank *ranks)
{
	ncclComm_t comms[MAX_RANKS];
	int i, n = count_devices();

	NCCL(ncclCommInitAll(comms, n, NULL));
	for (i = 0; i < n; i++) {
		rank_open(&ranks[i], i, n);
		ranks[i].comm = comms[i];
	}
	return n;
}

static inline void close_ranks(struct rank *ranks, int n)
{
	int i;

	/* Since NCCL 2.31, the destruction of a rank waits for the other ranks
	 * of the machine. */
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		NCCL(ncclCommFinalize(ranks[i].comm));
	NCCL(ncclGroupEnd());
	for (i = 0; i < n; i++)
		NCCL(ncclCommDestroy(ranks[i].comm));
	for (i = 0; i < n; i++)
		rank_close(&ranks[i]);
}

/* Run @worker for each of the @n ranks, on threads of their own. */
static inline void run_ranks(struct rank *ranks, int n, void *(*worker)(void *))
{
	pthread_t threads[MAX_RANKS];
	int i;

	for (i = 0; i < n; i++)
		CHECK(!pthread_create(&threads[i], NULL, worker, &ranks[i]));
	for (i = 0; i < n; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

/* Run @worker as run_ranks() does, for a rank on each device, which the
 * worker opens. */
static inline void run_devices(void *(*worker)(void *))
{
	static struct rank ranks[MAX_RANKS];
	int i, n = count_devices();

	for (i = 0; i < n; i++) {
		ranks[i].rank = i;
		ranks[i].ranks = n;
	}
	run_ranks(ranks, n, worker);
}

/* Fill @buffer with @count elements: @first, @first + @step, ... */
static inline void fill(struct rank *r, float *buffer, size_t count,
                        float first, float step)
{
	float *host = (float *)malloc(count * sizeof(float));
	size_t i;

	CHECK(host);
	for (i = 0; i < count; i++)
		host[i] = first + step * (float)i;
	CUDA(cudaSetDevice(r->rank));
	CUDA(cudaMemcpyAsync(buffer, host, count * sizeof(float),
	                     cudaMemcpyHostToDevice, r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	free(host);
}

/*
 * Exit with an error unless @buffer has these values after the stream's work.
 */
static inline void expect(struct rank *r, const float *buffer, size_t count,
                          float first, float step)
{
	float *host = (float *)malloc(count * sizeof(float));
	size_t i;

	CHECK(host);
	CUDA(cudaSetDevice(r->rank));
	CUDA(cudaStreamSynchronize(r->stream));
	CUDA(cudaMemcpy(host, buffer, count * sizeof(float),
	                cudaMemcpyDeviceToHost));
	for (i = 0; i < count; i++) {
		if (host[i] == first + step * (float)i)
			continue;
		fprintf(stderr, "rank %d: element %zu is %g, not %g\n", r->rank,
		        i, host[i], first + step * (float)i);
		exit(1);
	}
	free(host);
}

#endif
