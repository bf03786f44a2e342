/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What one thread calls for all ranks of a group: the device that is current
 */

#include <criterion/criterion.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/ranks.h"

TestSuite(group_calls, .timeout = 60);

#define RANKS 4

static int32_t value[RANKS];
static const void *send[RANKS];
static void *recv[RANKS];

static void fill(void)
{
	int r;

	for (r = 0; r < RANKS; r++) {
		value[r] = r + 1;
		send[r] = recv[r] = &value[r];
	}
}

static int sum(struct cohort_group *group, void *const streams[],
               uint64_t *ticket)
{
	return cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                               COHORT_SUM, streams, ticket);
}

static int send_out(struct cohort_group *group, uint64_t *ticket)
{
	return cohort_group_broadcast(group, send, recv, 1, COHORT_I32, 1, NULL,
	                              ticket);
}

static void expect_device(int device, const char *after)
{
	int now = -1;

	place_table()->cudaGetDevice(&now);
	cr_assert_eq(now, device, "device %d is %d after %s", device, now,
	             after);
}

/* ---- the current device ----------------------------------------------- */

Test(group_calls, leave_the_callers_device_current)
{
	const struct platform *p = place_open(RANKS);
	struct cohort_group *group;
	uint64_t ticket;
	int d;

	fill();
	for (d = 0; d < RANKS; d++) {
		cr_assert_eq(p->cudaSetDevice(d), cudaSuccess);
		group = ranks_open(RANKS, NULL);
		expect_device(d, "open");
		cr_assert_eq(sum(group, NULL, &ticket), COHORT_OK);
		expect_device(d, "all_reduce");
		cr_assert_eq(send_out(group, &ticket), COHORT_OK);
		expect_device(d, "broadcast");
		cr_assert_eq(cohort_group_wait(group, ticket, RANKS_SOON),
		             COHORT_OK);
		expect_device(d, "wait");
		cr_assert_eq(cohort_group_abort(group, "on"), COHORT_OK);
		expect_device(d, "abort");
		cr_assert_eq(sum(group, NULL, NULL), COHORT_ABORTED);
		expect_device(d, "a call that is refused");
		cr_assert_eq(cohort_group_respawn(group, (int[]){ 2 }, 1),
		             COHORT_OK);
		expect_device(d, "respawn");
		cr_assert_eq(sum(group, NULL, NULL), COHORT_OK);
		expect_device(d, "all_reduce of fewer");
		cr_assert_eq(cohort_group_close(group), COHORT_OK);
		expect_device(d, "close");
	}
}

/* All of @call's native calls but those that get the device back fail once. */
static void fail_each(const struct platform *real, int device,
                      const char *function)
{
	struct cohort_group *group;
	unsigned long n;
	int rc;

	for (n = 1;; n++) {
		cr_assert_eq(real->cudaSetDevice(device), cudaSuccess);
		group = ranks_open(RANKS, NULL);
		failing_at(function, n, ncclSystemError, cudaErrorInvalidValue);
		rc = sum(group, NULL, NULL);
		failing_at(NULL, 0, 0, 0);
		if (rc == COHORT_OK)
			break;
		expect_device(device, function);
		cohort_group_close(group);
	}
	cr_assert_gt(n, 1, "%s is not called", function);
	cohort_group_close(group);
}

Test(group_calls, that_fail_leave_the_callers_device_current)
{
	static const char *const functions[] = {
		"cudaSetDevice", "ncclGroupStart", "ncclAllReduce",
		"ncclGroupEnd",  "mark",
	};
	const struct platform *real = place_open(RANKS);
	size_t i;
	int d;

	fill();
	platform_override(failing_wrap(real));
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		for (d = 0; d < RANKS; d++)
			fail_each(real, d, functions[i]);
}
