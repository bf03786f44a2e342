/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every native call in the life of a group fails once
 *
 * Like memory.c, with the calls of the platform's table instead of allocations.
 * A run whose reaper could not do its work answers COHORT_WEDGED at close and
 * leaks on purpose; a run that succeeded in spite of a failed call for which
 * keeps_memory() is true may leave a little behind; every other run leaves
 * nothing.
 */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sim/cuda/memory_table.h"
#include "sim/strict/census.h"
#include "support/failing.h"
#include "support/heap.h"
#include "support/ranks.h"
#include "support/scenario.h"

/*
 * True if a run that answered COHORT_OK may have kept memory because @call
 * failed: during teardown that call frees, or selects the device on which to
 * free; and a mark that was never set may leave a stream that waits for its
 * word.
 */
static bool keeps_memory(const char *call)
{
	static const char *const calls[] = {
		"cudaFree",
		"cudaFreeHost",
		"cudaStreamDestroy",
		"cudaEventDestroy",
		"cudaGetDevice",
		"cudaSetDevice",
		"mark",
	};
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(call, calls[i]) == 0)
			return true;
	return false;
}

/*
 * Blocks in use, without the communicators and the memory that strict mode
 * keeps.
 */
static long live_blocks(void)
{
	return heap_live() - (long)lifetime_buried() - (long)memory_kept();
}

static int check(unsigned long n, int rc, int closed, long left)
{
	/* OK: the failure of this call does no harm. */
	if (rc != COHORT_OK && !*cohort_last_error()) {
		printf("%lu %s: %d without a text\n", n, failing_fired(), rc);
		return 1;
	}
	if (rc == COHORT_OK && keeps_memory(failing_fired()))
		return 0;
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

	place_need_no_sync("an abort that fails leaves kernels for which all "
	                   "memory functions then wait for ever");
	real = place_table();
	platform_override(failing_wrap(real));
	if (scenario(&closed) != COHORT_OK || scenario(&closed) != COHORT_OK) {
		printf("without a fault: %s\n", cohort_last_error());
		return 1;
	}
	for (n = 1;; n++) {
		/* Stock up again: an earlier life may have leaked some. */
		scenario_stock();
		live = live_blocks();
		failing_at(NULL, n, ncclSystemError, cudaErrorLaunchFailure);
		rc = scenario(&closed);
		if (!failing_fired())
			break;
		errors += rc != COHORT_OK;
		wedged += closed == COHORT_WEDGED;
		bad += check(n, rc, closed, live_blocks() - live);
	}
	printf("%lu native calls, %lu runs failed cleanly, %lu wedged\n", n - 1,
	       errors, wedged);
	return bad || !errors;
}
