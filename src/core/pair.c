/* SPDX-License-Identifier: Apache-2.0 */

#include "core/pair.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/status.h"
#include "core/mismatch.h"

/* The words of a slot. */
enum {
	WORD_PAIR, /* type, direction, peer: see pack() */
	WORD_NUMBER,
	WORD_TICKET,
	WORD_ARRIVED,
	WORD_JOIN,
	WORD_EXEC,
	WORD_COUNT,
};

#define SENDS_BIT (UINT64_C(1) << 31)
#define HOST_BIT (UINT64_C(1) << 30)

/* The most and the fewest halves that are kept for each number, and the most
 * that are kept for the numbers of one direction unless these are too few. */
#define MAX_DEPTH 256
#define MIN_DEPTH 16
#define MAX_HALVES 4096

static struct pairs *pairs_of(const struct cohort_comm *c)
{
	/* seq_cst: pairs with the store in pair_prepare(), see pair.h, D. */
	return atomic_load(&c->pairs);
}

/* True if @is holds for one of @op's calls. */
static bool has_call(const struct op *op, bool (*is)(enum op_kind kind))
{
	const struct op *calls;
	size_t i, n;

	calls = op_calls(op, &n);
	for (i = 0; i < n; i++)
		if (is(calls[i].kind))
			return true;
	return false;
}

static struct pairs *pairs_create(unsigned slots, int world)
{
	struct pairs *p = calloc(1, sizeof(*p) + slots * sizeof(p->slots[0]));

	if (!p)
		return NULL;
	p->depth = MAX_DEPTH;
	while (p->depth > MIN_DEPTH && p->depth * (size_t)world > MAX_HALVES)
		p->depth /= 2;
	p->numbers = calloc(2 * (size_t)world, sizeof(*p->numbers));
	p->halves = calloc(2 * (size_t)world * p->depth, sizeof(*p->halves));
	p->connected = calloc((size_t)world, sizeof(*p->connected));
	if (p->numbers && p->halves && p->connected)
		return p;
	pairs_free(p);
	return NULL;
}

void pairs_free(struct pairs *p)
{
	if (p) {
		free(p->numbers);
		free(p->halves);
		free(p->connected);
	}
	free(p);
}

int pair_prepare(struct cohort_comm *c, const struct op *op)
{
	struct pairs *p;

	if (!has_call(op, op_has_peer) || pairs_of(c))
		return COHORT_OK;
	p = pairs_create(c->clique->slots, c->clique->world);
	if (!p)
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for sends and receives");
	atomic_store(&c->pairs, p); /* seq_cst: see pairs_of() */
	return COHORT_OK;
}

/* ---- writing ---------------------------------------------------------- */

/* Release, so that a reader that sees a new word also sees that the index was
 * cleared before. */
static void put(struct transfer_slot *s, int word, uint64_t value)
{
	atomic_store_explicit(&s->words[word], value, memory_order_release);
}

static void write_slot(struct transfer_slot *s, const struct transfer *t)
{
	atomic_store_explicit(&s->index, 0, memory_order_relaxed);
	put(s, WORD_PAIR,
	    (uint64_t)t->type | (t->sends ? SENDS_BIT : 0) |
	            (t->from_host ? HOST_BIT : 0) | (uint64_t)t->peer << 32);
	put(s, WORD_NUMBER, t->number);
	put(s, WORD_TICKET, t->ticket);
	put(s, WORD_ARRIVED, t->arrived_ns);
	put(s, WORD_JOIN, t->limits.join_ns);
	put(s, WORD_EXEC, t->limits.exec_ns);
	put(s, WORD_COUNT, t->count);
	/* Release: the words before the index.  Pairs with the acquire in
	 * pair_read(). */
	atomic_store_explicit(&s->index, t->index, memory_order_release);
}

static struct transfer publish_one(struct cohort_comm *c, struct pairs *p,
                                   const struct op *op, uint64_t ticket,
                                   uint64_t now_ns)
{
	bool sends = op->kind == OP_SEND;
	_Atomic uint64_t *number =
		&p->numbers[(sends ? 0 : c->clique->world) + op->root];
	/* Relaxed: written here only. */
	const uint64_t before =
		atomic_load_explicit(number, memory_order_relaxed);
	const struct transfer t = {
		.index = atomic_load_explicit(&p->count, memory_order_relaxed) +
		         1,
		.sends = sends,
		.from_host = op->from_host,
		.peer = op->root,
		.number = before + 1,
		.ticket = ticket,
		.arrived_ns = now_ns,
		.limits = comm_limits(c, !before),
		.count = op->tensors[0].count,
		.type = op->tensors[0].type,
	};

	write_slot(&p->slots[t.index & (c->clique->slots - 1)], &t);
	atomic_store_explicit(&p->count, t.index, memory_order_release);
	atomic_store_explicit(number, t.number, memory_order_release);
	return t;
}

