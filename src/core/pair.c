/* SPDX-License-Identifier: Apache-2.0 */

#include "core/pair.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/status.h"
#include "core/mismatch.h"

enum {
	WORD_PAIR, /* type, direction, host memory, peer */
	WORD_NUMBER,
	WORD_TICKET,
	WORD_ARRIVED,
	WORD_JOIN,
	WORD_EXEC,
	WORD_COUNT,
};

#define SENDS_BIT (UINT64_C(1) << 31)
#define HOST_BIT (UINT64_C(1) << 30)

/* Bounds of the member bits of struct halves. */
#define MAX_BITS 8
#define MIN_BITS 4
/* Maximum number of words for one rank and direction.  To stay below it,
 * halves_create() lowers the number of bits, down to MIN_BITS. */
#define MAX_SHARED 4096

static struct pairs *pairs_of(const struct cohort_comm *c)
{
	/* The acquire pairs with the release in pair_prepare(). */
	return atomic_load_explicit(&c->transfers.pairs, memory_order_acquire);
}

/* Return true if @is returns true for the kind of any of @op's calls. */
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

/* ---- late connections ------------------------------------------------- */

/* Return true if NCCL connects ranks during their first calls, unless they were
 * connected when the group was opened. */
static bool connects_late(const struct clique *q)
{
	return q->world_size > 1 && q->platform->connects_late();
}

static bool connects_first(const struct clique *q)
{
	return q->config.connect != COHORT_CONNECT_NONE &&
	       q->config.connect != COHORT_CONNECT_ALL && connects_late(q);
}

/* Return true if the first message of a pair connects the pair. */
static bool message_connects(const struct clique *q)
{
	return q->config.connect != COHORT_CONNECT_ALL && connects_late(q);
}

bool pair_collective_connects(const struct cohort_comm *c, const struct op *op,
                              uint64_t number)
{
	if (c->clique->config.connect == COHORT_CONNECT_NONE)
		return number == 1 && connects_late(c->clique);
	return !c->transfers.has_connected_all &&
	       has_call(op, op_is_of_messages) && connects_first(c->clique);
}

/* ---- allocating ------------------------------------------------------- */

static struct pairs *pairs_create(unsigned slots, int world)
{
	struct pairs *p = calloc(1, sizeof(*p) + slots * sizeof(p->slots[0]));

	if (!p)
		return NULL;
	p->numbers = calloc(2 * (size_t)world, sizeof(*p->numbers));
	p->connected = calloc((size_t)world, sizeof(*p->connected));
	if (p->numbers && p->connected)
		return p;
	pairs_free(p);
	return NULL;
}

void pairs_free(struct pairs *p)
{
	if (p) {
		free(p->numbers);
		free(p->connected);
	}
	free(p);
}

/* Allocate the shared words of @q, once.  Return false if there is no
 * memory. */
static bool halves_create(struct clique *q)
{
	const size_t n = (size_t)q->size;
	struct halves *h, *none = NULL;
	unsigned bits = MAX_BITS;

	if (atomic_load(&q->halves))
		return true;
	while (bits > MIN_BITS && n << bits > MAX_SHARED)
		bits--;
	h = calloc(1, sizeof(*h) + (n * (n + 1) << bits) * sizeof(h->words[0]));
	if (!h)
		return false;
	h->bits = bits;
	if (!atomic_compare_exchange_strong(&q->halves, &none, h))
		free(h); /* another rank has stored its own first */
	return true;
}

int pair_prepare(struct cohort_comm *c, const struct op *op)
{
	struct pairs *p = NULL;

	if (!has_call(op, op_has_peer) || pairs_of(c))
		return COHORT_OK;
	if (halves_create(c->clique))
		p = pairs_create(c->clique->slots, c->clique->world_size);
	if (!p)
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for sends and receives");
	atomic_store_explicit(&c->transfers.pairs, p, memory_order_release);
	return COHORT_OK;
}

/* ---- writing ---------------------------------------------------------- */

/* Store a word of a transfer.  The release makes a reader that sees a new word
 * also see that the index was cleared before. */
static void store_slot_word(struct transfer_slot *s, int word, uint64_t value)
{
	atomic_store_explicit(&s->words[word], value, memory_order_release);
}

