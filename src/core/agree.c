/* SPDX-License-Identifier: Apache-2.0 */

#include "core/agree.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "core/clique.h"
#include "core/list_cache.h"

/* How long to wait for the other ranks' calls before blaming one: when most have
 * called the same; and when it is not known yet who is the odd one, which on a busy
 * machine is worth more than to be quick. */
#define QUORUM_NS (5 * UINT64_C(1000000))
#define NO_QUORUM_NS UINT64_C(1000000000)

/* The other bits of a rank's own word are of the call's number: as slots are 65,536 at
 * the most, two numbers that meet are never as far apart as those would allow. */
#define DIGEST_BITS 32

/*
 * The word that is shared: above the first one's digest how many have called, whether any
 * calls something else, and which lap over the words it is, of which three can meet (C).
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
	/* No memory holds so many elements that these bits were missed. */
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

	if (op->cached)
		return op->cached->digest;
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

/* True if the word is of call @number. */
static bool word_is_of(uint64_t word, uint64_t number)
{
	return (uint32_t)(word >> DIGEST_BITS) == (uint32_t)number;
}

struct agree_slot *agree_slot(const struct cohort_comm *c, uint64_t number)
{
	return &c->agreed[number & (c->clique->slots - 1)];
}

static uint64_t load_word(const struct cohort_comm *c, uint64_t number)
{
	/* Acquire: the rest of the slot, and the record. */
	return atomic_load_explicit(&agree_slot(c, number)->word,
	                            memory_order_acquire);
}

bool agree_has(const struct cohort_comm *c, uint64_t number)
{
	return word_is_of(load_word(c, number), number);
}

uint64_t agree_called(const struct cohort_comm *c)
{
	/* Acquire: pairs with the release at the end of agree(). */
	uint64_t number =
		atomic_load_explicit(&c->collectives, memory_order_acquire);

	return number + agree_has(c, number + 1);
}

/* ---- the words that are shared ---------------------------------------- */

/* Of eight numbers they are in one cache line: of the next call it is one that the ranks
 * have had lately. */
_Atomic uint64_t *agree_words(unsigned slots)
{
	const size_t bytes = slots * sizeof(uint64_t);
	void *words = aligned_alloc(64, bytes);

	return words ? memset(words, 0, bytes) : NULL;
}

/* That of a number, the same for all ranks. */
static _Atomic uint64_t *shared_at(const struct clique *q, uint64_t number)
{
	return &q->agreed[(number - 1) & (q->slots - 1)];
}

/* Its lap, from 1: in the word before that is none. */
static uint64_t lap_of(const struct clique *q, uint64_t number)
{
	return ((number - 1) >> __builtin_ctz(q->slots)) + 1;
}

/* As the first caller of @number begins it. */
static uint64_t shared_make(const struct clique *q, uint64_t number,
                            uint32_t digest)
{
	return lap_of(q, number) * LAP | CALLED | digest;
}

/* The laps from that of the word to that of @number: 0 or 1, or if a later one has
 * taken it the most. */
static uint64_t laps_to(const struct clique *q, uint64_t word, uint64_t number)
{
	return (lap_of(q, number) - word / LAP) % LAPS;
}

static int called_of(uint64_t word)
{
	return (int)(word / CALLED % (1 << COUNT_BITS));
}

static uint64_t load_shared(const struct clique *q, uint64_t number)
{
	/* Acquire: what those did before who have called. */
	return atomic_load_explicit(shared_at(q, number), memory_order_acquire);
}

int agree_count(const struct clique *q, uint64_t number)
{
	const uint64_t word = load_shared(q, number);

	switch (laps_to(q, word, number)) {
	case 0:
		return called_of(word);
	case 1:
		return 0;
	default:
		return q->size;
	}
}

/* A shared word with one more that has called, what @digest says. */
static uint64_t shared_add(uint64_t word, uint32_t digest)
{
	return (word + CALLED) | ((uint32_t)word == digest ? 0 : DIFFERS);
}

/* Be counted, as one that calls what @digest says.  Returns the shared word then. */
static uint64_t count_in(const struct cohort_comm *c, uint64_t number,
                         uint32_t digest)
{
	const struct clique *q = c->clique;
	_Atomic uint64_t *at = shared_at(q, number);
	uint64_t word = atomic_load_explicit(at, memory_order_relaxed), with;

	/* Release: what is published of the call, for all that are counted behind
	 * it.  Acquire: likewise. */
	do
		with = laps_to(q, word, number) ? shared_make(q, number, digest)
		                                : shared_add(word, digest);
	while (!atomic_compare_exchange_weak_explicit(
		at, &word, with, memory_order_acq_rel, memory_order_relaxed));
	return with;
}

/* ---- running ahead ---------------------------------------------------- */

