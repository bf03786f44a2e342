/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENE_H
#define SCENE_H

/*
 * Helpers for the small scenes on one thread in extra.c and scenes.c
 */

#include "system/fuzz/program.h"

#define SCENE_BYTES 48

/*
 * Check a call. may_fail() accepts any CUDA error code, and must_be() requires
 * the code @must. Both clear the last error.
 */
void may_fail(cudaError_t error, const char *call);
void must_be(cudaError_t error, cudaError_t must, const char *call);

/* Create a stream for a scene. scene_stream_end() waits for it and destroys
 * it. */
cudaStream_t scene_stream(void);
void scene_stream_end(cudaStream_t stream);

/*
 * Allocate SCENE_BYTES of device memory (kind 0), pinned (1), managed (2) or
 * plain memory (3).
 */
void *scene_memory(int kind);
void scene_memory_end(int kind, void *memory);

void check_bytes(const void *memory, int value, size_t n, const char *what);

#endif
