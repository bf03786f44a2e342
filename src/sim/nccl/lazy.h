/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_LAZY_H
#define SIM_NCCL_LAZY_H

/*
 * Connects ranks at their first call, as NVIDIA's NCCL does
 * (COHORT_HOST_CONNECT=first)
 *
 * A communicator starts without connections.  When a rank ends the group that
 * contains its first collective, it makes the connections, and waits until
 * every other rank has reached its own first collective.  A call outside a
 * group is a group by itself, and ncclGroupSimulateEnd() also connects and
 * waits.
 *
 * The first send to a peer waits for the peer's first receive from this rank,
 * and the first receive waits for the peer's first send.  Gathers, scatters and
 * all-to-alls are made of sends and receives.  Connecting a pair is a memory
 * operation (cuda/sync.h), and neither side launches before both are connected.
 *
 * If two ranks each start with only a send to the other, or each with only a
 * receive, they wait for each other until an abort.  In NVIDIA's NCCL, each
 * rank can mistake the other's message for the reply to its own, and the
 * kernels then use wrong pointers.  In strict mode, the simulator ends the
 * program.
 */

#include <stdbool.h>

#include "sim/nccl/nccl_comm.h"

struct connections;

/* Read COHORT_HOST_CONNECT.  Return COHORT_OK or, if the value is invalid,
 * COHORT_INVALID with a message that quotes the value. */
int lazy_init(void);

/* Return true if ranks are connected at their first call. */
bool lazy_is_on(void);

/*
 * lazy_connect - make the connections that a group's launches need
 * @first:     the first launch of the group
 * @simulated: the group is only simulated (ncclGroupSimulateEnd())
 *
 * Waits for the other ranks.  Does nothing unless lazy_is_on().  Fails if a
 * communicator is aborted during the wait.
 */
ncclResult_t lazy_connect(const struct launch *first, bool simulated);

/* Free what lazy_connect() allocated for @world. */
void lazy_free(struct world *world);

#endif
