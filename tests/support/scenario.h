/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENARIO_H
#define SCENARIO_H

/*
 * A short lifetime of a group, for programs that make one step of it fail
 */

#include <cohort/cohort.h>

/*
 * Make the host platform create streams and events and keep them for reuse,
 * more than any scenario uses at a time. The number that a scenario needs
 * depends on timing, and any that it created itself would look like leaks.
 */
void scenario_stock(void);

/*
 * Run the scenario, which always cleans up.
 *
 * The scenario:
 * - opens three ranks, and lets one thread make all their calls
 * - runs a worker on each rank, which makes every call that enqueues work,
 *   and a split
 * - aborts, respawns two ranks, and runs them
 * - closes the group
 * - joins a rank by id, and closes it
 *
 * Return the first result that is not COHORT_OK.  *@closed is the result of the
 * close, or COHORT_OK if nothing was open.
 */
int scenario(int *closed);

#endif
