/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANKS_H
#define RANKS_H

/*
 * Ready groups of ranks for tests through the public API
 *
 * Whatever fails in here ends the program with a message: it is about the
 * setting of a test, not its subject.
 */

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "support/place.h"

/* The longest that anything in a test should take; a test that gets there has
 * failed. */
#define RANKS_SOON UINT64_C(20000000000)

/* End the program with a message unless @rc is COHORT_OK. */
void ranks_must(int rc, const char *what);

/* A group of @n ranks; @options may be NULL. */
struct cohort_group *ranks_open(int n,
                                const struct cohort_group_options *options);

/* The same, split into @comms. */
struct cohort_group *ranks_split(int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_comm *comms[]);

/* The same where each rank launches ahead of the others: for tests whose one thread calls
 * for several ranks in turn, or that are about running ahead. */
struct cohort_group *ranks_ahead(int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_comm *comms[]);

/* The same, by the environment, for groups that are opened from now on. */
void ranks_launch_ahead(void);

/* ranks_split() with little memory, for those that come and go. */
struct cohort_group *ranks_small(int n, struct cohort_comm *comms[]);

/* Script a fault; the test is skipped where nobody can. */
void ranks_fault(int rank, uint64_t operation, int kind, uint64_t value);

/* Sum one int32 in place over the ranks, on the rank's own stream; @value must
 * stay until the ticket is answered.  Returns the ticket. */
uint64_t ranks_sum(struct cohort_comm *comm, int32_t *value);

/* The same, and wait: what cohort_wait() answers. */
int ranks_sum_wait(struct cohort_comm *comm, int32_t *value);

#endif