/* Wait until @other has compared the call whose word this one's replaces, and
 * lower *@compared to how far it has come. */
static int await_rank(const struct cohort_comm *other, uint64_t number,
                      uint64_t *compared)
{
	struct clique *q = other->clique;
	struct backoff b = BACKOFF;
	uint64_t theirs;
	int rc;

	/* Acquire: pairs with the release at the end of agree(). */
	while ((theirs = atomic_load_explicit(&other->collectives,
	                                      memory_order_acquire)) +
	               q->slots <
	       number) {
		rc = clique_error(q);
		if (rc != COHORT_OK)
			return rc;
		backoff_wait(&b, UINT64_MAX);
	}
	if (theirs < *compared)
		*compared = theirs;
	return COHORT_OK;
}

/* Looks at the others only when what was seen last does not do: their counts
 * change with every call. */
static int await_ranks(struct cohort_comm *c, uint64_t number)
{
	const struct clique *q = c->clique;
	uint64_t compared = number;
	int r, rc = COHORT_OK;

	if (number <= c->compared + q->slots)
		return COHORT_OK;
	for (r = 0; r < q->size && rc == COHORT_OK; r++)
		if (&q->comms[r] != c)
			rc = await_rank(&q->comms[r], number, &compared);
	if (rc == COHORT_OK)
		c->compared = compared;
	return rc;
}

/* ---- differences ------------------------------------------------------ */

/* True if @other has called the number, too, and something else. */
static bool differs(const struct cohort_comm *other, uint64_t number,
                    uint64_t word)
{
	const uint64_t theirs = load_word(other, number);

	return theirs != word && word_is_of(theirs, number);
}

static int ranks_here(const struct clique *q, uint64_t number)
{
	int r, n = 0;

	for (r = 0; r < q->size; r++)
		n += word_is_of(load_word(&q->comms[r], number), number);
	return n;
}

/* What rank @c has called, from its recorder. */
static void add_call(struct text *t, const struct cohort_comm *c,
                     uint64_t number)
{
	struct record r;

	if (recorder_read(&c->recorder,
	                  atomic_load(&agree_slot(c, number)->ticket), &r))
		record_add(t, &r);
	else
		text_add(t, "a call that is not on record any more");
}

/* Who calls the same as rank @first does: "ranks 0 2 3 call ...". */
static void add_side(struct text *t, const struct clique *q, int first,
                     uint64_t number)
{
	uint64_t word = load_word(&q->comms[first], number);
	int r, n = 0;

	for (r = 0; r < q->size; r++)
		n += load_word(&q->comms[r], number) == word;
	text_add(t, n > 1 ? "ranks" : "rank");
	for (r = 0; r < q->size; r++)
		if (load_word(&q->comms[r], number) == word)
			text_add(t, " %d", q->comms[r].rank);
	text_add(t, n > 1 ? " call " : " calls ");
	add_call(t, &q->comms[first], number);
}

/* How many call the same as rank @rank; 0 if it has not called. */
static int side_size(const struct clique *q, int rank, uint64_t number)
{
	uint64_t word = load_word(&q->comms[rank], number);
	int r, n = 0;

	if (!word_is_of(word, number))
		return 0;
	for (r = 0; r < q->size; r++)
		n += load_word(&q->comms[r], number) == word;
	return n;
}

/* The first rank of the side that is more than half of @n ranks, or -1. */
static int majority(const struct clique *q, uint64_t number, int n)
{
	int r;

	for (r = 0; r < q->size; r++)
		if (2 * side_size(q, r, number) > n)
			return r;
	return -1;
}

/* The first rank that is not on the side of @right, or -1. */
static int odd_rank(const struct clique *q, int right, uint64_t number)
{
	uint64_t word = load_word(&q->comms[right], number);
	int r;

	for (r = 0; r < q->size; r++)
		if (differs(&q->comms[r], number, word))
			return q->comms[r].rank;
	return -1;
}

/* True if a rank before @rank calls the same. */
static bool is_repeated(const struct clique *q, int rank, uint64_t number)
{
	int r;

	for (r = 0; r < rank; r++)
		if (load_word(&q->comms[r], number) ==
		    load_word(&q->comms[rank], number))
			return true;
	return false;
}

/* Until all have called, or long enough. */
static void await_quorum(const struct clique *q, uint64_t number)
{
	uint64_t began = clock_now(), deadline;
	struct backoff b = BACKOFF;

	do {
		deadline = began + (majority(q, number, q->size) >= 0
		                            ? QUORUM_NS
		                            : NO_QUORUM_NS);
		backoff_wait(&b, deadline);
	} while (ranks_here(q, number) < q->size && !clique_cause(q) &&
	         clock_now() < deadline);
}

