/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANDOM_H
#define RANDOM_H

/*
 * Pseudo-random numbers for tests (splitmix64). Equal seeds give equal
 * sequences.
 */

#include <stdint.h>

/* Return the next number of the sequence, and advance @state. */
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

#endif
