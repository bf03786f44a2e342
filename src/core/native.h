/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_NATIVE_H
#define CORE_NATIVE_H

/*
 * Around native calls: results translated to ours, and the caller's current
 * device kept
 */

#include "platform/platform.h"

/* The result of native calls: both codes are 0, or one of them is not. */
struct native_result {
	int rank;         /* whose call failed first, -1: NCCL does not say, */
	const char *what; /* the function that failed; NULL: none did */
	ncclResult_t nccl;
	cudaError_t cuda;
};

/* Note a result; the first failure is kept. */
void native_note_nccl(struct native_result *r, const char *what,
                      ncclResult_t result);
void native_note_cuda(struct native_result *r, const char *what,
                      cudaError_t error);

/* COHORT_OK, or COHORT_CUDA, COHORT_NO_MEMORY if that is the error: with the
 * name of the function, the code and CUDA's text.  Clears the thread's last
 * CUDA error. */
int native_set_cuda_error(const struct platform *p, const char *what,
                          cudaError_t error);

/* COHORT_OK, or COHORT_NCCL with the name of the function, the code, NCCL's
 * text and its last error text. */
int native_set_nccl_error(const struct platform *p, const char *what,
                          ncclComm_t comm, ncclResult_t result);

/* An empty message to @peer, and one from it: connects the two.  @word: memory
 * of the device, which is neither read nor written. */
ncclResult_t native_greet(const struct platform *p, ncclComm_t comm, void *word,
                          int peer, cudaStream_t stream);

/* True if the process is exiting and the runtime has shut down: no device has
 * failed, and nobody needs to know. */
static inline bool native_is_exit(cudaError_t error)
{
	return error == cudaErrorCudartUnloading;
}

/* ncclRemoteError tells of a rank in another process, which may have ended: how
 * long to wait for whoever sees that and says which. */
#define NATIVE_REASON_NS UINT64_C(500000000)

/* The enum cohort_verdict_kind of a call that has failed; cudaSuccess: it was a
 * call of NCCL's. */
int native_verdict(cudaError_t error);

/* End a group that is only simulated. */
ncclResult_t native_simulate_end(const struct platform *p);

/*
 * native_relax   - let this thread of the program's allocate, free and make
 *                  streams while any thread captures: what the library has of
 *                  its own is in no capture, and breaks none.  Returns the mode
 *                  that the thread had
 * native_restore - back to that mode
 */
enum cudaStreamCaptureMode native_relax(const struct platform *p);
void native_restore(const struct platform *p, enum cudaStreamCaptureMode mode);

/* Prepare a thread of the library's for @device: its calls make no context on
 * another device and break no capture of the program's, on any stream.  Before
 * its first native call, but for ncclCommAbort().  Returns what cudaSetDevice()
 * answers. */
cudaError_t native_thread_init(const struct platform *p, int device);

struct device_scope {
	const struct platform *platform;
	int before;        /* the device to go back to, */
	bool leaves;       /* if it is another */
	cudaError_t error; /* why it was not entered */
};

/* Make @device current until device_leave().  On error nothing has changed.
 *
 * Since CUDA 12 cudaSetDevice() makes a context, some 500 MiB, where there is
 * none. device_leave() does not go back to a device without a context: then the
 * caller stays on @device. */
int device_enter(struct device_scope *scope, const struct platform *p,
                 int device);
void device_leave(const struct device_scope *scope);

#endif
