/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_AGREE_H
#define CORE_AGREE_H

/*
 * Agreement: before a collective is launched, it is compared with what the other
 * ranks called under the same number
 *
 * Collectives have numbers of their own on each rank, from 1.  The ranks share a word
 * for each number: what its first caller calls, as a digest, how many have called, and
 * whether any of them calls something else.  A rank is counted in it and sees all that
 * in one exchange, so that the word crosses between cores once for each of them.  A rank
 * that sees a difference does not launch.  It waits a moment for the other ranks, to
 * tell who is the odd one, and ends the clique.
 *
 *  A. Calls that differ in kind, operation, root, or in the count or type of any
 *     tensor are an error on every rank, not a hang.
 *  B. Ranks that have launched have called the same, and before any that differs.
 *  C. A word is taken for a later number only when every rank has compared with it: a
 *     rank cannot have more in flight than there are words, and waits for those that
 *     are further behind.
 */

#include <stdatomic.h>

#include "core/op.h"

struct clique;
struct cohort_comm;

/* What a rank has called, by number modulo the clique's slots. */
struct agree_slot {
	/* Atomic; number and digest.  Release: the rest. */
	_Atomic uint64_t word;

	/* Atomic; of the record with the whole call, stored before the word; and
	 * when the call was made and how long it may take, likewise. */
	_Atomic uint64_t ticket;
	_Atomic uint64_t shape; /* see call_shape.h */
	_Atomic uint64_t arrived_ns;
	_Atomic uint64_t join_ns;
	_Atomic uint64_t exec_ns;
};

/* Count, type and all else that must be the same, in 32 bits: of 4 thousand
 * million differences, one is not seen.  Of a batch the collectives, in order. */
uint32_t agree_digest(const struct op *op);

/* The words of a clique, or NULL without memory; free() them. */
_Atomic uint64_t *agree_words(unsigned slots);

/* What @comm has called under a number, by number modulo the slots. */
struct agree_slot *agree_slot(const struct cohort_comm *comm, uint64_t number);

/* True if that is what is in the slot: a later call may have taken it.  What was
 * read from it between two such answers is of that call. */
bool agree_has(const struct cohort_comm *comm, uint64_t number);

/* The number of the last collective that @comm has called, also if it has not
 * been compared yet. */
uint64_t agree_called(const struct cohort_comm *comm);

/* How many ranks of @clique have called collective @number, and are counted. */
int agree_count(const struct clique *clique, uint64_t number);

/* Have the word of the next collective of @comm fetched to be written, which takes a
 * while: before what can be done meanwhile.  Inside the gate. */
void agree_fetch(const struct cohort_comm *comm);

/*
 * Agree on the next collective of @comm, with that digest, whose record is @ticket,
 * called at @now_ns.  COHORT_OK; or
 * COHORT_MISMATCH, and the clique has been ended with the calls spelled out; or
 * the status of a cause that came meanwhile.  @comes_last: whether all ranks of the
 * clique are counted with this one.  Inside the gate.  Blocks while the
 * rank is too far ahead, and when there is a difference for at most a second.
 */
int agree(struct cohort_comm *comm, const struct op *op, uint32_t digest,
          uint64_t ticket, uint64_t now_ns, bool *comes_last);

#endif
