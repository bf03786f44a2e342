/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A C++ program with one std::thread per device, and exceptions for errors
 */

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

void check(cudaError_t error)
{
	if (error != cudaSuccess)
		throw std::runtime_error(cudaGetErrorString(error));
}

void check(ncclResult_t result)
{
	if (result != ncclSuccess)
		throw std::runtime_error(ncclGetErrorString(result));
}

struct Worker {
	int rank, ranks;
	ncclUniqueId id;
	std::string error;

	void operator()()
	try {
		std::vector<double> values(1000, rank + 1.0);
		const size_t bytes = values.size() * sizeof(values[0]);
		ncclComm_t comm;
		cudaStream_t stream;
		void *device;

		check(cudaSetDevice(rank));
		check(cudaStreamCreate(&stream));
		check(cudaMalloc(&device, bytes));
		check(ncclCommInitRank(&comm, ranks, id, rank));
		check(cudaMemcpyAsync(device, values.data(), bytes,
		                      cudaMemcpyHostToDevice, stream));
		check(ncclAllReduce(device, device, values.size(), ncclDouble,
		                    ncclSum, comm, stream));
		check(cudaMemcpyAsync(values.data(), device, bytes,
		                      cudaMemcpyDeviceToHost, stream));
		check(cudaStreamSynchronize(stream));
		for (double value : values)
			if (value != ranks * (ranks + 1) / 2)
				throw std::runtime_error("a wrong sum");
		check(ncclCommDestroy(comm));
		check(cudaFree(device));
		check(cudaStreamDestroy(stream));
	} catch (const std::exception &e) {
		error = e.what();
	}
};

} // namespace

int main()
{
	std::vector<std::thread> threads;
	std::vector<Worker> workers;
	ncclUniqueId id;
	int ranks, failed = 0;

	check(cudaGetDeviceCount(&ranks));
	check(ncclGetUniqueId(&id));
	for (int rank = 0; rank < ranks; rank++)
		workers.push_back(Worker{ rank, ranks, id, "" });
	for (Worker &worker : workers)
		threads.emplace_back(std::ref(worker));
	for (std::thread &thread : threads)
		thread.join();
	for (const Worker &worker : workers) {
		if (worker.error.empty())
			continue;
		std::fprintf(stderr, "rank %d: %s\n", worker.rank,
		             worker.error.c_str());
		failed = 1;
	}
	if (!failed)
		std::puts("OK");
	return failed;
}
