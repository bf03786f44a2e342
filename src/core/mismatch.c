/* SPDX-License-Identifier: Apache-2.0 */

#include "core/mismatch.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "core/agree_words.h"
#include "core/clique.h"
#include "core/pair.h"
#include "core/remote.h"

/* How long to wait for the other ranks' calls before a rank is blamed: when
 * most have called the same; and when the odd one is not known yet, where a
 * name is worth more than speed on a busy machine. */
#define QUORUM_NS (5 * UINT64_C(1000000))
#define NO_QUORUM_NS UINT64_C(1000000000)

/* ---- what was called -------------------------------------------------- */

/* What the ranks that have called a number have called, in the order of the
 * ranks.  Those whose words are equal are of one side. */
struct voices {
	int n;
	struct remote_call of[];
};

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

/* The ranks of this process. */
static void hear_own(const struct clique *q, uint64_t number, struct voices *v)
{
	int r;

	for (r = 0, v->n = 0; r < q->size; r++) {
		const uint64_t word = agree_word(&q->comms[r], number);

		if (agree_word_is_of(word, number))
			v->of[v->n++] = (struct remote_call){
				.rank = q->comms[r].rank,
				.world = q->comms[r].world_rank,
				.word = word,
			};
	}
}

/* How many are on the side of voice @i. */
static int side_size(const struct voices *v, int i)
{
	int k, n = 0;

	for (k = 0; k < v->n; k++)
		n += v->of[k].word == v->of[i].word;
	return n;
}

/* The first voice of the side that has more than half of @n ranks, or -1. */
static int majority(const struct voices *v, int n)
{
	int i;

	for (i = 0; i < v->n; i++)
		if (2 * side_size(v, i) > n)
			return i;
	return -1;
}

/* True if a voice before @i is on its side. */
static bool is_repeated(const struct voices *v, int i)
{
	int k = 0;

	while (v->of[k].word != v->of[i].word)
		k++;
	return k < i;
}

/* True if ranks of other processes may still call. */
static bool others_may_call(const struct clique *q, uint64_t number)
{
	const int called = q->remote ? q->remote->look(q, number).called : -1;

	return called >= 0 && called < q->world_size - q->size;
}

/* Wait until all ranks have called, or for as long as is given to them. */
static void await_quorum(const struct clique *q, uint64_t number,
                         struct voices *v)
{
	uint64_t began = clock_now(), deadline;
	struct backoff b = BACKOFF;

	hear_own(q, number, v);
	do {
		deadline = began + (majority(v, q->world_size) >= 0
		                            ? QUORUM_NS
		                            : NO_QUORUM_NS);
		backoff_wait(&b, deadline);
		hear_own(q, number, v);
	} while ((v->n < q->size || others_may_call(q, number)) &&
	         !clique_cause(q) && clock_now() < deadline);
}

