/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUFFER_H
#define BUFFER_H

/*
 * Buffers that detect a write after their release
 *
 * No thread may write to a buffer after buffer_put(). With AddressSanitizer,
 * buffer_put() frees the memory, so the sanitizer reports a later write. In
 * other builds, buffer_put() overwrites the buffer and keeps it, and
 * buffers_check() checks that it is unchanged. ThreadSanitizer reports a later
 * write as a race with the overwrite.
 */

#include <stddef.h>

struct buffer {
	struct buffer *next;
	size_t bytes;
	unsigned char data[];
};

/* Allocate a buffer.  All of its bytes are 1. */
struct buffer *buffer_get(size_t bytes);

/* Release a buffer, which can be NULL. Any thread can call this. */
void buffer_put(struct buffer *buffer);

/* Check all buffers that were released, and free them. */
void buffers_check(void);

#endif
