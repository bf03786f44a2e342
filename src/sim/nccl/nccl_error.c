/* SPDX-License-Identifier: Apache-2.0 */

/* NCCL's error texts and version */

#include "sim/nccl/nccl_comm.h"

#include "base/atomics.h"
#include "base/util.h"
#include "sim/host.h"

#define NCCL_VERSION 22809

/* Atomic; always a string literal.  Shared by all threads, as in NCCL. */
static const char *_Atomic last_error = "";

ncclResult_t comm_error(ncclResult_t result, const char *text)
{
	store_release(&last_error, text);
	return result;
}

const char *comm_last_error(void)
{
	return load_acquire(&last_error);
}

const char *host_ncclGetErrorString(ncclResult_t result)
{
	/* NCCL's exact texts, because programs compare them. */
	static const char *const texts[] = {
		[ncclSuccess] = "no error",
		[ncclUnhandledCudaError] =
			"unhandled cuda error (run with NCCL_DEBUG=INFO for "
			"details)",
		[ncclSystemError] = "unhandled system error (run with "
				    "NCCL_DEBUG=INFO for details)",
		[ncclInternalError] =
			"internal error - please report this issue to the NCCL "
			"developers",
		[ncclInvalidArgument] =
			"invalid argument (run with NCCL_DEBUG=WARN for "
			"details)",
		[ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN "
				     "for details)",
		[ncclRemoteError] =
			"remote process exited or there was a network error",
		[ncclInProgress] = "NCCL operation in progress",
	};
	size_t i = (size_t)result;

	return i < ARRAY_SIZE(texts) ? texts[i] : "unknown result code";
}

ncclResult_t host_ncclGetVersion(int *version)
{
	/* As in NCCL, ncclGetLastError() has no text for this error. */
	if (!version)
		return ncclInvalidArgument;
	*version = NCCL_VERSION;
	return ncclSuccess;
}
