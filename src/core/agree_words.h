/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_AGREE_WORDS_H
#define CORE_AGREE_WORDS_H

/*
 * Compares each collective, before it is launched, with the other ranks' calls
 * of the same number, even in other processes of the machine
 * (remote_agreement.h)
 *
 * For each number, a rank has a slot that describes its call, and all ranks of
 * a clique share one word: docs/internals.md, "The path of a call".
 *
 *  A. Calls that differ in kind, reduction, root, or in the count or type of
 *     any tensor are an error on every rank instead of a hang.
 *  B. If ranks of a process launch a collective, they have all made the same
 *     call, each before any rank made a different one.
 *  C. No rank is ahead of the slowest rank by more calls than there are shared
 *     words, so a shared word is reused only after every rank has compared its
 *     call with the word.
 */

#include <stdatomic.h>

#include "core/op.h"

struct clique;
struct cohort_comm;
struct limits;

/* One rank's call of a collective.  Its slot is the call's number modulo the
 * clique's number of slots. */
struct agree_slot {
	/* Number and digest of the call.  Stored with release, after the other
	 * members.  All members are atomic. */
	_Atomic uint64_t word;
	_Atomic uint64_t ticket;     /* ticket of the call's record */
	_Atomic uint64_t shape;      /* position in struct call_shapes */
	_Atomic uint64_t arrived_ns; /* time of the call */
	_Atomic uint64_t join_ns;    /* deadlines of the call */
	_Atomic uint64_t exec_ns;
};

/* Compute a 32-bit digest of everything in @op that must be equal on all ranks.
 * For a batch, the digest covers the collectives, in order.  One difference in
 * 4 billion goes undetected. */
uint32_t agree_digest(const struct op *op);

/* Allocate the shared words of a clique, zeroed.  Return NULL if there is no
 * memory.  Free them with free(). */
_Atomic uint64_t *agree_words(unsigned slots);

struct agree_slot *agree_slot(const struct cohort_comm *comm, uint64_t number);

/* Return true if the slot of call @number still holds that call, and not a
 * later one.  If this is true both before and after the slot is read, the
 * values read belong to that call. */
bool agree_has(const struct cohort_comm *comm, uint64_t number);

/* Return the word in the slot of @number.  Two ranks whose words are equal have
 * made the same call under the same number. */
uint64_t agree_word(const struct cohort_comm *comm, uint64_t number);

bool agree_word_is_of(uint64_t word, uint64_t number);

/* Return the number of @comm's last collective, even if it has not been
 * compared with the other ranks' calls yet. */
uint64_t agree_called(const struct cohort_comm *comm);

size_t agree_shared_slot(unsigned slots, uint64_t number);

/*
 * Return how many ranks have made call @number.
 * @word:  the shared word of @number, as read
 * @ranks: number of ranks that share it
 */
int agree_shared_count(unsigned slots, uint64_t word, uint64_t number,
                       int ranks);

/* Return true if any rank's call @number has a digest other than @digest.
 * @word: the shared word of @number, as read */
bool agree_shared_differs(const struct clique *clique, uint64_t word,
                          uint64_t number, uint32_t digest);

/* Publish @comm's call under @number for the other ranks and the watchdog.
 * Call it with the lock held. */
void agree_publish(struct cohort_comm *comm, const struct op *op,
                   uint64_t number, uint32_t digest, uint64_t ticket,
                   uint64_t now_ns, const struct limits *limits);

/*
 * Count @comm in the shared word of @number, and return how many ranks are
 * counted, including @comm.
 * @digest:      digest of @comm's call
 * @differs_out: set to whether any counted rank has made a different call
 */
int agree_add_rank(const struct cohort_comm *comm, uint64_t number,
                   uint32_t digest, bool *differs_out);

/*
 * Publish the next collective of @comm and compare it with the other ranks'
 * calls.  Call it with the lock held.  Blocks while the rank is too far ahead,
 * and in mismatch_end() after a mismatch.
 * @digest:       agree_digest() of @op
 * @ticket:       ticket of the call's record
 * @arrives_last: set to true if all other ranks of the clique have called
 *
 * Returns:
 *   COHORT_OK         all calls so far are the same
 *   COHORT_MISMATCH   a call differs; the clique has been ended
 *   a cause's status  the clique has ended for another reason
 */
int agree(struct cohort_comm *comm, const struct op *op, uint32_t digest,
          uint64_t ticket, uint64_t now_ns, bool *arrives_last);

#endif
