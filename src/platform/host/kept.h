/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_KEPT_H
#define HOST_KEPT_H

/*
 * Launches that are kept, to be queued again with the same calls (platform.h)
 *
 * One that is kept is not given out for anything else, in flight or at rest.
 */

#include "platform/host/launch.h"

void *kept_make(ncclComm_t comm);
bool kept_again(ncclComm_t comm, void *kept, cudaStream_t stream);
void kept_drop(ncclComm_t comm, void *kept);

/* With @comm, when nobody uses it any more. */
void kept_free(struct ncclComm *comm);

#endif
