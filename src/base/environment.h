/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

/* Read the library's environment variables, and report COHORT_ variables that
 * the library does not know */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/text.h"

/* Store the enum cohort_launch that COHORT_LAUNCH selects.  Leave *@launch
 * unchanged if the variable is not set.  Return COHORT_INVALID if its value is
 * not valid. */
int environment_launch(int *launch);

/* Read COHORT_CONNECT, an enum cohort_connect, like environment_launch(). */
int environment_connect(int *connect);

/* Read a time such as "500ms", "30s", "5m" or "1h".  Return false if @text is
 * not a time, or if the time is 0 or too long. */
bool environment_read_time(const char *text, uint64_t *ns);

/* Store the deadline that COHORT_DEADLINE sets, or COHORT_FOREVER for "off".
 * Leave *@ns unchanged if the variable is not set.  Return COHORT_INVALID if
 * its value is not valid. */
int environment_deadline(uint64_t *ns);

/* Read COHORT_POLICY, an enum cohort_policy, like environment_launch(). */
int environment_policy(int *policy);

/* Append the environment variables that override options of the program, such
 * as "COHORT_DEADLINE=30s sets join_ns and exec_ns", or nothing if there are
 * none.  The values must have been checked. */
void environment_add_overrides(struct text *t);

/* Return true if the @n bytes at @name are the name of a variable that the
 * library reads. */
bool environment_is_known(const char *name, size_t n);

/* Return the variable that the @n bytes at @name were probably meant to be, or
 * NULL if none is close enough. */
const char *environment_closest(const char *name, size_t n);

/* Maximum size of a variable name that is compared with the known names,
 * including the terminating zero.  Longer names resemble no known variable. */
#define ENVIRONMENT_NAME_SIZE 64

/* Return how many bytes must be inserted, deleted or replaced to turn one name
 * into the other.  @n is less than ENVIRONMENT_NAME_SIZE. */
size_t environment_distance(const char *a, size_t n, const char *b);

/* For each COHORT_ variable in the environment that the library does not read,
 * append a sentence that names it and the variable that was probably meant,
 * followed by @end. */
void environment_add_unknown(struct text *t, const char *end);

/* Log the COHORT_ variables that override options or are unknown, once per
 * process.  Called when a group is opened. */
void environment_report(const struct log *log);

/* Log only the unknown COHORT_ variables, once per process. */
void environment_report_unknown(const struct log *log);

#endif
