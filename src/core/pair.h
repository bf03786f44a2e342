/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PAIR_H
#define CORE_PAIR_H

/*
 * Sends and receives: numbered per pair of ranks and direction, and kept for the
 * watchdog until newer ones take their place
 *
 * Of two ranks the k-th send of one to the other and the k-th receive of that from
 * it are one transfer.  They are not compared: a rank says what it calls, before it
 * does, and goes on.
 *
 *  A. A transfer that pair_read() returns is whole.
 *  B. A rank's count of a pair is raised after the transfer can be read.
 *  C. What is kept are the last ones of a rank, as many as it has slots: of a batch
 *     with more the first are not watched.
 */

#include <stdatomic.h>

#include "core/clique.h"

#define TRANSFER_WORDS 8

struct transfer_slot {
	/* Atomic, all of them: the index is 0 while the others are written, then
	 * stored with release; a reader loads it before and after. */
	_Atomic uint64_t index;
	_Atomic uint64_t words[TRANSFER_WORDS - 1];
};

struct pairs {
	/* Atomic; transfers so far, the index of the last.  Release and acquire:
	 * what it counts can be read. */
	_Atomic uint64_t count;

	/* Atomic; of every rank the sends to it, then the receives from it.  As
	 * count. */
	_Atomic uint64_t *numbers;

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

/* Have room for what is in @op.  Inside the gate.  COHORT_NO_MEMORY, or COHORT_OK;
 * allocates once in a communicator's life. */
int pair_prepare(struct cohort_comm *c, const struct op *op);

/* Say which sends and receives are in @op, that is prepared.  Inside the gate. */
void pair_publish(struct cohort_comm *c, const struct op *op, uint64_t ticket,
                  uint64_t now_ns);

void pairs_free(struct pairs *pairs);

/* How many transfers @c has called. */
uint64_t pair_count(const struct cohort_comm *c);

/* How many of them are sends to, or else receives from, @peer. */
uint64_t pair_number(const struct cohort_comm *c, bool sends, int peer);

/* Any thread.  False if it is not kept any more. */
bool pair_read(const struct cohort_comm *c, uint64_t index,
               struct transfer *out);

#endif
