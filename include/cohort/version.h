/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_VERSION_H
#define COHORT_VERSION_H

/*
 * The version: of these headers as three numbers, and of the library that is
 * running as a text
 */

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The Makefile reads these three lines: nothing repeats them. */
#define COHORT_VERSION_MAJOR 0
#define COHORT_VERSION_MINOR 2
#define COHORT_VERSION_PATCH 0

/*
 * cohort_version - the version of the running library, "MAJOR.MINOR.PATCH"
 *
 * Any thread; does not block.
 */
COHORT_API const char *cohort_version(void);

#ifdef __cplusplus
}
#endif

#endif
