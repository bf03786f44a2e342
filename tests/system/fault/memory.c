/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes every allocation in the life of a group fail once
 *
 * In run n, the n-th allocation fails. The last run is the first one that makes
 * fewer than n allocations. Each run must end by itself. If one of its calls
 * needed the allocation, this call must return an error with a text. The run
 * must leak nothing, unless the reaper needed the allocation: then the close
 * returns COHORT_WEDGED and leaks on purpose.
 */

#include <stdio.h>

#include "sim/cuda/memory_table.h"
#include "sim/strict/census.h"
#include "support/heap.h"
#include "support/scenario.h"

/*
 * Return the number of blocks in use, without communicators and without memory
 * that strict mode keeps.
 */
static long live_blocks(void)
{
	return heap_live() - (long)lifetime_destroyed_count() -
	       (long)memory_kept();
}

int main(void)
{
	unsigned long n, errors = 0, wedged = 0;
	int rc, closed, bad = 0;
	long live;

	if (scenario(&closed) != COHORT_OK || scenario(&closed) != COHORT_OK) {
		printf("without a fault: %s\n", cohort_last_error());
		return 1;
	}
	for (n = 1;; n++) {
		/* Refill the platform's stock of streams and events, because an
		 * earlier run may have leaked some. */
		scenario_stock();
		live = live_blocks();
		heap_fail_at(n);
		rc = scenario(&closed);
		if (!heap_fired())
			break;
		errors += rc != COHORT_OK;
		wedged += closed == COHORT_WEDGED;
		if (rc != COHORT_OK && !*cohort_last_error()) {
			printf("allocation %lu: %d without a text\n", n, rc);
			bad++;
		}
		if (closed != COHORT_WEDGED && live_blocks() > live) {
			printf("allocation %lu: %ld blocks left behind (%d)\n",
			       n, live_blocks() - live, rc);
			bad++;
		}
	}
	printf("%lu allocations, %lu runs failed cleanly, %lu wedged\n", n - 1,
	       errors, wedged);
	return bad || !errors;
}
