/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program of scripts/compare-hang.sh for cohort: the last of N ranks does
 * not call the second all-reduce
 *
 *  hang RANKS DEADLINE
 *
 * Prints "waits" when the ranks start to wait, "said" with the report and the
 * seconds until then, and "lives" if the process survives, as the programs of
 * the other systems do.
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cohort/cohort.h>

#define COUNT 1000

static int ranks;
static sem_t go_home;
static _Atomic uint64_t began_ns; /* time before any rank waits */

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * Record the start, unless another rank has.  The deadline counts from the
 * first rank that waits.
 */
static void begin(void)
{
	uint64_t nothing = 0;

	if (atomic_compare_exchange_strong(&began_ns, &nothing, now()))
		printf("waits\n");
}

static void end(void)
{
	printf("said %.3f %s\n", (double)(now() - began_ns) * 1e-9,
	       cohort_last_error());
}

static void must(int rc)
{
	if (rc == COHORT_OK)
		return;
	printf("failed %s\n", cohort_last_error());
	exit(1);
}

static int reduce(struct cohort_comm *comm, void *gradient)
{
	uint64_t ticket;
	int rc = cohort_all_reduce(comm, gradient, gradient, COUNT, COHORT_F32,
	                           COHORT_SUM, cohort_comm_stream(comm),
	                           &ticket);

	return rc == COHORT_OK ? cohort_wait(comm, ticket, COHORT_FOREVER) : rc;
}

/* Run a rank. */
static int worker(struct cohort_comm *comm, void *unused)
{
	bool is_first = cohort_comm_generation(comm) == 1;
	void *gradient;
	int rc;

	(void)unused;
	must(cohort_alloc(comm, COUNT * sizeof(float), &gradient));
	must(reduce(comm, gradient));
	if (is_first && cohort_comm_rank(comm) == ranks - 1) {
		sem_wait(&go_home); /* this rank does not call */
		rc = COHORT_OK;
	} else {
		if (is_first)
			begin();
		rc = reduce(comm, gradient);
	}
	if (is_first && cohort_comm_rank(comm) == 0)
		end();
	cohort_free(comm, gradient);
	return rc;
}

static void open_group(uint64_t deadline_ns, struct cohort_group **group)
{
	struct cohort_group_options options;

	cohort_group_options_init(&options);
	options.name = "hang";
	options.deadlines.join_ns = deadline_ns;
	options.deadlines.abort_ns = deadline_ns;
	must(cohort_group_open(NULL, ranks, &options, group));
}

int main(int argc, char **argv)
{
	int lost = argc > 1 ? atoi(argv[1]) - 1 : 3;
	double deadline = argc > 2 ? atof(argv[2]) : 1.0;
	struct cohort_group *group;
	struct cohort_cause cause;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ranks = lost + 1;
	sem_init(&go_home, 0, 0);
	open_group((uint64_t)(deadline * 1e9), &group);
	cohort_group_run(group, worker, NULL, &cause);
	must(cohort_group_respawn(group, &lost, 1));
	must(cohort_group_run(group, worker, NULL, &cause));
	printf("lives goes on with %d ranks\n", cohort_group_size(group));
	sem_post(&go_home);
	must(cohort_group_close(group));
	return 0;
}
