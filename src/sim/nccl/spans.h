/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_SPANS_H
#define SIM_NCCL_SPANS_H

/*
 * Creates and frees communicators whose ranks are in several processes
 *
 * Ranks that join by a unique id connect to its root (root.h).  Ranks of a
 * communicator that already spans processes use its shared memory.
 */

#include "sim/nccl/nccl_join.h"

/* Run the joins of one NCCL group.  Only for processes that share memory. */
ncclResult_t spans_run(struct join *first);

/* Drop this process's reference to @world, after the last rank of this process
 * was released. */
void spans_leave(struct world *world);

#endif