static struct call_shape shape_of(const struct cohort_comm *c, uint64_t number)
{
	return (struct call_shape){ &c->shapes,
		                    atomic_load(&agree_slot(c, number)->shape),
		                    c->rank };
}

/* Which tensor of a list it is, or which call of a batch: between one side, @one or
 * that of the first rank that has called, and the first that is not on it. */
static void add_tensors(struct text *t, const struct clique *q, int one,
                        uint64_t number)
{
	struct call_shape a, b;
	int r = 0;

	for (; one < 0; r++)
		if (side_size(q, r, number))
			one = r;
	a = shape_of(&q->comms[one], number);
	for (r = 0; r < q->size; r++)
		if (differs(&q->comms[r], number,
		            load_word(&q->comms[one], number)))
			break;
	if (r == q->size)
		return;
	b = shape_of(&q->comms[r], number);
	call_shape_compare(t, r < one ? &b : &a, r < one ? &a : &b);
}

/* End the clique: every side's call, the odd ones first. */
static int fire(struct cohort_comm *c, uint64_t number, uint64_t ticket)
{
	struct clique *q = c->clique;
	struct cohort_cause cause = {
		.status = COHORT_MISMATCH,
		.kind = COHORT_VERDICT_DIFFERENT_CALL,
		.rank = -1,
		.ticket = ticket,
		.collective = number,
	};
	struct text t = { cause.text, sizeof(cause.text) };
	int r, right = majority(q, number, ranks_here(q, number));

	if (right >= 0)
		cause.rank = odd_rank(q, right, number);
	text_add(&t, "collective %llu differs", (unsigned long long)number);
	if (right < 0)
		text_add(&t, ", no majority");
	for (r = 0; r < q->size; r++)
		if (side_size(q, r, number))
			rank_set_add(cause.joined, q->comms[r].rank);
	for (r = 0; r < q->size; r++)
		if (side_size(q, r, number) && !is_repeated(q, r, number) &&
		    (right < 0 ||
		     differs(&q->comms[r], number,
		             load_word(&q->comms[right], number)))) {
			text_add(&t, ": ");
			add_side(&t, q, r, number);
		}
	if (right >= 0) {
		text_add(&t, ": ");
		add_side(&t, q, right, number);
	}
	add_tensors(&t, q, right, number);
	cause_set(q->end, &cause);
	return error_set(COHORT_MISMATCH, "%s", cause.text);
}

/* Say what this rank calls, for the others and for the watchdog. */
static void publish(struct cohort_comm *c, const struct op *op, uint64_t number,
                    uint32_t digest, uint64_t ticket, uint64_t now_ns)
{
	struct agree_slot *slot = agree_slot(c, number);
	struct limits limits = comm_limits(c, number == 1);

	/* The former call's no more, which all have compared; nor yet this
	 * one's.  Of no number that is looked for in this slot. */
	atomic_store_explicit(&slot->word, word_make(number + 1, 0),
	                      memory_order_relaxed);
	/* Release: whoever sees one of these sees that, too; and the record is
	 * there for whoever sees the ticket. */
	atomic_store_explicit(&slot->arrived_ns, now_ns, memory_order_release);
	atomic_store_explicit(&slot->join_ns, limits.join_ns,
	                      memory_order_release);
	atomic_store_explicit(&slot->exec_ns, limits.exec_ns,
	                      memory_order_release);
	atomic_store_explicit(&slot->shape, call_shape_keep(&c->shapes, op),
	                      memory_order_release);
	atomic_store_explicit(&slot->ticket, ticket, memory_order_release);
	atomic_store_explicit(&slot->word, word_make(number, digest),
	                      memory_order_release);
}

/* ---- agreeing --------------------------------------------------------- */

/* The number of the next collective, for the thread inside the gate. */
static uint64_t next_number(const struct cohort_comm *c)
{
	return atomic_load_explicit(&c->collectives, memory_order_relaxed) + 1;
}

void agree_fetch(const struct cohort_comm *c)
{
	cpu_fetch_to_write(shared_at(c->clique, next_number(c)));
}

int agree(struct cohort_comm *c, const struct op *op, uint32_t digest,
          uint64_t ticket, uint64_t now_ns, bool *comes_last)
{
	const uint64_t number = next_number(c);
	int rc = await_ranks(c, number);
	uint64_t word;

	if (rc != COHORT_OK)
		return rc;
	publish(c, op, number, digest, ticket, now_ns);
	word = count_in(c, number, digest);
	*comes_last = called_of(word) == c->clique->size;
	if (word & DIFFERS) {
		await_quorum(c->clique, number);
		return fire(c, number, ticket);
	}
	/* Release: compared; the words may be taken for later numbers.  Pairs with
	 * the acquire in await_rank() and agree_called(). */
	atomic_store_explicit(&c->collectives, number, memory_order_release);
	return COHORT_OK;
}
