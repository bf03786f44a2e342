/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_NATIVE_H
#define CORE_NATIVE_H

/* Helpers for native calls: translate their results to the library's errors,
 * and preserve the caller's current device */

#include "platform/platform.h"

/* Result of a series of native calls.  At most one of @nccl and @cuda is an
 * error. */
struct native_result {
	/* Rank whose call failed first, or -1 if NCCL does not say. */
	int rank;
	const char *what; /* function that failed, or NULL if no function did */
	ncclResult_t nccl;
	cudaError_t cuda;
};

/* Store the result of an NCCL call if it is the first failure. */
void native_record_nccl(struct native_result *r, const char *what,
                        ncclResult_t result);

/* Store the result of a CUDA call if it is the first failure. */
void native_record_cuda(struct native_result *r, const char *what,
                        cudaError_t error);

/* Translate a CUDA error: set this thread's error to the function name, CUDA's
 * text and the code, and clear CUDA's own last error.  Return COHORT_OK,
 * COHORT_CUDA or COHORT_NO_MEMORY. */
int native_set_cuda_error(const struct platform *p, const char *what,
                          cudaError_t error);

/* Translate an NCCL result: set this thread's error to the function name,
 * NCCL's text, the code and NCCL's last error text.  Return COHORT_OK or
 * COHORT_NCCL. */
int native_set_nccl_error(const struct platform *p, const char *what,
                          ncclComm_t comm, ncclResult_t result);

/* Call @function of CUDA in the table @p, and translate its result.
 * @arguments are the arguments in parentheses. */
#define NATIVE_CUDA(p, function, arguments)                                    \
	native_set_cuda_error(p, #function, (p)->function arguments)

/* Call @function of NCCL in the table @p, and translate its result.
 * @comm: communicator whose error text NCCL returns, or NULL
 * @arguments: the arguments in parentheses */
#define NATIVE_NCCL(p, comm, function, arguments)                              \
	native_set_nccl_error(p, #function, comm, (p)->function arguments)

/*
 * Send an empty message to @peer and receive one from it, which connects the
 * two ranks.
 * @word: device memory, which is neither read nor written
 */
ncclResult_t native_exchange_empty(const struct platform *p, ncclComm_t comm,
                                   void *word, int peer, cudaStream_t stream);

/* Return true if the error only means that the process is exiting and the
 * runtime has shut down.  No device has failed, so it need not be reported. */
static inline bool native_is_exit(cudaError_t error)
{
	return error == cudaErrorCudartUnloading;
}

/* Maximum time to wait, after ncclRemoteError, for a cause that names the rank.
 * The error itself only says that a rank of another process has failed or
 * ended. */
#define NATIVE_REASON_NS UINT64_C(500000000)

/* Return the enum cohort_verdict_kind for a failed call.  Pass cudaSuccess if
 * the failed call was NCCL's. */
int native_verdict(cudaError_t error);

ncclResult_t native_simulate_end(const struct platform *p);

/*
 * Let the calling thread allocate and free memory, and create streams, even
 * while some thread captures a CUDA graph.  This is safe because no capture
 * contains the resources that the library allocates.  Return the thread's
 * previous mode, for native_restore().
 */
enum cudaStreamCaptureMode native_relax(const struct platform *p);

void native_restore(const struct platform *p, enum cudaStreamCaptureMode mode);

/*
 * Prepare a library thread for @device, so that its calls create no context on
 * another device and break no capture of the program.  Call it before the
 * thread's first native call, except ncclCommAbort().  Return the result of
 * cudaSetDevice().
 */
cudaError_t native_thread_init(const struct platform *p, int device);

/* Maximum number of blocks in a struct native_memory.  Each block is at least
 * twice as large as the previous one. */
#define NATIVE_BLOCKS 48

/* Memory that grows.  Outgrown blocks are kept, because freeing them would wait
 * for the device. */
struct native_memory {
	void *blocks[NATIVE_BLOCKS]; /* the last one is in use */
	int n;
	size_t bytes; /* size of the last block */
};

/* Return the block in use, or NULL if there is none. */
static inline char *native_memory_at(const struct native_memory *m)
{
	return m->n ? m->blocks[m->n - 1] : NULL;
}

/* Make the block in use at least @bytes large, with memory of the current
 * device or, if @is_pinned, pinned host memory.  Call it in a memory section,
 * unless the block is large enough. */
int native_memory_grow(const struct platform *p, struct native_memory *m,
                       size_t bytes, bool is_pinned);

void native_memory_free(const struct platform *p, struct native_memory *m,
                        bool is_pinned);

/* State that device_enter() stores for device_leave(). */
struct device_scope {
	const struct platform *platform;
	int before;        /* device to return to */
	bool leaves;       /* true if @before must be restored */
	cudaError_t error; /* reason why the device was not entered */
};

/*
 * Make @device current until device_leave().  On error nothing has changed.
 *
 * Since CUDA 12, cudaSetDevice() creates a context of some 500 MiB if the
 * device has none.  So device_leave() does not return to a device without a
 * context: the caller stays on @device.
 */
int device_enter(struct device_scope *scope, const struct platform *p,
                 int device);

/* Return to the device that was current before, if it has a context. */
void device_leave(const struct device_scope *scope);

#endif
