/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Train in several processes, each with some devices, and continue when a
 * process dies
 *
 * The launcher starts one process for each share of the machine's devices.
 * With "die" as the second argument, process 1 is killed in step 4.
 *
 *  cc processes.c -lcohort && mpirun -n 2 ./a.out 2
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>

#define STEPS 8
#define MOST 8 /* maximum number of devices of a process */

struct run {
	int process;
	int dies;
	int step; /* first step of the next run; only rank 0's step is used */
};

/* Return the number of this process on its machine, as set by its launcher. */
static int local_number(void)
{
	static const char *const names[] = {
		"COHORT_LOCAL_PROCESS",
		"COHORT_PROCESS",
		"OMPI_COMM_WORLD_LOCAL_RANK",
		"LOCAL_RANK",
		"SLURM_LOCALID",
		"MPI_LOCALRANKID",
	};
	size_t i = 0;

	while (i < sizeof(names) / sizeof(names[0]) && !getenv(names[i]))
		i++;
	return i < sizeof(names) / sizeof(names[0]) ? atoi(getenv(names[i]))
	                                            : 0;
}

static int train(struct cohort_comm *comm, void *user)
{
	struct run *run = user;
	int32_t step = run->step;
	float gradient;
	int rc;

	/*
	 * After a respawn some ranks may be one step ahead of others, so start
	 * from rank 0's step.
	 */
	rc = cohort_broadcast_host(comm, &step, 1, COHORT_I32, 0,
	                           COHORT_FOREVER);
	for (; step < STEPS && rc == COHORT_OK; step++) {
		if (run->dies && run->process == 1 && step == 3)
			raise(SIGKILL);
		gradient = (float)cohort_comm_origin(comm);
		rc = cohort_all_reduce_host(comm, &gradient, 1, COHORT_F32,
		                            COHORT_AVG, COHORT_FOREVER);
	}
	if (cohort_comm_rank(comm) == 0 || rc != COHORT_OK)
		run->step = step;
	if (cohort_comm_rank(comm) == 0 && rc == COHORT_OK)
		printf("generation %d: %d ranks, %d steps, the last average is "
		       "%g\n",
		       cohort_comm_generation(comm), cohort_comm_size(comm),
		       step, (double)gradient);
	return rc;
}

int main(int argc, char **argv)
{
	const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_AUTO,
	};
	int n = argc > 1 ? atoi(argv[1]) : 1;
	struct run run = { .dies = argc > 2 && strcmp(argv[2], "die") == 0 };
	struct cohort_group_options options;
	struct cohort_group *group;
	struct cohort_cause cause;
	int devices[MOST], i, rc;

	cohort_group_options_init(&options);
	options.bootstrap = &bootstrap;
	n = n < MOST ? n : MOST;
	for (i = 0; i < n; i++)
		devices[i] = local_number() * n + i;
	rc = cohort_group_open(devices, n, &options, &group);
	if (rc != COHORT_OK) {
		fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	run.process = cohort_group_process(group);
	while ((rc = cohort_group_run(group, train, &run, &cause)) ==
	       COHORT_PROCESS_EXITED) {
		fprintf(stderr, "%s\n", cause.text);
		/* Continue without the process that has exited. */
		if (cohort_group_respawn(group, NULL, 0) != COHORT_OK) {
			fprintf(stderr, "%s\n", cohort_last_error());
			break;
		}
	}
	return cohort_group_close(group) == COHORT_OK && rc == COHORT_OK ? 0
	                                                                 : 1;
}
