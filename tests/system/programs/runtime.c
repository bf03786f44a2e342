/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The CUDA runtime without NCCL: devices, copies, streams, events, host
 * functions, and memory in stream order
 */

#include <string.h>

#include "program.h"

#define ROWS 5
#define COLUMNS 7

static void properties(int n)
{
	struct cudaDeviceProp properties;
	char first[32], bus[32];
	size_t available, total;
	int i, device, value, version;

	CUDA(cudaRuntimeGetVersion(&version));
	CHECK(version >= 12000);
	CUDA(cudaDriverGetVersion(&version));
	CHECK(version >= 12000);
	for (i = 0; i < n; i++) {
		CUDA(cudaSetDevice(i));
		CUDA(cudaGetDevice(&device));
		CHECK(device == i);
		memset(&properties, 0, sizeof(properties));
		CUDA(cudaGetDeviceProperties(&properties, i));
		CHECK(properties.name[0] && properties.totalGlobalMem);
		CUDA(cudaDeviceGetAttribute(
			&value, cudaDevAttrComputeCapabilityMajor, i));
		CHECK(value == properties.major);
		CUDA(cudaMemGetInfo(&available, &total));
		CHECK(available <= total);
		CUDA(cudaDeviceGetPCIBusId(bus, sizeof(bus), i));
		CHECK(i == 0 || strcmp(bus, first) != 0);
		if (i == 0)
			strcpy(first, bus);
		if (i == 0)
			continue;
		CUDA(cudaDeviceCanAccessPeer(&value, i, 0));
		if (value)
			CUDA(cudaDeviceEnablePeerAccess(0, 0));
	}
	CUDA(cudaChooseDevice(&device, &properties));
	CHECK(device >= 0 && device < n);
	CHECK(cudaChooseDevice(NULL, &properties) == cudaErrorInvalidValue);
	CHECK(cudaChooseDevice(&device, NULL) == cudaErrorInvalidValue);
	CHECK(cudaSetDevice(n) == cudaErrorInvalidDevice);
	CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
	CHECK(cudaGetLastError() == cudaSuccess);
}

/* Copy a matrix to a device with longer rows, and back. */
static void copies_2d(void)
{
	float host[ROWS][COLUMNS], back[ROWS][COLUMNS], *device;
	size_t pitch, width = COLUMNS * sizeof(float);
	int i, j;

	for (i = 0; i < ROWS; i++)
		for (j = 0; j < COLUMNS; j++)
			host[i][j] = (float)(10 * i + j);
	CUDA(cudaMallocPitch((void **)&device, &pitch, width, ROWS));
	CHECK(pitch >= width);
	CUDA(cudaMemset2D(device, pitch, 0, width, ROWS));
	CUDA(cudaMemcpy2D(device, pitch, host, width, width, ROWS,
	                  cudaMemcpyHostToDevice));
	memset(back, 0, sizeof(back));
	CUDA(cudaMemcpy2D(back, width, device, pitch, width, ROWS,
	                  cudaMemcpyDeviceToHost));
	CHECK(memcmp(host, back, sizeof(host)) == 0);
	CUDA(cudaFree(device));
}

/* Copy memory from one device to another. */
static void peer_copies(int n)
{
	int *from, *to, value = 42, last = n - 1;

	CUDA(cudaSetDevice(0));
	CUDA(cudaMalloc((void **)&from, sizeof(value)));
	CUDA(cudaMemcpy(from, &value, sizeof(value), cudaMemcpyHostToDevice));
	CUDA(cudaSetDevice(last));
	CUDA(cudaMalloc((void **)&to, sizeof(value)));
	CUDA(cudaMemcpyPeer(to, last, from, 0, sizeof(value)));
	value = 0;
	CUDA(cudaMemcpy(&value, to, sizeof(value), cudaMemcpyDefault));
	CHECK(value == 42);
	CUDA(cudaFree(from));
	CUDA(cudaFree(to));
}

