/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPECT_H
#define EXPECT_H

/*
 * What a call answers and what the thread's error says; for Criterion's suites
 */

#include <criterion/criterion.h>
#include <string.h>

#include <cohort/cohort.h>

/* @got is @want, and the last error has @in_text in it. */
static inline void expect(int got, int want, const char *in_text)
{
	cr_assert_eq(got, want, "got %d (%s), not %d", got, cohort_last_error(),
	             want);
	cr_assert_not_null(strstr(cohort_last_error(), in_text),
	                   "\"%s\" does not say \"%s\"", cohort_last_error(),
	                   in_text);
}

#endif
