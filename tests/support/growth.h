/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROWTH_H
#define GROWTH_H

/*
 * Calls that make the library allocate more and more memory
 */

#include <cohort/cohort.h>

/* Size of the @device buffer of growth_call(), in bytes. */
#define GROWTH_BYTES (sizeof(float) << 20)

/*
 * Make calls with host memory and with lists, each larger than the previous
 * one, on @device.  All ranks must call this.  Return the first error, or
 * COHORT_OK.
 */
int growth_call(struct cohort_comm *comm, void *device);

#endif
