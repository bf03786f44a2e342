/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The host platform: NCCL and the CUDA runtime on CPU threads and host memory
 *
 * This is not a mock: streams run asynchronously, a collective waits for its
 * peers and computes with their data, and an abort ends the waits of the other
 * ranks.  Tests on this platform run the library's real code.
 */

#include "sim/host.h"

#include "sim/cuda/arena.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/handle_mark.h"
#include "sim/cuda/sync.h"
#include "sim/nccl/enqueue.h"
#include "sim/nccl/lazy.h"
#include "sim/strict/fault.h"
#include "sim/strict/strict.h"

/* Constant after the first host_platform_open() has returned. */
static struct platform host_platform = {
	.kind = COHORT_PLATFORM_HOST,
	.name = "host",
	.memory_is_host = true,
	.launches_ahead = true,
	.is_one_process = true,
	.devices_variable = "COHORT_HOST_DEVICES",
	/* A group is a single rendezvous, and its bytes are divided evenly
	 * among the ranks, whatever the sizes of the tensors.  With 1, 2 and 4
	 * ranks, and with each file in bench/shapes, a group was never slower
	 * than packed tensors or one call for each tensor (cohort bench average
	 * --shapes FILE --ranks N). */
	.lists = { .group_most = SIZE_MAX,
	           .flat_from = SIZE_MAX,
	           .flat_most = (size_t)25 << 20 },
#define HOST_ENTRY(since, result, name, parameters, arguments)                 \
	.name = host_##name,
	NCCL_FUNCTIONS(HOST_ENTRY) CUDA_FUNCTIONS(HOST_ENTRY)
#undef HOST_ENTRY
		.cuDevicePrimaryCtxGetState = device_context_state,
	.mark = stream_mark,
	.await_mark = stream_await_mark,
	.progress = stream_progress,
	.flush = stream_flush,
	.connects_late = lazy_is_on,
	.uncounted = enqueue_uncounted,
};

int host_platform_open(const struct platform **out, int *devices_out)
{
	int rc = device_init();

	if (rc == COHORT_OK)
		rc = fault_init();
	if (rc == COHORT_OK)
		rc = sync_init();
	if (rc == COHORT_OK)
		rc = lazy_init();
	if (rc == COHORT_OK)
		rc = arena_init();
	if (rc != COHORT_OK)
		return rc;
	if (arena_is_shared() && host_platform.is_one_process)
		host_platform.is_one_process = false;
	strict_init();
	lifetime_init();
	*out = &host_platform;
	*devices_out = device_count();
	return COHORT_OK;
}
