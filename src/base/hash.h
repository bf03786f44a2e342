/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

/*
 * A hash of numbers, one after the other
 */

#include <stdint.h>

/* One step of a multiplicative hash: every bit of @x reaches the high bits. */
static inline uint64_t hash_step(uint64_t hash, uint64_t x)
{
	hash = (hash ^ x) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

#endif
