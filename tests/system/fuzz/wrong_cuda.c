/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invalid calls of the CUDA runtime
 */

#include "system/fuzz/wrong.h"

static unsigned char buffer[8];

static int bad_device(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	return (int)host_cudaSetDevice(s->raw[4] % 2 ? -1 - s->raw[5]
	                                             : DEVICES + s->raw[5]);
}

static int to_none(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	switch (s->raw[4] % 9) {
	case 0:
		return (int)host_cudaGetDevice(NULL);
	case 1:
		return (int)host_cudaGetDeviceCount(NULL);
	case 2:
		return (int)host_cudaMalloc(NULL, s->raw[5]);
	case 3:
		return (int)host_cudaMallocHost(NULL, s->raw[5]);
	case 4:
		return (int)host_cudaHostAlloc(NULL, s->raw[5], 0);
	case 5:
		return (int)host_cudaStreamCreate(NULL);
	case 6:
		return (int)host_cudaEventCreate(NULL);
	case 7:
		return (int)host_cudaRuntimeGetVersion(NULL);
	}
	return (int)host_cudaDriverGetVersion(NULL);
}

static int bad_free(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	return (int)(s->raw[4] % 2 ? host_cudaFree(buffer + s->raw[5] % 8)
	                           : host_cudaFreeHost(buffer + s->raw[5] % 8));
}

static int bad_copy(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	switch (s->raw[4] % 5) {
	case 0:
		return (int)host_cudaMemcpy(NULL, buffer, 8, cudaMemcpyDefault);
	case 1:
		return (int)host_cudaMemcpyAsync(buffer, NULL, 8,
		                                 cudaMemcpyDefault, NULL);
	case 2:
		return (int)host_cudaMemset(NULL, 0, 8);
	case 3:
		return (int)host_cudaMemsetAsync(NULL, 0, 8, NULL);
	}
	return (int)host_cudaMemcpyAsync(
		buffer, buffer, 8, (enum cudaMemcpyKind)(5 + s->raw[5]), NULL);
}

static int bad_flags(ncclComm_t comm, const struct step *s)
{
	unsigned int flags = 0x100u << s->raw[5] % 20;
	cudaStream_t stream;
	cudaEvent_t event;
	void *memory;

	(void)comm;
	switch (s->raw[4] % 3) {
	case 0:
		return (int)host_cudaStreamCreateWithFlags(&stream, flags);
	case 1:
		return (int)host_cudaEventCreateWithFlags(&event, flags);
	}
	return (int)host_cudaHostAlloc(&memory, 8, flags);
}

static int no_handle(ncclComm_t comm, const struct step *s)
{
	float ms;

	(void)comm;
	switch (s->raw[4] % 7) {
	case 0:
		return (int)host_cudaStreamDestroy(NULL);
	case 1:
		return (int)host_cudaEventDestroy(NULL);
	case 2:
		return (int)host_cudaEventRecord(NULL, NULL);
	case 3:
		return (int)host_cudaEventQuery(NULL);
	case 4:
		return (int)host_cudaEventSynchronize(NULL);
	case 5:
		return (int)host_cudaStreamWaitEvent(NULL, NULL, 0);
	}
	return (int)host_cudaEventElapsedTime(&ms, NULL, NULL);
}

static int no_function(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	(void)s;
	return (int)host_cudaLaunchHostFunc(NULL, NULL, NULL);
}

/* ---- the table -------------------------------------------------------- */

const struct wrong wrong_cuda[] = {
	{ "cudaSetDevice", false, NEEDS_NOTHING, cudaErrorInvalidDevice,
	  cudaErrorInvalidDevice, bad_device },
	{ "an output that is NULL", false, NEEDS_NOTHING, cudaErrorInvalidValue,
	  cudaErrorInvalidValue, to_none },
	{ "freeing what is not allocated", false, NEEDS_NOTHING,
	  cudaErrorInvalidValue, cudaErrorInvalidValue, bad_free },
	{ "a copy", false, NEEDS_NOTHING, cudaErrorInvalidValue,
	  21 /* cudaErrorInvalidMemcpyDirection */, bad_copy },
	{ "flags", false, NEEDS_NOTHING, cudaErrorInvalidValue,
	  cudaErrorInvalidValue, bad_flags },
	{ "no handle", false, NEEDS_NOTHING, cudaErrorInvalidResourceHandle,
	  cudaErrorInvalidValue, no_handle },
	{ "no function", false, NEEDS_NOTHING, cudaErrorInvalidValue,
	  cudaErrorInvalidValue, no_function },
};

const unsigned wrong_cuda_count = sizeof(wrong_cuda) / sizeof(wrong_cuda[0]);
