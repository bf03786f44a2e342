/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of tags, with which a verdict says where in the program a rank was
 */

#include <criterion/criterion.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"
#include "support/verdicts.h"

TestSuite(tag, .timeout = 60);

/* A deadline that a collective of two ranks meets, even on a busy machine and
 * in QEMU */
#define SHORT_NS (RANKS_SOON / 40)

static struct cohort_comm *comms[2];
static int32_t values[2];
static char reported[48];

static int keep_tag(const struct cohort_verdict *v, void *user)
{
	(void)user;
	memcpy(reported, v->ranks[1].tag, sizeof(reported));
	return 0;
}

Test(tag, verdict_has_the_tag_of_the_last_call)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;
	uint64_t t;

	cohort_group_options_init(&o);
	o.deadlines.join_ns = SHORT_NS;
	o.on_verdict = keep_tag;
	group = ranks_ahead(2, &o, comms);
	ranks_must(cohort_tag(comms[1], "step 3, \"gradients\""), "tag");
	ranks_sum(comms[0], &values[0]);
	ranks_sum_wait(comms[1], &values[1]);
	/* Set the tag for a call that rank 1 never makes. */
	ranks_must(cohort_tag(comms[1], "step 4"), "tag");
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cohort_group_cause(group, &cause);
	expect_text(cause.details, ", tag \"step 3, \"gradients\"\"; tag now "
	                           "\"step 4\"\n");
	expect_close(group);
	cr_assert_str_eq(reported, "step 3, \"gradients\"");
}

Test(tag, tag_is_refused_whenever_a_call_would_be_refused)
{
	struct cohort_group *group = ranks_split(2, NULL, comms);

	cr_assert_eq(cohort_tag(NULL, "a"), COHORT_INVALID);
	ranks_must(cohort_tag(comms[0], NULL), "no tag");
	ranks_must(cohort_comm_close(comms[0]), "close");
	cr_assert_eq(cohort_tag(comms[0], "a"), COHORT_STATE);
	expect_close(group);
}
