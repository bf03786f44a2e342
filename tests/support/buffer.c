/* SPDX-License-Identifier: Apache-2.0 */

#include "support/buffer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/stress.h"

#define DEAD 0xdb

#if defined(__SANITIZE_ADDRESS__)
static const bool is_seen_when_freed = true;
#else
static const bool is_seen_when_freed = false;
#endif

/* List of the buffers that were released but not yet checked */
static struct buffer *_Atomic dead;

struct buffer *buffer_get(size_t bytes)
{
	struct buffer *b = malloc(sizeof(*b) + bytes);

	if (!b)
		stress_fail("no memory for %zu bytes", bytes);
	b->bytes = bytes;
	memset(b->data, 1, bytes);
	return b;
}

void buffer_put(struct buffer *b)
{
	if (!b)
		return;
	if (is_seen_when_freed) {
		free(b);
		return;
	}
	memset(b->data, DEAD, b->bytes);
	b->next = atomic_load(&dead);
	while (!atomic_compare_exchange_weak(&dead, &b->next, b))
		continue;
}

/*
 * Fail unless every byte of @b is DEAD, by checking that the first byte is DEAD
 * and that each byte equals the next one.
 */
static void check(const struct buffer *b)
{
	if (b->bytes && (b->data[0] != DEAD ||
	                 memcmp(b->data, b->data + 1, b->bytes - 1) != 0))
		stress_fail("a buffer of %zu bytes was written to after it was "
		            "released",
		            b->bytes);
}

void buffers_check(void)
{
	struct buffer *b, *next;

	for (b = atomic_exchange(&dead, NULL); b; b = next) {
		next = b->next;
		check(b);
		free(b);
	}
}
