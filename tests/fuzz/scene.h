/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENE_H
#define SCENE_H

/*
 * What the small scenes of one thread share: extra.c and scenes.c
 */

#include "fuzz/program.h"

#define SCENE_BYTES 48

/* A call that may be refused, but then with a code of CUDA's; one that must answer
 * @must.  Neither leaves an error behind. */
void may_fail(cudaError_t error, const char *call);
void must_be(cudaError_t error, cudaError_t must, const char *call);

/* A stream of the scene's own; wait for it, and give it back. */
cudaStream_t scene_stream(void);
void scene_stream_end(cudaStream_t stream);

/* SCENE_BYTES of a kind: 0 device, 1 pinned, 2 managed, 3 plain memory. */
void *scene_memory(int kind);
void scene_memory_end(int kind, void *memory);

/* All of @n bytes must be @value. */
void check_bytes(const void *memory, int value, size_t n, const char *what);

#endif
