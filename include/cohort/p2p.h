/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_P2P_H
#define COHORT_P2P_H

/*
 * Sends and receives: point-to-point transfers from one rank to another
 *
 * The k-th send of one rank to another pairs with the k-th receive of that
 * rank, no matter what else the two ranks call.  Transfers are not part of the
 * sequence of calls that all ranks must make.  docs/api-rules.md, "Sends and
 * receives", says which pairs are compared, and when a send is done.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_send - send a buffer to one rank
 * @send: @count elements of @type, read
 * @peer: a rank that must receive the same @count and @type.  The peer may be
 *        this rank itself only if the receive is in the same batch
 *
 * Transfers with several peers or in both directions belong in one batch
 * (cohort_batch_begin()): a send holds back the work that is queued after it on
 * its stream until the peer receives, even if @count is 0.
 *
 * The later of the two calls compares them before it launches.  If they differ,
 * the group ends with COHORT_MISMATCH, and the cause lists both calls and
 * blames neither.  Calls of ranks in different processes are not compared.
 *
 * On a GPU a small send can complete even if the peer never receives, because
 * NCCL buffers it; a larger send stalls.  On the host platform every send waits
 * for its receive.
 *
 * The first transfer of two ranks may block until both have called
 * (docs/gpu.md, "Connections").  A transfer has the deadlines of a collective
 * between the two ranks; in a batch, of a collective between the rank and all
 * its peers.  Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_send(struct cohort_comm *comm, const void *send,
                           size_t count, int type, int peer, void *stream,
                           uint64_t *ticket);

/*
 * cohort_recv - receive a buffer from one rank
 * @recv: @count elements of @type, written
 * @peer: a rank that must send the same @count and @type.  The peer may be this
 *        rank itself only if the send is in the same batch
 *
 * A receive without a matching send stalls.  Otherwise the same as
 * cohort_send().
 */
COHORT_API int cohort_recv(struct cohort_comm *comm, void *recv, size_t count,
                           int type, int peer, void *stream, uint64_t *ticket);

#ifdef __cplusplus
}
#endif

#endif
