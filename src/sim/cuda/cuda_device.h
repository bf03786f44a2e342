/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_CUDA_DEVICE_H
#define SIM_CUDA_CUDA_DEVICE_H

#include "platform/platform.h"

/* Set the number of devices of this process's simulator, for
 * cohort_sim_set_devices() (knobs.c). */
int device_request_count(int n);

/* Return the number set by device_request_count(), or 0. */
int device_requested_count(void);

/* Determine the number of devices.  It is the number set by
 * device_request_count() or, if none was set, the value of COHORT_HOST_DEVICES
 * or, if that is not set, 8.  Return COHORT_INVALID with a message if the value
 * is bad. */
int device_init(void);

/* Return the number of devices, or 0 before device_init(). */
int device_count(void);
bool device_is_valid(int device);

int device_current(void);

struct CUctx_st;

/* Return the device that the driver API sees as current for the calling thread,
 * or -1 if the thread has neither set nor used a device.  Store the device's
 * context, or NULL for its primary context. */
int device_bound(struct CUctx_st **context);

/* Make @device current for the calling thread, or no device if it is -1.
 * @context is a context of the driver API, or NULL for the device's primary
 * context. */
void device_bind(int device, struct CUctx_st *context);

/* Implement cuDevicePrimaryCtxGetState().  The primary context of a device
 * becomes active when cudaSetDevice() selects the device, or when a thread that
 * has set no device makes its first call that needs one. */
int device_context_state(int device, unsigned int *flags, int *active);

/* Make the primary context of @device inactive, as cudaDeviceReset() does. */
void device_end_context(int device);

/* Store @error as the calling thread's last CUDA error, unless it is
 * cudaSuccess, and return @error. */
cudaError_t device_error(cudaError_t error);

cudaError_t *device_last_error(void);

/* Forbid CUDA calls in the calling thread or, if @forbidden is false, allow
 * them again.  A thread forbids them before it runs a function of the program
 * that must not call CUDA, such as a host function or callback of a stream. */
void device_forbid_calls(bool forbidden);

/* Return cudaErrorNotPermitted if CUDA calls are forbidden in the calling
 * thread (device_forbid_calls()), otherwise cudaSuccess. */
cudaError_t stream_permits_calls(void);

/* Store the value of a device attribute.  Return false if @attribute is
 * unknown. */
bool device_attribute(int *value, int attribute, int device);

size_t device_memory_bytes(void);

/* Clamp a requested stream priority to the valid range. */
int device_priority(int priority);

/* PCI bus number of a device, in domain 0. */
#define DEVICE_PCI_BUS(device) ((device) + 1)

#endif
