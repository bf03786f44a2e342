/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_HANDLE_MARK_H
#define SIM_CUDA_HANDLE_MARK_H

#include "platform/cuda_abi.h"
#include "sim/exec/stream_mark.h"

/* Implement mark() of platform.h: queue a write of @value to @word. */
cudaError_t stream_mark(cudaStream_t stream, uint32_t *word, uint32_t value);

/* Implement await_mark() of platform.h: queue a wait until marks have advanced
 * @word to @value. */
cudaError_t stream_await_mark(cudaStream_t stream, uint32_t *word,
                              uint32_t value);

/* Implement progress() of platform.h.  If @stream is a default stream, it means
 * the default stream of @device. */
void stream_progress(int device, cudaStream_t stream, const uint32_t *word,
                     uint32_t value, uint64_t until_ns);

/* Implement flush() of platform.h.  If @stream is a default stream, it means
 * the default stream of @device. */
void stream_flush(int device, cudaStream_t stream);

/* Queue a write to a word of 32 or 64 bits for the driver API.  @word must lie
 * in allocated or registered memory.  Does not set the last error. */
cudaError_t stream_write_value(cudaStream_t stream, void *word, uint64_t value,
                               unsigned int bits);

/* Queue a wait for a word of 32 or 64 bits, for the driver API.  @compare is a
 * CUstreamWaitValue flag.  Does not set the last error. */
cudaError_t stream_wait_value(cudaStream_t stream, void *word, uint64_t value,
                              unsigned int bits, unsigned int compare);

#endif
