/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENARIO_H
#define SCENARIO_H

/*
 * A short life of a group, for programs that make one thing in it fail
 */

#include <cohort/cohort.h>

/*
 * Have the host platform make more streams and events than any life has at once,
 * which is a matter of time: it keeps them, which would look like a leak later.
 */
void scenario_stock(void);

/*
 * Open three ranks, let one thread speak for all, run a worker per rank through
 * every call that queues work, and a split; abort, respawn two ranks and run them,
 * close; then join a rank by id, and close that.  Returns the first result that is not
 * COHORT_OK, after having cleaned up; *@closed is what close answered,
 * COHORT_OK if nothing was open.
 */
int scenario(int *closed);

#endif
