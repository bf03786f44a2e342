/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANKS_H
#define RANKS_H

/*
 * Groups of ranks, ready to use, for tests through the public API
 *
 * A failure in here ends the program with a message: the test's set-up is at
 * fault, not its subject.
 */

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "support/place.h"

/*
 * No step of a test should take longer; a test that waits this long has failed.
 */
#define RANKS_SOON UINT64_C(20000000000)

/* End the program with a message unless @rc is COHORT_OK. */
void ranks_must(int rc, const char *what);

/* A group of @n ranks; @options may be NULL. */
struct cohort_group *ranks_open(int n,
                                const struct cohort_group_options *options);

/* Like ranks_open(), and split the group into @comms. */
struct cohort_group *ranks_split(int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_comm *comms[]);

/*
 * Like ranks_split(), with ranks that launch ahead of each other: for tests
 * where one thread calls for several ranks in turn, or that are about ranks
 * that run ahead.
 */
struct cohort_group *ranks_ahead(int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_comm *comms[]);

/*
 * Have all groups that are opened from now on launch ahead, by the environment.
 */
void ranks_launch_ahead(void);

/* Like ranks_split(), with little memory, for groups that come and go. */
struct cohort_group *ranks_small(int n, struct cohort_comm *comms[]);

/* Script a fault; skips the test where faults cannot be scripted. */
void ranks_fault(int rank, uint64_t operation, int kind, uint64_t value);

/* Sum one int32 in place over the ranks, on the rank's own stream; @value must
 * stay until the ticket is answered.  Returns the ticket. */
uint64_t ranks_sum(struct cohort_comm *comm, int32_t *value);

/* Like ranks_sum(), and wait for the ticket: returns cohort_wait()'s answer. */
int ranks_sum_wait(struct cohort_comm *comm, int32_t *value);

#endif
