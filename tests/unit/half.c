/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of half-precision floats: conversion in both directions, and rounding
 * that agrees with float64
 */

#include "base/half.h"

#include <criterion/criterion.h>
#include <math.h>

#include "support/stress.h"

static float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
	/* The bias of the exponent changes from 15 to 127. The exponents of
	 * infinities and NaNs remain all ones. */
	uint32_t normal = (rest << 13) + (UINT32_C(112) << 23);
	uint32_t tiny = f32_bits((float)(int32_t)rest * 0x1p-24f);
	uint32_t huge = (rest << 13) | F32_INFINITY;

	return f32_of_bits(sign | (rest < 0x400    ? tiny
	                           : rest < 0x7c00 ? normal
	                                           : huge));
}

static float bf16_to_f32(uint16_t h)
{
	return f32_of_bits((uint32_t)h << 16);
}

Test(half, every_16_bit_float_converts_to_f32_and_back)
{
	uint32_t h;

	for (h = 0; h < 65536; h++) {
		float f = f16_to_f32((uint16_t)h), b = bf16_to_f32((uint16_t)h);

		if (isnan(f))
			cr_assert_eq(f16_from_f32(f), 0x7e00);
		else
			cr_assert_eq(f16_from_f32(f), h);
		if (isnan(b))
			cr_assert_eq(bf16_from_f32(b), 0x7fc0);
		else
			cr_assert_eq(bf16_from_f32(b), h);
	}
	cr_assert(f16_to_f32(0x3c00) == 1.0f);
	cr_assert(f16_to_f32(0x0001) == 0x1p-24f);
	cr_assert(f16_to_f32(0xfbff) == -65504.0f);
	cr_assert(bf16_to_f32(0x3f80) == 1.0f);
}

/* Return the value of the code before @h, the code of a finite value. */
static double below(uint16_t h, float (*widen)(uint16_t))
{
	return (double)widen((uint16_t)(h & 0x7fff ? h - 1 : 0x8001));
}

static void check_nearest(double x, uint16_t h, float (*widen)(uint16_t),
                          uint16_t infinity)
{
	double off = fabs((double)widen(h) - x), other;

	if ((h & 0x7fff) >= infinity)
		return;
	other = fabs(below(h, widen) - x);
	cr_assert(off < other || (off == other && !(h & 1)), "%a is %04x", x,
	          h);
	if ((h & 0x7fff) + 1 == infinity)
		return;
	other = fabs((double)widen((uint16_t)(h + 1)) - x);
	cr_assert(off < other || (off == other && !(h & 1)), "%a is %04x", x,
	          h);
}

Test(half, f32_to_16_bits_rounds_to_nearest_even)
{
	uint64_t seed = 7;
	uint32_t i, bits;
	float x;

	for (i = 0; i < 1000000; i++) {
		bits = stress_random(&seed) << 16 ^ stress_random(&seed);
		/* Move every second float32 into the range of float16. */
		if (i % 2)
			bits = (bits & 0x80ffffff) + ((100u + bits % 46) << 23);
		if (i % 4 == 3)
			bits &= 0xfffff000; /* makes the value a tie */
		x = f32_of_bits(bits);
		if (!isfinite(x))
			continue;
		check_nearest((double)x, f16_from_f32(x), f16_to_f32, 0x7c00);
		check_nearest((double)x, bf16_from_f32(x), bf16_to_f32, 0x7f80);
	}
	cr_assert_eq(f16_from_f32(65519.996f), 0x7bff);
	cr_assert_eq(f16_from_f32(65520.0f), 0x7c00);
	cr_assert_eq(f16_from_f32(-1e30f), 0xfc00);
	cr_assert_eq(f16_from_f32(0x1p-25f), 0);
	cr_assert_eq(f16_from_f32(0x1.8p-25f), 1);
}

/* Check values that would become ties if they were first rounded to float32. */
static void check_almost(uint16_t h, float (*widen)(uint16_t),
                         uint16_t (*narrow)(float), uint16_t infinity)
{
	const double by[] = { 1.0 - 0x1p-40, 1.0, 1.0 + 0x1p-40 };
	double tie, x;
	int i;

	if ((h & 0x7fff) + 1 >= infinity)
		return;
	tie = ((double)widen(h) + (double)widen((uint16_t)(h + 1))) / 2.0;
	for (i = 0; i < 3; i++) {
		x = tie * by[i];
		check_nearest(x, narrow(f32_to_odd(x)), widen, infinity);
	}
}

Test(half, f64_to_16_bits_is_rounded_only_once)
{
	uint32_t h;

	for (h = 0; h < 65536; h++) {
		check_almost((uint16_t)h, f16_to_f32, f16_from_f32, 0x7c00);
		check_almost((uint16_t)h, bf16_to_f32, bf16_from_f32, 0x7f80);
	}
	cr_assert(f32_to_odd(1.0) == 1.0f);
	cr_assert(f32_to_odd(-1.0 - 0x1p-40) == -1.0f - 0x1p-23f);
	cr_assert(f32_to_odd(1.0 - 0x1p-40) == 1.0f - 0x1p-24f);
	cr_assert(f32_to_odd(0x1p-200) == 0x1p-149f);
	cr_assert(isinf(f32_to_odd((double)INFINITY)));
	cr_assert(isnan(f32_to_odd((double)NAN)));
	cr_assert_eq(f16_from_f32(f32_to_odd(1e300)), 0x7c00);
}
