/* SPDX-License-Identifier: Apache-2.0 */

#include "core/mismatch.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "base/util.h"
#include "core/agree_words.h"
#include "core/clique.h"
#include "core/pair.h"
#include "core/remote.h"

/* Maximum time to wait for the other ranks' calls if more than half of the
 * ranks have made equal calls. */
#define QUORUM_NS (5 * UINT64_C(1000000))
/* Maximum time to wait for the other ranks' calls if no majority has made the
 * same call yet: longer than QUORUM_NS, because ranks may be late on a busy
 * machine; but at most a quarter of the join deadline, after which the watchdog
 * would report the late ranks instead. */
#define NO_QUORUM_NS UINT64_C(1000000000)

static void add_call(struct text *t, const struct cohort_comm *c,
                     uint64_t number)
{
	struct record r;

	if (recorder_read(&c->recorder,
	                  atomic_load(&agree_slot(c, number)->ticket), &r))
		record_add(t, &r);
	else
		text_add(t, "a call that is no longer on record");
}

static void collect_local_calls(const struct clique *q, uint64_t number,
                                struct rank_calls *v)
{
	struct remote_call *x;
	int r;

	for (r = 0, v->n = 0; r < q->size; r++) {
		const uint64_t word = agree_word(&q->comms[r], number);

		if (!agree_word_is_of(word, number))
			continue;
		x = &v->of[v->n++];
		*x = (struct remote_call){
			.rank = q->comms[r].rank,
			.world = q->comms[r].world_rank,
			.word = word,
		};
		add_call(&(struct text){ x->call, sizeof(x->call) },
		         &q->comms[r], number);
	}
}

/* Return the number of ranks that have made the same call as entry @i. */
static int side_size(const struct rank_calls *v, int i)
{
	int k, n = 0;

	for (k = 0; k < v->n; k++)
		n += v->of[k].word == v->of[i].word;
	return n;
}

/* Return the first entry whose call was made by more than half of @n ranks, or
 * -1. */
static int majority(const struct rank_calls *v, int n)
{
	int i;

	for (i = 0; i < v->n; i++)
		if (2 * side_size(v, i) > n)
			return i;
	return -1;
}

/* Return true if an earlier entry has a call equal to that of entry @i. */
static bool is_repeated(const struct rank_calls *v, int i)
{
	int k = 0;

	while (v->of[k].word != v->of[i].word)
		k++;
	return k < i;
}

static bool others_may_call(const struct clique *q, uint64_t number)
{
	const int called =
		q->remote ? q->remote->get_state(q, number).called : -1;

	return called >= 0 && called < q->world_size - q->size;
}

/* Wait until all ranks have called, or the time to wait for them has passed. */
static void await_quorum(const struct cohort_comm *c, uint64_t number,
                         struct rank_calls *v)
{
	const struct clique *q = c->clique;
	const uint64_t most =
		MIN(NO_QUORUM_NS, comm_limits(c, false).join_ns / 4);
	uint64_t began = clock_now(), deadline;
	struct backoff b = BACKOFF;

	collect_local_calls(q, number, v);
	do {
		deadline = began +
		           (majority(v, q->world_size) >= 0 ? QUORUM_NS : most);
		backoff_wait(&b, deadline);
		collect_local_calls(q, number, v);
	} while ((v->n < q->size || others_may_call(q, number)) &&
	         !clique_cause(q) && clock_now() < deadline);
}

