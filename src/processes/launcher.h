/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_LAUNCHER_H
#define PROCESSES_LAUNCHER_H

/*
 * Reads the variables that a launcher sets in the environment: the job of this
 * process, and the number of the process in the job
 */

#include <stdbool.h>
#include <stdint.h>

struct launcher;

/* Return the launcher whose variables are set; NULL if there is none. */
const struct launcher *launcher_find(void);

/* Return COHORT_INVALID, with an error that names both variables, if some but
 * not all variables of a launcher are set. */
int launcher_check(void);

/* Read the number of this process in the job and the total number of processes.
 * Return COHORT_INVALID, with an error that names the variable, if a variable
 * is not valid, and COHORT_UNSUPPORTED if some processes are on other
 * machines. */
int launcher_read(const struct launcher *l, int *process, int *processes);

/* Return a hash of the job that its launcher calls @job. */
uint64_t launcher_job_hash(const char *job);

/* Return a hash of this process's job. */
uint64_t launcher_job(const struct launcher *l);

/* Return a hash of the job and the group's name.  It is equal in all processes
 * of the job. */
uint64_t launcher_hash(const struct launcher *l, const char *group);

/* Return true if the group should use PMIx: if no launcher's variables are set,
 * or if the launcher has PMIx and processes on several machines. */
bool launcher_wants_pmix(void);

#endif
