/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_SPANS_H
#define SIM_NCCL_SPANS_H

/*
 * Communicators whose ranks are in several processes: how they are made, and go
 *
 * Ranks with a unique id meet at its root (root.h).  Ranks of a communicator
 * that spans processes meet by words in its shared memory.
 */

#include "sim/nccl/nccl_join.h"

/* True if ranks of this process may meet others so: then all groups go here
 * first. */
bool spans_are_on(void);

/* As meeting_run(), also for those that meet in this process. */
ncclResult_t spans_run(struct join *first);

/* The last rank of @world in this process is released. */
void spans_leave(struct world *world);

#endif
