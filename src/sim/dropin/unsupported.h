/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DROPIN_UNSUPPORTED_H
#define SIM_DROPIN_UNSUPPORTED_H

/*
 * How a program is told that the host platform does not have what it calls: the
 * call fails with cudaErrorNotSupported, and the first time there is a line on
 * stderr, unless COHORT_HOST_QUIET is set to something but 0.
 */

#include "sim/dropin/host_calls.h"

/* The kernel with the host function @host is called @name. */
void unsupported_name(const void *host, const char *name);

/* The kernel cannot be launched or looked at; the error to return. */
cudaError_t unsupported_kernel(const void *host);

/* The function cannot be called; the error to return. */
cudaError_t unsupported_function(const char *name);

#endif
