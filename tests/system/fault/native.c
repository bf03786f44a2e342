/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes every native call in the life of a group fail once
 *
 * This works like memory.c, with calls of the platform's table in place of
 * allocations. If the reaper could not do its work, the close returns
 * COHORT_WEDGED and leaks on purpose. A run that succeeds despite the failed
 * call may leak a little if keeps_memory() is true for this call. Every other
 * run must leak nothing.
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
 * Return whether a run that returned COHORT_OK may leak because @call failed.
 * It may if the call frees memory during teardown, or selects the device for
 * that; or if a mark was never set, so that a stream waits for its word.
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
		"cuStreamWriteValue32",
	};
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(call, calls[i]) == 0)
			return true;
	return false;
}

/*
 * Return the number of blocks in use, without communicators and without memory
 * that strict mode keeps.
 */
static long live_blocks(void)
{
	return heap_live() - (long)lifetime_destroyed_count() -
	       (long)memory_kept();
}

static int check(unsigned long n, int rc, int closed, long left)
{
	/* If the run returned COHORT_OK, the failure of this call does no
	 * harm. */
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
	                   "memory functions would then wait forever");
	real = place_table();
	platform_override(failing_wrap(real));
	if (scenario(&closed) != COHORT_OK || scenario(&closed) != COHORT_OK) {
		printf("without a fault: %s\n", cohort_last_error());
		return 1;
	}
	for (n = 1;; n++) {
		/* Refill the platform's stock of streams and events, because an
		 * earlier run may have leaked some. */
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
