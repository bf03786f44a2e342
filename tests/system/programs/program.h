/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRAM_H
#define PROGRAM_H

/*
 * What the programs share: calls that have to succeed, and a rank's stream and
 * buffers
 *
 * Each program could run on GPUs unchanged: it knows nothing but NCCL, the CUDA
 * runtime and how many devices there are.
 */

#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS 64
#define COUNT 1000 /* floats in a buffer, for each rank */

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
	float *send, *recv; /* COUNT for each rank */
};

static inline int count_devices(void)
{
	int devices;

	CUDA(cudaGetDeviceCount(&devices));
	CHECK(devices >= 1 && devices <= MAX_RANKS);
	return devices;
}

/* A stream and buffers on device @rank, which is current afterwards. */
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

/* Fill @buffer with @first, @first + @step, ...: @count elements. */
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

/* End the program unless @buffer holds these values once the stream is done. */
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
