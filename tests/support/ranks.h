/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANKS_H
#define RANKS_H

/*
 * Groups of ranks for tests of the public API
 *
 * If a helper fails, it ends the program with a message, because the setup is
 * broken, not the code under test.
 */

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "support/place.h"

/* Time limit of a step of a test, in nanoseconds; a longer wait is a failure */
#define RANKS_SOON UINT64_C(20000000000)

/* End the program with a message unless @rc is COHORT_OK. */
void ranks_must(int rc, const char *what);

/* Open a group of @n ranks. @options can be NULL. */
struct cohort_group *ranks_open(int n,
                                const struct cohort_group_options *options);

/* Open a group as ranks_open() does, and split it into @comms. */
struct cohort_group *ranks_split(int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_comm *comms[]);

/*
 * Do what ranks_split() does, but let each rank launch before the others have
 * called. Use this in tests in which one thread makes the calls of several
 * ranks in turn, and in tests of ranks that run ahead.
 */
struct cohort_group *ranks_ahead(int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_comm *comms[]);

/*
 * Set an environment variable that makes ranks launch ahead by default, in
 * groups that are opened later.
 */
void ranks_launch_ahead(void);

/* Do what ranks_split() does, but with a small recorder. Use this in tests that
 * open many groups. */
struct cohort_group *ranks_small(int n, struct cohort_comm *comms[]);

/* Wait until @comm's rank has called a collective that some rank of this
 * process has not finished. */
void ranks_await_joined(struct cohort_comm *comm);

/* Return the cause of @group's end; its status is COHORT_OK if there is none. */
struct cohort_cause ranks_cause(struct cohort_group *group);

/* Script a fault, or skip the test if faults cannot be scripted. */
void ranks_fault(int rank, uint64_t operation, int kind, uint64_t value);

/* Enqueue an in-place sum of one int32 over the ranks, on the rank's own
 * stream. Return the ticket. @value must be valid until the operation is
 * done. */
uint64_t ranks_sum(struct cohort_comm *comm, int32_t *value);

/* Make the call of ranks_sum(), and wait for the operation. Return the error of
 * the call, or the result of cohort_wait(). */
int ranks_sum_wait(struct cohort_comm *comm, int32_t *value);

#endif
