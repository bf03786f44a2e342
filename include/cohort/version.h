/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_VERSION_H
#define COHORT_VERSION_H

/* The version of this header; cohort_version() answers for the library that
 * is running.  The Makefile reads these three lines: nothing repeats them. */
#define COHORT_VERSION_MAJOR 0
#define COHORT_VERSION_MINOR 2
#define COHORT_VERSION_PATCH 0

#endif
