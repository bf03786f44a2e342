/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPECT_H
#define EXPECT_H

/*
 * Checks of results and of the thread's last error, for Criterion suites
 */

#include <criterion/criterion.h>
#include <string.h>

#include <cohort/cohort.h>

#include "support/ranks.h"
#include "support/spread.h"

/* Expect @text to contain @part. */
static inline void expect_text(const char *text, const char *part)
{
	cr_assert_not_null(strstr(text, part), "\"%s\" does not contain \"%s\"",
	                   text, part);
}

/* Expect @got to equal @want, and the last error to contain @in_text. */
static inline void expect(int got, int want, const char *in_text)
{
	cr_assert_eq(got, want, "got %d (%s), expected %d", got,
	             cohort_last_error(), want);
	expect_text(cohort_last_error(), in_text);
}

/*
 * Skip the prefix "process N (pid P): " of a cause's text if the test runs in
 * several processes. The prefix names the process that has reported the cause.
 */
static inline const char *expect_own(const char *text)
{
	const char *own = strstr(text, "): ");

	if (spread_processes() == 1 || strncmp(text, "process ", 8) != 0 ||
	    !own)
		return text;
	return own + 3;
}

/* Expect @text to be @why, followed by what the ranks were doing when the group
 * ended. */
static inline void expect_ending(const char *text, const char *why)
{
	static const char amid[] = "; when the group ended: rank";
	size_t n = strlen(why);

	text = expect_own(text);
	cr_assert(strncmp(text, why, n) == 0 &&
	                  strncmp(text + n, amid, sizeof(amid) - 1) == 0,
	          "\"%s\" is not \"%s%s...\"", text, why, amid);
	text = strstr(text, amid) + 1;
	cr_assert_null(strstr(text, amid), "told twice: %s", text);
	text = strstr(text, "; no information");
	cr_assert(!text || !strstr(text + 1, "; no information"),
	          "told twice: %s", text);
}

/* Run @worker on all ranks of @group.  Expect the result @status, and return the
 * cause. */
static inline struct cohort_cause expect_end_of_run(struct cohort_group *group,
                                                    cohort_worker_fn worker,
                                                    void *user, int status)
{
	struct cohort_cause cause = { .status = COHORT_OK };

	cr_assert_eq(cohort_group_run(group, worker, user, &cause), status,
	             "%s: %s", cohort_last_error(), cause.text);
	return cause;
}

/* Run @worker on all ranks of @group, which must all return COHORT_OK. */
static inline void expect_run_in(struct cohort_group *group,
                                 cohort_worker_fn worker, void *user)
{
	expect_end_of_run(group, worker, user, COHORT_OK);
}

/* Close @group, which must succeed. */
static inline void expect_close(struct cohort_group *group)
{
	cr_assert_eq(cohort_group_close(group), COHORT_OK, "%s",
	             cohort_last_error());
}

/* Run @worker on @size ranks, which must all return COHORT_OK. */
static inline void expect_run(int size, cohort_worker_fn worker, void *user)
{
	struct cohort_group *group = ranks_open(size, NULL);

	expect_run_in(group, worker, user);
	expect_close(group);
}

#endif
