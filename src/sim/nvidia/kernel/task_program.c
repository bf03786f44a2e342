/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creates tasks, and defines the operations of each algorithm (see
 * task_program.h)
 */

#include "sim/nvidia/kernel/task_program.h"

#include <string.h>

#include "base/util.h"
#include "platform/nccl_abi.h"

/* Store the start and the size of chunk @n of a task's elements.  Return false
 * if there is no such chunk.  Even an empty message has one chunk. */
static bool chunk_of(const struct task *t, uint64_t n,
                     struct operation_step *op)
{
	const struct plan *p = &t->plan;
	const size_t done = n * p->chunk;

	if (done >= p->count && !(t->is_message && n == 0))
		return false;
	op->from_at = op->to_at = p->begin + done;
	op->count = MIN(p->chunk, p->count - done);
	return true;
}

/* ---- rings ------------------------------------------------------------- */

/*
 * Collectives on a ring of at least two ranks.  Each rank receives from the
 * previous rank and sends to the next.  The data of a channel goes around the
 * ring in rounds of one chunk, or of one chunk per rank.
 */

/*
 * All-reduce, in rounds.  In each round, each rank completes one chunk, its own
 * chunk.  A rank first sends its data for the previous rank's chunk.  Then it
 * adds its own data to the data that it receives, n - 1 times for n ranks; the
 * last addition completes its own chunk.  Then it forwards complete chunks.
 * The chunks of the last round are smaller, all of one size, and may be empty.
 */
static bool all_reduce(const struct task *t, uint64_t number,
                       struct operation_step *op)
{
	const struct plan *p = &t->plan;
	const size_t ranks = (size_t)p->ranks, i = number % (2 * ranks - 1);
	const size_t done = number / (2 * ranks - 1) * ranks * p->chunk;
	size_t left, chunk = p->chunk, at;

	if (done >= p->count)
		return false;
	left = p->count - done;
	if (left < ranks * chunk)
		chunk = ROUND_UP(DIVIDE_UP(left, ranks), 16 / t->combine.size);
	at = ((size_t)p->ring->index + 2 * ranks - 1 - i) % ranks * chunk;
	op->from_at = op->to_at = p->begin + done + at;
	op->count = at < left ? MIN(chunk, left - at) : 0;

	op->recv = i > 0;
	op->send = i < 2 * ranks - 2;
	op->from = i < ranks ? INPUT : NOWHERE;
	op->to = i >= ranks - 1 ? OUTPUT : NOWHERE;
	op->last = i == ranks - 1;
	op->direct_recv = op->direct_send = true;
	return true;
}

static bool all_gather(const struct task *t, uint64_t number,
                       struct operation_step *op)
{
	const struct plan *p = &t->plan;
	const size_t ranks = (size_t)p->ranks, i = number % ranks;
	size_t at, source;

	if (!chunk_of(t, number / ranks, op))
		return false;
	at = op->from_at;
	source = (size_t)p->ring->ranks[(ranks - i) % ranks];
	op->from_at = op->to_at = source * p->total + at;
	op->recv = i > 0;
	op->send = i < ranks - 1;
	op->to = OUTPUT;
	op->direct_recv = op->direct_send = true;
	if (i == 0) {
		op->from = INPUT;
		op->from_at = at;
		if (task_at(t, INPUT, at) == task_at(t, OUTPUT, op->to_at))
			op->to = NOWHERE;
	}
	return true;
}

static bool reduce_scatter(const struct task *t, uint64_t number,
                           struct operation_step *op)
{
	const struct plan *p = &t->plan;
	const size_t ranks = (size_t)p->ranks, i = number % ranks;

	if (!chunk_of(t, number / ranks, op))
		return false;
	op->from_at =
		(size_t)p->ring->ranks[ranks - 1 - i] * p->total + op->to_at;
	op->from = INPUT;
	op->recv = i > 0;
	op->send = i < ranks - 1;
	if (i == ranks - 1) {
		op->to = OUTPUT;
		op->last = true;
	}
	return true;
}

static bool broadcast(const struct task *t, uint64_t number,
                      struct operation_step *op)
{
	const struct plan *p = &t->plan;

