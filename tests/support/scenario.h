/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENARIO_H
#define SCENARIO_H

/*
 * A short life of a group, for programs that make one step of that life fail
 */

#include <cohort/cohort.h>

/*
 * Have the host platform make more streams and events than any life holds at
 * once, a number that depends on timing: the platform keeps them, which would
 * look like a leak later.
 */
void scenario_stock(void);

/*
 * Open three ranks, let one thread call for all, run a worker per rank through
 * every call that queues work and through a split; abort, respawn two ranks and
 * run them, close; then join a rank by id, and close that.  Cleans up, and
 * returns the first result that is not COHORT_OK; *@closed is what the close
 * returned, COHORT_OK if nothing was open.
 */
int scenario(int *closed);

#endif
