/* SPDX-License-Identifier: Apache-2.0 */

/* Allocates, fills and ends launches (see rank_launch.h) */

#include "sim/exec/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/scoped_lock.h"
#include "base/type.h"
#include "base/util.h"

static struct launch *launch_init(struct launch *l)
{
	if (!l)
		return NULL;
	l->calls = l->own_calls;
	l->call_room = ARRAY_SIZE(l->own_calls);
	l->streams = l->own_streams;
	l->stream_room = ARRAY_SIZE(l->own_streams);
	l->transfers = l->own_transfers;
	l->transfer_room = ARRAY_SIZE(l->own_transfers);
	return l;
}

static void launch_fini(struct launch *l)
{
	if (l->streams != l->own_streams)
		free(l->streams);
	if (l->calls != l->own_calls)
		free(l->calls);
	if (l->transfers != l->own_transfers)
		free(l->transfers);
}

/* ---- the launches of a communicator ----------------------------------- */

/* Append a launch to the queue for reuse.  Launches end in order, so the head
 * of the queue is the next one to be reused. */
static void enqueue_free(struct launch *l)
{
	struct member *m = l->member;

	l->next_given = NULL;
	*(m->first_given ? &m->last_given->next_given : &m->first_given) = l;
	m->last_given = l;
}

static struct launch *dequeue_free(struct member *m)
{
	struct launch *l = m->first_given;

	if (!l)
		return NULL;
	m->first_given = l->next_given;
	return l;
}

void launches_free(struct member *m)
{
	struct launch *l;

	while ((l = dequeue_free(m))) {
		launch_fini(l);
		if (l < m->stock || l >= m->stock + MEMBER_STOCK)
			free(l);
	}
	free(m->stock_memory);
}

bool launches_init(struct member *m)
{
	uintptr_t at;

	/* Use calloc(), which provides zeroed memory without touching it;
	 * aligned_alloc() does not zero the memory. */
	m->stock_memory =
		calloc(1, MEMBER_STOCK * sizeof(*m->stock) + CACHE_LINE);
	if (!m->stock_memory)
		return false;
	at = (uintptr_t)m->stock_memory + CACHE_LINE - 1;
	m->stock = (struct launch *)(at - at % CACHE_LINE);
	return true;
}

/* Return an unused launch, or NULL if out of memory.  If the head of the queue
 * for reuse is still in use (by a graph, or because many launches are in
 * flight), move it to the end. */
static struct launch *find(struct member *m)
{
	struct launch *l;
	int i;

	for (i = 0; i < 2 && (l = dequeue_free(m)); i++) {
		if (launch_is_at_rest(l))
			return l;
		enqueue_free(l);
	}
	if (m->stock_used < MEMBER_STOCK)
		return launch_init(&m->stock[m->stock_used++]);
	l = aligned_alloc(CACHE_LINE, sizeof(*l));
	return launch_init(l ? memset(l, 0, sizeof(*l)) : NULL);
}

struct launch *launch_get(struct member *m)
{
	struct launch *l = find(m);

	if (!l)
		return NULL;
	l->member = m;
	l->call_count = 0;
	l->bytes = 0;
	l->runs = 0;
	l->one_by_one = false;
	l->stream_count = 0;
	l->transfer_count = 0;
	l->to_self = 0;
	l->fault.kind = 0;
	l->due_ns = 0;
	l->joined = false;
	l->follows = false;
	l->patience = 0;
	l->others_kicked = false;
	store_relaxed(&l->over, false);
	l->calls_done = 0;
	l->earlier = 0;
	l->cut_ns = 0;
	store_relaxed(&l->ready, 0);
	store_relaxed(&l->given, 0);
	store_relaxed(&l->users, 1);
	enqueue_free(l);
	return l;
}

void launch_put(struct launch *l)
{
	/* Acquire and release: the last user sees all writes by the others.  If
	 * there is only one user, a store with release is enough, because no
	 * other thread can acquire a reference. */
	if (load_acquire(&l->users) == 1)
		store_release(&l->users, 0);
	else
		atomic_fetch_sub_explicit(&l->users, 1, memory_order_acq_rel);
}

/* ---- the contents of a launch ----------------------------------------- */

