/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_COPY_H
#define SIM_CUDA_COPY_H

#include "platform/cuda_abi.h"
#include "sim/exec/stream_queue.h"

/* What a call that queues work may spend on doing it. */
#define COPY_ENQUEUE_BYTES ((size_t)16 * 1024)

/* The error that keeps the calling thread from queueing on @stream and waiting
 * for it; cudaSuccess if nothing does. */
cudaError_t copy_may_wait(struct stream *stream);

/* From a step: true if the device of @stream may use the range.  If not, the
 * device has failed, and the work is to do nothing. */
bool copy_may_use(const struct stream *stream, const void *p, size_t bytes,
                  bool write);

bool copy_kind_is_valid(enum cudaMemcpyKind kind);

/* Queue or capture a copy of @bytes; @dst may equal @src. */
cudaError_t copy_submit(struct stream *stream, void *dst, const void *src,
                        size_t bytes, uint64_t *position_out);

/* Fill @count elements of @size bytes, 1, 2 or 4; if @wait, until that is done.
 * An error is returned, not remembered. */
cudaError_t copy_set(void *memory, uint32_t value, size_t count, size_t size,
                     cudaStream_t stream, bool wait);

/* Queue a flip of the first bit at @memory: what a path that damages data
 * does. */
cudaError_t copy_garble(struct stream *stream, void *memory);

#endif
