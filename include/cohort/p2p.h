/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_P2P_H
#define COHORT_P2P_H

/*
 * Sends and receives: from one rank to one other
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_send - give a buffer to one rank
 * cohort_recv - get a buffer from one rank
 * @send: @count elements of @type, read
 * @recv: @count elements of @type, written
 * @peer: the other rank, which must receive, or send, the same @count and
 *        @type; this rank itself only in a batch, together with the other half
 *
 * Between two ranks, the k-th send on one pairs with the k-th receive on the
 * other, whatever else is called in between.  One exception: NCCL builds a
 * gather, scatter or all-to-all from such transfers, so both ranks must call it
 * after the same transfers.  (Not so within one batch: there the calls that
 * all ranks make run first.)  Sends and receives are not part of the sequence
 * of calls that all ranks must make.
 *
 * The rank that calls later compares the two calls before it launches anything
 * of its operation.  If @count or @type differs, or only one of the calls is
 * with host memory, that ends the group with COHORT_MISMATCH, and the cause
 * spells out both calls and blames neither rank.  The rank that called first
 * may have launched, and is aborted.  Calls are not compared
 *
 *  - with a peer in another process;
 *  - with a call after which the peer has made 256 more of its kind with this
 *    rank (in a group of more than 16 ranks fewer, but at least 16);
 *  - once either rank has captured a send or receive into a graph, or has
 *    called cohort_comm_native_enter().
 *
 * Transfers that are to go on side by side, in both directions or with several
 * peers, belong in one batch: on one stream a send keeps what is queued behind
 * it from starting until its peer receives.  A transfer with a @count of 0 is a
 * real one, too, which waits for its peer.
 *
 * A send on a GPU is done when NCCL has taken the data: after the first message
 * of a pair, one that fits into NCCL's buffers (some MiB) is done without its
 * receive, and nothing tells of a receive that never comes.  A larger send
 * stalls, and so does a receive without its send.  On the host platform every
 * send waits for its receive.
 *
 * The first message of a rank with @peer, either way, may wait inside the call
 * until @peer comes to its first with this rank: see "Connecting" in
 * cohort/options.h.
 *
 * Deadlines run as for a collective of the two ranks or, in a batch, as for one
 * of the rank and all its peers in that batch.  A peer in another process is
 * assumed to have made its call.  Everything else is as for the collectives
 * (cohort/collective.h).
 */
COHORT_API int cohort_send(struct cohort_comm *comm, const void *send,
                           size_t count, int type, int peer, void *stream,
                           uint64_t *ticket);
COHORT_API int cohort_recv(struct cohort_comm *comm, void *recv, size_t count,
                           int type, int peer, void *stream, uint64_t *ticket);

#ifdef __cplusplus
}
#endif

#endif
