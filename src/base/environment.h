/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

/*
 * The environment variables of this project, and those that only look like one
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/text.h"

/* Store what COHORT_LAUNCH asks for, an enum cohort_launch; *@launch is
 * untouched if the variable is not set.  COHORT_INVALID for another value. */
int environment_launch(int *launch);

/* As environment_launch(), of COHORT_CONNECT and an enum cohort_connect. */
int environment_connect(int *connect);

/* Store the deadline that COHORT_DEADLINE sets, COHORT_FOREVER for "off"; *@ns
 * is untouched if the variable is not set.  COHORT_INVALID for another
 * value. */
int environment_deadline(uint64_t *ns);

/* As environment_launch(), of COHORT_POLICY and an enum cohort_policy. */
int environment_policy(int *policy);

/* Add which variables of the environment override the program's options, and
 * which options these are: "COHORT_DEADLINE=30s sets join_ns and exec_ns".
 * Adds nothing if there is no such variable.  Their values must have been
 * checked. */
void environment_add_overrides(struct text *t);

/* True if the @n bytes at @name are a variable that means something; else the
 * one that may have been meant, or NULL. */
bool environment_knows(const char *name, size_t n);
const char *environment_meant(const char *name, size_t n);

/* Room for a name that is compared.  Longer names resemble none. */
#define ENVIRONMENT_NAME_SIZE 64

/* How many bytes must be added, left out or replaced to make one name the
 * other; the @n bytes at @a are less than ENVIRONMENT_NAME_SIZE. */
size_t environment_distance(const char *a, size_t n, const char *b);

/* Add a sentence, and @end, for each variable COHORT_... in the environment
 * that means nothing, with the one that may have been meant. */
void environment_add_unknown(struct text *t, const char *end);

/* Log the COHORT_ variables that override options or are unknown, once per
 * process.  Called when a group opens. */
void environment_report(const struct log *log);

/* Log the unknown COHORT_ variables only, once per process. */
void environment_report_unknown(const struct log *log);

#endif
