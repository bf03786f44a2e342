/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_DRIVER_H
#define SIM_DRIVER_DRIVER_H

/*
 * The CUDA driver API, implemented on the simulator's CUDA runtime
 *
 * A context only stands for its device: memory, streams and events belong to
 * the device, no matter which of its contexts was current when they were
 * created.  Driver functions leave the runtime's last error unchanged.
 */

#include "sim/driver/driver_functions.h"
#include "sim/driver/kernel_launcher.h"

#define DRIVER_FORM(symbol, parameters, arguments)                             \
	CUresult driver_##symbol parameters;
DRIVER_FUNCTIONS(DRIVER_FORMS)
#undef DRIVER_FORM

/* ---- errors (driver_runtime.c) ---- */

/* Return the driver's code for an error of the runtime. */
CUresult driver_code(cudaError_t error);

/* Return driver_code(@error), and reset the thread's last error to @last. */
CUresult driver_result(cudaError_t last, cudaError_t error);

/* ---- contexts (context.c) ---- */

bool driver_has_context(void);

/* Return true if the calling thread may use @stream.  For a default stream, the
 * thread needs a current context. */
bool driver_can_use(CUstream stream);

/* Return the device of @context, or -1 if @context is not a context. */
int driver_device_of(CUcontext context);

/* Return the calling thread's current context if it is on @device, otherwise
 * the device's primary context. */
CUcontext driver_context_of(int device);

/* ---- launches (driver_launch.c) ---- */

/* Set the launcher; see cohort_host_set_launcher() in kernel_launcher.h. */
void driver_set_launcher(host_launcher launcher);

/* Call the launcher for @launch, and queue the function that it returns.
 * @launch->device need not be set.  Returns CUDA_ERROR_NOT_SUPPORTED if there
 * is no launcher. */
CUresult driver_launch(const struct host_launch *launch);

#endif
