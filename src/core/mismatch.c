/* SPDX-License-Identifier: Apache-2.0 */

#include "core/mismatch.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "core/agree_words.h"
#include "core/clique.h"

/* How long to wait for the other ranks' calls before a rank is blamed: when
 * most have called the same; and when the odd one is not known yet, where a
 * name is worth more than speed on a busy machine. */
#define QUORUM_NS (5 * UINT64_C(1000000))
#define NO_QUORUM_NS UINT64_C(1000000000)

/* True if @other has called @number, and something else than @word says. */
static bool differs(const struct cohort_comm *other, uint64_t number,
                    uint64_t word)
{
	const uint64_t theirs = agree_word(other, number);

	return theirs != word && agree_word_is_of(theirs, number);
}

/* How many ranks of this process have called @number. */
static int ranks_here(const struct clique *q, uint64_t number)
{
	int r, n = 0;

	for (r = 0; r < q->size; r++)
		n += agree_word_is_of(agree_word(&q->comms[r], number), number);
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

/* Add the ranks that call what rank @first calls: "ranks 0 2 3 call ...". */
static void add_side(struct text *t, const struct clique *q, int first,
                     uint64_t number)
{
	uint64_t word = agree_word(&q->comms[first], number);
	int r, n = 0;

	for (r = 0; r < q->size; r++)
		n += agree_word(&q->comms[r], number) == word;
	text_add(t, n > 1 ? "ranks" : "rank");
	for (r = 0; r < q->size; r++)
		if (agree_word(&q->comms[r], number) == word)
			text_add(t, " %d", q->comms[r].rank);
	text_add(t, n > 1 ? " call " : " calls ");
	add_call(t, &q->comms[first], number);
}

/* How many ranks call what rank @rank calls; 0 if it has not called. */
static int side_size(const struct clique *q, int rank, uint64_t number)
{
	uint64_t word = agree_word(&q->comms[rank], number);
	int r, n = 0;

	if (!agree_word_is_of(word, number))
		return 0;
	for (r = 0; r < q->size; r++)
		n += agree_word(&q->comms[r], number) == word;
	return n;
}

/* The first rank of the side that has more than half of @n ranks, or -1. */
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
	uint64_t word = agree_word(&q->comms[right], number);
	int r;

	for (r = 0; r < q->size; r++)
		if (differs(&q->comms[r], number, word))
			return q->comms[r].rank;
	return -1;
}

/* True if a rank before @rank calls what it calls. */
static bool is_repeated(const struct clique *q, int rank, uint64_t number)
{
	int r;

	for (r = 0; r < rank; r++)
		if (agree_word(&q->comms[r], number) ==
		    agree_word(&q->comms[rank], number))
			return true;
	return false;
}

/* Wait until all ranks have called, or for as long as is given to them. */
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

/* Add which tensor of a list differs, or which call of a batch, between two
 * ranks: @one, or if that is negative the first that has called, and the first
 * that calls something else. */
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
		            agree_word(&q->comms[one], number)))
			break;
	if (r == q->size)
		return;
	b = shape_of(&q->comms[r], number);
	call_shape_compare(t, r < one ? &b : &a, r < one ? &a : &b);
}

/* End the clique with every side's call, the odd ones first. */
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
		             agree_word(&q->comms[right], number)))) {
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

int mismatch_end(struct cohort_comm *c, uint64_t number, uint64_t ticket)
{
	await_quorum(c->clique, number);
	return fire(c, number, ticket);
}
