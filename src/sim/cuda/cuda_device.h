/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_CUDA_DEVICE_H
#define SIM_CUDA_CUDA_DEVICE_H

/*
 * Devices, and what the CUDA runtime keeps of each thread
 */

#include "platform/platform.h"

/* What cohort_sim_set_devices() does in this process's simulator alone
 * (knobs.c); and the number that it was told before the first use, or 0. */
int device_want(int n);
int device_wanted(void);

/* Settle the number of devices: device_want(), else
 * COHORT_HOST_DEVICES, else 8.  COHORT_INVALID names a bad value. */
int device_init(void);

/* The number of devices; 0 before device_init(). */
int device_count(void);
bool device_is_valid(int device);

/* The calling thread's current device. */
int device_current(void);

struct CUctx_st;

/*
 * The calling thread's device for the driver: -1 if it has neither set one nor
 * used one; and set it, -1: none.  @context is the driver's, NULL for the
 * device's primary one, which cudaSetDevice() sets, too.
 */
int device_bound(struct CUctx_st **context);
void device_bind(int device, struct CUctx_st *context);

/* The driver's cuDevicePrimaryCtxGetState().  A context is made by
 * cudaSetDevice(), and by the first call that needs a device in a thread that
 * has set none; cudaDeviceReset() ends it (device_end_context()).  There are no
 * flags. */
int device_context_state(int device, unsigned int *flags, int *active);
void device_end_context(int device);

/* Remember @error as the calling thread's last CUDA error unless it is
 * cudaSuccess, and return it. */
cudaError_t device_error(cudaError_t error);

/* The calling thread's last CUDA error, to read and to reset. */
cudaError_t *device_last_error(void);

/* Say that the calling thread is about to run a host function or a callback of
 * a stream, or has run it. */
void device_forbid_calls(bool forbidden);

/* cudaErrorNotPermitted if the calling thread runs a host function or callback
 * of a stream, which must not call CUDA; else cudaSuccess. */
cudaError_t stream_permits_calls(void);

/* Store the value of a device attribute; false if there is none of that
 * number. */
bool device_attribute(int *value, int attribute, int device);

/* How much memory each device has. */
size_t device_memory_bytes(void);

/* The priority that a stream asked to have @priority gets. */
int device_priority(int priority);

/* On which bus of PCI domain 0 a device is. */
#define DEVICE_PCI_BUS(device) ((device) + 1)

#endif
