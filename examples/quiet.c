/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocate and free GPU memory on a thread without a rank while ranks work
 *
 * An allocation may wait for kernels on all devices, so it must not run between
 * the first and the last launch of a collective.  A quiet section around the
 * allocation prevents that, if ranks launch together.  On GPUs the allocation
 * would be cudaMalloc().
 *
 *  cc quiet.c -lcohort && ./a.out
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <cohort/cohort.h>

#define RANKS 3
#define STEPS 200
#define SECOND UINT64_C(1000000000)

/* Act like a cache that loads data for later steps. */
static void *fill_cache(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < STEPS; i++) {
		if (cohort_quiet_begin() != COHORT_OK)
			break;
		free(malloc(1 << 20)); /* on GPUs: cudaMalloc(), cudaFree() */
		cohort_quiet_end();
	}
	return NULL;
}

static int steps(struct cohort_comm *comm, void *user)
{
	int rank = cohort_comm_rank(comm), i, rc = COHORT_OK;
	float *sum = NULL;
	uint64_t ticket;

	(void)user;
	rc = cohort_alloc(comm, sizeof(*sum), (void **)&sum);
	for (i = 0; i < STEPS && rc == COHORT_OK; i++) {
		*sum = (float)rank;
		rc = cohort_all_reduce(comm, sum, sum, 1, COHORT_F32,
		                       COHORT_SUM, cohort_comm_stream(comm),
		                       &ticket);
		if (rc == COHORT_OK)
			rc = cohort_wait(comm, ticket, 10 * SECOND);
	}
	if (rc == COHORT_OK)
		printf("rank %d: %g\n", rank, (double)*sum);
	else
		fprintf(stderr, "rank %d: %s\n", rank, cohort_last_error());
	cohort_free(comm, sum);
	return rc;
}

int main(void)
{
	struct cohort_group_options options;
	struct cohort_group *group;
	pthread_t cache;
	int rc;

	cohort_group_options_init(&options);
	options.platform =
		COHORT_PLATFORM_HOST; /* so that the host can write to *sum */
	options.launch = COHORT_LAUNCH_TOGETHER; /* the default on GPUs */
	if (cohort_group_open(NULL, RANKS, &options, &group) != COHORT_OK)
		return 1;
	if (pthread_create(&cache, NULL, fill_cache, NULL) != 0)
		return 1;
	rc = cohort_group_run(group, steps, NULL, NULL);
	pthread_join(cache, NULL);
	return cohort_group_close(group) != COHORT_OK || rc != COHORT_OK;
}
