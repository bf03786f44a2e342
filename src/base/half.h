/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HALF_H
#define BASE_HALF_H

/* Conversions to float16 and bfloat16 as bits: rounded to nearest even, with
 * subnormals, and with a single quiet NaN */

#include <stdint.h>

static inline uint32_t f32_bits(float x)
{
	union {
		float x;
		uint32_t bits;
	} u = { .x = x };

	return u.bits;
}

static inline float f32_of_bits(uint32_t bits)
{
	union {
		uint32_t bits;
		float x;
	} u = { .bits = bits };

	return u.x;
}

#define F32_INFINITY UINT32_C(0x7f800000)

/* Round to float by rounding to odd: the last bit of an inexact result is 1.
 * Rounding the result again, to a type with at least two bits fewer, is
 * equivalent to rounding @x once (Boldo, Melquiond, "Emulation of FMA and
 * Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd", IEEE
 * Transactions on Computers 57(4), 2008). */
static inline float f32_to_odd(double x)
{
	float f = (float)x;
	uint32_t bits = f32_bits(f);

	if ((double)f == x || x != x)
		return f;
	/* Take the neighbor of @x that is nearer to 0, and set its last bit. */
	if (x > 0.0 ? (double)f > x : (double)f < x)
		bits--;
	return f32_of_bits(bits | 1);
}

static inline uint16_t f16_from_f32(float x)
{
	uint32_t bits = f32_bits(x), rest = bits & 0x7fffffff;
	uint32_t sign = bits >> 16 & 0x8000;
	/* Add half a unit of the last bit that is kept, minus 1 if that bit is
	 * 0.  A carry increments the exponent, up to infinity. */
	uint32_t normal =
		(rest - (UINT32_C(112) << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
	/* Adding 0.5 rounds to a multiple of 2^-24, the unit of float16's
	 * subnormals. */
	uint32_t tiny = f32_bits(f32_of_bits(rest) + 0.5f) - f32_bits(0.5f);

	return (uint16_t)(rest > F32_INFINITY          ? 0x7e00
	                  : rest >= f32_bits(65520.0f) ? sign | 0x7c00
	                  : rest < f32_bits(0x1p-14f)  ? sign | tiny
	                                               : sign | normal);
}

static inline uint16_t bf16_from_f32(float x)
{
	uint32_t bits = f32_bits(x);
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	return (uint16_t)((bits & 0x7fffffff) > F32_INFINITY ? 0x7fc0
	                                                     : rounded);
}

#endif
