/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

/* A hash over a sequence of numbers */

#include <stddef.h>
#include <stdint.h>

/* Add @x to a multiplicative hash.  Every bit of @x reaches the high bits. */
static inline uint64_t hash_step(uint64_t hash, uint64_t x)
{
	hash = (hash ^ x) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;

	while (n--)
		hash = hash_step(hash, *at++);
	return hash;
}

#endif
