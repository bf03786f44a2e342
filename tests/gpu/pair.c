/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests two ranks on one GPU
 *
 * NCCL 2.30.3 and newer allow this as an experiment, if it is enabled before
 * the first use of NCCL. The program makes sums on both ranks, and aborts a sum
 * that only one rank has called. It runs only with TEST_PAIR=1. The drop-in
 * libraries allow one rank per device, so they run the ranks on two devices.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "support/ranks.h"

#define COUNT 1000
#define FIRST_VERSION 23003

/* Time in seconds after which the program ends, even if it hangs */
#define MOST_SECONDS 120

static const struct platform *p;
static int devices[2];
static ncclComm_t comms[2];
static cudaStream_t streams[2];
static float *memory[2];

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "%s: %d\n", what, failed);
	exit(1);
}

static void open_pair(void)
{
	void *made;
	int r;

	must((int)p->ncclCommInitAll(comms, 2, devices), "ncclCommInitAll");
	for (r = 0; r < 2; r++) {
		must((int)p->cudaSetDevice(devices[r]), "cudaSetDevice");
		must((int)p->cudaStreamCreateWithFlags(&streams[r],
		                                       cudaStreamNonBlocking),
		     "cudaStreamCreateWithPriority");
		must((int)p->cudaMalloc(&made, COUNT * sizeof(float)),
		     "cudaMalloc");
		memory[r] = made;
	}
}

static void call(int rank)
{
	must((int)p->ncclAllReduce(memory[rank], memory[rank], COUNT,
	                           ncclFloat32, ncclSum, comms[rank],
	                           streams[rank]),
	     "ncclAllReduce");
}

static void await(cudaStream_t stream)
{
	uint64_t until = clock_deadline(RANKS_SOON);
	struct backoff b = BACKOFF;
	cudaError_t error;

	while ((error = p->cudaStreamQuery(stream)) == cudaErrorNotReady) {
		must(clock_now() >= until, "the stream does not finish");
		backoff_wait(&b, until);
	}
	must((int)error, "cudaStreamQuery");
}

static void sum(void)
{
	float values[COUNT];
	int r, i;

	for (r = 0; r < 2; r++) {
		for (i = 0; i < COUNT; i++)
			values[i] = (float)(i + r);
		must((int)p->cudaMemcpy(memory[r], values, sizeof(values),
		                        cudaMemcpyDefault),
		     "cudaMemcpy");
	}
	must((int)p->ncclGroupStart(), "ncclGroupStart");
	call(0);
	call(1);
	must((int)p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = 0; r < 2; r++) {
		await(streams[r]);
		must((int)p->cudaMemcpy(values, memory[r], sizeof(values),
		                        cudaMemcpyDefault),
		     "cudaMemcpy");
		for (i = 0; i < COUNT; i++)
			must(values[i] != (float)(2 * i + 1), "the sum");
	}
}

static void abort_pair(void)
{
	call(0); /* the other rank does not call */
	must((int)p->ncclGroupStart(), "ncclGroupStart");
	must((int)p->ncclCommAbort(comms[0]), "ncclCommAbort");
	must((int)p->ncclCommAbort(comms[1]), "ncclCommAbort");
	await(streams[0]);
	must((int)p->ncclGroupEnd(), "ncclGroupEnd");
}

/* Choose the device of each rank. */
static void choose_devices(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	int version = 0;

	must(cohort_platform_probe(place_platform(), &info), "probe");
	if (info.platform == COHORT_PLATFORM_HOST || info.is_drop_in) {
		place_need(2);
		devices[1] = 1;
		return;
	}
	p->ncclGetVersion(&version);
	if (version < FIRST_VERSION)
		place_skip("two ranks on one GPU need NCCL 2.30.3 or newer");
}

int main(void)
{
	const char *wanted = getenv("TEST_PAIR");

	if (!wanted || strcmp(wanted, "1") != 0)
		place_skip("two ranks on one GPU: TEST_PAIR=1 asks for it");
	setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
	setenv("NCCL_MAX_CTAS", "4", 1);
	setenv("NCCL_NVLS_ENABLE", "0", 1);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	p = place_table();
	choose_devices();
	alarm(MOST_SECONDS);
	open_pair();
	sum();
	abort_pair();
	return 0;
}
