/* SPDX-License-Identifier: Apache-2.0 */

/* Reductions with AVX2 and F16C */

#ifdef __x86_64__

#include <float.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sim/exec/reduce_levels.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))),             \
                             apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

#define LEVEL reduce_avx2
#define NAME "avx2"
#define WIDTH 32
#define LEVEL_F16

#include "sim/exec/vectors.h"

/* Replace NaNs only if there are any, because the check is cheaper than the
 * replacement. */
#define LEVEL_ONE_NAN
#define LEVEL_PAIR_ONE_NAN

INLINE bool any_nan(f32v x, f32v y)
{
	const __m256 nan = _mm256_cmp_ps((__m256)x, (__m256)y, _CMP_UNORD_Q);

	return __builtin_expect(_mm256_movemask_ps(nan) != 0, 0);
}

INLINE f32v f32_one_nan(f32v x)
{
	if (any_nan(x, x))
		x = (f32v)PICK(x != x, (i32v){} + 0x7fc00000, (i32v)x);
	return x;
}

INLINE struct pair pair_one_nan(struct pair x)
{
	if (any_nan(x.a, x.b)) {
		x.a = f32_one_nan(x.a);
		x.b = f32_one_nan(x.b);
	}
	return x;
}

INLINE f64v f64_one_nan(f64v x)
{
	const __m256d nan = _mm256_cmp_pd((__m256d)x, (__m256d)x, _CMP_UNORD_Q);
	const i64v one = (i64v){} + INT64_C(0x7ff8000000000000);

	if (__builtin_expect(_mm256_movemask_pd(nan) != 0, 0))
		x = (f64v)PICK(x != x, one, (i64v)x);
	return x;
}

#include "sim/exec/convert.h"

INLINE f32v f16_widen(u16h x)
{
	return (f32v)_mm256_cvtph_ps((__m128i)x);
}

/* Replace NaNs first, because the instruction would keep their payloads. */
INLINE u16h f16_narrow(f32v x)
{
	return (u16h)_mm256_cvtps_ph((__m256)f32_one_nan(x),
	                             _MM_FROUND_TO_NEAREST_INT);
}

#include "sim/exec/reduce_loops.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
