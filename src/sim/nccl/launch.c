/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/exec/launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/type.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/mark.h"
#include "sim/cuda/sync.h"
#include "sim/exec/piece.h"
#include "sim/host.h"
#include "sim/nccl/comm.h"
#include "sim/strict/fault.h"

const char *call_function(enum call_kind kind)
{
	static const char *const names[] = {
		[CALL_ALL_REDUCE] = "ncclAllReduce",
		[CALL_BROADCAST] = "ncclBroadcast",
		[CALL_REDUCE] = "ncclReduce",
		[CALL_ALL_GATHER] = "ncclAllGather",
		[CALL_REDUCE_SCATTER] = "ncclReduceScatter",
		[CALL_ALL_TO_ALL] = "ncclAlltoAll",
		[CALL_GATHER] = "ncclGather",
		[CALL_SCATTER] = "ncclScatter",
		[CALL_SEND] = "ncclSend",
		[CALL_RECV] = "ncclRecv",
	};

	return names[kind];
}

/* With room of its own for the usual. */
static struct launch *launch_init(struct launch *l)
{
	if (!l)
		return NULL;
	l->calls = l->own_calls;
	l->call_room = sizeof(l->own_calls) / sizeof(l->own_calls[0]);
	l->places = l->own_places;
	l->place_room = sizeof(l->own_places) / sizeof(l->own_places[0]);
	l->streams = l->own_streams;
	l->stream_room = sizeof(l->own_streams) / sizeof(l->own_streams[0]);
	l->transfers = l->own_transfers;
	l->transfer_room =
		sizeof(l->own_transfers) / sizeof(l->own_transfers[0]);
	return l;
}

static void launch_fini(struct launch *l)
{
	if (l->streams != l->own_streams)
		free(l->streams);
	if (l->calls != l->own_calls)
		free(l->calls);
	if (l->places != l->own_places)
		free(l->places);
	if (l->transfers != l->own_transfers)
		free(l->transfers);
}

/* ---- those of a communicator ------------------------------------------ */

/* All but those that are kept are in a line, the last that was given out at its end.
 * As launches end in their order, the first is the one to be given out again. */
static void line_up(struct launch *l)
{
	struct ncclComm *comm = l->comm;

	l->next_given = NULL;
	l->is_in_line = true;
	*(comm->first_given ? &comm->last_given->next_given
	                    : &comm->first_given) = l;
	comm->last_given = l;
}

static struct launch *leave_line(struct ncclComm *comm)
{
	struct launch *l = comm->first_given;

	if (!l)
		return NULL;
	comm->first_given = l->next_given;
	l->is_in_line = false;
	return l;
}

void launches_free(struct ncclComm *comm)
{
	struct launch *l;

	while ((l = leave_line(comm))) {
		launch_fini(l);
		if (l < comm->stock || l >= comm->stock + COMM_STOCK)
			free(l);
	}
	free(comm->stock_memory);
}

bool launches_init(struct ncclComm *comm)
{
	uintptr_t at;

	/* Not aligned_alloc(): this is zero without being touched. */
	comm->stock_memory =
		calloc(1, COMM_STOCK * sizeof(*comm->stock) + CACHE_LINE);
	if (!comm->stock_memory)
		return false;
	at = (uintptr_t)comm->stock_memory + CACHE_LINE - 1;
	comm->stock = (struct launch *)(at - at % CACHE_LINE);
	return true;
}

/* One that is not in the line.  A graph's, or one of many in flight, may be the first
 * in it for long: it goes to the end. */
static struct launch *find(struct ncclComm *comm)
{
	struct launch *l;
	int i;

	for (i = 0; i < 2 && (l = leave_line(comm)); i++) {
		if (l->is_kept)
			continue;
		if (launch_is_at_rest(l))
			return l;
		line_up(l);
	}
	if (comm->stock_used < COMM_STOCK)
		return launch_init(&comm->stock[comm->stock_used++]);
	l = aligned_alloc(CACHE_LINE, sizeof(*l));
	return launch_init(l ? memset(l, 0, sizeof(*l)) : NULL);
}

void launch_renew(struct launch *l)
{
	l->ends.started = l->ends.done = NULL;
	l->joined = false;
	l->follows = false;
	l->patience = 0;
	l->is_told = false;
	atomic_store_explicit(&l->over, false, memory_order_relaxed);
	l->calls_done = 0;
	atomic_store_explicit(&l->ready, 0, memory_order_relaxed);
	atomic_store_explicit(&l->given, 0, memory_order_relaxed);
}

struct launch *launch_get(struct ncclComm *comm)
{
	struct launch *l = find(comm);