static int compare_ranks(const void *a, const void *b)
{
	const struct remote_call *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static void collect_remote_calls(const struct clique *q, uint64_t number,
                                 struct rank_calls *v)
{
	if (!q->remote)
		return;
	v->n += q->remote->calls(q, number, v->of + v->n, q->world_size - v->n);
	qsort(v->of, (size_t)v->n, sizeof(v->of[0]), compare_ranks);
}

/* Append the ranks that have made the call of entry @i, and then the call:
 * "ranks 0, 2-3 call ...". */
static void add_side(struct text *t, const char *group,
                     const struct rank_calls *v, int i)
{
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
	rank_set_name(t, set, world, group);
	text_add(t, "%s%s", side_size(v, i) > 1 ? " call " : " calls ",
	         v->of[i].call);
}

static struct call_shape shape_of(const struct cohort_comm *c, uint64_t number)
{
	return (struct call_shape){ &c->shapes,
		                    atomic_load(&agree_slot(c, number)->shape),
		                    c->rank };
}

/*
 * Append the tensor of a list, or the call of a batch, that differs between two
 * ranks of this process: the first rank that made the call of entry @right (any
 * call if @right is negative), and the first rank that made a different call.
 */
static void add_tensors(struct text *t, const struct clique *q,
                        const struct rank_calls *v, int right, uint64_t number)
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

int mismatch_describe(const struct rank_calls *v, uint64_t number,
                      const char *group, bool is_child,
                      struct cohort_cause *cause, struct text *t)
{
	const bool is_seen = side_size(v, 0) < v->n;
	int i, right = is_seen ? majority(v, v->n) : -1;
	const char *separator = ": ";

	text_add(t, "collective %llu ", (unsigned long long)number);
	if (is_child)
		text_add(t, "of \"%s\" ", group);
	text_add(t, "differs");
	if (right < 0)
		text_add(t, is_seen ? ", no majority"
		                    : " in another process, which does not "
		                      "answer");
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
		text_add(t, "%s", separator);
		add_side(t, group, v, i);
		separator = "; ";
	}
	if (right >= 0) {
		text_add(t, "%s", separator);
		add_side(t, group, v, right);
	}
	return right;
}

/* Add a description of the calls to @cause, and end the clique with it. */
static void fire(struct clique *q, const struct rank_calls *v, uint64_t number,
                 struct cohort_cause *cause)
{
	struct text t = { cause->text, sizeof(cause->text) };
	const int right = mismatch_describe(v, number, q->name,
	                                    clique_is_child(q), cause, &t);

	add_tensors(&t, q, v, right, number);
	cause_set(q->end, cause);
}

int mismatch_end(struct cohort_comm *c, uint64_t number, uint64_t ticket)
{
	struct clique *q = c->clique;
	struct rank_calls *v = calloc(1, sizeof(*v) + (size_t)q->world_size *
	                                                      sizeof(v->of[0]));
	struct cohort_cause cause = {
		.status = COHORT_MISMATCH,
		.kind = COHORT_VERDICT_DIFFERENT_CALL,
		.rank = -1,
		.world_rank = -1,
		.ticket = ticket,
		.collective = number,
	};

	if (v) {
		await_quorum(c, number, v);
		collect_remote_calls(q, number, v);
		fire(q, v, number, &cause);
	} else {
		text_set(cause.text, sizeof(cause.text),
		         "collective %llu differs between ranks (out of memory "
		         "for details)",
		         (unsigned long long)number);
		cause_set(q->end, &cause);
	}
	free(v);
	return error_set(COHORT_MISMATCH, "%s", cause.text);
}

/* Append the position of the call of @ticket: " (ticket 5, tag "step 1")". */
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

/* Append rank @c's half of a transfer: "rank 0 calls send of 3 int32 to rank
 * 1". */
static void add_half(struct text *t, const struct cohort_comm *c,
                     const struct transfer *half)
{
	char name[RANK_NAME_SIZE];

	text_add(t, "%s calls ", clique_name_rank(c->clique, c->rank, name));
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

	/* The peer's record also has the ticket, unless it was overwritten by
	 * later transfers. */
	if (!pair_find(peer, other->sends, c->rank, own->number, &half))
		half = *other;
	rank_set_add(cause.joined, from->rank);
	rank_set_add(cause.joined, to->rank);
	text_add(&t, "message %llu from %s to %s differs: ",
	         (unsigned long long)own->number,
	         clique_name_rank(c->clique, from->rank, names[0]),
	         clique_name_rank(c->clique, to->rank, names[1]));
	add_half(&t, from, own->sends ? own : &half);
	text_add(&t, "; ");
	add_half(&t, to, own->sends ? &half : own);
	cause_set(c->clique->end, &cause);
	return error_set(COHORT_MISMATCH, "%s", cause.text);
}
