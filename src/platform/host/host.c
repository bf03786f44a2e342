/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The host platform: NCCL and the CUDA runtime on CPU threads and host memory
 *
 * Not a mock: streams run asynchronously, a collective waits for its peers and
 * computes with their data, and an abort really releases those that wait.  So
 * the code that must be right on GPUs is the code that runs in every test.
 */

#include "platform/host/host.h"

#include "platform/host/device.h"
#include "platform/host/fault.h"
#include "platform/host/kept.h"
#include "platform/host/stream.h"
#include "platform/host/strict.h"
#include "platform/host/sync.h"

static const struct platform host_platform = {
	.kind = COHORT_PLATFORM_HOST,
	.name = "host",
	.has_no_contexts = true,
	.starts_are_marked = true,
	.memory_is_host = true,
	.launches_ahead = true,
#define HOST_ENTRY(since, result, name, parameters, arguments)                 \
	.name = host_##name,
	NCCL_FUNCTIONS(HOST_ENTRY) CUDA_FUNCTIONS(HOST_ENTRY)
#undef HOST_ENTRY
		.cuDevicePrimaryCtxGetState = device_context_state,
	.mark = stream_mark,
	.ends_ahead = stream_ends_ahead,
	.ends_behind = stream_ends_behind,
	.await_mark = stream_await_mark,
	.progress = stream_progress,
	.flush = stream_flush,
	.keep = kept_make,
	.again = kept_again,
	.forget = kept_drop,
};

int host_platform_open(const struct platform **out, int *devices_out)
{
	int rc = device_init();

	if (rc == COHORT_OK)
		rc = fault_init();
	if (rc == COHORT_OK)
		rc = sync_init();
	if (rc != COHORT_OK)
		return rc;
	strict_init();
	*out = &host_platform;
	*devices_out = device_count();
	return COHORT_OK;
}
