/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_STREAM_HANDLE_H
#define SIM_CUDA_STREAM_HANDLE_H

#include "platform/platform.h"

struct stream;

/* Return a handle for @stream, or NULL if there are too many streams. */
cudaStream_t stream_handle_create(struct stream *stream);

/* Make @handle, from stream_handle_create(), one that stream_find() does not
 * know. */
void stream_handle_destroy(cudaStream_t handle);

/* The stream that a handle stands for in the calling thread, or NULL if it was
 * destroyed, is no handle, or there is no memory.  The default streams are
 * those of the current device. */
struct stream *stream_find(cudaStream_t handle);

/* As stream_find(), where the default streams are those of @device. */
struct stream *stream_find_on(int device, cudaStream_t handle);

#endif
