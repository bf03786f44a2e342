/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A C++ program that uses default arguments of CUDA's header, and pointers of
 * any type
 */

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>

static void check(cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
	std::exit(1);
}

int main()
{
	float *device, *pooled, *managed, *pinned, *plain, *mapped;
	const size_t bytes = 1000 * sizeof(*device);
	cudaStream_t stream;
	cudaEvent_t event;
	int version;

	check(cudaStreamCreate(&stream));
	check(cudaEventCreate(&event));
	check(cudaMalloc(&device, bytes));
	check(cudaMallocAsync(&pooled, bytes, stream));
	check(cudaMallocManaged(&managed, bytes));
	check(cudaMallocHost(&pinned, bytes));
	check(cudaHostAlloc(&plain, bytes, cudaHostAllocMapped));
	check(cudaHostGetDevicePointer(&mapped, plain, 0));

	for (int i = 0; i < 1000; i++)
		pinned[i] = static_cast<float>(i);
	check(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice));
	check(cudaEventRecord(event));
	check(cudaStreamWaitEvent(stream, event));
	check(cudaMemcpyAsync(plain, device, bytes, cudaMemcpyDeviceToHost,
	                      stream));
	check(cudaMemsetAsync(pinned, 0, bytes));
	check(cudaDeviceSynchronize());
	for (int i = 0; i < 1000; i++)
		if (plain[i] != static_cast<float>(i) || pinned[i] != 0) {
			std::fprintf(stderr, "wrong at %d\n", i);
			return 1;
		}

	check(cudaFree(device));
	check(cudaFree(managed));
	check(cudaFreeAsync(pooled, stream));
	check(cudaFreeHost(pinned));
	check(cudaFreeHost(plain));
	check(cudaEventDestroy(event));
	check(cudaStreamDestroy(stream));
	if (pncclGetVersion(&version) != ncclSuccess ||
	    version < NCCL_VERSION(2, 28, 0) ||
	    NCCL_VERSION_CODE < NCCL_VERSION(NCCL_MAJOR, 28, 0))
		return 1;
	std::puts("OK");
	return 0;
}