	if (!chunk_of(t, number, op))
		return false;
	op->recv = p->ring->ranks[0] != p->root;
	op->send = p->ring->ranks[1] != p->root;
	op->to = OUTPUT;
	op->direct_recv = op->direct_send = true;
	if (!op->recv) {
		op->from = INPUT;
		if (t->input == t->output)
			op->to = NOWHERE;
	}
	return true;
}

static bool reduce_to_root(const struct task *t, uint64_t number,
                           struct operation_step *op)
{
	const struct plan *p = &t->plan;

	if (!chunk_of(t, number, op))
		return false;
	op->from = INPUT;
	op->recv = p->ring->ranks[p->ranks - 1] != p->root;
	op->send = p->rank != p->root;
	if (!op->send) {
		op->to = OUTPUT;
		op->last = true;
	}
	return true;
}

static task_program *const ring_programs[SEND_RECV] = {
	[BROADCAST] = broadcast,   [REDUCE] = reduce_to_root,
	[ALL_GATHER] = all_gather, [REDUCE_SCATTER] = reduce_scatter,
	[ALL_REDUCE] = all_reduce,
};

/* ---- trees ------------------------------------------------------------- */

/* Toward the root, each rank adds its own data to the data that its children
 * send. */
static bool tree_up(const struct task *t, uint64_t n, struct operation_step *op)
{
	op->recv = t->recvs;
	op->send = true;
	op->from = INPUT;
	op->direct_recv = op->direct_send = true;
	return chunk_of(t, n, op);
}

static bool tree_down(const struct task *t, uint64_t n,
                      struct operation_step *op)
{
	op->recv = true;
	op->send = t->sends;
	op->to = OUTPUT;
	op->direct_recv = op->direct_send = true;
	return chunk_of(t, n, op);
}

/* The root reduces and broadcasts in one operation. */
static bool tree_root(const struct task *t, uint64_t n,
                      struct operation_step *op)
{
	op->recv = op->send = true;
	op->from = INPUT;
	op->to = OUTPUT;
	op->last = true;
	op->direct_recv = op->direct_send = true;
	return chunk_of(t, n, op);
}

/* ---- collectives ------------------------------------------------------- */

/* Plan the elements of one channel.  The parts of the lowest and of the highest
 * channel may have other sizes than the parts between them.  Chunks consist of
 * whole grains. */
static void plan_part(struct plan *p, const struct coll_work *w, int channel,
                      enum protocol protocol, size_t size)
{
	static const size_t grain_bytes[] = {
		[PROTOCOL_LL] = 16,
		[PROTOCOL_LL128] = 1920,
		[PROTOCOL_SIMPLE] = 512,
	};
	int kind = 1;

	p->total = coll_work_count(w);
	if (channel == w->channel_low) {
		kind = 0;
	} else {
		p->begin = w->count[0] +
		           (size_t)(channel - w->channel_low - 1) * w->count[1];
		if (channel == w->channel_high)
			kind = 2;
	}
	p->count = w->count[kind];
	p->chunk = w->chunk_grains[kind] * (grain_bytes[protocol] / size);
}

static struct combine combine_of(const struct function *function,
                                 const struct coll_work *work)
{
	uint64_t scalar = work->scalar;

	/* In collectives that only move data, counts are in bytes. */
	if (function->collective == BROADCAST ||
	    function->collective == ALL_GATHER)
		return combine_make(ncclInt8, OPERATION_SUM, 0);
	if (work->scalar_is_pointer)
		scalar = combine_scalar_at(function->type,
		                           (const void *)(uintptr_t)scalar);
	return combine_make(function->type, function->operation, scalar);
}

static void set_slices(struct task *t, int slices, int steps)
{
	t->slices = slices;
	t->slice_steps = steps;
	t->step_count = (size_t)t->comm->buffer_bytes[PROTOCOL_SIMPLE] / STEPS /
	                t->combine.size;
}

