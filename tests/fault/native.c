/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every native call in the life of a group fails once
 *
 * As memory.c, with the calls of the platform's table instead of allocations.
 * A run whose reaper could not do its work answers COHORT_WEDGED at close and
 * leaks on purpose; every other run leaves nothing behind.
 */

#include <stdio.h>

#include "support/failing.h"
#include "support/heap.h"
#include "support/ranks.h"
#include "support/scenario.h"

static int check(unsigned long n, int rc, int closed, long left)
{
	if (rc == COHORT_OK)
		return 0; /* a call whose failure does no harm */
	if (!*cohort_last_error()) {
		printf("%lu %s: %d without a text\n", n, failing_fired(), rc);
		return 1;
	}
	if (closed != COHORT_WEDGED && left > 0) {
		printf("%lu %s: %ld blocks left behind (%d)\n", n,
		       failing_fired(), left, rc);
		return 1;
	}
	return 0;
}

int main(void)
{
	const struct platform *real;
	unsigned long n, errors = 0, wedged = 0;
	int rc, closed, bad = 0;
	long live;

	ranks_must(platform_open(COHORT_PLATFORM_HOST, &real), "platform");
	platform_override(failing_wrap(real));
	if (scenario(&closed) != COHORT_OK || scenario(&closed) != COHORT_OK) {
		printf("without a fault: %s\n", cohort_last_error());
		return 1;
	}
	for (n = 1;; n++) {
		live = heap_live();
		failing_at(NULL, n, ncclSystemError, cudaErrorLaunchFailure);
		rc = scenario(&closed);
		if (!failing_fired())
			break;
		errors += rc != COHORT_OK;
		wedged += closed == COHORT_WEDGED;
		bad += check(n, rc, closed, heap_live() - live);
		/* What was leaked is missing from the platform's stock. */
		if (closed == COHORT_WEDGED) {
			failing_at(NULL, 0, 0, 0);
			scenario(&closed);
		}
	}
	printf("%lu native calls, %lu runs failed cleanly, %lu wedged\n", n - 1,
	       errors, wedged);
	return bad || !errors;
}
