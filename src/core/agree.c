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
#include "core/known.h"

/* How long to wait for the other ranks' calls before blaming one: when most have
 * called the same; and when it is not known yet who is the odd one, which on a busy
 * machine is worth more than to be quick. */
#define QUORUM_NS (5 * UINT64_C(1000000))
#define NO_QUORUM_NS UINT64_C(1000000000)

/* The other bits are of the call's number: as slots are 65,536 at the most, two
 * numbers that meet are never as far apart as those would allow. */
#define DIGEST_BITS 32

/* What no collective has as its digest: of a call that is not to be launched now. */
#define WITHHELD 0

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

	if (op->known)
		return op->known->digest;
	calls = op_calls(op, &n);
	for (i = 0; i < n; i++)
		if (op_is_collective(&calls[i]))
			hash = mix_call(hash, &calls[i]);
	digest = (uint32_t)(hash >> (64 - DIGEST_BITS));
	return hash && digest == WITHHELD ? WITHHELD + 1 : digest;
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

#define LINE 64
#define LINE_WORDS (LINE / sizeof(uint64_t))

/* From the words of one number to those of the next, in whole lines. */
static size_t row(int ranks)
{
	return ((size_t)ranks + LINE_WORDS - 1) / LINE_WORDS * LINE_WORDS;
}

_Atomic uint64_t *agree_words(unsigned slots, int ranks)
{
	const size_t bytes = slots * row(ranks) * sizeof(uint64_t);
	void *words = aligned_alloc(LINE, bytes);

	return words ? memset(words, 0, bytes) : NULL;
}

/* Those of all ranks. */
static _Atomic uint64_t *words_of(const struct clique *q, uint64_t number)
{
	return &q->agreed[(number & (q->slots - 1)) * row(q->size)];
}

static _Atomic uint64_t *word_at(const struct cohort_comm *c, uint64_t number)
{
	return words_of(c->clique, number) + (c - c->clique->comms);
}

struct agree_slot *agree_slot(const struct cohort_comm *c, uint64_t number)
{
	return &c->agreed[number & (c->clique->slots - 1)];
}

/* What is withheld is not known: as if it were not there yet. */
static uint64_t load_word(const struct cohort_comm *c, uint64_t number)
{
	uint64_t word =
		atomic_load(word_at(c, number)); /* seq_cst, see agree.h */

	return word == word_make(number, WITHHELD) ? 0 : word;
}

bool agree_has(const struct cohort_comm *c, uint64_t number)
{
	return word_is_of(atomic_load(word_at(c, number)), number);
}

uint64_t agree_called(const struct cohort_comm *c)
{
	/* Acquire: pairs with the release at the end of agree(). */
	uint64_t number =
		atomic_load_explicit(&c->collectives, memory_order_acquire);

	return number + agree_has(c, number + 1);
}

