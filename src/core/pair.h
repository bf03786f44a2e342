/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PAIR_H
#define CORE_PAIR_H

/*
 * Numbers sends and receives for each pair of ranks and direction, compares
 * them, and records them for the watchdog
 *
 * The k-th send of one rank to another and the other rank's k-th receive from
 * it are the two halves of one transfer.  The two ranks share a word for each
 * transfer.  The rank that calls first stores its half there, and the second
 * compares.
 *
 *  A. A transfer that pair_read() returns is consistent.
 *  B. A rank increments its number of transfers with a peer only once the new
 *     transfer can be read.
 *  C. The last N transfers of a rank are recorded, where N is the number of its
 *     slots.  If a batch has more transfers, the first ones are not watched.
 *  D. If the halves of a transfer differ in count or type, or only one of them
 *     is in host memory, the rank that calls later detects that before it
 *     launches anything, and ends the clique.
 *
 * D holds only if both ranks are in this process, and if the peer calls before
 * the word is reused, which happens after 256 more transfers of the pair and
 * direction (fewer in a process with more than 16 ranks, but at least 16).  D
 * no longer holds once a rank captures a send or receive into a graph, or
 * enters its native communicator, because the rank's numbers then no longer
 * show which halves belong together.
 */

#include <stdatomic.h>

#include "core/clique.h"

/* Number of words of a recorded transfer, including its index. */
#define TRANSFER_WORDS 8

struct transfer_slot {
	/* All atomic.  A writer sets the index to 0, writes the words, then
	 * stores the index with release; a reader loads the index before and
	 * after the words. */
	_Atomic uint64_t index;
	_Atomic uint64_t words[TRANSFER_WORDS - 1];
};

/* The shared words of all pairs of ranks in a clique.  Each rank stores its
 * halves of transfers in them. */
struct halves {
	unsigned bits; /* each direction of a pair has 2^bits words */

	/* Atomic; 0 if neither rank has called yet, otherwise a value made by
	 * half_make().  For each number, the words of both directions of a pair
	 * are in one cache line. */
	_Alignas(16) _Atomic uint64_t words[];
};

struct pairs {
	/* Atomic; number of transfers so far, which is the index of the last
	 * one.  Stored with release and loaded with acquire, so that transfers
	 * up to this one can be read. */
	_Atomic uint64_t count;

	/* Atomic; first, for every rank, the number of sends to it; then, for
	 * every rank, the number of receives from it.  Stored with release and
	 * loaded with acquire, like the count. */
	_Atomic uint64_t *numbers;

	/* For each peer, true if both directions are connected.  Accessed with
	 * the lock held. */
	bool *connected;

	struct transfer_slot slots[]; /* index modulo the clique's slots */
};

/* One half of a transfer. */
struct transfer {
	uint64_t index; /* index among this rank's transfers, from 1 */
	bool sends;     /* true for a send, false for a receive */
	bool from_host; /* the buffer is host memory */
	int peer;
	/* Number among the transfers of the pair in this direction, from 1. */
	uint64_t number;
	uint64_t ticket;
	uint64_t arrived_ns;
	struct limits limits;
	size_t count;
	int type;
};

/*
 * Allocate the memory for sends and receives if @op has any.  This is done once
 * for each communicator and once for each clique.  Call it with the lock held.
 *
 * Returns:
 *   COHORT_OK         pair_agree() may be called
 *   COHORT_NO_MEMORY  an allocation failed
 */
int pair_prepare(struct cohort_comm *c, const struct op *op);

/*
 * Publish the sends and receives in @op, after pair_prepare(), and compare each
 * with its other half if the peer has called it.  Call it with the lock held.
 *
 * Returns:
 *   COHORT_OK        no half is known to differ
 *   COHORT_MISMATCH  a half differs; the clique has been ended with a text that
 *                   describes both calls
 */
int pair_agree(struct cohort_comm *c, const struct op *op, uint64_t ticket,
               uint64_t now_ns, bool captured);

/* Return true if NCCL may connect ranks during @op, which is the collective
 * @number of @c.  Such a collective may take as long as the init deadline.
 * Call this with the lock held. */
bool pair_collective_connects(const struct cohort_comm *c, const struct op *op,
                              uint64_t number);

/*
 * Connect each rank with the peers that its operation exchanges messages with,
 * if they are not connected yet.  Blocks until these peers have called as well,
 * or the clique is aborted.  Call it with the locks held.
 * @n:   number of ranks and operations
 * @ops: one operation for each rank
 * @r:   set to the native call that failed, if any
 *
 * NCCL connects one direction of a pair in the first send or receive.  If two
 * ranks both send first, each mistakes the other's connection data for the
 * reply to its own.  So before the first message with a peer in either
 * direction, the two ranks exchange empty messages.  Before the first gather,
 * scatter or all_to_all, which NCCL implements with messages, all ranks
 * exchange empty messages.
 *
 * Returns:
 *   COHORT_OK         continue, unless @r has a failure
 *   a cause's status  a rank of this process will not call
 */
int pair_connect(struct cohort_comm *comms, int n, const struct op *ops,
                 struct native_result *r);

void pairs_free(struct pairs *pairs);

uint64_t pair_count(const struct cohort_comm *c);

/* Return the number of sends that @c has called to @peer or, if @sends is
 * false, of receives from @peer. */
uint64_t pair_number(const struct cohort_comm *c, bool sends, int peer);

/* Read the transfer @index of @c.  May be called from any thread.  Return false
 * if the transfer was overwritten. */
bool pair_read(const struct cohort_comm *c, uint64_t index,
               struct transfer *out);

/* Find the transfer @number that @c sends to @peer, or receives from @peer if
 * @sends is false.  May be called from any thread.  Return false if the
 * transfer was overwritten. */
bool pair_find(const struct cohort_comm *c, bool sends, int peer,
               uint64_t number, struct transfer *out);

#endif
