/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_DRIVER_H
#define SIM_DRIVER_DRIVER_H

/*
 * The CUDA driver, over the simulator's CUDA runtime
 *
 * A context is a device: memory, streams and events belong to a device,
 * whichever of its contexts was current when they were made.  The driver
 * leaves the runtime's last error alone.
 */

#include "sim/driver/driver_functions.h"
#include "sim/driver/kernel_launcher.h"

#define DRIVER_FORM(symbol, parameters, arguments)                             \
	CUresult driver_##symbol parameters;
DRIVER_FUNCTIONS(DRIVER_FORMS)
#undef DRIVER_FORM

/* ---- errors (driver_runtime.c) ---- */

/* driver_code(): the driver's code for the runtime's @error.  driver_result():
 * that code, and the thread's last error is @last again. */
CUresult driver_code(cudaError_t error);
CUresult driver_result(cudaError_t last, cudaError_t error);

/* ---- contexts (context.c) ---- */

/* True if the calling thread has a current context; and if it needs none
 * because @stream is not a default stream. */
bool driver_has_context(void);
bool driver_can_use(CUstream stream);

/* The device of @context, or -1 if it is no context. */
int driver_device_of(CUcontext context);

/* The calling thread's context if it is one of @device, else the device's
 * primary one. */
CUcontext driver_context_of(int device);

/* ---- launches (driver_launch.c) ---- */

/* See kernel_launcher.h. */
void driver_set_launcher(host_launcher launcher);

/* Queue what the launcher gives for @launch; its device is still to be found.
 * CUDA_ERROR_NOT_SUPPORTED without a launcher. */
CUresult driver_launch(const struct host_launch *launch);

#endif
