/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_ENQUEUE_H
#define SIM_NCCL_ENQUEUE_H

#include "sim/nccl/nccl_comm.h"

/*
 * enqueue - check and queue a collective, send or receive
 * @call: the call; a scripted fault might change it
 *
 * The arguments are checked in NCCL's order.  The call joins the thread's open
 * group; if none is open, the call is a group by itself.
 */
ncclResult_t enqueue(struct ncclComm *comm, struct call *call,
                     cudaStream_t stream);

/* Exempt the calls of this thread from scripted faults if @begins; otherwise,
 * end the exemption.  Scripted faults select a call by its number; exempt calls
 * get no number. */
void enqueue_uncounted(bool begins);

static inline bool call_is_p2p(const struct call *c)
{
	return c->kind == CALL_SEND || c->kind == CALL_RECV;
}

#endif
