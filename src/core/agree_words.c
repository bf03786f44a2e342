/* SPDX-License-Identifier: Apache-2.0 */

#include "core/agree_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/hash.h"
#include "base/util.h"
#include "core/clique.h"
#include "core/mismatch.h"
#include "core/pair.h"
#include "core/remote.h"

/* A rank's own word has the digest in its low 32 bits and the low 32 bits of
 * the call number in its high bits.  The truncated number identifies the call,
 * because all numbers in use at any time are close together. */
#define DIGEST_BITS 32

/*
 * The fields of a shared word, from the low bits up: the first caller's digest;
 * the number of ranks that have called; whether any of them has made a
 * different call; and the number of times the array of words was reused (its
 * lap), modulo LAPS.  At any time, at most three laps are in use (invariant C
 * in agree_words.h).
 */
#define COUNT_BITS 11
#define CALLED (UINT64_C(1) << DIGEST_BITS)
#define DIFFERS (CALLED << COUNT_BITS)
#define LAP (DIFFERS << 1)
#define LAPS (UINT64_MAX / LAP + 1)

_Static_assert(COHORT_MAX_RANKS < 1 << COUNT_BITS, "all ranks can be counted");

static uint64_t mix_call(uint64_t hash, const struct op *op)
{
	size_t i;

	hash = hash_step(hash, (uint64_t)op->from_host << 56 |
	                               (uint64_t)op->kind << 48 |
	                               (uint64_t)redop_kind(op->redop) << 32 |
	                               (uint64_t)(unsigned)op->root);
	hash = hash_step(hash, op->n);
	/* The shift loses no bits: no tensor that fits in memory has so large a
	 * count. */
	for (i = 0; i < op->n; i++)
		hash = hash_step(hash,
		                 (uint64_t)op->tensors[i].count << TYPE_BITS |
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
	/* The acquire pairs with the release in agree_publish(), which also
	 * publishes the rest of the slot and the record. */
	return atomic_load_explicit(&agree_slot(c, number)->word,
	                            memory_order_acquire);
}

bool agree_has(const struct cohort_comm *c, uint64_t number)
{
	return agree_word_is_of(agree_word(c, number), number);
}

uint64_t agree_called(const struct cohort_comm *c)
{
	/* The acquire pairs with the release at the end of agree(). */
	uint64_t number = atomic_load_explicit(&c->agreement.collectives,
	                                       memory_order_acquire);

	return number + agree_has(c, number + 1);
}

/* Eight consecutive words share a cache line, so the word of the next call is
 * usually in a line that the ranks have just used. */
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

static _Atomic uint64_t *shared_at(const struct clique *q, uint64_t number)
{
	return &q->agreed[agree_shared_slot(q->slots, number)];
}

/* Calls use the words of the array in turn.  Return the number of the pass over
 * the array (the lap) that call @number belongs to, counted from 1.  A word
 * that no rank has used is in lap 0. */
static uint64_t lap_of(unsigned slots, uint64_t number)
{
	return ((number - 1) >> __builtin_ctz(slots)) + 1;
}

static uint64_t shared_make(const struct clique *q, uint64_t number,
                            uint32_t digest)
{
	return lap_of(q->slots, number) * LAP | CALLED | digest;
}

/* Return the number of laps by which the word is behind @number: 0 or 1, or
 * LAPS - 1 if the word is in use for a later number.  A word of another process
 * may be further behind. */
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

static uint64_t shared_add(uint64_t word, uint32_t digest)
{
	return (word + CALLED) | ((uint32_t)word == digest ? 0 : DIFFERS);
}

void agree_publish(struct cohort_comm *c, const struct op *op, uint64_t number,
                   uint32_t digest, uint64_t ticket, uint64_t now_ns,
                   const struct limits *limits)
{
	struct agree_slot *slot = agree_slot(c, number);

	/* Until the last store below, the slot holds a number that no thread
	 * looks for in this slot.  The slot's previous call is no longer
	 * needed, because all ranks have compared it. */
	atomic_store_explicit(&slot->word, word_make(number + 1, 0),
	                      memory_order_relaxed);
	/* The releases order these stores after the store to the word above.  A
	 * thread that reads the ticket also finds its record. */
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

	/* The release makes this rank's published data visible to ranks that
	 * are counted later; the acquire makes the data of ranks that were
	 * counted earlier visible to this rank.  seq_cst, because this rank
	 * must be counted before it reads the words of other processes. */
	do
		with = laps_to(q->slots, word, number)
		               ? shared_make(q, number, digest)
		               : shared_add(word, digest);
	while (!atomic_compare_exchange_weak_explicit(
		at, &word, with, memory_order_seq_cst, memory_order_relaxed));
	*differs_out = with & DIFFERS;
	return called_of(with);
}

/* Wait until @other has compared the collective whose shared word will be
 * reused for collective @number.  If the number of @other's last compared
 * collective is less than *@compared, store it there. */
static int await_rank(const struct cohort_comm *other, uint64_t number,
                      uint64_t *compared)
{
	struct clique *q = other->clique;
	struct backoff b = BACKOFF;
	uint64_t theirs;
	int rc;

	/* The acquire pairs with the release at the end of agree(). */
	while ((theirs = atomic_load_explicit(&other->agreement.collectives,
	                                      memory_order_acquire)) +
	               q->slots <
	       number) {
		rc = clique_error(q);
		if (rc != COHORT_OK)
			return rc;
		backoff_wait(&b, UINT64_MAX);
	}
	*compared = MIN(*compared, theirs);
	return COHORT_OK;
}

/* Wait for every other rank as await_rank() does.  If the result of the last
 * check suffices, do not load the other ranks' counts, because their cache
 * lines change with every call. */
static int await_ranks(struct cohort_comm *c, uint64_t number)
{
	const struct clique *q = c->clique;
	uint64_t compared = number;
	int r, rc = COHORT_OK;

	if (number <= c->agreement.compared + q->slots)
		return COHORT_OK;
	for (r = 0; r < q->size && rc == COHORT_OK; r++)
		if (&q->comms[r] != c)
			rc = await_rank(&q->comms[r], number, &compared);
	if (rc == COHORT_OK)
		c->agreement.compared = compared;
	return rc;
}

int agree(struct cohort_comm *c, const struct op *op, uint32_t digest,
          uint64_t ticket, uint64_t now_ns, bool *arrives_last)
{
	const struct remote *remote = c->clique->remote;
	const uint64_t number = atomic_load_explicit(&c->agreement.collectives,
	                                             memory_order_relaxed) +
	                        1;
	int rc = await_ranks(c, number);
	struct limits limits;
	bool differs;
	int called;

	if (rc != COHORT_OK)
		return rc;
	limits = comm_limits(c, pair_collective_connects(c, op, number));
	/* A split has its own deadline, init_ns: see split.c. */
	if (op->kind == OP_SPLIT)
		limits.exec_ns = COHORT_FOREVER;
	agree_publish(c, op, number, digest, ticket, now_ns, &limits);
	if (remote)
		remote->announce(c->clique, number, now_ns);
	called = agree_add_rank(c, number, digest, &differs);
	*arrives_last = called == c->clique->size;
	if (called == 1 && remote)
		differs |= remote->differs(c->clique, number, digest);
	if (differs)
		return mismatch_end(c, number, ticket);
	/* The release publishes that this rank has compared the call, so that
	 * its shared word may be reused.  It pairs with the acquire in
	 * await_rank() and agree_called(). */
	atomic_store_explicit(&c->agreement.collectives, number,
	                      memory_order_release);
	return COHORT_OK;
}
