/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Use collectives on host memory: broadcast settings that one rank knows, and
 * sum losses over all ranks
 *
 * These calls need no device memory, stream or ticket: each one blocks until it
 * is done, or until its timeout.
 *
 *  cc host_memory.c -lcohort && ./a.out
 */

#include <stdio.h>

#include <cohort/cohort.h>

#define RANKS 3
#define SECOND UINT64_C(1000000000)

static int report(struct cohort_comm *comm, void *user)
{
	int rank = cohort_comm_rank(comm), rc;
	double settings[2] = { 0 }, sums[2];

	(void)user;
	if (rank == 0) { /* for example from a file */
		settings[0] = 0.5;
		settings[1] = 100.0;
	}
	rc = cohort_broadcast_host(comm, settings, 2, COHORT_F64, 0,
	                           10 * SECOND);
	sums[0] = settings[0] * (rank + 1); /* sum of this rank's losses */
	sums[1] = settings[1];              /* number of this rank's losses */
	if (rc == COHORT_OK)
		rc = cohort_all_reduce_host(comm, sums, 2, COHORT_F64,
		                            COHORT_SUM, 10 * SECOND);
	if (rc == COHORT_OK)
		printf("rank %d: mean loss %.3f of %.0f\n", rank,
		       sums[0] / sums[1], sums[1]);
	else if (rc == COHORT_TIMED_OUT)
		fprintf(stderr, "rank %d: the others do not come\n", rank);
	else
		fprintf(stderr, "rank %d: %s\n", rank, cohort_last_error());
	return rc;
}

int main(void)
{
	struct cohort_group_options options;
	struct cohort_group *group;
	int rc;

	cohort_group_options_init(&options);
	options.platform = COHORT_PLATFORM_HOST; /* or _AUTO */
	if (cohort_group_open(NULL, RANKS, &options, &group) != COHORT_OK)
		return 1;
	rc = cohort_group_run(group, report, NULL, NULL);
	return cohort_group_close(group) != COHORT_OK || rc != COHORT_OK;
}
