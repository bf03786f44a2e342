/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DROPIN_UNSUPPORTED_H
#define SIM_DROPIN_UNSUPPORTED_H

/*
 * Reports calls that the host platform does not support
 *
 * The first call of each kernel or function prints a line to stderr.
 */

#include "sim/dropin/host_calls.h"

void unsupported_name(const void *host, const char *name);

void unsupported_report(const char *function);

/* Report an attempt to launch or query a kernel.  Return cudaErrorNotSupported,
 * which becomes the thread's last error. */
cudaError_t unsupported_kernel(const void *host);

/* Report a call of an unsupported function of CUDA.  Return
 * cudaErrorNotSupported, which becomes the thread's last error. */
cudaError_t unsupported_function(const char *name);

/* Define an exported CUDA function that only reports that it is not
 * supported. */
#define ABSENT(name)                                                           \
	EXPORT(cudaError_t, name, (void))                                      \
	{                                                                      \
		return unsupported_function(#name);                            \
	}

#endif
