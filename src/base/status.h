/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

/*
 * Errors: a code that travels up by return, and a text that stays with the
 * thread.  Whoever first decides which error it is calls error_set(); everyone
 * above passes the code on.
 */

#include <cohort/cohort.h>

/* Store the text of this thread's last error and return @status. */
int error_set(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The status that this thread last gave to error_set(), and when it did, by
 * clock_quick(); COHORT_OK if it never has, or has forgotten it. */
int error_status(uint64_t *time_ns);
void error_forget(void);

#endif
