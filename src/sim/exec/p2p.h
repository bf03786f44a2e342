/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_P2P_H
#define SIM_EXEC_P2P_H

/*
 * Sends and receives: the k-th of one rank to another meets the k-th receive of
 * that one from it, whatever the other ranks do
 *
 * Called by rendezvous.c.
 */

#include "sim/exec/world.h"

/* Make room for what @member will send and receive; false without memory. */
bool p2p_init(struct member *member);

/* Let the transfers of a launch that arrives find their partners. */
void p2p_join_locked(struct launch *launch);

/* Do what can be done of a launch's transfers; without the lock, which is taken
 * if there is anything.  True if this driver leaves some of that. */
bool p2p_work(struct launch *launch, const struct drive *drive);

/*
 * p2p_close_locked - let nobody begin to copy without the lock; false if a
 *                    thread may touch their buffers now
 * p2p_leave_locked - then: take the transfers of a launch that is cut short
 *                    from their partners, which will never get another
 */
bool p2p_close_locked(struct launch *launch);
void p2p_leave_locked(struct launch *launch);

#endif
