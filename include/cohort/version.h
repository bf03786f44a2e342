/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_VERSION_H
#define COHORT_VERSION_H

/*
 * Version numbers of these headers, and the version of the running library
 */

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers, which the Makefile also reads. */
#define COHORT_VERSION_MAJOR 0
#define COHORT_VERSION_MINOR 2
#define COHORT_VERSION_PATCH 0

/*
 * cohort_version - return the version of the running library
 *
 * Returns: a text "MAJOR.MINOR.PATCH"
 */
COHORT_API const char *cohort_version(void);

#ifdef __cplusplus
}
#endif

#endif
