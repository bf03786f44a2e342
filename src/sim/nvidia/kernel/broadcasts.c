/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Several broadcasts at once, each from its own root around the ring
 *
 * They take turns, chunk by chunk, in the order of their works, which is the same on all
 * ranks.  One that has come to its end is left out.
 */

#include <string.h>

#include "base/util.h"
#include "platform/nccl_abi.h"
#include "sim/nvidia/kernel/program.h"

/* Turn number @n is one of work @n % count.  An operation without a peer moves nothing. */
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
		t->plan.total = MAX(t->plan.total, turns);
	}
	task_connect(t, layout, channel, &channel->ring.prev, 1,
	             &channel->ring.next, 1, 0);
	return 1;
}