/* ---- comparing -------------------------------------------------------- */

/* A word that is equal for two halves that may meet, and never 0.  The bits of
 * the count that the shift drops are 0: no memory holds so many elements. */
static uint64_t half_make(const struct transfer *t)
{
	return (uint64_t)t->count << 6 | (uint64_t)t->from_host << 5 |
	       (uint64_t)t->type << 1 | 1;
}

static void half_read(uint64_t half, struct transfer *out)
{
	out->count = half >> 6;
	out->from_host = half >> 5 & 1;
	out->type = half >> 1 & 0xf;
}

static struct half_slot *half_slot(const struct pairs *p, int world, bool sends,
                                   int peer, uint64_t number)
{
	return &p->halves[((sends ? 0 : (size_t)world) + (size_t)peer) *
	                          p->depth +
	                  (number & (p->depth - 1))];
}

static void half_publish(struct half_slot *s, uint64_t number, uint64_t half)
{
	atomic_store_explicit(&s->number, 0, memory_order_relaxed);
	/* Release: whoever sees the half sees that the number was cleared. */
	atomic_store_explicit(&s->half, half, memory_order_release);
	atomic_store(&s->number, number); /* seq_cst: see pair.h, D */
}

/* The half that @peer has published for @own of rank @rank, 0 if that is not
 * known. */
static uint64_t half_of_peer(const struct cohort_comm *peer, int rank,
                             const struct transfer *own)
{
	const struct pairs *p = pairs_of(peer);
	const struct half_slot *s;
	uint64_t half;

	if (!p)
		return 0;
	s = half_slot(p, peer->clique->world, !own->sends, rank, own->number);
	if (atomic_load(&s->number) != own->number)
		return 0;
	/* Acquire, relaxed: as in pair_read(). */
	half = atomic_load_explicit(&s->half, memory_order_acquire);
	return atomic_load_explicit(&s->number, memory_order_relaxed) ==
	                       own->number
	               ? half
	               : 0;
}

/* Publish the half of the transfer @own, and compare it with the peer's. */
static int agree_on(struct cohort_comm *c, const struct transfer *own)
{
	const struct clique *q = c->clique;
	const struct cohort_comm *peer = clique_rank(q, own->peer);
	const uint64_t half = c->is_uncompared ? 0 : half_make(own);
	struct transfer other = { .sends = !own->sends, .peer = c->rank };
	uint64_t theirs;

	if (!peer)
		return COHORT_OK;
	half_publish(half_slot(pairs_of(c), q->world, own->sends, own->peer,
	                       own->number),
	             own->number, half);
	theirs = half_of_peer(peer, c->rank, own);
	if (!half || !theirs || theirs == half)
		return COHORT_OK;
	half_read(theirs, &other);
	return mismatch_end_transfer(c, own, &other);
}

int pair_agree(struct cohort_comm *c, const struct op *op, uint64_t ticket,
               uint64_t now_ns, bool captured)
{
	const struct op *calls;
	struct transfer own;
	int rc = COHORT_OK;
	size_t i, n;

	calls = op_calls(op, &n);
	for (i = 0; i < n && rc == COHORT_OK; i++) {
		if (!op_has_peer(calls[i].kind))
			continue;
		c->is_uncompared |= captured;
		own = publish_one(c, pairs_of(c), &calls[i], ticket, now_ns);
		rc = agree_on(c, &own);
	}
	return rc;
}

/* ---- connecting ------------------------------------------------------- */

static bool connects_first(const struct clique *q)
{
	return q->world > 1 && q->platform->connects_late() &&
	       q->config.connect != COHORT_CONNECT_NONE &&
	       q->config.connect != COHORT_CONNECT_ALL;
}

static bool is_new(const struct cohort_comm *c, const struct op *call)
{
	return op_has_peer(call->kind) && call->root != c->rank &&
	       !c->has_met_all && !pairs_of(c)->connected[call->root];
}

/* The first of @op's calls that has a new peer, NULL: none has. */
static const struct op *find_new(const struct cohort_comm *c,
                                 const struct op *op)
{
	const struct op *calls;
	size_t i, n;

	calls = op_calls(op, &n);
	for (i = 0; i < n; i++)
		if (is_new(c, &calls[i]))
			return &calls[i];
	return NULL;
}

static void greet(struct cohort_comm *c, int peer, struct native_result *r)
{
	r->rank = c->rank;
	native_note_nccl(r, "ncclSend, which connects two ranks,",
	                 native_greet(c->clique->platform, c->native,
	                              c->barrier, peer, c->stream));
}

