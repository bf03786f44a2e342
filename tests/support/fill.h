/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILL_H
#define FILL_H

/*
 * Buffers full of values that find mistakes
 *
 * Integers get any bits.  Floats get a mix: small whole numbers, values near
 * one with random mantissas, any finite bits, subnormals, signed zeros, and
 * values so large that a few of them overflow.  One seed always gives the same
 * bytes; give every rank a seed of its own.  On NVIDIA's NCCL, which adds in an
 * order of its own, floats are -1, 0 and 1.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * @special: add a few NaNs and infinities, where the type has them.  Call
 * reference_begin() first.  @to needs no alignment.
 */
void fill_random(void *to, size_t count, int type, uint64_t seed, bool special);

/*
 * fill_guard() writes @bytes of a pattern that no fill produces on purpose;
 * fill_guard_intact() tells whether they are still there.
 */
void fill_guard(void *to, size_t bytes);
bool fill_guard_intact(const void *at, size_t bytes);

#endif
