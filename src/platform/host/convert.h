/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CONVERT_H
#define HOST_CONVERT_H

/*
 * The small floating-point formats to and from f32
 *
 * Widening is exact.  Narrowing rounds once, to nearest even, and keeps
 * subnormals.  What is too large becomes infinity in f16 and bf16 and the
 * largest finite value in e4m3 and e5m2 (an infinity too); the sign is kept.
 * Every NaN becomes the format's one NaN, which is positive and quiet.
 *
 * Everything is computed and then picked from by signed 32-bit comparisons,
 * because compilers turn that into vector code even for a plain x86-64.
 */

#include <stdint.h>
#include <string.h>

/*
 * A format of one sign bit, an exponent and a mantissa, with subnormals.  A
 * code is the bits without the sign; codes are ordered as their values.
 */
struct small_format {
	int bits;        /* in all */
	int mantissa;    /* bits of it */
	int bias;        /* of the exponent */
	int32_t special; /* first code that is infinity or NaN */
	uint32_t top;    /* the result for all that would be special */
	uint32_t nan;    /* the one NaN of results */
};

static const struct small_format f16_format = {
	.bits = 16,
	.mantissa = 10,
	.bias = 15,
	.special = 0x7c00,
	.top = 0x7c00,
	.nan = 0x7e00,
};

static const struct small_format e4m3_format = {
	.bits = 8,
	.mantissa = 3,
	.bias = 7,
	.special = 0x7f,
	.top = 0x7e,
	.nan = 0x7f,
};

static const struct small_format e5m2_format = {
	.bits = 8,
	.mantissa = 2,
	.bias = 15,
	.special = 0x7c,
	.top = 0x7b,
	.nan = 0x7f,
};

#define F32_INFINITY 0x7f800000
#define F32_MAGNITUDE 0x7fffffff

static inline uint32_t f32_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline float f32_from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/*
 * @yes if @condition, else @no.  With masks, as a ?: would let gcc move the
 * floating-point operation behind one value into a branch, and a branch around
 * something that can raise an exception flag is not vectorised.
 */
static inline uint32_t pick(int condition, uint32_t yes, uint32_t no)
{
	const uint32_t mask = -(uint32_t)condition;

	return (yes & mask) | (no & ~mask);
}

/* 2 to the power @exponent, which must be that of a normal f32. */
static inline float f32_power(int exponent)
{
	return f32_from_bits((uint32_t)(127 + exponent) << 23);
}

/*
 * A normal number only needs its exponent's bias changed; infinity and NaN
 * need the exponent filled; a subnormal is its code times the smallest one.
 */
static inline float small_widen(uint32_t x, struct small_format f)
{
	const uint32_t sign = x >> (f.bits - 1) << 31;
	const int32_t code = (int32_t)(x & ((1u << (f.bits - 1)) - 1));
	const uint32_t normal = ((uint32_t)code << (23 - f.mantissa)) +
	                        ((uint32_t)(127 - f.bias) << 23);
	const uint32_t subnormal =
		f32_bits((float)code * f32_power(1 - f.bias - f.mantissa));
	uint32_t magnitude;

	magnitude = pick(code < 1 << f.mantissa, subnormal, normal);
	magnitude |= pick(code < f.special, 0, F32_INFINITY);
	return f32_from_bits(sign | magnitude);
}

/*
 * A normal result: add just under half of what is cut off, one more if the
 * last bit kept is odd, and cut; a carry into the exponent is right as it is.
 * A subnormal result: add the power of two whose last f32 digit is worth the
 * smallest subnormal, so that the addition does the rounding.
 */
static inline uint32_t small_narrow(float x, struct small_format f)
{
	const uint32_t sign = f32_bits(x) >> 31 << (f.bits - 1);
	const uint32_t magnitude = f32_bits(x) & F32_MAGNITUDE;
	const int cut = 23 - f.mantissa;
	const uint32_t half = (1u << (cut - 1)) - 1 + ((magnitude >> cut) & 1);
	const uint32_t normal = ((magnitude + half) >> cut) -
	                        ((uint32_t)(127 - f.bias) << f.mantissa);
	const float anchor = f32_power(24 - f.bias - f.mantissa);
	const uint32_t subnormal =
		f32_bits(f32_from_bits(magnitude) + anchor) - f32_bits(anchor);
	uint32_t code;

	code = pick((int32_t)magnitude < (128 - f.bias) << 23, subnormal,
	            normal);
	code = pick((int32_t)code < f.special, code, f.top);
	return pick((int32_t)magnitude > F32_INFINITY, f.nan, sign | code);
}

static inline float f16_to_f32(uint16_t x)
{
	return small_widen(x, f16_format);
}

static inline uint16_t f32_to_f16(float x)
{
	return (uint16_t)small_narrow(x, f16_format);
}

static inline float e4m3_to_f32(uint8_t x)
{
	return small_widen(x, e4m3_format);
}

static inline uint8_t f32_to_e4m3(float x)
{
	return (uint8_t)small_narrow(x, e4m3_format);
}

static inline float e5m2_to_f32(uint8_t x)
{
	return small_widen(x, e5m2_format);
}

static inline uint8_t f32_to_e5m2(float x)
{
	return (uint8_t)small_narrow(x, e5m2_format);
}

/* bf16 is the upper half of an f32, so its subnormals need nothing special. */
static inline float bf16_to_f32(uint16_t x)
{
	return f32_from_bits((uint32_t)x << 16);
}

static inline uint16_t f32_to_bf16(float x)
{
	const uint32_t bits = f32_bits(x);
	const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
	const int32_t magnitude = (int32_t)(bits & F32_MAGNITUDE);

	return (uint16_t)(magnitude > F32_INFINITY ? 0x7fc0 : rounded);
}

#endif
