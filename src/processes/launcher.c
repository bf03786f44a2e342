/* SPDX-License-Identifier: Apache-2.0 */

#include "processes/launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/types.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/util.h"

static const struct launcher {
	const char *rank, *size;

	/* Variable that identifies the job.  If NULL, the parent process
	 * identifies it. */
	const char *job;

	/* Variables with the number of this job's processes on this machine,
	 * and the number of machines; NULL if the launcher has none.  If
	 * @local_size is not the total number of processes, or @machines is not
	 * 1, some processes are on other machines. */
	const char *local_size, *machines;

	/* True if this launcher sets PMIX_NAMESPACE itself.  If false, a
	 * PMIX_NAMESPACE in the environment comes from the launcher that has
	 * started this one. */
	bool has_pmix;

	/* True if the launcher also sets some of the variables for processes
	 * that it has not started, such as a batch script. */
	bool is_partial;
} launchers[] = {
	{ "COHORT_PROCESS", "COHORT_PROCESSES", "COHORT_JOB",
	  "COHORT_LOCAL_PROCESSES", NULL, true, false },
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE",
	  "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, true, false },
	/* torchrun must come before srun, whose variables it inherits in a
	 * batch script. */
	{ "RANK", "WORLD_SIZE", "MASTER_PORT", "LOCAL_WORLD_SIZE", NULL, false,
	  false },
	{ "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", NULL,
	  "SLURM_STEP_NUM_NODES", true, true },
	{ "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALNRANKS", NULL, false, false },
	{ "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS",
	  NULL, NULL, false, false },
};

const struct launcher *launcher_find(void)
{
	const struct launcher *l = launchers;

	for (; l < launchers + ARRAY_SIZE(launchers); l++)
		if (getenv(l->rank) && getenv(l->size) &&
		    (!l->job || getenv(l->job)))
			return l;
	return NULL;
}

/* Check whether only some of the variables of @l are set.  If so, return a
 * variable that is missing, and store in *@set a variable that is set.
 * Otherwise return NULL.  If only the job's variable is set, none counts as
 * set, because other programs set that variable as well. */
static const char *missing_variable(const struct launcher *l, const char **set)
{
	*set = getenv(l->rank) ? l->rank : getenv(l->size) ? l->size : NULL;
	return !*set                       ? NULL
	       : !getenv(l->rank)          ? l->rank
	       : !getenv(l->size)          ? l->size
	       : l->job && !getenv(l->job) ? l->job
	                                   : NULL;
}

int launcher_check(void)
{
	const struct launcher *l = launchers;
	const char *set, *missing;

	for (; l < launchers + ARRAY_SIZE(launchers); l++) {
		missing = missing_variable(l, &set);
		if (missing && !l->is_partial)
			return error_set(COHORT_INVALID,
			                 "%s is set in the environment, but %s "
			                 "is not: set both or neither",
			                 set, missing);
	}
	return COHORT_OK;
}

static int read_number(const char *variable, int least, int most, int *out)
{
	const char *text = getenv(variable);
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < least || value > most)
		return error_set(
			COHORT_INVALID,
			"%s is \"%s\" in the environment, not %d to %d",
			variable, text, least, most);
	*out = (int)value;
	return COHORT_OK;
}

/* Return COHORT_UNSUPPORTED if @variable is set, but not to @wanted. */
static int machine_check(const char *variable, int wanted)
{
	int value = 0, rc;

	if (!variable || !getenv(variable))
		return COHORT_OK;
	rc = read_number(variable, 1, INT_MAX, &value);
	if (rc == COHORT_OK && value != wanted)
		return error_set(
			COHORT_UNSUPPORTED,
			"%s is %d in the environment, not %d: some "
			"processes are on other machines, which shared "
			"memory cannot reach",
			variable, value, wanted);
	return rc;
}

int launcher_read(const struct launcher *l, int *process, int *processes)
{
	int rc = read_number(l->size, 1, COHORT_MAX_RANKS, processes);

	if (rc == COHORT_OK)
		rc = read_number(l->rank, 0, *processes - 1, process);
	if (rc == COHORT_OK)
		rc = machine_check(l->local_size, *processes);
	return rc == COHORT_OK ? machine_check(l->machines, 1) : rc;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text, strlen(text) + 1);
}

uint64_t launcher_job_hash(const char *job)
{
	return hash_text(0, job);
}

uint64_t launcher_job(const struct launcher *l)
{
	char parent[32];

	snprintf(parent, sizeof(parent), "%d", (int)getppid());
	return launcher_job_hash(l->job ? getenv(l->job) : parent);
}

uint64_t launcher_hash(const struct launcher *l, const char *group)
{
	const char *step = getenv("SLURM_STEP_ID");
	const char *run = getenv("TORCHELASTIC_RUN_ID");
	const char *restart = getenv("TORCHELASTIC_RESTART_COUNT");
	uint64_t h = launcher_job(l);

	h = hash_text(h, l->rank);
	h = hash_text(h, step ? step : "");
	h = hash_text(h, run ? run : "");
	h = hash_text(h, restart ? restart : "");
	return hash_text(h, group);
}

bool launcher_wants_pmix(void)
{
	const struct launcher *l = launcher_find();
	int process, processes;

	return !l || (l->has_pmix && launcher_read(l, &process, &processes) ==
	                                     COHORT_UNSUPPORTED);
}
