/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_STREAM_HANDLE_H
#define SIM_CUDA_STREAM_HANDLE_H

#include "platform/platform.h"

struct stream;

/* Return a handle for @stream, or NULL if there are too many streams. */
cudaStream_t stream_handle_create(struct stream *stream);

/* Invalidate @handle.  stream_find() then no longer finds its stream. */
void stream_handle_destroy(cudaStream_t handle);

/* Return the stream of @handle, or NULL if @handle is invalid or if out of
 * memory.  For a default stream's handle, return the default stream of the
 * calling thread's current device. */
struct stream *stream_find(cudaStream_t handle);

/* Return the stream of @handle, as stream_find() does, but for a default
 * stream's handle, return the default stream of @device. */
struct stream *stream_find_on(int device, cudaStream_t handle);

#endif
