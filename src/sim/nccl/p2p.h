/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_P2P_H
#define SIM_NCCL_P2P_H

/*
 * Sends and receives: the k-th of one rank to another meets the k-th receive of
 * that one from it, whatever the other ranks do
 *
 * Called by rendezvous.c.
 */

#include "sim/nccl/comm.h"

/* Make room for what @comm will send and receive; false without memory. */
bool p2p_init(struct ncclComm *comm);

/* Let the transfers of a launch that arrives find their partners. */
void p2p_join_locked(struct launch *launch);

/* Do what can be done of a launch's transfers; without the lock, which is taken if
 * there is anything.  True if this driver leaves some of that. */
bool p2p_work(struct launch *launch, const struct drive *drive);

/*
 * p2p_close_locked - let nobody begin to copy without the lock; false if a thread may
 *                    touch their buffers now
 * p2p_leave_locked - then: take the transfers of a launch that is cut short from their
 *                    partners, which will never get another
 */
bool p2p_close_locked(struct launch *launch);
void p2p_leave_locked(struct launch *launch);

/* ncclInvalidUsage if a rank's sends to itself in a group do not match its
 * receives. */
ncclResult_t p2p_check(const struct launch *launch);

#endif