	if (!l)
		return NULL;
	l->comm = comm;
	l->call_count = 0;
	l->bytes = 0;
	l->hash = 1;
	l->runs = 1;
	l->stream_count = 0;
	l->transfer_count = 0;
	l->to_self = 0;
	l->fault.kind = 0;
	l->due_ns = 0;
	launch_renew(l);
	atomic_store_explicit(&l->users, 1, memory_order_relaxed);
	line_up(l);
	return l;
}

void launch_put(struct launch *l)
{
	/* Acquire and release: the last one sees what the other did.  Where there is
	 * one, there will not be another.  Release: the last use. */
	if (atomic_load_explicit(&l->users, memory_order_acquire) == 1)
		atomic_store_explicit(&l->users, 0, memory_order_release);
	else
		atomic_fetch_sub_explicit(&l->users, 1, memory_order_acq_rel);
}

void launch_unkeep(struct launch *l)
{
	l->is_kept = false;
	if (!l->is_in_line)
		line_up(l);
}

/* ---- what is in it ---------------------------------------------------- */

/* Make room for one more of @size in an array that begins as @own. */
static bool grow(void **array, const void *own, size_t count, size_t *room,
                 size_t size)
{
	size_t more = 2 * *room;
	void *bigger;

	if (count < *room)
		return true;
	bigger = realloc(*array == own ? NULL : *array, more * size);
	if (!bigger)
		return false;
	if (*array == own)
		memcpy(bigger, own, count * size);
	*array = bigger;
	*room = more;
	return true;
}

bool launch_add_stream(struct launch *l, struct stream *s)
{
	void *streams = l->streams;
	size_t i;
	bool ok;

	for (i = 0; i < l->stream_count; i++)
		if (l->streams[i] == s)
			return true;
	ok = grow(&streams, l->own_streams, l->stream_count, &l->stream_room,
	          sizeof(s));
	l->streams = streams;
	if (ok)
		l->streams[l->stream_count++] = s;
	return ok;
}

/* A step of a launch's hash, which stays 0 once it is. */
static uint64_t mix(uint64_t hash, uint64_t what)
{
	if (!hash)
		return 0;
	hash = hash_step(hash, what);
	return hash ? hash : 1;
}

/* True if call @b lies behind call @a: then their elements are reduced alike, whichever
 * of the two they are of. */
static bool goes_on(const struct call *a, const struct call *b)
{
	const size_t bytes = a->count * type_size(a->type);

	return b->kind == CALL_ALL_REDUCE && a->kind == b->kind &&
	       b->send == (const char *)a->send + bytes &&
	       b->recv == (char *)a->recv + bytes && a->type == b->type &&
	       a->op == b->op && a->op != CALL_PRE_MUL_SUM &&
	       bytes % CACHE_LINE == 0;
}

/* Whether the new call goes on with the run of the one before. */
static void set_run(struct launch *l)
{
	struct call *c = &l->calls[l->call_count];

	if (l->call_count && goes_on(c - 1, c)) {
		c->back = c[-1].back + 1;
		c[-(ptrdiff_t)c->back].run++;
	} else {
		c->back = 0;
		c->run = 1;
	}
	l->runs = mix(l->runs, c->back);
}

bool launch_add_call(struct launch *l, const struct call *c)
{
	void *calls = l->calls, *places = l->places;
	uint64_t what;
	bool ok = grow(&calls, l->own_calls, l->call_count, &l->call_room,
	               sizeof(*c)) &&
	          grow(&places, l->own_places, l->call_count, &l->place_room,
	               sizeof(*l->places));

	l->calls = calls;
	l->places = places;
	if (!ok)
		return false;
	what = call_what(c);
	l->places[l->call_count] = (struct place){
		.send = c->send,
		.recv = c->recv,
		.what = what,
	};
	l->calls[l->call_count] = *c;
	l->calls[l->call_count].begin = l->bytes;
	set_run(l);
	l->call_count++;
	l->bytes += call_bytes(l->comm->world, c);
	l->hash = what == MANY_CALLS ? 0 : mix(l->hash, what);
	return true;
}

bool launch_add_transfer(struct launch *l, const struct call *c)
{
	const bool is_send = c->kind == CALL_SEND;
	void *transfers = l->transfers;
	bool ok = grow(&transfers, l->own_transfers, l->transfer_count,
	               &l->transfer_room, sizeof(*l->transfers));

	l->transfers = transfers;
	if (!ok)
		return false;
	l->transfers[l->transfer_count++] = (struct transfer){
		.launch = l,
		.buffer = is_send ? (char *)(uintptr_t)c->send : c->recv,
		.is_send = is_send,
		.peer = (short)c->root,
		.type = (unsigned char)c->type,
		.count = c->count,
	};
	if (c->root == l->comm->rank)
		l->to_self += is_send ? 1 : -1;
	return true;
}

