/* SPDX-License-Identifier: Apache-2.0 */

#include "support/growth.h"

#include <stdlib.h>

#include "support/ranks.h"

#define TENSORS 3
#define MOST (GROWTH_BYTES / sizeof(float))

/* All-reduce a packed list of small tensors with @count elements in total. */
static int call_list(struct cohort_comm *comm, float *memory, size_t count)
{
	struct cohort_tensor tensors[TENSORS];
	uint64_t ticket;
	int i, rc;

	for (i = 0; i < TENSORS; i++) {
		tensors[i] = (struct cohort_tensor){ .count = count / TENSORS,
			                             .type = COHORT_F32 };
		tensors[i].send = tensors[i].recv =
			memory + (size_t)i * (count / TENSORS);
	}
	rc = cohort_all_reduce_many(comm, tensors, TENSORS, COHORT_SUM,
	                            cohort_comm_stream(comm), &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, RANKS_SOON) : rc;
}

int growth_call(struct cohort_comm *comm, void *device)
{
	float *host = calloc(MOST, sizeof(*host));
	size_t count;
	int rc = COHORT_OK;

	for (count = 1000; count < MOST && rc == COHORT_OK; count *= 6) {
		rc = cohort_all_reduce_host(comm, host, count, COHORT_F32,
		                            COHORT_SUM, RANKS_SOON);
		if (rc == COHORT_OK)
			rc = call_list(comm, device, count);
	}
	free(host);
	return rc;
}
