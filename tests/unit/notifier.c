/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Test of the thread that reports verdicts
 */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "support/bare_clique.h"
#include "watch/notifier.h"

#define S UINT64_C(1000000000)

TestSuite(notifier, .timeout = 60);

static struct notifier n;
static struct verdict question;
static int calls;

static int ask_again_and_end(const struct cohort_verdict *v, void *user)
{
	(void)v;
	(void)user;
	calls++;
	notifier_post(&n, &question);
	return 1;
}

/* The watchdog may call the notifier again before it sees the result. */
Test(notifier, on_verdict_is_not_asked_again_after_it_ended_the_group)
{
	const struct watch_options options = {
		.policy = COHORT_POLICY_ASK,
		.on_verdict = ask_again_and_end,
	};
	struct clique *q = make_clique();

	q->size = 1;
	cr_assert(verdict_init(&question, 1));
	question.v.stage = COHORT_STAGE_EXPIRED;
	question.v.kind = COHORT_VERDICT_OUTSIDE;
	cr_assert_eq(crew_get(), COHORT_OK);
	cr_assert_eq(notifier_start(&n, &options, q, NULL), COHORT_OK);
	cr_assert_eq(notifier_post(&n, &question), 1);
	cr_assert(notifier_stop(&n, clock_deadline(30 * S)));
	cr_assert_eq(calls, 1);
	cr_assert_eq(cause_peek(q->end)->kind, COHORT_VERDICT_OUTSIDE);
	crew_put();
	verdict_fini(&question);
	free_clique(q);
}
