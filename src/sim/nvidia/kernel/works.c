/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finding the works of a batch (see block.h)
 */

#include <string.h>

#include "sim/nvidia/kernel/block.h"
#include "sim/nvidia/kernel/read.h"

/* The buffer holds a work in pieces of this many bytes. */
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
