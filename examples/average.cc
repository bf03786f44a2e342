// SPDX-License-Identifier: Apache-2.0

//
// The reducer from C++: errors are exceptions, and handles close themselves
//
// The threads are the program's own: the group is split, and each thread binds one
// communicator to itself.  An exception that leaves it fails its rank, so that the others
// do not wait for it.
//
//	c++ -std=c++17 average.cc -lcohort && ./a.out
//

#include <cstdio>
#include <functional>
#include <future>
#include <stdexcept>
#include <vector>

#include <cohort/cohort.hpp>

namespace
{

constexpr int ranks = 3;

float average(cohort::communicator &comm)
{
	const cohort::bound here(comm);
	std::vector<float> gradient(1000);
	// Destroyed before the memory of the gradients.
	cohort::reducer reducer(comm,
	                        { cohort::parameter("weight", gradient) });

	reducer.begin();
	for (auto &g : gradient)
		g = static_cast<float>(10 * comm.rank());
	reducer.ready(0);
	if (reducer.finish() != COHORT_OK)
		throw std::runtime_error("the step was skipped");
	return gradient.back();
}

} // namespace

int main()
try {
	cohort::group_options options;

	options.platform = COHORT_PLATFORM_HOST;
	cohort::group group(ranks, options);
	auto comms = group.split();
	// Destroyed first, which waits for the threads.
	std::vector<std::future<float>> results;

	for (auto &comm : comms)
		results.push_back(std::async(std::launch::async, average,
		                             std::ref(comm)));
	for (int r = 0; r < ranks; r++)
		std::printf("rank %d: %.1f\n", r,
		            static_cast<double>(results[r].get()));
	group.close();
	return 0;
} catch (const std::exception &e) {
	std::fprintf(stderr, "%s\n", e.what());
	return 1;
}
