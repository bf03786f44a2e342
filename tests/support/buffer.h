/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUFFER_H
#define BUFFER_H

/*
 * Memory that no thread may write to once it was given back
 *
 * AddressSanitizer finds a write to freed memory.  Other builds overwrite a
 * buffer that is given back, keep it, and buffers_check() looks at it again.
 * To ThreadSanitizer the overwriting is a write that races with any later one.
 */

#include <stddef.h>

struct buffer {
	struct buffer *next;
	size_t bytes;
	unsigned char data[];
};

/* All of its bytes are 1. */
struct buffer *buffer_get(size_t bytes);

/* Any thread.  NULL is allowed. */
void buffer_put(struct buffer *buffer);

/* Check all buffers that were given back, and free them. */
void buffers_check(void);

#endif
