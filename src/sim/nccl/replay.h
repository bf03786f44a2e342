/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_REPLAY_H
#define SIM_NCCL_REPLAY_H

/*
 * Launches that are kept, to be queued again with the same calls (platform.h)
 *
 * One that is kept is not given out for anything else, in flight or at rest.
 */

#include "sim/nccl/comm.h"

/*
 * replay_keep() - have *@kept be the launch of the group that is open on @comm, or NULL
 *                 if it cannot be kept; no change if *@kept @is_same already
 * replay_run()  - queue @kept once more, on any stream of the device.  False: nothing has
 *                 happened, and the calls have to be made; while it is in flight, for
 *                 one reason
 */
void replay_keep(ncclComm_t comm, void **kept, bool is_same);
bool replay_run(ncclComm_t comm, void *kept, cudaStream_t stream);

#endif
