/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SUBMIT_H
#define CORE_SUBMIT_H

/* Submits operations to the platform; every operation takes this path */

#include "core/clique.h"
#include "core/op.h"

/*
 * Queue ops[i] on comms[i] for @n consecutive ranks, on all of them or on none.
 * Several native calls are made in one native group.  While a batch is open,
 * add the call to the batch instead.
 *
 * May be called from any thread.  Blocks while a rank has as many operations in
 * flight as slots.
 *
 * @ticket_out: set to the ticket, which is the same for all @n ranks (so their
 *             last tickets must be equal); may be NULL
 */
int submit(struct cohort_comm *comms, int n, const struct op *ops,
           uint64_t *ticket_out);

#endif
