/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_LAUNCHER_H
#define PROCESSES_LAUNCHER_H

/*
 * What a launcher has set in the environment: which process of which job this
 * is
 */

#include <stdbool.h>
#include <stdint.h>

struct launcher;

/* The launcher whose variables are set; NULL if there is none. */
const struct launcher *launcher_find(void);

/* COHORT_INVALID, with two variables, if one of a launcher's is set and another
 * is not. */
int launcher_check(void);

/* The number of this process, and how many there are.  COHORT_INVALID, with the
 * variable; COHORT_UNSUPPORTED if some are on other machines. */
int launcher_read(const struct launcher *l, int *process, int *processes);

/* A hash of the job and of a group's name: the same in all processes of the
 * job. */
uint64_t launcher_hash(const struct launcher *l, const char *group);

/* Whether the environment tells of no launcher, or of one with PMIx whose
 * processes are on several machines. */
bool launcher_wants_pmix(void);

#endif