static int make_ring(struct task *t, const struct layout *layout,
                     const struct function *function,
                     const struct channel *channel)
{
	const enum collective collective = function->collective;
	const bool long_chunks =
		collective != BROADCAST && collective != REDUCE;

	t->program = ring_programs[collective];
	set_slices(t, long_chunks ? 2 : 1, long_chunks ? 2 : 1);
	/* Reduce and reduce-scatter never access the buffers of peers
	 * directly. */
	if (collective == REDUCE || collective == REDUCE_SCATTER)
		t->registered = false;
	task_connect(t, layout, channel, &channel->ring.prev, 1,
	             &channel->ring.next, 1, 0);
	return 1;
}

static int make_tree(struct task tasks[TASKS_PER_WORK],
                     const struct layout *layout, const struct channel *channel)
{
	const struct tree *tree = &channel->tree;
	struct task *up = &tasks[0], *down = &tasks[1];

	set_slices(up, 1, 1);
	if (tree->up < 0) {
		up->program = tree_root;
		task_connect(up, layout, channel, tree->down, MAX_CHILDREN - 1,
		             tree->down, MAX_CHILDREN - 1, 0);
		return 1;
	}
	*down = *up;
	up->program = tree_up;
	task_connect(up, layout, channel, tree->down, MAX_CHILDREN, &tree->up,
	             1, 0);
	down->program = tree_down;
	task_connect(down, layout, channel, &tree->up, 1, tree->down,
	             MAX_CHILDREN, 0);
	return 2;
}

int program_coll(struct task tasks[TASKS_PER_WORK], const struct layout *layout,
                 const struct function *function,
                 const struct kernel_comm *comm, const struct channel *channel,
                 const struct coll_work *work)
{
	struct task *t = tasks;

	memset(tasks, 0, TASKS_PER_WORK * sizeof(*tasks));
	t->comm = comm;
	t->protocol = function->protocol;
	t->combine = combine_of(function, work);
	t->input = work->send;
	t->output = work->recv;
	t->registered = work->registered;
	t->coll = work;
	t->plan.ring = &channel->ring;
	t->plan.rank = comm->rank;
	t->plan.ranks = comm->ranks;
	t->plan.root = work->root;
	plan_part(&t->plan, work, channel->id, t->protocol, t->combine.size);
	if (function->algorithm == ALGORITHM_TREE)
		return make_tree(tasks, layout, channel);
	return make_ring(t, layout, function, channel);
}

bool program_exists(const struct function *function)
{
	switch (function->algorithm) {
	case ALGORITHM_RING:
		return true;
	case ALGORITHM_TREE:
		return function->collective == ALL_REDUCE;
	default:
		return false;
	}
}

/* ---- messages ---------------------------------------------------------- */

static bool message_send(const struct task *t, uint64_t n,
                         struct operation_step *op)
{
	op->send = op->direct_send = true;
	op->from = INPUT;
	return chunk_of(t, n, op);
}

static bool message_recv(const struct task *t, uint64_t n,
                         struct operation_step *op)
{
	op->recv = op->direct_recv = true;
	op->to = OUTPUT;
	return chunk_of(t, n, op);
}

/* Chunk size, in bytes, for registered buffers if all peers are on NVLink. */
#define LARGE_CHUNK ((size_t)1 << 30)

/* Alignment, in bytes, of the parts of a message: one page. */
#define PART_UNIT ((size_t)4096)

/* Find the channel's part of a message of @bytes that is split into @parts
 * parts.  Return false if the channel has no part. */
static bool part_of(const struct p2p_work *w, int channel, int parts,
                    size_t bytes, size_t *begin, size_t *count)
{
	const int part = (channel - w->first_channel) & (w->channels - 1);
	size_t each;

	if (part >= parts)
		return false;
	each = ROUND_UP(DIVIDE_UP(bytes, (size_t)parts), PART_UNIT);
	*begin = MIN((size_t)part * each, bytes);
	*count = MIN(((size_t)part + 1) * each, bytes) - *begin;
	return true;
}