static void write_slot(struct transfer_slot *s, const struct transfer *t)
{
	atomic_store_explicit(&s->index, 0, memory_order_relaxed);
	store_slot_word(s, WORD_PAIR,
	                (uint64_t)t->type | (t->sends ? SENDS_BIT : 0) |
	                        (t->from_host ? HOST_BIT : 0) |
	                        (uint64_t)t->peer << 32);
	store_slot_word(s, WORD_NUMBER, t->number);
	store_slot_word(s, WORD_TICKET, t->ticket);
	store_slot_word(s, WORD_ARRIVED, t->arrived_ns);
	store_slot_word(s, WORD_JOIN, t->limits.join_ns);
	store_slot_word(s, WORD_EXEC, t->limits.exec_ns);
	store_slot_word(s, WORD_COUNT, t->count);
	/* The release makes the words visible before the index.  It pairs with
	 * the acquire in pair_read(). */
	atomic_store_explicit(&s->index, t->index, memory_order_release);
}

static struct transfer publish_one(struct cohort_comm *c, struct pairs *p,
                                   const struct op *op, uint64_t ticket,
                                   uint64_t now_ns)
{
	bool sends = op->kind == OP_SEND;
	_Atomic uint64_t *number =
		&p->numbers[(sends ? 0 : c->clique->world_size) + op->root];
	/* Relaxed, because only this thread writes it. */
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
		.limits =
			comm_limits(c, !before && message_connects(c->clique)),
		.count = op->tensors[0].count,
		.type = op->tensors[0].type,
	};

	write_slot(&p->slots[t.index & (c->clique->slots - 1)], &t);
	atomic_store_explicit(&p->count, t.index, memory_order_release);
	atomic_store_explicit(number, t.number, memory_order_release);
	return t;
}

/* ---- comparing -------------------------------------------------------- */

/* Format of the word of a half: its type, 1 bit for host memory, 1 bit that is
 * always set, the count, and the number of times the words were reused (the
 * lap), truncated.  The count has enough bits for any tensor that fits in
 * memory. */
#define HALF_HOST (UINT64_C(1) << TYPE_BITS)
#define HALF_SET (HALF_HOST << 1)
#define COUNT_SHIFT (TYPE_BITS + 2)
#define COUNT_BITS 48
#define LAP_SHIFT (COUNT_SHIFT + COUNT_BITS)
#define LAPS (UINT64_MAX >> LAP_SHIFT)

static uint64_t half_make(const struct transfer *t, unsigned bits)
{
	return t->number >> bits << LAP_SHIFT |
	       (t->count << COUNT_SHIFT & ((UINT64_C(1) << LAP_SHIFT) - 1)) |
	       HALF_SET | (t->from_host ? HALF_HOST : 0) | (uint64_t)t->type;
}

static void half_read(uint64_t half, struct transfer *out)
{
	out->count = half >> COUNT_SHIFT & ((UINT64_C(1) << COUNT_BITS) - 1);
	out->from_host = half & HALF_HOST;
	out->type = (int)(half & (HALF_HOST - 1));
}

static uint64_t laps_ahead(uint64_t a, uint64_t b)
{
	return ((a >> LAP_SHIFT) - (b >> LAP_SHIFT)) & LAPS;
}

/* Return the word of transfer @number.  Both directions of a pair use the same
 * cache lines, because two ranks often send to each other in turn. */
static _Atomic uint64_t *half_word(struct halves *h,
                                   const struct cohort_comm *from,
                                   const struct cohort_comm *to,
                                   uint64_t number)
{
	const struct cohort_comm *first = from->clique->comms;
	const size_t low = (size_t)((from < to ? from : to) - first);
	const size_t high = (size_t)((from < to ? to : from) - first);
	const size_t pair = high * (high + 1) / 2 + low;
	const size_t k = number & ((UINT64_C(1) << h->bits) - 1);

	return &h->words[2 * ((pair << h->bits) + k) + (from < to)];
}

/* Store the half @own in the shared word.  If the peer's half is already there
 * and differs, end the clique and return COHORT_MISMATCH. */
static int agree_on(struct cohort_comm *c, const struct transfer *own)
{
	const struct cohort_comm *peer = clique_rank(c->clique, own->peer);
	struct halves *h = atomic_load(&c->clique->halves);
	struct transfer other = { .sends = !own->sends, .peer = c->rank };
	const uint64_t mine = half_make(own, h->bits);
	_Atomic uint64_t *word;
	uint64_t theirs;

	if (!peer || atomic_load_explicit(&c->transfers.is_uncompared,
	                                  memory_order_relaxed))
		return COHORT_OK;
	word = own->sends ? half_word(h, c, peer, own->number)
	                  : half_word(h, peer, c, own->number);
	/* The release publishes this rank's transfer, and the acquire makes the
	 * peer's visible. */
	theirs = atomic_exchange_explicit(word, mine, memory_order_acq_rel);
	if (theirs == mine || !theirs)
		return COHORT_OK;
	if (laps_ahead(theirs, mine)) {
		/* The word held a later half, because the peer is far ahead:
		 * restore the word. */
		if (laps_ahead(theirs, mine) <= LAPS / 2)
			atomic_store_explicit(word, theirs,
			                      memory_order_release);
		return COHORT_OK;
	}
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
		if (captured)
			atomic_store(&c->transfers.is_uncompared, true);
		own = publish_one(c, pairs_of(c), &calls[i], ticket, now_ns);
		rc = agree_on(c, &own);
	}
	return rc;
}

