/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_HANDLE_MARK_H
#define SIM_CUDA_HANDLE_MARK_H

#include "platform/cuda_abi.h"
#include "sim/exec/stream_mark.h"

/* The platform's mark and await_mark (platform.h). */
cudaError_t stream_mark(cudaStream_t stream, uint32_t *word, uint32_t value);
cudaError_t stream_await_mark(cudaStream_t stream, uint32_t *word,
                              uint32_t value);

/* What platform.h says of progress and flush.  The default streams are those of
 * @device. */
void stream_progress(int device, cudaStream_t stream, const uint32_t *word,
                     uint32_t value, uint64_t until_ns);
void stream_flush(int device, cudaStream_t stream);

/* For the functions of the driver: @address is of memory that was given out or
 * registered, and @compare is as cuStreamWaitValue32() has it.  They set no
 * last error. */
cudaError_t stream_write_value(cudaStream_t stream, uint64_t address,
                               uint32_t value);
cudaError_t stream_wait_value(cudaStream_t stream, uint64_t address,
                              uint32_t value, unsigned int compare);
cudaError_t stream_write_wide_value(cudaStream_t stream, uint64_t address,
                                    uint64_t value);
cudaError_t stream_wait_wide_value(cudaStream_t stream, uint64_t address,
                                   uint64_t value, unsigned int compare);

#endif
