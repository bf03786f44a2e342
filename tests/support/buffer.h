/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUFFER_H
#define BUFFER_H

/*
 * Memory of which nobody may write a byte once it was given back
 *
 * AddressSanitizer sees who touches what was freed.  In other builds it is
 * overwritten, kept, and looked at again by buffers_check(); ThreadSanitizer takes
 * the overwriting for what it is, a write that races with any that come later.
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

/* Look at all that was given back, and free it. */
void buffers_check(void);

#endif
