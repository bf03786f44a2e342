/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_SUPERVISE_H
#define CLI_DEMO_SUPERVISE_H

/*
 * The demo's supervisor: runs the workers, and while that fails goes on without
 * the ranks that are to blame
 */

#include "cli/demo/train.h"

/*
 * Train to the end on plan->group, in as many generations as it takes.  What
 * happened goes to @result.  An enum cli_exit, after a complaint.
 */
int supervise(struct plan *plan, struct demo_result *result);

/* Let a rank that was made to stall come back, and wait for its end.  Before
 * plan_fini(). */
void supervise_release(struct plan *plan);

#endif
