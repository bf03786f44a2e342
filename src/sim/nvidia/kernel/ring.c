/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The collectives on a ring of two ranks or more: each rank receives from the one before
 * it, and sends to the next
 *
 * A channel's part goes around in rounds of one chunk, or one chunk for each rank.
 */

#include "sim/nvidia/kernel/ring.h"

#include "base/util.h"

/* Round number @n of one chunk: false if there is none. */
static bool round_of(const struct plan *p, uint64_t n, size_t *at,
                     size_t *count)
{
	const size_t done = n * p->chunk;

	if (done >= p->count)
		return false;
	*at = p->begin + done;
	*count = MIN(p->chunk, p->count - done);
	return true;
}

/*
 * A round: each rank sends the chunk of the rank before it; adds its own to what comes,
 * n - 1 times, the last of which completes its own chunk; and passes on complete
 * chunks.  The last chunks are even, not whole, and may be empty.
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

	if (!round_of(p, number / ranks, &at, &op->count))
		return false;
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

	if (!round_of(p, number / ranks, &op->to_at, &op->count))
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

	if (!round_of(p, number, &op->to_at, &op->count))
		return false;
	op->from_at = op->to_at;
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

	if (!round_of(p, number, &op->to_at, &op->count))
		return false;
	op->from_at = op->to_at;
	op->from = INPUT;
	op->recv = p->ring->ranks[p->ranks - 1] != p->root;
	op->send = p->rank != p->root;
	if (!op->send) {
		op->to = OUTPUT;
		op->last = true;
	}
	return true;
}

task_program *const ring_programs[SEND_RECV] = {
	[BROADCAST] = broadcast,   [REDUCE] = reduce_to_root,
	[ALL_GATHER] = all_gather, [REDUCE_SCATTER] = reduce_scatter,
	[ALL_REDUCE] = all_reduce,
};
