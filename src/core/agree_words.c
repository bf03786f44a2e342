/* SPDX-License-Identifier: Apache-2.0 */

#include "core/agree_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/clique.h"

/* The high bits hold the call number, truncated.  Two numbers that share a slot
 * are never so far apart that these bits repeat, as there are 65,536 slots at
 * most. */
#define DIGEST_BITS 32

/*
 * The shared word: the first caller's digest; above it how many have called,
 * whether any called something else, and which lap over the words it is, of
 * which three can meet (A).
 */
#define COUNT_BITS 11
#define CALLED (UINT64_C(1) << DIGEST_BITS)
#define DIFFERS (CALLED << COUNT_BITS)
#define LAP (DIFFERS << 1)
#define LAPS (UINT64_MAX / LAP + 1)

_Static_assert(COHORT_MAX_RANKS < 1 << COUNT_BITS, "all ranks can be counted");

/* ---- words ------------------------------------------------------------ */

_Static_assert(ncclNumTypes <= 1 << 4, "a type has four bits");

static uint64_t mix_call(uint64_t hash, const struct op *op)
{
	size_t i;

	hash = hash_step(hash, (uint64_t)op->from_host << 56 |
	                               (uint64_t)op->kind << 48 |
	                               (uint64_t)redop_kind(op->redop) << 32 |
	                               (uint64_t)(unsigned)op->root);
	hash = hash_step(hash, op->n);
	/* The bits of the count that the shift drops are 0: no memory holds so
	 * many elements. */
	for (i = 0; i < op->n; i++)
		hash = hash_step(hash, (uint64_t)op->tensors[i].count << 4 |
		                               (uint64_t)op->tensors[i].type);
	return hash;
}

uint32_t agree_digest(const struct op *op)
{
	const struct op *calls;
	uint64_t hash = 0;
	uint32_t digest;
	size_t i, n;

	calls = op_calls(op, &n);
	for (i = 0; i < n; i++)
		if (op_is_collective(&calls[i]))
			hash = mix_call(hash, &calls[i]);
	digest = (uint32_t)(hash >> (64 - DIGEST_BITS));
	return hash && !digest ? 1 : digest;
}

static uint64_t word_make(uint64_t number, uint64_t digest)
{
	return number << DIGEST_BITS | digest;
}

bool agree_word_is_of(uint64_t word, uint64_t number)
{
	return (uint32_t)(word >> DIGEST_BITS) == (uint32_t)number;
}

struct agree_slot *agree_slot(const struct cohort_comm *c, uint64_t number)
{
	return &c->agreement.slots[number & (c->clique->slots - 1)];
}

uint64_t agree_word(const struct cohort_comm *c, uint64_t number)
{
	/* Acquire: the rest of the slot, and the record. */
	return atomic_load_explicit(&agree_slot(c, number)->word,
	                            memory_order_acquire);
}

bool agree_has(const struct cohort_comm *c, uint64_t number)
{
	return agree_word_is_of(agree_word(c, number), number);
}

uint64_t agree_called(const struct cohort_comm *c)
{
	/* Acquire: pairs with the release at the end of agree(). */
	uint64_t number = atomic_load_explicit(&c->agreement.collectives,
	                                       memory_order_acquire);

	return number + agree_has(c, number + 1);
}

uint64_t agree_next(const struct cohort_comm *c)
{
	/* Relaxed: this thread wrote it, or the lock orders it. */
	return atomic_load_explicit(&c->agreement.collectives,
	                            memory_order_relaxed) +
	       1;
}

/* ---- the words that are shared ---------------------------------------- */

/* Eight numbers share a cache line: that of the next call is most often one
 * that the ranks have just used. */
_Atomic uint64_t *agree_words(unsigned slots)
{
	const size_t bytes = slots * sizeof(uint64_t);
	void *words = aligned_alloc(64, bytes);

	return words ? memset(words, 0, bytes) : NULL;
}

