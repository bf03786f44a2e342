/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_AGREE_WORDS_H
#define CORE_AGREE_WORDS_H

/*
 * What the ranks have called, by the numbers of their collectives
 *
 * Each rank numbers its collectives from 1.  For each number a rank has a slot
 * that says what it called, and all ranks of a clique share one word: a digest
 * of what the first caller called, how many ranks have called, and whether any
 * of them called something else.  A rank is counted in the shared word and
 * reads it in one exchange, so that the word crosses between cores once per
 * rank.
 *
 *  A. The shared word is taken for a later number only when every rank has
 *     compared its call with it: agree() waits for the ranks that are further
 *     behind.
 */

#include <stdatomic.h>

#include "core/op.h"

struct clique;
struct cohort_comm;
struct limits;

/* What a rank has called, by number modulo the clique's slots. */
struct agree_slot {
	/* Atomic; number and digest.  Release: the rest. */
	_Atomic uint64_t word;

	/* Atomic; all are stored before the word: the ticket of the record with
	 * the whole call, its shape, when the call was made, and its
	 * deadlines. */
	_Atomic uint64_t ticket;
	_Atomic uint64_t shape; /* see call_shape.h */
	_Atomic uint64_t arrived_ns;
	_Atomic uint64_t join_ns;
	_Atomic uint64_t exec_ns;
};

/* All that the ranks must call alike, in 32 bits: one difference in 4 thousand
 * million goes unseen.  The digest of a batch covers its collectives, in
 * order. */
uint32_t agree_digest(const struct op *op);

/* The shared words of a clique, or NULL without memory; free() them. */
_Atomic uint64_t *agree_words(unsigned slots);

/* What @comm has called under a number, by number modulo the slots. */
struct agree_slot *agree_slot(const struct cohort_comm *comm, uint64_t number);

/* True if the slot of @number has @number's call: a later call may have taken
 * the slot.  What was read from the slot between two such answers is of that
 * call. */
bool agree_has(const struct cohort_comm *comm, uint64_t number);

/* The word in the slot of @number, and whether a word is of @number.  Two ranks
 * whose words are equal have called the same under the same number. */
uint64_t agree_word(const struct cohort_comm *comm, uint64_t number);
bool agree_word_is_of(uint64_t word, uint64_t number);

/* The number of the last collective that @comm has called, also if it has not
 * been compared yet. */
uint64_t agree_called(const struct cohort_comm *comm);

/*
 * The shared words of @clique, in this process or in another
 *
 * agree_shared_slot    - where the word of @number is
 * agree_shared_count   - how many of @ranks ranks have called @number, by
 *                        @word, which was read there
 * agree_shared_differs - true if one of them has called something else than
 *                        @digest says
 */
size_t agree_shared_slot(unsigned slots, uint64_t number);
int agree_shared_count(unsigned slots, uint64_t word, uint64_t number,
                       int ranks);
bool agree_shared_differs(const struct clique *clique, uint64_t word,
                          uint64_t number, uint32_t digest);

/* The number of the next collective of @comm.  With the lock held. */
uint64_t agree_next(const struct cohort_comm *comm);

/* Say what @comm calls under @number, for the other ranks and for the watchdog.
 * With the lock held. */
void agree_publish(struct cohort_comm *comm, const struct op *op,
                   uint64_t number, uint32_t digest, uint64_t ticket,
                   uint64_t now_ns, const struct limits *limits);

/* Count @comm in the shared word of @number, as a caller of what @digest says.
 * Returns how many ranks are counted with it. */
int agree_add_rank(const struct cohort_comm *comm, uint64_t number,
                   uint32_t digest, bool *differs_out);

#endif
