/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reductions with AVX2 and F16C
 */

#ifdef __x86_64__

#include <float.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "platform/host/reduce_levels.h"

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

#include "platform/host/vectors.h"

#define LEVEL_LESSER

INLINE i32v i32_lesser(i32v a, i32v b)
{
	return (i32v)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

INLINE i32v i32_greater(i32v a, i32v b)
{
	return (i32v)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

#include "platform/host/convert.h"

INLINE f32v f16_widen(u16h x)
{
	return (f32v)_mm256_cvtph_ps((__m128i)x);
}

/* The instruction would keep payloads. */
INLINE u16h f16_narrow(f32v x)
{
	return (u16h)_mm256_cvtps_ph((__m256)f32_one_nan(x),
	                             _MM_FROUND_TO_NEAREST_INT);
}

#include "platform/host/reduce_loops.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