static void greet_new(struct cohort_comm *c, const struct op *op,
                      struct native_result *r)
{
	const struct op *call;

	while (!r->what && (call = find_new(c, op))) {
		greet(c, call->root, r);
		pairs_of(c)->connected[call->root] = true;
	}
}

static void greet_all(struct cohort_comm *c, struct native_result *r)
{
	int peer;

	for (peer = 0; peer < c->clique->world && !r->what; peer++)
		if (peer != c->rank)
			greet(c, peer, r);
	c->has_met_all = true;
}

/*
 * Wait until all ranks of this process are connected to all others.  NCCL
 * allocates while it connects, which may wait for the kernels of all devices,
 * and a kernel waits for the other ranks: so none may launch before.  NCCL
 * itself waits only for the peers that it connects now.
 */
static int await_connected(struct clique *q, int n)
{
	struct backoff b = backoff_among(q->world);

	/* Release and acquire: nothing of a launch comes before. */
	atomic_fetch_add_explicit(&q->met_all, n, memory_order_acq_rel);
	while (atomic_load_explicit(&q->met_all, memory_order_acquire) <
	       q->size) {
		if (clique_cause(q))
			return clique_error(q);
		backoff_wait(&b, COHORT_FOREVER);
	}
	return COHORT_OK;
}

int pair_connect(struct cohort_comm *comms, int n, const struct op *ops,
                 struct native_result *r)
{
	const struct platform *p = comms->clique->platform;
	bool all, any;
	int i;

	if (!connects_first(comms->clique))
		return COHORT_OK;
	all = any = !comms->has_met_all && has_call(ops, op_is_of_messages);
	for (i = 0; i < n && !any; i++)
		any = pairs_of(&comms[i]) && find_new(&comms[i], &ops[i]);
	if (!any)
		return COHORT_OK;
	p->uncounted(true);
	native_note_nccl(r, "ncclGroupStart", p->ncclGroupStart());
	if (!r->what) {
		for (i = 0; i < n; i++)
			if (all)
				greet_all(&comms[i], r);
			else if (pairs_of(&comms[i]))
				greet_new(&comms[i], &ops[i], r);
		native_note_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
	}
	p->uncounted(false);
	return all && !r->what ? await_connected(comms->clique, n) : COHORT_OK;
}

/* ---- reading ---------------------------------------------------------- */

uint64_t pair_count(const struct cohort_comm *c)
{
	const struct pairs *p = pairs_of(c);

	return p ? atomic_load_explicit(&p->count, memory_order_acquire) : 0;
}

uint64_t pair_number(const struct cohort_comm *c, bool sends, int peer)
{
	const struct pairs *p = pairs_of(c);

	return p ? atomic_load_explicit(
			   &p->numbers[(sends ? 0 : c->clique->world) + peer],
			   memory_order_acquire)
	         : 0;
}

/* Acquire: pairs with put(). */
static uint64_t get(const struct transfer_slot *s, int word)
{
	return atomic_load_explicit(&s->words[word], memory_order_acquire);
}

bool pair_read(const struct cohort_comm *c, uint64_t index,
               struct transfer *out)
{
	const struct pairs *p = pairs_of(c);
	const struct transfer_slot *s;
	uint64_t pair;

	if (!p || !index)
		return false;
	s = &p->slots[index & (c->clique->slots - 1)];
	/* Acquire: pairs with the release in write_slot(). */
	if (atomic_load_explicit(&s->index, memory_order_acquire) != index)
		return false;
	pair = get(s, WORD_PAIR);
	*out = (struct transfer){
		.index = index,
		.sends = pair & SENDS_BIT,
		.from_host = pair & HOST_BIT,
		.peer = (int)(pair >> 32),
		.number = get(s, WORD_NUMBER),
		.ticket = get(s, WORD_TICKET),
		.arrived_ns = get(s, WORD_ARRIVED),
		.limits = { get(s, WORD_JOIN), get(s, WORD_EXEC) },
		.count = get(s, WORD_COUNT),
		.type = (int)(pair & 0xff),
	};
	/* Relaxed: if any word was newer, its acquire made the cleared index
	 * visible. */
	return atomic_load_explicit(&s->index, memory_order_relaxed) == index;
}

bool pair_find(const struct cohort_comm *c, bool sends, int peer,
               uint64_t number, struct transfer *out)
{
	uint64_t i, count = pair_count(c), slots = c->clique->slots;

	for (i = count; i && count - i < slots; i--)
		if (pair_read(c, i, out) && out->sends == sends &&
		    out->peer == peer && out->number == number)
			return true;
	return false;
}
