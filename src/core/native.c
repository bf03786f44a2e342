/* SPDX-License-Identifier: Apache-2.0 */

#include "core/native.h"

#include "base/status.h"

void native_note_nccl(struct native_result *r, const char *what,
                      ncclResult_t result)
{
	if (r->what || result == ncclSuccess)
		return;
	r->what = what;
	r->nccl = result;
}

void native_note_cuda(struct native_result *r, const char *what,
                      cudaError_t error)
{
	if (r->what || error == cudaSuccess)
		return;
	r->what = what;
	r->cuda = error;
}

int native_set_cuda_error(const struct platform *p, const char *what,
                          cudaError_t error)
{
	if (error == cudaSuccess)
		return COHORT_OK;
	p->cudaGetLastError();
	return error_set(error == cudaErrorMemoryAllocation ? COHORT_NO_MEMORY
	                                                    : COHORT_CUDA,
	                 "%s: %s (%d)", what, p->cudaGetErrorString(error),
	                 (int)error);
}

int native_set_nccl_error(const struct platform *p, const char *what,
                          ncclComm_t comm, ncclResult_t result)
{
	const char *detail;

	if (result == ncclSuccess)
		return COHORT_OK;
	detail = p->ncclGetLastError(comm);
	return error_set(COHORT_NCCL, "%s: %s (%d): %s", what,
	                 p->ncclGetErrorString(result), (int)result,
	                 detail && *detail ? detail : "no further details");
}

ncclResult_t native_greet(const struct platform *p, ncclComm_t comm, void *word,
                          int peer, cudaStream_t stream)
{
	ncclResult_t result =
		p->ncclSend(word, 0, ncclInt8, peer, comm, stream);

	return result != ncclSuccess
	               ? result
	               : p->ncclRecv(word, 0, ncclInt8, peer, comm, stream);
}

int native_verdict(cudaError_t error)
{
	if (error == cudaSuccess)
		return COHORT_VERDICT_NATIVE_ERROR;
	return cuda_error_is_sticky(error) ? COHORT_VERDICT_DEVICE_LOST
	                                   : COHORT_VERDICT_CUDA_ERROR;
}

ncclResult_t native_simulate_end(const struct platform *p)
{
	ncclSimInfo_t info = { .size = sizeof(info),
		               .magic = NCCL_SIM_INFO_MAGIC };

	return p->ncclGroupSimulateEnd(&info);
}

enum cudaStreamCaptureMode native_relax(const struct platform *p)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

	p->cudaThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

void native_restore(const struct platform *p, enum cudaStreamCaptureMode mode)
{
	p->cudaThreadExchangeStreamCaptureMode(&mode);
}

cudaError_t native_thread_init(const struct platform *p, int device)
{
	/* First, or the other call might make a context on device 0. */
	cudaError_t error = p->cudaSetDevice(device);

	native_relax(p);
	return error;
}

/* True also where the driver cannot be asked. */
static bool has_context(const struct platform *p, int device)
{
	unsigned int flags;
	int active;

	return p->cuDevicePrimaryCtxGetState(device, &flags, &active) || active;
}

int device_enter(struct device_scope *scope, const struct platform *p,
                 int device)
{
	scope->platform = p;
	scope->error = p->cudaGetDevice(&scope->before);
	if (scope->error != cudaSuccess)
		return native_set_cuda_error(p, "cudaGetDevice", scope->error);
	scope->leaves = scope->before != device;
	/* Set the device also if it is current already: only this makes its
	 * context current, which functions of the driver need. */
	if (!scope->leaves && p->has_no_contexts)
		return COHORT_OK;
	scope->error = p->cudaSetDevice(device);
	return native_set_cuda_error(p, "cudaSetDevice", scope->error);
}

void device_leave(const struct device_scope *scope)
{
	if (scope->leaves && has_context(scope->platform, scope->before))
		scope->platform->cudaSetDevice(scope->before);
}