static int compare_ranks(const void *a, const void *b)
{
	const struct remote_call *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Add what the ranks of other processes have called. */
static void hear_others(const struct clique *q, uint64_t number,
                        struct voices *v)
{
	if (!q->remote)
		return;
	v->n += q->remote->calls(q, number, v->of + v->n, q->world_size - v->n);
	qsort(v->of, (size_t)v->n, sizeof(v->of[0]), compare_ranks);
}

/* ---- texts ------------------------------------------------------------ */

/* Add the ranks on the side of voice @i: "ranks 0, 2-3 call ...". */
static void add_side(struct text *t, const struct clique *q,
                     const struct voices *v, int i, uint64_t number)
{
	const struct cohort_comm *c = clique_rank(q, v->of[i].rank);
	uint64_t set[COHORT_RANK_WORDS] = { 0 },
		 world[COHORT_RANK_WORDS] = { 0 };
	bool is_known = true;
	int k;

	for (k = 0; k < v->n; k++) {
		if (v->of[k].word != v->of[i].word)
			continue;
		rank_set_add(set, v->of[k].rank);
		if (v->of[k].world >= 0)
			rank_set_add(world, v->of[k].world);
		else
			is_known = false;
	}
	if (!is_known)
		memset(world, 0, sizeof(world));
	rank_set_name(t, set, world, q->name);
	text_add(t, side_size(v, i) > 1 ? " call " : " calls ");
	if (c)
		add_call(t, c, number);
	else
		text_add(t, "%s", v->of[i].call);
}

static struct call_shape shape_of(const struct cohort_comm *c, uint64_t number)
{
	return (struct call_shape){ &c->shapes,
		                    atomic_load(&agree_slot(c, number)->shape),
		                    c->rank };
}

/* Add which tensor of a list differs, or which call of a batch, between two
 * ranks of this process: the first on the side of voice @right, or if that is
 * negative the first of all, and the first that calls something else. */
static void add_tensors(struct text *t, const struct clique *q,
                        const struct voices *v, int right, uint64_t number)
{
	const struct cohort_comm *one = NULL, *other = NULL;
	struct call_shape a, b;
	int i, k = 0;

	for (i = 0; i < v->n && !one; i++)
		if (right < 0 || v->of[i].word == v->of[right].word) {
			one = clique_rank(q, v->of[i].rank);
			k = i;
		}
	for (i = 0; i < v->n && !other; i++)
		if (v->of[i].word != v->of[k].word)
			other = clique_rank(q, v->of[i].rank);
	if (!one || !other)
		return;
	a = shape_of(one, number);
	b = shape_of(other, number);
	call_shape_compare(t, other < one ? &b : &a, other < one ? &a : &b);
}

/* End the clique with @cause, to which every side's call is added, the odd ones
 * first. */
static void fire(struct clique *q, const struct voices *v, uint64_t number,
                 struct cohort_cause *cause)
{
	struct text t = { cause->text, sizeof(cause->text) };
	const bool is_seen = side_size(v, 0) < v->n;
	int i, right = is_seen ? majority(v, v->n) : -1;

	text_add(&t, "collective %llu ", (unsigned long long)number);
	if (clique_is_child(q))
		text_add(&t, "of \"%s\" ", q->name);
	text_add(&t, "differs");
	if (right < 0)
		text_add(
			&t,
			is_seen ? ", no majority"
				: " in another process, which does not answer");
	for (i = 0; i < v->n; i++) {
		rank_set_add(cause->joined, v->of[i].rank);
		if (right >= 0 && v->of[i].word == v->of[right].word)
			continue;
		if (right >= 0 && cause->rank < 0) {
			cause->rank = v->of[i].rank;
			cause->world_rank = v->of[i].world;
		}
		if (is_repeated(v, i))
			continue;
		text_add(&t, ": ");
		add_side(&t, q, v, i, number);
	}
	if (right >= 0) {
		text_add(&t, ": ");
		add_side(&t, q, v, right, number);
	}
	add_tensors(&t, q, v, right, number);
	cause_set(q->end, cause);
}

int mismatch_end(struct cohort_comm *c, uint64_t number, uint64_t ticket)
{
	struct clique *q = c->clique;
	struct voices *v = calloc(1, sizeof(*v) + (size_t)q->world_size *
	                                                  sizeof(v->of[0]));
	struct cohort_cause cause = {
		.status = COHORT_MISMATCH,
		.kind = COHORT_VERDICT_DIFFERENT_CALL,
		.rank = -1,
		.world_rank = -1,
		.ticket = ticket,
		.collective = number,
	};

	if (!v) {
		clique_fire(
			q, &cause,
			"collective %llu differs, and there is no memory to "
			"tell how",
			(unsigned long long)number);
		return error_set(COHORT_MISMATCH, "collective %llu differs",
		                 (unsigned long long)number);
	}
	await_quorum(q, number, v);
	hear_others(q, number, v);
	fire(q, v, number, &cause);
	free(v);
	return error_set(COHORT_MISMATCH, "%s", cause.text);
}

/* ---- sends and receives ----------------------------------------------- */

/* Add where the call of @ticket was made: " (ticket 5, tag "step 1")". */
static void add_place(struct text *t, const struct cohort_comm *c,
                      uint64_t ticket)
{
	char tag[TAG_SIZE] = "";
	struct record r;

	text_add(t, " (ticket %llu", (unsigned long long)ticket);
	if (recorder_read(&c->recorder, ticket, &r)) {
		if (r.is_batch)
			text_add(t, ", a batch of %zu call%s", r.n,
			         r.n == 1 ? "" : "s");
		tag_read(&c->recorder.tags, r.tag, tag);
	}
	if (*tag)
		text_add(t, ", tag \"%s\"", tag);
	text_add(t, ")");
}

/* Add the half @half of rank @c: ": rank 0 calls send of 3 int32 to rank 1". */
static void add_half(struct text *t, const struct cohort_comm *c,
                     const struct transfer *half)
{
	char name[RANK_NAME_SIZE];

	text_add(t, ": %s calls ", clique_name_rank(c->clique, c->rank, name));
	record_add(t, &(struct record){
			      .kind = half->sends ? OP_SEND : OP_RECV,
			      .from_host = half->from_host,
			      .root = half->peer,
			      .count = half->count,
			      .type = half->type,
			      .n = 1,
		      });
	if (half->ticket)
		add_place(t, c, half->ticket);
}

int mismatch_end_transfer(struct cohort_comm *c, const struct transfer *own,
                          const struct transfer *other)
{
	const struct cohort_comm *peer = clique_rank(c->clique, own->peer);
	const struct cohort_comm *from = own->sends ? c : peer;
	const struct cohort_comm *to = own->sends ? peer : c;
	struct cohort_cause cause = {
		.status = COHORT_MISMATCH,
		.kind = COHORT_VERDICT_DIFFERENT_CALL,
		.rank = -1,
		.world_rank = -1,
		.ticket = own->ticket,
	};
	struct text t = { cause.text, sizeof(cause.text) };
	struct transfer half = *other;
	char names[2][RANK_NAME_SIZE];

	/* Its ticket is known unless many transfers were called after it. */
	if (!pair_find(peer, other->sends, c->rank, own->number, &half))
		half = *other;
	rank_set_add(cause.joined, from->rank);
	rank_set_add(cause.joined, to->rank);
	text_add(&t, "message %llu from %s to %s differs",
	         (unsigned long long)own->number,
	         clique_name_rank(c->clique, from->rank, names[0]),
	         clique_name_rank(c->clique, to->rank, names[1]));
	add_half(&t, from, own->sends ? own : &half);
	add_half(&t, to, own->sends ? &half : own);
	cause_set(c->clique->end, &cause);
	return error_set(COHORT_MISMATCH, "%s", cause.text);
}
