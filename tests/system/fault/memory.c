/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every allocation in the life of a group fails once
 *
 * The n-th allocation is made to fail for n = 1, 2, 3, ... until a run passes
 * without reaching it.  Each run must end by itself.  If one of its calls
 * needed the allocation, that call must return an error with a text; and the
 * run must leave nothing behind, except where the reaper needed the allocation:
 * then close answers COHORT_WEDGED and leaks on purpose.
 */

#include <stdio.h>

#include "sim/cuda/memory_table.h"
#include "sim/strict/census.h"
#include "support/heap.h"
#include "support/scenario.h"

/*
 * Blocks in use, without the communicators and the memory that strict mode
 * keeps.
 */
static long live_blocks(void)
{
	return heap_live() - (long)lifetime_buried() - (long)memory_kept();
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
		/* Stock up again: an earlier life may have leaked some. */
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
