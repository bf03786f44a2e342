/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the environment variables that override a program's options
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include <cohort/cohort.h>

#include "base/clock.h"
#include "base/environment.h"

TestSuite(environment, .timeout = 10);

static uint64_t deadline(const char *text)
{
	uint64_t ns = 5;

	setenv("COHORT_DEADLINE", text, 1);
	cr_assert_eq(environment_deadline(&ns), COHORT_OK, "%s", text);
	return ns;
}

Test(environment, deadline_variable_is_a_number_with_a_unit)
{
	cr_assert_eq(deadline("1ms"), NS_PER_S / 1000);
	cr_assert_eq(deadline("30s"), 30 * NS_PER_S);
	cr_assert_eq(deadline("5m"), 300 * NS_PER_S);
	cr_assert_eq(deadline("2h"), 7200 * NS_PER_S);
	cr_assert_eq(deadline("off"), COHORT_FOREVER);
}

Test(environment, empty_deadline_variable_sets_nothing)
{
	cr_assert_eq(deadline(""), 5);
}

static void refused(const char *text)
{
	char message[256];
	uint64_t ns = 5;

	snprintf(message, sizeof(message),
	         "COHORT_DEADLINE is \"%s\" in the environment: set it to off, "
	         "or to a time such as 500ms, 30s, 5m or 1h",
	         text);
	setenv("COHORT_DEADLINE", text, 1);
	cr_assert_eq(environment_deadline(&ns), COHORT_INVALID, "%s", text);
	cr_assert_eq(ns, 5);
	cr_assert_str_eq(cohort_last_error(), message);
}

Test(environment, malformed_deadline_variable_is_refused)
{
	refused("30");
	refused("s");
	refused("0s");
	refused("-1s");
	refused(" 30s");
	refused("30 s");
	refused("30us");
	refused("30seconds");
	refused("18446744074s");
	refused("99999999999999999999s");
	refused("OFF");
}

Test(environment, unknown_policy_variable_is_refused)
{
	int policy = COHORT_POLICY_ASK;

	setenv("COHORT_POLICY", "ask", 1);
	cr_assert_eq(environment_policy(&policy), COHORT_INVALID);
	cr_assert_eq(policy, COHORT_POLICY_ASK);
	cr_assert_str_eq(cohort_last_error(),
	                 "COHORT_POLICY is \"ask\" in the environment, not end "
	                 "or report");
}

Test(environment, environment_overrides_are_listed_with_their_options)
{
	char text[256] = "";

	unsetenv("COHORT_DEADLINE");
	setenv("COHORT_POLICY", "", 1);
	environment_add_overrides(&(struct text){ text, sizeof(text) });
	cr_assert_str_empty(text);
	setenv("COHORT_DEADLINE", "30s", 1);
	setenv("COHORT_POLICY", "report", 1);
	environment_add_overrides(&(struct text){ text, sizeof(text) });
	cr_assert_str_eq(text, "COHORT_DEADLINE=30s sets join_ns and exec_ns; "
	                       "COHORT_POLICY=report sets policy");
}
