/* SPDX-License-Identifier: Apache-2.0 */

/* Runs the works of a block, one batch after the other (see block.h) */

#include "sim/nvidia/kernel/block.h"

#include <string.h>

#include "sim/nvidia/kernel/layout_read.h"

/* ---- reading the works of a batch ------------------------------------- */

/* Number of bytes of a work that are copied at a time, because a work can wrap
 * around the end of NCCL's buffer. */
#define PIECE 16

static bool add_works(struct works *w, const struct batch *batch, size_t bytes)
{
	for (unsigned i = 0; i < 64; i++) {
		if (!(batch->works >> i & 1))
			continue;
		if (w->count == MAX_WORKS)
			return false;
		w->offsets[w->count++] = batch->offset + i * (uint32_t)bytes;
	}
	return batch->type != WORK_P2P || w->count <= MAX_MESSAGES;
}

bool works_read(struct works *works, const struct nvidia_kernels *kernels,
                const struct arguments *arguments, int index)
{
	const struct layout *layout = kernels->layout;
	const size_t room = (size_t)(arguments->end - arguments->batches) /
	                    layout->batch.bytes;
	struct batch batch;

	works->count = 0;
	for (;;) {
		if ((size_t)index >= room)
			return false;
		batch = read_batch(layout,
		                   arguments->batches +
		                           (size_t)index * layout->batch.bytes);
		if ((batch.extends && !batch.jump) ||
		    !layout->work_bytes[batch.type] ||
		    !add_works(works, &batch, layout->work_bytes[batch.type]))
			return false;
		index += (int)batch.jump;
		if (!batch.extends)
			break;
	}
	works->type = batch.type;
	works->function = kernels_function(kernels, batch.function);
	works->next = batch.jump ? index : -1;
	return works->function;
}

const void *works_at(const struct works *works,
                     const struct nvidia_kernels *kernels,
                     const struct arguments *arguments, int n,
                     struct work_bytes *room)
{
	const size_t bytes = kernels->layout->work_bytes[works->type];

	for (uint32_t at = 0; at < bytes; at += PIECE)
		memcpy(room->bytes + at,
		       arguments->works +
		               ((works->offsets[n] + at) & arguments->mask),
		       PIECE);
	return room->bytes;
}

static const struct layout *layout_of(const struct block *b)
{
	return b->kernels->layout;
}

static const void *work_at(const struct block *b, int n,
                           struct work_bytes *room)
{
	return works_at(&b->works, b->kernels, b->arguments, n, room);
}

/* ---- the profiler ------------------------------------------------------ */

static bool is_profiled(const struct block *b, int n)
{
	struct work_bytes room;

	return read_profiled(layout_of(b), b->works.type, work_at(b, n, &room));
}

static void profile(const struct block *b, void *events)
{
	for (int n = 0; n < 64 && b->profiled >> n; n++)
		if (b->profiled >> n & 1)
			write_profile(events, b->channel.id,
			              *b->channel.work_count + 1 + (uint64_t)n);
}

/* ---- works ------------------------------------------------------------- */

static void start_coll(struct block *b)
{
	struct work_bytes room;

	b->coll = read_coll(layout_of(b), work_at(b, b->work, &room));
	b->work++;
	b->task_count = program_coll(b->tasks, layout_of(b), b->works.function,
	                             b->comm, &b->channel, &b->coll);
}

static void start_messages(struct block *b)
{
	struct work_bytes room;
	struct p2p_work work;

	b->task_count = 0;
	for (; b->work < b->works.count; b->work++) {
		work = read_p2p(layout_of(b), work_at(b, b->work, &room));
		/* After an abort, do not start a message to the rank itself,
		 * because it would be copied immediately. */
		if (b->aborted && work.send_rank == b->comm->rank)
			continue;
		b->task_count +=
			program_p2p(b->tasks + b->task_count, layout_of(b),
		                    b->comm, &b->channel, &work);
	}
}

/* Start all broadcasts of a batch as one task, because they share a
 * connection. */
static void start_broadcasts(struct block *b)
{
	struct work_bytes room;

	for (b->work = 0; b->work < b->works.count; b->work++)
		b->broadcasts[b->work] = read_broadcast(
			layout_of(b), work_at(b, b->work, &room));
	b->task_count = program_broadcasts(b->tasks, layout_of(b),
	                                   b->works.function, b->comm,
	                                   &b->channel, b->broadcasts, b->work);
}

static void start_works(struct block *b)
{
	if (b->works.type == WORK_P2P)
		start_messages(b);
	else if (b->works.type == WORK_BROADCAST)
		start_broadcasts(b);
	else
		start_coll(b);
	for (int i = 0; b->aborted && i < b->task_count; i++)
		task_abort(&b->tasks[i]);
}

/* ---- batches ----------------------------------------------------------- */

static void start_batch(struct block *b)
{
	/* This cannot fail, because nvidia_kernel_check() has already read all
	 * batches. */
	works_read(&b->works, b->kernels, b->arguments, b->batch);
	b->batch = b->works.next;
	b->work = 0;
	b->profiled = 0;
	for (int n = 0; n < b->works.count && n < 64; n++)
		b->profiled |= (uint64_t)is_profiled(b, n) << n;
	profile(b, b->comm->started);
	b->in_batch = true;
}

static void end_batch(struct block *b)
{
	profile(b, b->comm->completed);
	*b->channel.work_count += (uint64_t)b->works.count;
	b->in_batch = false;
}

/* Called when all tasks are done.  Start the next works of the batch or, if
 * there are none, end the batch.  Between batches, start the next batch or, if
 * there is none, end the block. */
static void advance(struct block *b)
{
	b->task_count = 0;
	if (b->in_batch && b->work < b->works.count) {
		start_works(b);
		return;
	}
	if (b->in_batch)
		end_batch(b);
	if (b->batch < 0 || b->aborted)
		b->done = true;
	else
		start_batch(b);
}

/* ---- the block -------------------------------------------------------- */

void block_init(struct block *b, const struct nvidia_kernels *kernels,
                const struct arguments *arguments,
                const struct kernel_comm *comm, int index, int channel)
{
	b->kernels = kernels;
	b->arguments = arguments;
	b->comm = comm;
	b->batch = index;
	b->channel = read_channel(kernels->layout, arguments->comm, channel);
}

bool block_step(struct block *b)
{
	bool progress = false, busy = false;
	struct task *t;

	if (b->done)
		return false;
	for (t = b->tasks; t < b->tasks + b->task_count; t++) {
		progress |= task_step(t);
		busy |= t->phase != DONE;
	}
	if (busy)
		return progress;
	advance(b);
	return true;
}

void block_abort(struct block *b)
{
	b->aborted = true;
	for (int i = 0; i < b->task_count; i++)
		task_abort(&b->tasks[i]);
}