size_t agree_shared_slot(unsigned slots, uint64_t number)
{
	return (number - 1) & (slots - 1);
}

/* The shared word of a number. */
static _Atomic uint64_t *shared_at(const struct clique *q, uint64_t number)
{
	return &q->agreed[agree_shared_slot(q->slots, number)];
}

/* The lap of a number over the words, from 1: a word that nobody has used says
 * 0. */
static uint64_t lap_of(unsigned slots, uint64_t number)
{
	return ((number - 1) >> __builtin_ctz(slots)) + 1;
}

/* The shared word as the first caller of @number begins it. */
static uint64_t shared_make(const struct clique *q, uint64_t number,
                            uint32_t digest)
{
	return lap_of(q->slots, number) * LAP | CALLED | digest;
}

/* How many laps the word is behind @number: 0 or 1; or LAPS - 1, if the word
 * was taken for a later number.  In another process it may be more. */
static uint64_t laps_to(unsigned slots, uint64_t word, uint64_t number)
{
	return (lap_of(slots, number) - word / LAP) % LAPS;
}

static int called_of(uint64_t word)
{
	return (int)(word / CALLED % (1 << COUNT_BITS));
}

int agree_shared_count(unsigned slots, uint64_t word, uint64_t number,
                       int ranks)
{
	const uint64_t laps = laps_to(slots, word, number);

	if (!laps)
		return called_of(word);
	return laps < LAPS / 2 ? 0 : ranks;
}

bool agree_shared_differs(const struct clique *q, uint64_t word,
                          uint64_t number, uint32_t digest)
{
	return !laps_to(q->slots, word, number) &&
	       (word & DIFFERS || (uint32_t)word != digest);
}

/* A shared word with one more rank, which calls what @digest says. */
static uint64_t shared_add(uint64_t word, uint32_t digest)
{
	return (word + CALLED) | ((uint32_t)word == digest ? 0 : DIFFERS);
}

/* ---- calling ---------------------------------------------------------- */

void agree_publish(struct cohort_comm *c, const struct op *op, uint64_t number,
                   uint32_t digest, uint64_t ticket, uint64_t now_ns,
                   const struct limits *limits)
{
	struct agree_slot *slot = agree_slot(c, number);

	/* From here on the slot is no longer the former call's, which all ranks
	 * have compared, and not yet this one's: nobody looks for number + 1
	 * here. */
	atomic_store_explicit(&slot->word, word_make(number + 1, 0),
	                      memory_order_relaxed);
	/* Release: whoever sees one of these also sees the word above; and
	 * whoever sees the ticket finds its record. */
	atomic_store_explicit(&slot->arrived_ns, now_ns, memory_order_release);
	atomic_store_explicit(&slot->join_ns, limits->join_ns,
	                      memory_order_release);
	atomic_store_explicit(&slot->exec_ns, limits->exec_ns,
	                      memory_order_release);
	atomic_store_explicit(&slot->shape, call_shape_keep(&c->shapes, op),
	                      memory_order_release);
	atomic_store_explicit(&slot->ticket, ticket, memory_order_release);
	atomic_store_explicit(&slot->word, word_make(number, digest),
	                      memory_order_release);
}

int agree_add_rank(const struct cohort_comm *c, uint64_t number,
                   uint32_t digest, bool *differs_out)
{
	const struct clique *q = c->clique;
	_Atomic uint64_t *at = shared_at(q, number);
	uint64_t word = atomic_load_explicit(at, memory_order_relaxed), with;

	/* Release: what this rank has published, for all that are counted after
	 * it.  Acquire: what the ranks before it have.  seq_cst: before it
	 * looks at the words of other processes. */
	do
		with = laps_to(q->slots, word, number)
		               ? shared_make(q, number, digest)
		               : shared_add(word, digest);
	while (!atomic_compare_exchange_weak_explicit(
		at, &word, with, memory_order_seq_cst, memory_order_relaxed));
	*differs_out = with & DIFFERS;
	return called_of(with);
}
