/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_WORLDS_H
#define SIM_NCCL_WORLDS_H

#include "sim/nccl/join.h"

/* Make a world of the ranks of each color in @places, which has an entry for each of
 * @ranks ranks, NULL for one that is left out; the entries are sorted.  All worlds or,
 * without memory, none.  Called with the lock of all meetings held. */
ncclResult_t worlds_make(struct join **places, int ranks);

/* Make @comm rank @rank of @world, as part of which it is known from then on.  Called
 * with that lock held, too. */
void worlds_take_place(struct ncclComm *comm, struct world *world, int rank);

#endif
