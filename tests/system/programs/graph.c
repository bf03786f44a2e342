/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An all-reduce that is captured into a graph and launched repeatedly, on one
 * thread per device
 */

#include "program.h"

#define LAUNCHES 5

static ncclUniqueId id;

static cudaGraphExec_t capture(struct rank *r)
{
	enum cudaStreamCaptureStatus status;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CUDA(cudaStreamBeginCapture(r->stream,
	                            cudaStreamCaptureModeThreadLocal));
	NCCL(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum, r->comm,
	                   r->stream));
	CUDA(cudaMemcpyAsync(r->send, r->recv, COUNT * sizeof(float),
	                     cudaMemcpyDeviceToDevice, r->stream));
	CUDA(cudaStreamIsCapturing(r->stream, &status));
	CHECK(status == cudaStreamCaptureStatusActive);
	CUDA(cudaStreamEndCapture(r->stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

static void *worker(void *argument)
{
	struct rank *r = (struct rank *)argument;
	cudaGraphExec_t exec;
	float wanted = 1;
	int i;

	rank_open(r, r->rank, r->ranks);
	NCCL(ncclCommInitRank(&r->comm, r->ranks, id, r->rank));
	/* The first call connects the ranks, which cannot be captured. */
	NCCL(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum, r->comm,
	                   r->stream));
	fill(r, r->send, COUNT, 1, 0);
	exec = capture(r);
	expect(r, r->send, COUNT, 1, 0); /* the capture has run nothing */
	for (i = 0; i < LAUNCHES; i++) {
		CUDA(cudaGraphLaunch(exec, r->stream));
		wanted *= (float)r->ranks;
	}
	expect(r, r->send, COUNT, wanted, 0);
	CUDA(cudaGraphExecDestroy(exec));
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
