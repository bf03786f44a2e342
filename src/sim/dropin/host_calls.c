/* SPDX-License-Identifier: Apache-2.0 */

/* Implements the functions that libcohort-host.so exports */

#include <pthread.h>
#include <stdio.h>

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/handle_mark.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/sync.h"
#include "sim/dropin/host_calls.h"
#include "sim/exec/stream_queue.h"
#include "sim/nccl/enqueue.h"
#include "sim/nccl/lazy.h"
#include "sim/strict/fault.h"

/* The table of functions.  Constant after set_up(), except that a forked child
 * sets @refused, because it lacks the streams' threads. */
static struct host_calls calls = {
#define HOST_CALL(since, result, name, parameters, arguments)                  \
	.name = host_##name,
	NCCL_FUNCTIONS(HOST_CALL) CUDA_FUNCTIONS(HOST_CALL)
		HOST_CUDA_FUNCTIONS(HOST_CALL)
#undef HOST_CALL
#define HOST_CALL(since, result, name, parameters, arguments)                  \
	.name##_12 = host12_##name,
			HOST_CUDA12_FUNCTIONS(HOST_CALL)
#undef HOST_CALL
#define DRIVER_FORM(symbol, parameters, arguments) .symbol = driver_##symbol,
				DRIVER_FUNCTIONS(DRIVER_FORMS)
#undef DRIVER_FORM
					.launch = driver_launch,
	.fail = device_error,
};

static int open_host(void)
{
	const struct platform *table;
	int devices;

	return host_platform_open(&table, &devices);
}

static void refuse(void)
{
	calls.refused = true;
}

static void set_up(void)
{
	pthread_atfork(NULL, NULL, refuse);
	if (open_host() == COHORT_OK)
		return;
	refuse();
	fprintf(stderr, "cohort: cannot open the host platform: %s\n",
	        cohort_last_error());
}

const struct host_calls *cohort_host_calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, set_up);
	return &calls;
}

const struct host_knobs *cohort_host_knobs(void)
{
	static const struct host_knobs knobs = {
		.progress = stream_progress,
		.flush = stream_flush,
		.connects_late = lazy_is_on,
		.uncounted = enqueue_uncounted,
		.open = open_host,
		.set_devices = device_request_count,
		.fault_add = fault_add,
		.faults_clear = fault_clear_all,
		.last_error = cohort_last_error,
	};

	return &knobs;
}

bool cohort_host_may_use(const void *p, size_t bytes, bool write)
{
	return memory_may_use(p, bytes, write);
}

void cohort_host_set_launcher(host_launcher launcher)
{
	driver_set_launcher(launcher);
}
