// SPDX-License-Identifier: Apache-2.0

//
// Use the reducer from C++: errors are exceptions, and destructors close handles
//
// The program starts its own threads.  Each binds one communicator of the split group.
// If an exception ends a thread, its rank fails, so that other ranks do not wait for it.
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
	// Declared after the gradients, so that it is destroyed before them.
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
	// Declared last, so that its destructor waits for the threads before the group closes.
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
