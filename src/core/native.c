/* SPDX-License-Identifier: Apache-2.0 */

#include "core/native.h"

#include "base/status.h"
#include "base/util.h"

void native_record_nccl(struct native_result *r, const char *what,
                        ncclResult_t result)
{
	if (r->what || result == ncclSuccess)
		return;
	r->what = what;
	r->nccl = result;
}

void native_record_cuda(struct native_result *r, const char *what,
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

ncclResult_t native_exchange_empty(const struct platform *p, ncclComm_t comm,
                                   void *word, int peer, cudaStream_t stream)
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
	/* Set the device first, because native_relax() might create a context
	 * on device 0. */
	cudaError_t error = p->cudaSetDevice(device);

	native_relax(p);
	return error;
}

/* The size of a block is a power of two up to this, and a multiple of this
 * above it. */
#define GROW_STEP ((size_t)64 << 20)

/* Return the number of bytes to allocate if @bytes are needed and @former bytes
 * are too few. */
static size_t room_for(size_t bytes, size_t former)
{
	size_t room = 4096;

	bytes = MAX(bytes, 2 * former);
	if (bytes > GROW_STEP)
		return ROUND_UP(bytes, GROW_STEP);
	while (room < bytes)
		room *= 2;
	return room;
}

int native_memory_grow(const struct platform *p, struct native_memory *m,
                       size_t bytes, bool is_pinned)
{
	void *block;
	int rc;

	if (bytes <= m->bytes)
		return COHORT_OK;
	bytes = room_for(bytes, m->bytes);
	rc = is_pinned ? NATIVE_CUDA(p, cudaHostAlloc,
	                             (&block, bytes, cudaHostAllocPortable))
	               : NATIVE_CUDA(p, cudaMalloc, (&block, bytes));
	if (rc != COHORT_OK)
		return rc;
	m->blocks[m->n++] = block;
	m->bytes = bytes;
	return COHORT_OK;
}

void native_memory_free(const struct platform *p, struct native_memory *m,
                        bool is_pinned)
{
	while (m->n)
		if (is_pinned)
			p->cudaFreeHost(m->blocks[--m->n]);
		else
			p->cudaFree(m->blocks[--m->n]);
	m->bytes = 0;
}

/* Return true if the device has a context, or if the driver cannot be queried. */
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
	/* Set the device even if it is current already.  Only this call makes
	 * its context current, and functions of the driver need a current
	 * context. */
	scope->error = p->cudaSetDevice(device);
	return native_set_cuda_error(p, "cudaSetDevice", scope->error);
}

void device_leave(const struct device_scope *scope)
{
	if (scope->leaves && has_context(scope->platform, scope->before))
		scope->platform->cudaSetDevice(scope->before);
}
