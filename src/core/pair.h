/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PAIR_H
#define CORE_PAIR_H

/*
 * Sends and receives: numbered per pair of ranks and direction, compared, and
 * kept for the watchdog until newer ones take their place
 *
 * The k-th send of one rank to another and the k-th receive of the other from
 * it are the two halves of one transfer.  The two ranks share a word for it, in
 * which the first leaves its half for the second.
 *
 *  A. A transfer that pair_read() returns is whole.
 *  B. A rank's count of a pair is raised after the transfer can be read.
 *  C. As many of a rank's transfers are kept as it has slots, the last ones: in
 *     a batch with more, the first are not watched.
 *  D. If the halves of a transfer differ in count or type, or only one of them
 *     is in host memory, the rank that calls later sees that before it launches
 *     anything of its operation, and ends the clique.
 *
 * D holds only for two ranks of this process, and for a half that is among the
 * last 256 of its pair and direction when the peer calls the other one (fewer
 * in a process with more than 16 ranks, but 16 at least).  It ends for a rank
 * that captures a send or receive into a graph, or enters its native
 * communicator: its numbers no longer say which halves meet.
 */

#include <stdatomic.h>

#include "core/clique.h"

#define TRANSFER_WORDS 8

struct transfer_slot {
	/* Atomic, all of them: the index is 0 while the others are written,
	 * then stored with release; a reader loads it before and after. */
	_Atomic uint64_t index;
	_Atomic uint64_t words[TRANSFER_WORDS - 1];
};

/* The words of all pairs of a clique, in which ranks leave halves. */
struct halves {
	unsigned bits; /* each direction has 2 to that power */

	/* Atomic; see half_make(), 0 if neither rank has called.  The words of
	 * both directions for one number are in one cache line. */
	_Alignas(16) _Atomic uint64_t words[];
};

struct pairs {
	/* Atomic; transfers so far, the index of the last.  Release and
	 * acquire: what it counts can be read. */
	_Atomic uint64_t count;

	/* Atomic; for every rank the sends to it, then for every rank the
	 * receives from it.  Ordered as the count. */
	_Atomic uint64_t *numbers;

	/* By peer: both directions are connected.  With the lock held. */
	bool *connected;

	struct transfer_slot slots[]; /* by index modulo the clique's slots */
};

/* One half of a transfer. */
struct transfer {
	uint64_t index; /* of this rank's transfers, from 1 */
	bool sends;     /* else it receives */
	bool from_host; /* in host memory */
	int peer;
	uint64_t number; /* of the pair and direction, from 1 */
	uint64_t ticket;
	uint64_t arrived_ns;
	struct limits limits;
	size_t count;
	int type;
};

/* Have room for the transfers in @op.  With the lock held.  COHORT_NO_MEMORY,
 * or COHORT_OK; allocates once in a communicator's life, and once in a
 * clique's. */
int pair_prepare(struct cohort_comm *c, const struct op *op);

/*
 * Publish the sends and receives in @op, which pair_prepare() was called for,
 * and compare each with its other half if the peer has called that.  Inside the
 * lock.
 *
 * Returns:
 *   COHORT_OK        no half is known to differ
 *   COHORT_MISMATCH  one differs, and the clique has been ended with both calls
 *                    spelled out
 */
int pair_agree(struct cohort_comm *c, const struct op *op, uint64_t ticket,
               uint64_t now_ns, bool captured);

/* Return true if NCCL connects ranks in @op, the collective @number of @c,
 * which may then take until the init deadline.  With the lock held. */
bool pair_collective_connects(const struct cohort_comm *c, const struct op *op,
                              uint64_t number);

/*
 * Connect the peers in each of the @n ranks' @ops that were not connected
 * before: NCCL makes the connections of a pair in the first send or receive,
 * of one direction, and mixes up two ranks that both send first.  So the first
 * message with a peer, either way, is preceded by an empty one each way; and
 * the first gather, scatter or all_to_all, which NCCL makes of messages, by
 * such messages between all ranks.  Blocks until these peers have come, too, or
 * the clique is aborted.  With the locks held.
 *
 * COHORT_OK: go on, unless @r has what failed; the status of a cause: a rank of
 * this process will not come.
 */
int pair_connect(struct cohort_comm *comms, int n, const struct op *ops,
                 struct native_result *r);

void pairs_free(struct pairs *pairs);

/* How many transfers @c has called. */
uint64_t pair_count(const struct cohort_comm *c);

/* How many of these are sends to @peer, or else receives from it. */
uint64_t pair_number(const struct cohort_comm *c, bool sends, int peer);

/* Any thread.  False if the transfer was overwritten. */
bool pair_read(const struct cohort_comm *c, uint64_t index,
               struct transfer *out);

/* Find transfer @number of those that @c sends to @peer, or receives from it.
 * Any thread.  False if the transfer was overwritten. */
bool pair_find(const struct cohort_comm *c, bool sends, int peer,
               uint64_t number, struct transfer *out);

#endif
