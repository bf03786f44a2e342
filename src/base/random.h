/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

/* Pseudo-random numbers: the splitmix64 generator */

#include <stdint.h>

/* Return a pseudo-random number that depends only on @x. */
static inline uint64_t random_of(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline uint64_t random_next(uint64_t *state)
{
	const uint64_t x = random_of(*state);

	*state += UINT64_C(0x9e3779b97f4a7c15);
	return x;
}

#endif
