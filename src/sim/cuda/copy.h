/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_COPY_H
#define SIM_CUDA_COPY_H

#include "platform/cuda_abi.h"
#include "sim/exec/stream_queue.h"

/* Queue or capture a copy of @bytes.  @dst may equal @src. */
cudaError_t copy_submit(struct stream *stream, void *dst, const void *src,
                        size_t bytes, uint64_t *position_out);

/* Queue a fill of @count elements of @size bytes (1, 2 or 4), and wait for the
 * fill if @wait.  Return an error without storing it as the last error. */
cudaError_t copy_set(void *memory, uint32_t value, size_t count, size_t size,
                     cudaStream_t stream, bool wait);

/* Queue a flip of the first bit at @memory, to simulate a path that corrupts
 * data. */
cudaError_t copy_garble(struct stream *stream, void *memory,
                        uint64_t *position_out);

#endif
