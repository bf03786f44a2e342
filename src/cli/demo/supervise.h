/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_SUPERVISE_H
#define CLI_DEMO_SUPERVISE_H

/*
 * The demo's supervisor: runs the workers, and after a failure goes on without the
 * ranks to blame
 */

#include "cli/demo/train.h"

/*
 * Train to the end on plan->group, in as many generations as it takes, and store in
 * @result what happened; or until no rank of this process is left.  An enum cli_exit,
 * after a complaint.
 */
int supervise(struct plan *plan, struct demo_result *result);

/* Release a rank that was made to stall, and wait for its end; to be called before
 * plan_fini(). */
void supervise_release(struct plan *plan);

#endif
