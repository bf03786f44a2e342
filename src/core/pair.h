/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PAIR_H
#define CORE_PAIR_H

/*
 * Sends and receives: numbered per pair of ranks and direction, and kept for
 * the watchdog until newer ones take their place
 *
 * The k-th send of one rank to another and the k-th receive of the other from
 * it are one transfer.  They are not compared: a rank says what it calls before
 * the native call, and goes on.
 *
 *  A. A transfer that pair_read() returns is whole.
 *  B. A rank's count of a pair is raised after the transfer can be read.
 *  C. As many of a rank's transfers are kept as it has slots, the last ones: in
 *     a batch with more, the first are not watched.
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

struct pairs {
	/* Atomic; transfers so far, the index of the last.  Release and
	 * acquire: what it counts can be read. */
	_Atomic uint64_t count;

	/* Atomic; for every rank the sends to it, then for every rank the
	 * receives from it.  Ordered as the count. */
	_Atomic uint64_t *numbers;

	/* By peer: both directions are connected.  Inside the gate. */
	bool *connected;

	struct transfer_slot slots[]; /* by index modulo the clique's slots */
};

/* One half of a transfer. */
struct transfer {
	uint64_t index; /* of this rank's transfers, from 1 */
	bool sends;     /* else it receives */
	int peer;
	uint64_t number; /* of the pair and direction, from 1 */
	uint64_t ticket;
	uint64_t arrived_ns;
	struct limits limits;
	size_t count;
	int type;
};

/* Have room for the transfers in @op.  Inside the gate.  COHORT_NO_MEMORY, or
 * COHORT_OK; allocates once in a communicator's life. */
int pair_prepare(struct cohort_comm *c, const struct op *op);

/* Return true if NCCL connects ranks in @op, the collective @number of @c, which may
 * then take until the init deadline.  Inside the gate. */
bool pair_collective_connects(const struct cohort_comm *c, const struct op *op,
                              uint64_t number);

/* Publish the sends and receives in @op, which pair_prepare() was called for.
 * Inside the gate. */
void pair_publish(struct cohort_comm *c, const struct op *op, uint64_t ticket,
                  uint64_t now_ns);

/*
 * Connect the peers in each of the @n ranks' @ops that were not connected
 * before: NCCL makes the connections of a pair in the first send or receive,
 * of one direction, and mixes up two ranks that both send first.  So the first
 * message with a peer, either way, is preceded by an empty one each way; and
 * the first gather, scatter or all_to_all, which NCCL makes of messages, by
 * such messages between all ranks.  Blocks until these peers have come, too, or
 * the clique is aborted.  With the gates held.
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

#endif
