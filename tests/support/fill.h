/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILL_H
#define FILL_H

/*
 * Buffers full of values that find mistakes
 *
 * Any bits for the integers.  For the floats a mix: small whole numbers,
 * values near one with random mantissas, any finite bits, subnormals, signed
 * zeros, and values so large that a few of them overflow.  The same seed gives
 * the same bytes; give every rank a seed of its own.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @special: now and then a NaN or an infinity, where the type has them.  Call
 * reference_begin() first.  @to needs no alignment. */
void fill_random(void *to, size_t count, int type, uint64_t seed, bool special);

/* @bytes of a pattern that no fill produces on purpose, and whether it is
 * still there. */
void fill_guard(void *to, size_t bytes);
bool fill_guard_intact(const void *at, size_t bytes);

#endif
