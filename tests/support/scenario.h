/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENARIO_H
#define SCENARIO_H

/*
 * A short life of a group, for programs that make one thing in it fail
 */

#include <cohort/cohort.h>

/*
 * Open three ranks, let one thread speak for all, run a worker per rank through
 * every call that queues work, abort, respawn two ranks and run them, close; then
 * join a rank by id, and close that.  Returns the first result that is not
 * COHORT_OK, after having cleaned up; *@closed is what close answered,
 * COHORT_OK if nothing was open.
 */
int scenario(int *closed);

#endif
