/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Making tasks (see program.h)
 */

#include "sim/nvidia/kernel/program.h"

#include <string.h>

#include "base/util.h"
#include "platform/nccl_abi.h"
#include "sim/nvidia/kernel/ring.h"

/* ---- trees ------------------------------------------------------------- */

/* Chunk number @n of a tree: false if there is none. */
static bool tree_chunk(const struct task *t, uint64_t n,
                       struct operation_step *op)
{
	const size_t at = n * t->plan.chunk;

	if (at >= t->plan.count)
		return false;
	op->from_at = op->to_at = t->plan.begin + at;
	op->count = MIN(t->plan.chunk, t->plan.count - at);
	return true;
}

/* To the root: each rank adds its own to what its children have. */
static bool tree_up(const struct task *t, uint64_t n, struct operation_step *op)
{
	op->recv = t->recvs;
	op->send = true;
	op->from = INPUT;
	op->direct_recv = op->direct_send = true;
	return tree_chunk(t, n, op);
}

static bool tree_down(const struct task *t, uint64_t n,
                      struct operation_step *op)
{
	op->recv = true;
	op->send = t->sends;
	op->to = OUTPUT;
	op->direct_recv = op->direct_send = true;
	return tree_chunk(t, n, op);
}

/* At the root both are one. */
static bool tree_root(const struct task *t, uint64_t n,
                      struct operation_step *op)
{
	op->recv = op->send = true;
	op->from = INPUT;
	op->to = OUTPUT;
	op->last = true;
	op->direct_recv = op->direct_send = true;
	return tree_chunk(t, n, op);
}

/* ---- collectives ------------------------------------------------------- */

/* Each channel has a part of the elements, the lowest and the highest one a part of a
 * size of their own.  Chunks are whole grains. */
static void plan_part(struct plan *p, const struct coll_work *w, int channel,
                      enum protocol protocol, size_t size)
{
	static const size_t grain_bytes[] = {
		[PROTOCOL_LL] = 16,
		[PROTOCOL_LL128] = 1920,
		[PROTOCOL_SIMPLE] = 512,
	};
	const int middle = w->channel_high - w->channel_low - 1;
	int kind = 1;

	p->total = w->count[0] + w->count[2];
	if (middle > 0)
		p->total += (size_t)middle * w->count[1];
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

	/* What only moves data counts in bytes. */
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
	/* These never use the buffers of peers. */
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

/* An empty message has one chunk, too. */
static bool message_chunk(const struct task *t, uint64_t n,
                          struct operation_step *op)
{
	const size_t at = n * t->plan.chunk;

	if (n && at >= t->plan.count)
		return false;
	op->from_at = op->to_at = at;
	op->count = MIN(t->plan.chunk, t->plan.count - at);
	return true;
}

static bool message_send(const struct task *t, uint64_t n,
                         struct operation_step *op)
{
	op->send = op->direct_send = true;
	op->from = INPUT;
	return message_chunk(t, n, op);
}

static bool message_recv(const struct task *t, uint64_t n,
                         struct operation_step *op)
{
	op->recv = op->direct_recv = true;
	op->to = OUTPUT;
	return message_chunk(t, n, op);
}

/* What is registered with all peers on NVLink goes in chunks of so many bytes. */
#define LARGE_CHUNK ((size_t)1 << 30)

/* Parts of a message are whole pages. */
#define PART_UNIT ((size_t)4096)

/* Which of @parts of @bytes is this channel's; false if none is. */
static bool part_of(const struct p2p_work *w, int channel, int parts,
                    size_t bytes, size_t *begin, size_t *count)
{
	const int part = (channel - w->first_channel) & (w->channels - 1);
	size_t each;

	if (part >= parts)
		return false;
	each = DIVIDE_UP(bytes, (size_t)parts);
	each = (each + PART_UNIT - 1) / PART_UNIT * PART_UNIT;
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
		/* A message to oneself needs no connection. */
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
