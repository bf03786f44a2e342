/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_ENQUEUE_H
#define SIM_NCCL_ENQUEUE_H

#include "sim/nccl/nccl_comm.h"

/*
 * What every collective, send and receive comes to: the arguments are checked
 * in NCCL's order, then the call joins the open group, or is a group of its
 * own.  It may change @call.
 */
ncclResult_t enqueue(struct ncclComm *comm, struct call *call,
                     cudaStream_t stream);

/* From here on, or no longer: no scripted fault counts the calls of this
 * thread, or strikes them. */
void enqueue_uncounted(bool begins);

static inline bool call_is_p2p(const struct call *c)
{
	return c->kind == CALL_SEND || c->kind == CALL_RECV;
}

#endif
