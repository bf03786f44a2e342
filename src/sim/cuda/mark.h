/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_MARK_H
#define SIM_CUDA_MARK_H

#include "sim/exec/mark.h"

/* What the calling thread's next launch, which is on @stream and is now queued, shall
 * set. */
struct ends ends_take(const struct stream *stream);

/* The functions of the table that are ours: mark.c. */
cudaError_t stream_mark(cudaStream_t stream, uint32_t *word, uint32_t value);
void stream_ends_ahead(cudaStream_t stream, uint32_t *started, uint32_t *done,
                       uint32_t value);
cudaError_t stream_ends_behind(void);
cudaError_t stream_await_mark(cudaStream_t stream, uint32_t *word,
                              uint32_t value);
/* The driver's: @address is of memory that was given out or registered, and
 * @compare is as cuStreamWaitValue32() has it.  Set no last error. */
cudaError_t stream_write_value(cudaStream_t stream, uint64_t address,
                               uint32_t value);
cudaError_t stream_wait_value(cudaStream_t stream, uint64_t address,
                              uint32_t value, unsigned int compare);

/* Of the default streams, those of @device. */
void stream_progress(int device, cudaStream_t stream, const uint32_t *word,
                     uint32_t value, uint64_t until_ns);
void stream_flush(int device, cudaStream_t stream);

#endif