/* ---- connecting ------------------------------------------------------- */

static bool is_new(const struct cohort_comm *c, const struct op *call)
{
	return op_has_peer(call->kind) && call->root != c->rank &&
	       !c->transfers.has_connected_all &&
	       !pairs_of(c)->connected[call->root];
}

/* Return the first of @op's calls that has an unconnected peer, or NULL. */
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

static void connect_peer(struct cohort_comm *c, int peer,
                         struct native_result *r)
{
	r->rank = c->rank;
	native_record_nccl(r, "ncclSend, which connects two ranks,",
	                   native_exchange_empty(c->clique->platform, c->native,
	                                         c->barrier, peer, c->stream));
}

static void connect_new_peers(struct cohort_comm *c, const struct op *op,
                              struct native_result *r)
{
	const struct op *call;

	while (!r->what && (call = find_new(c, op))) {
		connect_peer(c, call->root, r);
		pairs_of(c)->connected[call->root] = true;
	}
}

static void connect_all_peers(struct cohort_comm *c, struct native_result *r)
{
	int peer;

	for (peer = 0; peer < c->clique->world_size && !r->what; peer++)
		if (peer != c->rank)
			connect_peer(c, peer, r);
	c->transfers.has_connected_all = true;
}

/*
 * Wait until all ranks of this process are connected to all other ranks.
 * Before that, no rank may launch: NCCL allocates while it connects, an
 * allocation may wait for the kernels of all devices, and a kernel waits for
 * the other ranks.  NCCL's own call only waits for the peers of the ranks in
 * the call, not for all ranks.
 */
static int await_connected(struct clique *q, int n)
{
	struct backoff b = backoff_among(q->world_size);

	/* Release and acquire, so that no launch moves before this line. */
	atomic_fetch_add_explicit(&q->connected_ranks, n, memory_order_acq_rel);
	while (atomic_load_explicit(&q->connected_ranks, memory_order_acquire) <
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
	all = any = !comms->transfers.has_connected_all &&
	            has_call(ops, op_is_of_messages);
	for (i = 0; i < n && !any; i++)
		any = pairs_of(&comms[i]) && find_new(&comms[i], &ops[i]);
	if (!any)
		return COHORT_OK;
	p->uncounted(true);
	native_record_nccl(r, "ncclGroupStart", p->ncclGroupStart());
	if (!r->what) {
		for (i = 0; i < n; i++)
			if (all)
				connect_all_peers(&comms[i], r);
			else if (pairs_of(&comms[i]))
				connect_new_peers(&comms[i], &ops[i], r);
		native_record_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
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
			   &p->numbers[(sends ? 0 : c->clique->world_size) +
	                               peer],
			   memory_order_acquire)
	         : 0;
}

/* Read a word of a recorded transfer.  The acquire pairs with
 * store_slot_word(). */
static uint64_t load_slot_word(const struct transfer_slot *s, int word)
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
	/* The acquire pairs with the release in write_slot(). */
	if (atomic_load_explicit(&s->index, memory_order_acquire) != index)
		return false;
	pair = load_slot_word(s, WORD_PAIR);
	*out = (struct transfer){
		.index = index,
		.sends = pair & SENDS_BIT,
		.from_host = pair & HOST_BIT,
		.peer = (int)(pair >> 32),
		.number = load_slot_word(s, WORD_NUMBER),
		.ticket = load_slot_word(s, WORD_TICKET),
		.arrived_ns = load_slot_word(s, WORD_ARRIVED),
		.limits = { load_slot_word(s, WORD_JOIN),
		            load_slot_word(s, WORD_EXEC) },
		.count = load_slot_word(s, WORD_COUNT),
		.type = (int)(pair & 0xff),
	};
	/* Relaxed, because if any word was newer, its acquire made the cleared
	 * index visible. */
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
