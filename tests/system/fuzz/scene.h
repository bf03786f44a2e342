/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENE_H
#define SCENE_H

/*
 * What extra.c and scenes.c share, the small scenes of one thread
 */

#include "system/fuzz/program.h"

#define SCENE_BYTES 48

/*
 * may_fail() takes a call that may be refused, but then with one of CUDA's
 * codes; must_be() one that must answer @must.  Neither leaves an error behind.
 */
void may_fail(cudaError_t error, const char *call);
void must_be(cudaError_t error, cudaError_t must, const char *call);

/* Make a stream for a scene; wait for it, and destroy it. */
cudaStream_t scene_stream(void);
void scene_stream_end(cudaStream_t stream);

/* SCENE_BYTES of a kind: 0 device, 1 pinned, 2 managed, 3 plain memory. */
void *scene_memory(int kind);
void scene_memory_end(int kind, void *memory);

/* All @n bytes must be @value. */
void check_bytes(const void *memory, int value, size_t n, const char *what);

#endif
