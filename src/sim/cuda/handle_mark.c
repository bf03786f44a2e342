/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements marks, which are words that a stream writes or waits for
 * (exec/stream_mark.h), on streams given by handle
 */

#include "sim/cuda/handle_mark.h"

#include <limits.h>

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream_queue.h"

static const struct graph_kind mark_kind = { .type = GRAPH_MEMORY_OPERATION };

static cudaError_t push_mark(cudaStream_t stream, step_fn step, void *word,
                             uint64_t value, unsigned int bits,
                             unsigned int compare)
{
	struct stream *s = stream_find(stream);
	const struct work w = {
		.step = step,
		.mark = { .word = word,
		          .value = value,
		          .bits = bits,
		          .compare = compare },
	};

	if (!word)
		return cudaErrorInvalidValue;
	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (step == mark_step && capture_none() && stream_is_idle(s)) {
		mark_set(&w);
		stream_settle();
		return cudaSuccess;
	}
	return stream_submit(s, &w, &mark_kind, NULL);
}

cudaError_t stream_mark(cudaStream_t stream, uint32_t *word, uint32_t value)
{
	return device_error(push_mark(stream, mark_step, word, value, 32, 0));
}

cudaError_t stream_await_mark(cudaStream_t stream, uint32_t *word,
                              uint32_t value)
{
	return device_error(push_mark(stream, mark_await_step, word, value, 32,
	                              COMPARE_GEQ));
}

/* ---- stream memory operations of the driver API ----------------------- */

/* Return true if @p is aligned and lies in allocated or registered memory that
 * a device may access. */
static bool word_is_valid(const void *p, size_t size, bool write)
{
	return (uintptr_t)p % size == 0 && memory_is_known(p, size) &&
	       memory_may_use(p, size, write);
}

cudaError_t stream_write_value(cudaStream_t stream, void *word, uint64_t value,
                               unsigned int bits)
{
	if (!word_is_valid(word, bits / CHAR_BIT, true))
		return cudaErrorInvalidValue;
	return push_mark(stream, mark_step, word, value, bits, 0);
}

cudaError_t stream_wait_value(cudaStream_t stream, void *word, uint64_t value,
                              unsigned int bits, unsigned int compare)
{
	if (compare > COMPARE_NOR ||
	    !word_is_valid(word, bits / CHAR_BIT, false))
		return cudaErrorInvalidValue;
	return push_mark(stream, mark_poll_step, word, value, bits, compare);
}

void stream_progress(int device, cudaStream_t stream, const uint32_t *word,
                     uint32_t value, uint64_t until_ns)
{
	struct stream *s = stream_find_on(device, stream);
	struct drive d = {
		.effort = EFFORT_HELP,
		.position = UINT64_MAX,
		.word = word,
		.value = value,
		.until_ns = until_ns,
	};

	if (!s || load_relaxed(&s->blocked))
		return;
	if (until_ns) {
		stream_poll_for_waiter(s, &d);
		return;
	}
	stream_leave(s);
	d.effort = EFFORT_ENQUEUE;
	stream_drive(s, &d);
	stream_settle();
}

void stream_flush(int device, cudaStream_t stream)
{
	struct stream *s = stream_find_on(device, stream);

	if (s)
		stream_flush_to_worker(s);
}