static void init_message(struct task *t, const struct kernel_comm *comm,
                         bool ll, bool registered, size_t chunk, size_t count)
{
	const bool large = registered && comm->all_nvlink;

	memset(t, 0, sizeof(*t));
	t->comm = comm;
	t->protocol = ll ? PROTOCOL_LL : PROTOCOL_SIMPLE;
	t->combine = combine_make(ncclInt8, OPERATION_SUM, 0);
	t->is_message = true;
	t->registered = registered;
	t->slices = t->slice_steps = 1;
	t->step_count = large ? LARGE_CHUNK : (size_t)comm->p2p_chunk_bytes;
	t->plan.chunk = large ? LARGE_CHUNK : chunk;
	t->plan.count = count;
}

int program_p2p(struct task tasks[TASKS_PER_WORK], const struct layout *layout,
                const struct kernel_comm *comm, const struct channel *channel,
                const struct p2p_work *work)
{
	const struct p2p_work *w = work;
	size_t begin, count;
	int n = 0;

	if (part_of(w, channel->id, w->send_parts, w->send_bytes, &begin,
	            &count)) {
		/* A message to the rank itself needs no connection. */
		if (w->send_rank == comm->rank) {
			if (w->recv != w->send)
				memcpy(w->recv + begin, w->send + begin, count);
			return 0;
		}
		init_message(&tasks[n], comm, w->send_ll, w->send_registered,
		             w->send_chunk, count);
		tasks[n].program = message_send;
		tasks[n].input = w->send + begin;
		task_connect(&tasks[n], layout, channel, NULL, 0, &w->send_rank,
		             1, 1);
		n++;
	}
	if (w->send_rank != comm->rank &&
	    part_of(w, channel->id, w->recv_parts, w->recv_bytes, &begin,
	            &count)) {
		init_message(&tasks[n], comm, w->recv_ll, w->recv_registered,
		             w->recv_chunk, count);
		tasks[n].program = message_recv;
		tasks[n].output = w->recv + begin;
		task_connect(&tasks[n], layout, channel, &w->recv_rank, 1, NULL,
		             0, 1);
		n++;
	}
	return n;
}

/* ---- several broadcasts ------------------------------------------------ */

/* Several concurrent broadcasts, each from its own root around the ring.  They
 * take turns, chunk by chunk, in the order of their works, which is the same on
 * all ranks.  A finished broadcast is skipped. */

/* Store the operation of turn @n, which belongs to work @n % count.  If the
 * broadcast of that work is finished, leave @op empty. */
static bool turn(const struct task *t, uint64_t n, struct operation_step *op)
{
	const uint64_t count = (uint64_t)t->broadcast_count;
	const struct broadcast_work *w = &t->broadcasts[n % count];
	const size_t done = n / count * w->chunk;

	if (n / count >= t->plan.total)
		return false;
	if (done >= w->bytes)
		return true;
	op->input = w->send;
	op->output = w->recv;
	op->from_at = op->to_at = w->begin + done;
	op->count = MIN(w->chunk, w->bytes - done);
	op->send = w->depth != t->plan.ranks - 1;
	op->recv = w->depth != 0;
	op->from = op->recv ? NOWHERE : INPUT;
	op->to = op->recv || w->send != w->recv ? OUTPUT : NOWHERE;
	return true;
}

int program_broadcasts(struct task tasks[TASKS_PER_WORK],
                       const struct layout *layout,
                       const struct function *function,
                       const struct kernel_comm *comm,
                       const struct channel *channel,
                       const struct broadcast_work *works, int count)
{
	struct task *t = tasks;
	size_t turns;

	memset(t, 0, sizeof(*t));
	t->comm = comm;
	t->protocol = function->protocol;
	t->combine = combine_make(ncclInt8, OPERATION_SUM, 0);
	t->program = turn;
	t->slices = t->slice_steps = 1;
	t->step_count = (size_t)comm->buffer_bytes[PROTOCOL_SIMPLE] / STEPS;
	t->broadcasts = works;
	t->broadcast_count = count;
	t->plan.ranks = comm->ranks;
	for (int i = 0; i < count; i++) {
		turns = DIVIDE_UP(works[i].bytes, works[i].chunk);
		if (t->plan.total < turns)
			t->plan.total = turns;
	}
	task_connect(t, layout, channel, &channel->ring.prev, 1,
	             &channel->ring.next, 1, 0);
	return 1;
}
