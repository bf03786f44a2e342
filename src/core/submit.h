/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SUBMIT_H
#define CORE_SUBMIT_H

/*
 * The one way by which an operation reaches the platform
 */

#include "core/clique.h"
#include "core/op.h"

/*
 * Queue ops[i] on comms[i] for @n neighbouring ranks, in one native group if it
 * takes more than one native call: all or nothing.  Stores the ticket, which is
 * the same for all of them (so their last tickets must be the same).  While a
 * batch is open, a call is kept for the batch's end instead.
 *
 * Any thread.  Blocks while a rank has as many operations in flight as slots.
 */
int submit(struct cohort_comm *comms, int n, const struct op *ops,
           uint64_t *ticket_out);

#endif
