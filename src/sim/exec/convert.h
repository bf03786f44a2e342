/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_CONVERT_H
#define SIM_EXEC_CONVERT_H

/*
 * Conversion between small floating-point formats and f32, a vector at a time
 *
 * Widening is exact.  Narrowing rounds once, to nearest even, and keeps
 * subnormals.  A number that is too large becomes infinity in f16 and bf16.  In
 * e4m3 and e5m2 it becomes the largest finite value, and so does infinity.  The
 * sign is kept.  Every NaN becomes the format's only NaN, which is positive and
 * quiet.
 *
 * Each 32-bit lane holds one number.  Instead of branching, a function computes
 * both results and selects one.
 */

#include <stdint.h>

#include "sim/exec/vectors.h"

/*
 * A format with a sign bit, an exponent, a mantissa, and subnormals.  A code is
 * the number's bits without the sign.  Codes sort like the magnitudes of the
 * numbers.
 */
struct small_format {
	int bits;        /* total number of bits */
	int mantissa;    /* number of bits in the mantissa */
	int bias;        /* exponent bias */
	int32_t special; /* first code that is infinity or NaN */
	/* largest result, as f32; used in place of larger numbers */
	int32_t top;
	int32_t nan; /* code of the only NaN in results */
};

static const struct small_format f16_format = {
	.bits = 16,
	.mantissa = 10,
	.bias = 15,
	.special = 0x7c00,
	.top = 0x47800000, /* 65536, which has the code of infinity */
	.nan = 0x7e00,
};

static const struct small_format e4m3_format = {
	.bits = 8,
	.mantissa = 3,
	.bias = 7,
	.special = 0x7f,
	.top = 0x43e00000, /* the largest finite e4m3, 448 */
	.nan = 0x7f,
};

static const struct small_format e5m2_format = {
	.bits = 8,
	.mantissa = 2,
	.bias = 15,
	.special = 0x7c,
	.top = 0x47600000, /* the largest finite e5m2, 57344 */
	.nan = 0x7f,
};

#define F32_INFINITY 0x7f800000
#define F32_MAGNITUDE 0x7fffffff

/* The exponent @e as a bit field of an f32. */
#define F32_EXPONENT(e) ((127 + (e)) << 23)

INLINE i32v i32_lesser(i32v a, i32v b)
{
	return PICK(a < b, a, b);
}

INLINE i32v i32_greater(i32v a, i32v b)
{
	return PICK(a > b, a, b);
}

/*
 * Widen @x, one code in each lane, to f32.  For a normal number, only the
 * exponent bias changes; infinity and NaN get an exponent of all ones.  A
 * subnormal number is first widened as if it had a leading 1 and the smallest
 * normal exponent; the value of the leading 1 is then subtracted.
 */
INLINE f32v small_widen(u32v x, struct small_format f)
{
	const u32v sign = x >> (f.bits - 1) << 31;
	const i32v code = (i32v)(x & ((1u << (f.bits - 1)) - 1));
	const i32v subnormal = code < (1 << f.mantissa);
	const i32v infinite = (code >= f.special) & F32_INFINITY;
	const f32v least = (f32v)(subnormal & F32_EXPONENT(1 - f.bias));
	i32v bits = (code << (23 - f.mantissa)) + F32_EXPONENT(-f.bias);

	bits += subnormal & (1 << 23);
	bits = (i32v)((f32v)bits - least);
	return (f32v)((u32v)(bits | infinite) | sign);
}

/*
 * Narrow @x to one code in each lane.  First add a power of two whose lowest
 * bit has the same value as the lowest bit of the result: the addition then
 * rounds, and the low bits of the sum are the mantissa of the result.  They
 * include the leading 1, which counts as one step of the exponent.  The
 * exponent of the smallest normal number (origin) does not belong in the code,
 * so it is subtracted.
 */
INLINE u32v small_narrow(f32v x, struct small_format f)
{
	const int cut = 23 - f.mantissa, mask = (1 << (f.bits - 1)) - 1;
	const int origin = -(F32_EXPONENT(1 - f.bias) >> cut) & mask;
	const i32v least = (i32v){} + F32_EXPONENT(1 - f.bias);
	const i32v sign = (i32v)((u32v)x >> (32 - f.bits));
	const i32v whole = (i32v)x & F32_MAGNITUDE;
	const i32v magnitude = i32_lesser(whole, (i32v){} + f.top);
	const i32v exponent = i32_greater(magnitude & F32_INFINITY, least);
	const f32v anchor = (f32v)(exponent + (cut << 23) + origin);
	const i32v code = (i32v)((f32v)magnitude + anchor) + (exponent >> cut);

	return (u32v)PICK(whole > F32_INFINITY, (i32v){} + f.nan,
	                  PICK((i32v){} + mask, code, sign));
}

/*
 * Replace every NaN with the same quiet NaN.  Otherwise, the payload of a sum
 * of NaNs would depend on the order in which the compiler puts the operands.
 *
 * A level (see reduce_levels.h) whose CPU has instructions for these functions
 * defines them itself.
 */
#ifndef LEVEL_ONE_NAN
INLINE f32v f32_one_nan(f32v x)
{
	return (f32v)PICK(x != x, (i32v){} + 0x7fc00000, (i32v)x);
}

INLINE f64v f64_one_nan(f64v x)
{
	const int64_t nan = INT64_C(0x7ff8000000000000);

	return (f64v)PICK(x != x, (i64v){} + nan, (i64v)x);
}
#endif

#ifndef LEVEL_PAIR_ONE_NAN
INLINE struct pair pair_one_nan(struct pair x)
{
	return (struct pair){ f32_one_nan(x.a), f32_one_nan(x.b) };
}
#endif

/* Round @x to bf16, the upper half of an f32.  The result stays in the upper
 * half, and the lower half is undefined.  Subnormals need no special case. */
INLINE u32v bf16_round(f32v x)
{
	return (u32v)x + 0x7fff + ((u32v)x >> 16 & 1);
}

INLINE struct pair bf16_widen(u16v x)
{
	return (struct pair){
		(f32v)((u32v)x << 16),
		(f32v)((u32v)x & 0xffff0000),
	};
}

INLINE u16v bf16_narrow(struct pair x)
{
	x = pair_one_nan(x);
	return (u16v)(bf16_round(x.a) >> 16 | (bf16_round(x.b) & 0xffff0000));
}

#endif
