/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILL_H
#define FILL_H

/*
 * Buffers of random values that are likely to reveal errors
 *
 * Integers get random bits. Floats get a mix of small whole numbers, values
 * near one with random mantissas, random finite bits, subnormals, signed zeros,
 * and values so large that the sum of a few overflows. A seed always gives the
 * same bytes, so each rank needs its own seed.
 *
 * NVIDIA's NCCL adds in an unspecified order. In tests of it, all floats are
 * -1, 0 or 1.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Fill @to with @count values of @type. If @special is true, a few of the
 * floats are NaN or infinity, if the type has them. @to needs no alignment.
 * Call reference_begin() first.
 */
void fill_random(void *to, size_t count, int type, uint64_t seed, bool special);

/* Write @bytes of a guard pattern to @to. */
void fill_guard(void *to, size_t bytes);

/* Return whether the guard pattern is unchanged. */
bool fill_guard_intact(const void *at, size_t bytes);

#endif