bool launch_add_stream(struct launch *l, struct stream *s)
{
	size_t i;

	for (i = 0; i < l->stream_count; i++)
		if (l->streams[i] == s)
			return true;
	if (!array_grow(&l->streams, l->own_streams, l->stream_count,
	                &l->stream_room, sizeof(s)))
		return false;
	l->streams[l->stream_count++] = s;
	return true;
}

/* Return true if call @b is reduced like call @a and its buffers directly
 * follow the buffers of @a. */
static bool is_contiguous(const struct call *a, const struct call *b)
{
	const size_t bytes = a->count * type_size(a->type);

	return b->kind == CALL_ALL_REDUCE && a->kind == b->kind &&
	       b->send == (const char *)a->send + bytes &&
	       b->recv == (char *)a->recv + bytes && a->type == b->type &&
	       a->op == b->op && a->op != CALL_PRE_MUL_SUM &&
	       bytes % CACHE_LINE == 0;
}

static void set_run(struct launch *l)
{
	struct call *c = &l->calls[l->call_count];

	if (l->call_count && is_contiguous(c - 1, c)) {
		c->back = c[-1].back + 1;
		c[-(ptrdiff_t)c->back].run++;
	} else {
		c->back = 0;
		c->run = 1;
	}
	l->runs = hash_step(l->runs, c->back);
}

bool launch_add_call(struct launch *l, const struct call *c)
{
	const uint64_t what = call_what(c);

	if (!array_grow(&l->calls, l->own_calls, l->call_count, &l->call_room,
	                sizeof(*c)))
		return false;
	l->what = l->call_count ? call_what_add(l->what, what) : what;
	l->calls[l->call_count] = *c;
	l->calls[l->call_count].begin = l->bytes;
	set_run(l);
	l->call_count++;
	l->bytes += call_bytes(l->member->world->n, c);
	return true;
}

bool launch_add_transfer(struct launch *l, const struct call *c)
{
	const bool is_send = c->kind == CALL_SEND;

	if (!array_grow(&l->transfers, l->own_transfers, l->transfer_count,
	                &l->transfer_room, sizeof(*l->transfers)))
		return false;
	l->transfers[l->transfer_count++] = (struct transfer){
		.launch = l,
		.buffer = is_send ? (char *)(uintptr_t)c->send : c->recv,
		.is_send = is_send,
		.peer = (short)c->root,
		.type = (unsigned char)c->type,
		.count = c->count,
	};
	if (c->root == l->member->rank)
		l->to_self += is_send ? 1 : -1;
	return true;
}

/* ---- ending a launch -------------------------------------------------- */

/* Mark a launch as ended and pass the turn to the rank's next launch.  Called
 * by a thread that drives a stream of @by, which therefore need not be
 * kicked. */
static void finish_locked(struct launch *l, const struct member *by)
{
	struct member *m = l->member;
	struct stream *at = atomic_load(&m->at);

	/* The release publishes the results of the launch. */
	store_release(&l->over, true);
	/* Kick the streams that wait for their turn before the turn advances,
	 * because the next launch can join on another stream as soon as it has
	 * advanced.  They check the turn again when they are driven. */
	member_kick_followers_locked(m);
	if (m != by && at && !stream_is_watched(at))
		stream_kick(at);
	atomic_fetch_add(&m->turn, 1);
}

void launch_end_locked(struct launch *l, const struct member *by)
{
	if (--l->left)
		return;
	l->member->joined = NULL;
	finish_locked(l, by);
}

void launch_end_whole(struct launch *l)
{
	struct member *m = l->member;

	atomic_fetch_add(&m->turn, 1);
	store_relaxed(&l->over, true);
	if (!atomic_load(&m->followed))
		return;
	SCOPED_LOCK(&m->world->lock);
	member_kick_locked(m);
}

void launch_cut_locked(struct launch *l)
{
	if (l->joined)
		l->member->joined = NULL;
	finish_locked(l, l->member);
}

void launch_done(struct launch *l)
{
	struct member *m = l->member;

	launch_put(l);
	/* The release publishes all results of the launch.  It pairs with the
	 * acquire in member_has_work(), after which the communicator might be
	 * freed. */
	atomic_fetch_add_explicit(&m->ended, 1, memory_order_release);
}
