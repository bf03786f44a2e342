/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

/*
 * Errors: a code that is returned upward, and a text that stays with the
 * thread.  The function that decides which error it is calls error_set(); its
 * callers pass the code on.
 */

#include <cohort/cohort.h>

/* Store the text of this thread's last error and return @status.  Arguments may
 * point into the text before. */
int error_set(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Return @status, which another process has sent, if it is COHORT_OK or an
 * error that this version knows, and COHORT_SYSTEM if not. */
int status_sanitize(int status);

/* The status of this thread's last error_set(), and its time by clock_now();
 * COHORT_OK if there was none.  And forget it. */
int error_status(uint64_t *time_ns);
void error_forget(void);

#endif
