/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_REPLAY_H
#define SIM_NCCL_REPLAY_H

/*
 * Launches that are kept, to be queued again with the same calls (platform.h)
 */

#include "sim/nccl/comm.h"

/*
 * replay_keep - store in *@kept the launch of the group that is open on @comm, NULL
 *               if it cannot be kept; with @is_same nothing changes if there is one
 * replay_run  - queue @kept once more, on any stream of the device.  False: nothing
 *               has happened, and the calls have to be made; one reason is that
 *               @kept is in flight
 */
void replay_keep(ncclComm_t comm, void **kept, bool is_same);
bool replay_run(ncclComm_t comm, void *kept, cudaStream_t stream);

#endif
