/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

/*
 * Errors: a status that is returned to the caller, and a text that is stored
 * for each thread
 *
 * The function that detects an error calls error_set(); its callers return the
 * same status.
 */

#include <cohort/cohort.h>

/* Store the text of this thread's last error and return @status.  Arguments may
 * point into the previous text. */
int error_set(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Return @status, which another process has sent, if it is COHORT_OK or an
 * error that this version knows; otherwise return COHORT_SYSTEM. */
int status_sanitize(int status);

/* Return the status of this thread's last error, or COHORT_OK if there was
 * none, and store the time of the error (clock_now()). */
int error_status(uint64_t *time_ns);

void error_forget(void);

#endif