static void pointers(void)
{
	struct cudaPointerAttributes attributes;
	void *device, *pinned, *plain = malloc(100);

	CUDA(cudaSetDevice(0));
	CUDA(cudaMalloc(&device, 100));
	CUDA(cudaMallocHost(&pinned, 100));
	CUDA(cudaHostRegister(plain, 100, cudaHostRegisterDefault));
	CUDA(cudaPointerGetAttributes(&attributes, device));
	CHECK(attributes.type == cudaMemoryTypeDevice && !attributes.device);
	CUDA(cudaPointerGetAttributes(&attributes, pinned));
	CHECK(attributes.type == cudaMemoryTypeHost);
	CUDA(cudaPointerGetAttributes(&attributes, plain));
	CHECK(attributes.type == cudaMemoryTypeHost);
	CUDA(cudaHostUnregister(plain));
	CUDA(cudaFreeHost(pinned));
	CUDA(cudaFree(device));
	free(plain);
}

static void add_one(void *user)
{
	++*(int *)user;
}

static void done(cudaStream_t stream, cudaError_t status, void *user)
{
	(void)stream;
	if (status == cudaSuccess)
		add_one(user);
}

/* Make one stream wait for another's event. */
static void streams_and_events(void)
{
	cudaStream_t first, second;
	cudaEvent_t between, end;
	unsigned int flags;
	int *device, least, greatest, value = 1, count = 0;

	CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	CUDA(cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking,
	                                  greatest));
	CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
	CUDA(cudaStreamGetFlags(first, &flags));
	CHECK(flags == cudaStreamNonBlocking);
	CUDA(cudaEventCreateWithFlags(&between, cudaEventDisableTiming));
	CUDA(cudaEventCreate(&end));
	CUDA(cudaMallocAsync((void **)&device, sizeof(*device), first));
	CUDA(cudaMemsetAsync(device, 0, sizeof(*device), first));
	CUDA(cudaLaunchHostFunc(first, add_one, &count));
	CUDA(cudaEventRecord(between, first));
	CUDA(cudaStreamWaitEvent(second, between, 0));
	CUDA(cudaMemcpyAsync(&value, device, sizeof(value),
	                     cudaMemcpyDeviceToHost, second));
	CUDA(cudaStreamAddCallback(second, done, &count, 0));
	CUDA(cudaFreeAsync(device, second));
	CUDA(cudaEventRecord(end, second));
	CUDA(cudaEventSynchronize(end));
	CHECK(value == 0 && count == 2);
	CHECK(cudaEventQuery(end) == cudaSuccess);
	CHECK(cudaStreamQuery(second) == cudaSuccess);
	CUDA(cudaEventDestroy(between));
	CUDA(cudaEventDestroy(end));
	CUDA(cudaStreamDestroy(first));
	CUDA(cudaStreamDestroy(second));
}

/* Use the default stream, of the kind for which the program was compiled. */
static void default_stream(void)
{
	int *device, value = 7;

	CUDA(cudaMalloc((void **)&device, sizeof(value)));
	CUDA(cudaMemcpyAsync(device, &value, sizeof(value),
	                     cudaMemcpyHostToDevice, 0));
	CUDA(cudaStreamSynchronize(0));
	value = 0;
	CUDA(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost));
	CHECK(value == 7);
	CUDA(cudaMemset(device, 0, sizeof(value)));
	CUDA(cudaMemcpyAsync(&value, device, sizeof(value),
	                     cudaMemcpyDeviceToHost, cudaStreamPerThread));
	CUDA(cudaStreamSynchronize(cudaStreamPerThread));
	CUDA(cudaDeviceSynchronize());
	CHECK(value == 0);
	CUDA(cudaFree(device));
}

int main(void)
{
	int i, n = count_devices();

	properties(n);
	for (i = 0; i < n; i++) {
		CUDA(cudaSetDevice(i));
		copies_2d();
		streams_and_events();
		default_stream();
	}
	peer_copies(n);
	pointers();
	CUDA(cudaDeviceReset());
	puts("OK");
	return 0;
}
