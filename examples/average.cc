// SPDX-License-Identifier: Apache-2.0

//
// The reducer from C++: errors are exceptions, and handles close themselves
//
// The threads are the program's own: the group is split, and each std::thread binds one
// communicator to itself, so that a verdict would name it at once if it exited.
//
//	c++ average.cc -lcohort && ./a.out
//

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <cohort/reducer.h>

namespace
{

void check(int rc)
{
	if (rc < 0)
		throw std::runtime_error(cohort_last_error());
}

struct close_group {
	void operator()(cohort_group *group) const
	{
		cohort_group_close(group);
	}
};
struct free_reducer {
	void operator()(cohort_reducer *reducer) const
	{
		cohort_reducer_free(reducer);
	}
};

using group_ptr = std::unique_ptr<cohort_group, close_group>;
using reducer_ptr = std::unique_ptr<cohort_reducer, free_reducer>;

constexpr int ranks = 3;

void average(cohort_comm *comm, float *result)
{
	std::vector<float> gradient(1000);
	const cohort_parameter list[] = {
		{ "weight", gradient.data(), gradient.size(), COHORT_F32 },
	};
	cohort_reducer *made = nullptr;

	check(cohort_comm_bind(comm));
	check(cohort_reducer_create(comm, list, 1, nullptr, &made));
	// Destroyed before the memory of the gradients.
	const reducer_ptr reducer(made);

	check(cohort_reducer_begin(made, cohort_comm_stream(comm)));
	for (auto &g : gradient)
		g = static_cast<float>(10 * cohort_comm_rank(comm));
	check(cohort_reducer_ready(made, 0));
	check(cohort_reducer_finish(made, COHORT_FOREVER));
	*result = gradient.back();
	check(cohort_comm_unbind(comm));
}

void run(cohort_comm *comm, float *result)
{
	try {
		average(comm, result);
	} catch (const std::exception &e) {
		std::fprintf(stderr, "%s\n", e.what());
	}
}

} // namespace

int main()
{
	cohort_group_options options;
	cohort_group *opened = nullptr;
	cohort_comm *comms[ranks];
	std::vector<std::thread> threads;
	float results[ranks] = {};

	cohort_group_options_init(&options);
	options.platform = COHORT_PLATFORM_HOST;
	if (cohort_group_open(nullptr, ranks, &options, &opened) < 0 ||
	    cohort_group_split(opened, comms) < 0) {
		std::fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	const group_ptr group(opened);

	for (int r = 0; r < ranks; r++)
		threads.emplace_back(run, comms[r], &results[r]);
	for (auto &thread : threads)
		thread.join();
	for (int r = 0; r < ranks; r++)
		std::printf("rank %d: %.1f\n", r,
		            static_cast<double>(results[r]));
	return 0;
}