bool agree_all_called(const struct clique *q, uint64_t number)
{
	const struct cohort_comm *c;

	/* The word first, seq_cst; without it, it may be that of a later call. */
	for (c = q->comms; c < q->comms + q->size; c++)
		if (!agree_has(c, number) && agree_called(c) < number)
			return false;
	return true;
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

/* True if @theirs is of this call, too, and of another one. */
static bool word_differs(uint64_t theirs, uint64_t number, uint64_t word)
{
	return theirs != word && word_is_of(theirs, number);
}

/* The same of the word of @other. */
static bool differs(const struct cohort_comm *other, uint64_t number,
                    uint64_t word)
{
	return word_differs(load_word(other, number), number, word);
}

enum comparison { SAME, UNKNOWN, DIFFERENT };

/* The words that are there with @word: UNKNOWN if all that differ are withheld. */
static enum comparison compare(const struct clique *q, uint64_t number,
                               uint64_t word)
{
	const _Atomic uint64_t *words = words_of(q, number);
	enum comparison all = SAME;
	uint64_t theirs;
	int r;

	for (r = 0; r < q->size; r++) {
		theirs = atomic_load(&words[r]); /* seq_cst, see agree.h */
		if (!word_differs(theirs, number, word))
			continue;
		if (theirs != word_make(number, WITHHELD))
			return DIFFERENT;
		all = UNKNOWN;
	}
	return all;
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

static struct outline outline_of(const struct cohort_comm *c, uint64_t number)
{
	return (struct outline){ &c->outlines,
		                 atomic_load(&agree_slot(c, number)->outline),
		                 c->rank };
}

/* Which tensor of a list it is, or which call of a batch: between one side, @one or
 * that of the first rank that has called, and the first that is not on it. */
static void add_tensors(struct text *t, const struct clique *q, int one,
                        uint64_t number)
{
	struct outline a, b;
	int r = 0;

	for (; one < 0; r++)
		if (side_size(q, r, number))
			one = r;
	a = outline_of(&q->comms[one], number);
	for (r = 0; r < q->size; r++)
		if (differs(&q->comms[r], number,
		            load_word(&q->comms[one], number)))
			break;
	if (r == q->size)
		return;
	b = outline_of(&q->comms[r], number);
	outline_compare(t, r < one ? &b : &a, r < one ? &a : &b);
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
                    uint64_t word, uint64_t ticket, uint64_t now_ns)
{
	struct agree_slot *slot = agree_slot(c, number);
	_Atomic uint64_t *at = word_at(c, number);
	struct limits limits = comm_limits(c, number == 1);

	/* The former call's no more, which all have compared; nor yet this
	 * one's.  Of no number that is looked for in this slot. */
	atomic_store_explicit(at, word_make(number + 1, 0),
	                      memory_order_relaxed);
	/* Release: whoever sees one of these sees that, too; and the record is
	 * there for whoever sees the ticket. */
	atomic_store_explicit(&slot->arrived_ns, now_ns, memory_order_release);
	atomic_store_explicit(&slot->join_ns, limits.join_ns,
	                      memory_order_release);
	atomic_store_explicit(&slot->exec_ns, limits.exec_ns,
	                      memory_order_release);
	atomic_store_explicit(&slot->outline, outline_keep(&c->outlines, op),
	                      memory_order_release);
	atomic_store_explicit(&slot->ticket, ticket, memory_order_release);
	atomic_store(at, word); /* seq_cst, see agree.h */
}

/* ---- agreeing --------------------------------------------------------- */

/* Not before those that withhold theirs. */
static int await_known(struct clique *q, uint64_t number, uint64_t word,
                       bool *differs_out)
{
	enum comparison with_all = compare(q, number, word);
	struct backoff b = BACKOFF;
	int rc = COHORT_OK;

	while (with_all == UNKNOWN && rc == COHORT_OK) {
		backoff_wait(&b, UINT64_MAX);
		with_all = compare(q, number, word);
		rc = clique_error(q);
	}
	*differs_out = with_all == DIFFERENT;
	return rc;
}

int agree(struct cohort_comm *c, const struct op *op, uint32_t digest,
          uint64_t ticket, uint64_t now_ns)
{
	uint64_t number =
		atomic_load_explicit(&c->collectives, memory_order_relaxed) + 1;
	uint64_t word = word_make(number, digest);
	int rc = await_ranks(c, number);
	bool differs;

	if (rc != COHORT_OK)
		return rc;
	publish(c, op, number, word, ticket, now_ns);
	rc = await_known(c->clique, number, word, &differs);
	if (rc != COHORT_OK)
		return rc;
	if (differs) {
		await_quorum(c->clique, number);
		return fire(c, number, ticket);
	}
	/* Release: compared; the others may replace their words.  Pairs with
	 * the acquire in await_rank() and agree_called(). */
	atomic_store_explicit(&c->collectives, number, memory_order_release);
	return COHORT_OK;
}

/* ---- giving up -------------------------------------------------------- */

uint64_t agree_withhold(struct cohort_comm *c, uint64_t number)
{
	_Atomic uint64_t *at = word_at(c, number);
	uint64_t word = load_word(c, number);

	/* seq_cst, as the words: who has not called yet will see it.  If it is of
	 * another call, all have compared this one. */
	if (!word_is_of(word, number) ||
	    !atomic_compare_exchange_strong(at, &word,
	                                    word_make(number, WITHHELD)))
		return 0;
	if (!agree_all_called(c->clique, number))
		return word;
	agree_restore(c, number, word);
	return 0;
}

void agree_restore(struct cohort_comm *c, uint64_t number, uint64_t word)
{
	uint64_t withheld = word_make(number, WITHHELD);

	/* Release: what was done meanwhile.  All may have called since, and a later
	 * call have taken its place. */
	atomic_compare_exchange_strong(word_at(c, number), &withheld, word);
}