/* ---- queueing --------------------------------------------------------- */

/* True if it would not have to wait for its turn, and ends with its round. */
static bool can_begin(const struct launch *l)
{
	return atomic_load(&l->comm->turn) == l->round && !l->transfer_count &&
	       !l->fault.kind;
}

/* In its turn, after the launches of the rank before.  The stream is the user that
 * the caller was. */
static void push(struct launch *l, struct stream *s, uint64_t *position_out)
{
	struct work w = { .step = rendezvous_step, .launch = l };
	struct ncclComm *comm = l->comm;

	if (!position_out)
		l->ends = ends_take(s);
	l->round = atomic_load_explicit(&comm->rounds, memory_order_relaxed);
	atomic_store_explicit(&comm->rounds, l->round + 1,
	                      memory_order_relaxed);
	comm->last = s;
	if (!position_out && can_begin(l))
		stream_push_begun(s, &w);
	else
		stream_push(s, &w, position_out);
}

static void queue(struct launch *l, struct stream *s, size_t others)
{
	uint64_t position = 0;
	size_t i;

	/* Relaxed: the caller is a user. */
	if (others)
		atomic_fetch_add_explicit(&l->users, 1, memory_order_relaxed);
	for (i = 0; i < others; i++)
		stream_push_wait(s, l->streams[i], l->streams[i]->queued);
	push(l, s, others ? &position : NULL);
	for (i = 0; i < others; i++) {
		stream_push_wait(l->streams[i], s, position);
		stream_go(l->streams[i]);
	}
	if (others)
		launch_put(l);
}

/* ---- in graphs -------------------------------------------------------- */

/* A graph, too, uses the communicator, which cannot be freed before it. */
static void keep_launch(struct work *w)
{
	atomic_fetch_add_explicit(&w->launch->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&w->launch->comm->captured, 1,
	                          memory_order_relaxed);
}

static void drop_launch(struct work *w)
{
	struct ncclComm *comm = w->launch->comm;

	launch_put(w->launch);
	/* Release: the graph's last use.  Pairs with the acquire of who waits
	 * for the graphs before it frees the communicator. */
	atomic_fetch_sub_explicit(&comm->captured, 1, memory_order_release);
}

/* The same calls once more; the matching of transfers begins anew. */
static bool copy_calls(struct launch *to, const struct launch *from)
{
	struct call c;
	bool ok = true;
	size_t i;

	for (i = 0; ok && i < from->call_count; i++)
		ok = launch_add_call(to, &from->calls[i]);
	for (i = 0; ok && i < from->transfer_count; i++) {
		c = transfer_call(&from->transfers[i]);
		ok = launch_add_transfer(to, &c);
	}
	return ok;
}

static bool replay_launch(const struct work *w, struct stream *s)
{
	struct launch *l = launch_get(w->launch->comm);

	if (!l)
		return false;
	if (!launch_add_stream(l, s) || !copy_calls(l, w->launch)) {
		launch_put(l);
		return false;
	}
	l->fault = w->launch->fault;
	push(l, s, NULL);
	return true;
}

static const struct graph_kind launch_kind = {
	.type = cudaGraphNodeTypeKernel,
	.keep = keep_launch,
	.drop = drop_launch,
	.replay = replay_launch,
};

/* An error has made the capture invalid, which its end will say. */
static void capture(struct launch *l, struct stream *s, size_t others)
{
	struct work w = { .step = rendezvous_step, .launch = l };
	size_t i;

	for (i = 0; i < others; i++)
		capture_join(s, l->streams[i]);
	keep_launch(&w);
	if (stream_submit(s, &w, &launch_kind, NULL) != cudaSuccess)
		drop_launch(&w);
	for (i = 0; i < others; i++)
		capture_join(l->streams[i], s);
	launch_put(l);
}

/* ---- either ----------------------------------------------------------- */

ncclResult_t launch_check(const struct launch *l)
{
	size_t i;

	/* What makes it fail is launched. */
	if (l->fault.kind != COHORT_FAULT_DEVICE &&
	    fault_sticky(l->comm->device) != cudaSuccess)
		return comm_error(
			ncclUnhandledCudaError,
			host_cudaGetErrorString(fault_sticky(l->comm->device)));
	for (i = 0; i < l->stream_count; i++)
		if (l->streams[i]->device != l->comm->device)
			return comm_error(ncclUnhandledCudaError,
			                  "the stream is of another device");
	return capture_check_together(l->streams, l->stream_count);
}

void launch_queue(struct launch *l)
{
	const size_t others = l->stream_count - 1;
	struct stream *s = l->streams[others];

	if (capture_has(s)) {
		capture(l, s, others);
		return;
	}
	sync_launch(l->comm->device);
	queue(l, s, others);
}
