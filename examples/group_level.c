/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Drive all GPUs from one thread: allocate memory on each, copy values to it,
 * sum the values over all ranks, and copy the sums back
 *
 * Ranks have no threads: one call acts for all ranks, with one pointer per
 * rank.
 *
 *  cc group_level.c -lcohort && ./a.out
 */

#include <stdio.h>

#include <cohort/cohort.h>

#define RANKS 3
#define COUNT 1000
#define SECOND UINT64_C(1000000000)

static float in[RANKS][COUNT], out[RANKS][COUNT];

/* Set rank r's input to r + 1, so that the sum is 1 + 2 + ... + RANKS. */
static void fill(void)
{
	int r, i;

	for (r = 0; r < RANKS; r++)
		for (i = 0; i < COUNT; i++)
			in[r][i] = (float)(r + 1);
}

static int check(void)
{
	int r, i, wrong = 0;

	for (r = 0; r < RANKS; r++) {
		for (i = 0; i < COUNT; i++)
			wrong += out[r][i] != RANKS * (RANKS + 1) / 2;
		printf("rank %d: %.0f\n", r, out[r][0]);
	}
	return wrong;
}

/*
 * Copy, sum and copy back.  All calls are queued on the ranks' own streams, in
 * order, so waiting for the last one is enough.
 */
static int sum(struct cohort_group *group, void *memory[RANKS])
{
	const void *from[RANKS], *device[RANKS];
	void *to[RANKS];
	uint64_t ticket;
	int r, rc;

	for (r = 0; r < RANKS; r++) {
		from[r] = in[r];
		device[r] = memory[r];
		to[r] = out[r];
	}
	rc = cohort_group_copy(group, memory, from, sizeof(in[0]), NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_group_all_reduce(group, device, memory, COUNT,
		                             COHORT_F32, COHORT_SUM, NULL,
		                             NULL);
	if (rc == COHORT_OK)
		rc = cohort_group_copy(group, to, device, sizeof(out[0]), NULL,
		                       &ticket);
	if (rc == COHORT_OK)
		rc = cohort_group_wait(group, ticket, 60 * SECOND);
	return rc;
}

int main(void)
{
	struct cohort_group_options options;
	struct cohort_group *group;
	void *memory[RANKS];
	int rc;

	cohort_group_options_init(&options);
	options.platform = COHORT_PLATFORM_HOST; /* or _AUTO */
	if (cohort_group_open(NULL, RANKS, &options, &group) != COHORT_OK)
		return 1;
	fill();
	rc = cohort_group_alloc(group, sizeof(in[0]), memory);
	if (rc == COHORT_OK) {
		rc = sum(group, memory);
		/* Never free memory that an operation may still write to. */
		if (rc != COHORT_WEDGED && rc != COHORT_TIMED_OUT)
			cohort_group_free(group, memory);
	}
	if (rc != COHORT_OK)
		fprintf(stderr, "%s\n", cohort_last_error());
	return cohort_group_close(group) != COHORT_OK || rc != COHORT_OK ||
	       check();
}
