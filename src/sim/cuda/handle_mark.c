/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks (exec/stream_mark.h) on the streams that handles stand for
 */

#include "sim/cuda/handle_mark.h"

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream_queue.h"

static const struct graph_kind mark_kind = { .type = GRAPH_MEMORY_OPERATION };

static cudaError_t push_mark(cudaStream_t stream, step_fn step, uint32_t *word,
                             uint32_t value, enum compare compare)
{
	struct stream *s = stream_find(stream);
	struct work w = {
		.step = step,
		.mark = { .word = word, .value = value, .compare = compare },
	};

	if (!word)
		return cudaErrorInvalidValue;
	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (step == mark_step && capture_none() && stream_is_idle(s)) {
		mark_set(word, value);
		stream_settle();
		return cudaSuccess;
	}
	return stream_submit(s, &w, &mark_kind, NULL);
}

cudaError_t stream_mark(cudaStream_t stream, uint32_t *word, uint32_t value)
{
	return device_error(push_mark(stream, mark_step, word, value, 0));
}

cudaError_t stream_await_mark(cudaStream_t stream, uint32_t *word,
                              uint32_t value)
{
	return device_error(
		push_mark(stream, mark_await_step, word, value, COMPARE_GEQ));
}

/* ---- the driver's ----------------------------------------------------- */

/* True if the driver takes the word at @address: it is in memory that a device
 * may use. */
static bool word_is_valid(uint64_t address, size_t size, bool write)
{
	const void *p = (const void *)(uintptr_t)address;

	return address % size == 0 && memory_is_known(p, size) &&
	       memory_may_use(p, size, write);
}

cudaError_t stream_write_value(cudaStream_t stream, uint64_t address,
                               uint32_t value)
{
	if (!word_is_valid(address, sizeof(value), true))
		return cudaErrorInvalidValue;
	return push_mark(stream, mark_step, (uint32_t *)(uintptr_t)address,
	                 value, 0);
}

cudaError_t stream_wait_value(cudaStream_t stream, uint64_t address,
                              uint32_t value, unsigned int compare)
{
	if (compare > COMPARE_NOR ||
	    !word_is_valid(address, sizeof(value), false))
		return cudaErrorInvalidValue;
	return push_mark(stream, mark_poll_step, (uint32_t *)(uintptr_t)address,
	                 value, compare);
}

static cudaError_t push_wide_mark(cudaStream_t stream, step_fn step,
                                  uint64_t address, uint64_t value,
                                  unsigned int compare)
{
	const struct work w = {
		.step = step,
		.wide_mark = { .word = (uint64_t *)(uintptr_t)address,
		               .value = value,
		               .compare = compare },
	};
	struct stream *s;

	if (compare > COMPARE_NOR ||
	    !word_is_valid(address, sizeof(value), step == mark_wide_step))
		return cudaErrorInvalidValue;
	s = stream_find(stream);
	if (!s)
		return cudaErrorInvalidResourceHandle;
	return stream_submit(s, &w, &mark_kind, NULL);
}

cudaError_t stream_write_wide_value(cudaStream_t stream, uint64_t address,
                                    uint64_t value)
{
	return push_wide_mark(stream, mark_wide_step, address, value, 0);
}

cudaError_t stream_wait_wide_value(cudaStream_t stream, uint64_t address,
                                   uint64_t value, unsigned int compare)
{
	return push_wide_mark(stream, mark_wide_poll_step, address, value,
	                      compare);
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
		stream_attend(s, &d);
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
		stream_go_by_itself(s);
}
