/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_P2P_H
#define SIM_EXEC_P2P_H

/*
 * Sends and receives
 *
 * The k-th send of rank a to rank b is matched with the k-th receive of b from
 * a, no matter what other ranks do.  Called by rendezvous.c.
 */

#include "sim/exec/world.h"

bool p2p_init(struct member *member);

/* Match the transfers of a launch that joins with their partners.  Called with
 * the world's lock held. */
void p2p_join_locked(struct launch *launch);

/* Advance a launch's transfers as far as possible without waiting.  Takes the
 * world's lock if needed.  Returns true if this thread leaves work that could
 * be done now. */
bool p2p_work(struct launch *launch, const struct drive *drive);

/* Prevent threads from starting to copy messages of a launch without the
 * world's lock, which the caller holds.  Returns false if a thread may be
 * copying a message now. */
bool p2p_close_locked(struct launch *launch);

/* Detach the transfers of a launch that is cut short from their partners, which
 * then stay unmatched.  Called after p2p_close_locked() has returned true. */
void p2p_leave_locked(struct launch *launch);

#endif
