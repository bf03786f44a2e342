/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SUBMIT_H
#define CORE_SUBMIT_H

/*
 * The one way by which an operation reaches the platform
 */

#include "core/clique.h"

/*
 * Queue ops[i] on comms[i] for @n neighbouring ranks, in one native group if it
 * takes more than one native call: all or nothing.  Stores the ticket, which is
 * the same for all of them (so their last tickets must be the same).
 *
 * Any thread.  Blocks while a rank has as many operations in flight as slots.
 */
int submit(struct cohort_comm *comms, int n, const struct op *ops,
           uint64_t *ticket_out);

/*
 * Be the one thread inside: COHORT_BUSY if another is, COHORT_OWNER if it is
 * bound to another, COHORT_STATE if it is closed, and if @with_cause is false
 * the status of the clique's cause, if it has one.  Never blocks.
 */
int gate_enter(struct cohort_comm *comm, bool with_cause);
void gate_leave(struct cohort_comm *comm);

#endif
