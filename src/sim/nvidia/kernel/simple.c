/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the protocol Simple: a chunk moves in one or two slices of one or
 * two steps each, and counters show which steps have been written and read
 *
 * The last slices of a chunk can be empty; their steps still count.
 */

#include "base/util.h"
#include "sim/nvidia/kernel/task.h"

static size_t slice_count(const struct task *t)
{
	const size_t room = t->step_count * (size_t)t->slice_steps / 32;
	const size_t even = DIVIDE_UP(t->op.count, 16 * (size_t)t->slices) * 16;

	return MIN(MAX(even, room), t->op.count - t->done);
}

static bool ready(const struct task *t)
{
	const uint64_t steps = (uint64_t)t->slice_steps;

	if (t->aborted)
		return true;
	if (t->op.recv)
		for (int i = 0; i < t->recvs; i++)
			if (counter_load(t->recv[i].c.tail) <
			    t->recv[i].step + steps)
				return false;
	if (t->op.send)
		for (int i = 0; i < t->sends; i++)
			if (!end_has_room(&t->send[i], steps))
				return false;
	return true;
}

static int slot_int(char *slot, uint16_t field)
{
	return __atomic_load_n((int *)(void *)(slot + field), __ATOMIC_RELAXED);
}

static int64_t slot_word(char *slot, uint16_t field)
{
	return __atomic_load_n((int64_t *)(void *)(slot + field),
	                       __ATOMIC_RELAXED);
}

static char *step_memory(const struct end *e)
{
	const struct slot_layout *l = e->c.slot;
	char *slot = end_slot(e), *buffer = e->c.buffers[PROTOCOL_SIMPLE];

	if (slot && slot_int(slot, l->mode) == SLOT_MODE_OFFSET)
		return buffer + (l->long_offset ? slot_word(slot, l->offset)
		                                : slot_int(slot, l->offset));
	return buffer + e->step % STEPS * (size_t)e->c.step_bytes;
}

static char *direct_memory(const struct task *t, const struct end *e, size_t at)
{
	return e->memory ? e->memory + (at + t->done) * t->combine.size : NULL;
}

static char *recv_memory(const struct task *t, const struct end *e)
{
	if (!t->op.direct_recv || e->way == BY_STEPS)
		return step_memory(e);
	return direct_memory(
		t, e, e->way == BY_READING ? t->op.from_at : t->op.to_at);
}

static char *send_memory(const struct task *t, const struct end *e)
{
	if (!t->op.direct_send || e->way == BY_STEPS)
		return step_memory(e);
	return e->way == BY_READING ? NULL : direct_memory(t, e, t->op.to_at);
}

static void move_elements(const struct task *t, size_t count)
{
	const void *from[1 + MAX_CHILDREN];
	void *to[1 + MAX_CHILDREN], *p;
	int froms = 0, tos = 0;

	if (t->op.from)
		from[froms++] = task_at(t, t->op.from, t->op.from_at + t->done);
	for (int i = 0; t->op.recv && i < t->recvs; i++)
		if ((p = recv_memory(t, &t->recv[i])))
			from[froms++] = p;
	if (t->op.to)
		to[tos++] = task_at(t, t->op.to, t->op.to_at + t->done);
	for (int i = 0; t->op.send && i < t->sends; i++)
		if ((p = send_memory(t, &t->send[i])))
			to[tos++] = p;
	if (froms && tos)
		combine(&t->combine, to, tos, from, froms, count,
		        t->op.from == INPUT, t->op.last);
}

static void post(struct task *t)
{
	const uint64_t steps = (uint64_t)t->slice_steps;

	if (t->op.recv)
		for (int i = 0; i < t->recvs; i++)
			counter_store(t->recv[i].c.head,
			              t->recv[i].step += steps);
	if (t->op.send)
		for (int i = 0; i < t->sends; i++)
			counter_store(t->send[i].c.tail,
			              t->send[i].step += steps);
}

bool simple_step(struct task *t, bool *finished)
{
	const size_t count = slice_count(t);

	if (!ready(t))
		return false;
	if (count && !t->aborted)
		move_elements(t, count);
	if (t->op.send)
		for (int i = 0; i < t->sends; i++)
			end_announce(&t->send[i], count * t->combine.size);
	post(t);
	t->done += count;
	*finished = ++t->slice == t->slices;
	return true;
}
