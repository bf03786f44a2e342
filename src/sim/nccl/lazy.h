/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_LAZY_H
#define SIM_NCCL_LAZY_H

/*
 * COHORT_HOST_CONNECT=first: connections that are made late, as by NVIDIA's
 * NCCL
 *
 * There the ranks of a communicator have no connections at first.  The end of
 * the group with a rank's first collective (a call outside of groups is a group
 * of its own) makes them, and waits for all ranks to come to theirs; so does
 * ncclGroupSimulateEnd().  The first send to a peer waits for that peer's first
 * receive from here, and the other way round; gathers, scatters and all-to-alls
 * are made of sends and receives.  To connect a pair is a memory operation
 * (sync.h), and neither end launches before both have done it.
 *
 * Two ranks that each come with a first send only, or a receive only, wait for
 * each other for ever, or until an abort.  In NVIDIA's NCCL each may take the
 * other's message for the answer to its own; then the kernels use wrong
 * pointers.  Strict mode ends the program.
 */

#include <stdbool.h>

#include "sim/nccl/nccl_comm.h"

struct connections;

/* Read the environment: COHORT_OK, or COHORT_INVALID with the value. */
int lazy_init(void);

/* True if connections are made late. */
bool lazy_is_on(void);

/* Connect what the launches of a group, or the only one, need, and wait for the
 * other ranks; @simulated: the group is not launched.  Fails if a communicator
 * is aborted meanwhile.  If that is not on, does nothing. */
ncclResult_t lazy_connect(const struct launch *first, bool simulated);

/* Free what lazy_connect() has made of a world. */
void lazy_free(struct world *world);

#endif
