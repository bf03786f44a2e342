/* SPDX-License-Identifier: Apache-2.0 */

/* Reductions with AVX-512, and reductions of bf16 with AVX512_BF16 */

#ifdef __x86_64__

#include <float.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "sim/exec/reduce_levels.h"

#ifdef __clang__
#pragma clang attribute push(                                                  \
	__attribute__((                                                        \
		target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))),     \
	apply_to = function)
#elif defined(REDUCE_AVX512_BF16)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#define LEVEL reduce_avx512
#define NAME "avx512"
#define WIDTH 64
#define LEVEL_F16

#include "sim/exec/vectors.h"

/*
 * Replace NaNs with the fixupimm instruction, without a comparison.  Its table
 * has four bits for each class of numbers; quiet and signaling NaNs are the
 * first two.  0 selects the first operand, 1 the second.
 */
#define LEVEL_ONE_NAN
#define FIX_NANS 0x11111100

INLINE f32v f32_one_nan(f32v x)
{
	const __m512 nan = (__m512)((i32v){} + 0x7fc00000);

	return (f32v)_mm512_fixupimm_ps(nan, (__m512)x,
	                                _mm512_set1_epi32(FIX_NANS), 0);
}

INLINE f64v f64_one_nan(f64v x)
{
	const __m512d nan = (__m512d)((i64v){} + INT64_C(0x7ff8000000000000));

	return (f64v)_mm512_fixupimm_pd(nan, (__m512d)x,
	                                _mm512_set1_epi64(FIX_NANS), 0);
}

#include "sim/exec/convert.h"

INLINE f32v f16_widen(u16h x)
{
	return (f32v)_mm512_cvtph_ps((__m256i)x);
}

/* Replace NaNs first, because the instruction would keep their payloads. */
INLINE u16h f16_narrow(f32v x)
{
	return (u16h)_mm512_cvtps_ph((__m512)f32_one_nan(x),
	                             _MM_FROUND_TO_NEAREST_INT);
}

/* Sanitizers do not see the memory accesses of these intrinsics. */
#ifndef SANITIZED
#define LEVEL_PARTS

INLINE void part_load(void *x, const char *from, size_t size, size_t bytes)
{
	const __mmask64 some = ~UINT64_C(0) >> (64 - bytes);

	if (size == WIDTH) {
		const __m512i y = _mm512_maskz_loadu_epi8(some, from);

		memcpy(x, &y, sizeof(y));
	} else {
		const __m256i y =
			_mm256_maskz_loadu_epi8((__mmask32)some, from);

		memcpy(x, &y, sizeof(y));
	}
}

INLINE void part_store(char *to, const void *x, size_t size, size_t bytes)
{
	const __mmask64 some = ~UINT64_C(0) >> (64 - bytes);

	if (size == WIDTH) {
		__m512i y;

		memcpy(&y, x, sizeof(y));
		_mm512_mask_storeu_epi8(to, some, y);
	} else {
		__m256i y;

		memcpy(&y, x, sizeof(y));
		_mm256_mask_storeu_epi8(to, (__mmask32)some, y);
	}
}
#endif

#include "sim/exec/reduce_loops.h"

/* ---- bf16 with its own instruction -------------------------------------- */

#ifdef REDUCE_AVX512_BF16
/*
 * Classes of numbers that the bf16 instruction cannot handle.  It rounds two
 * vectors at once, to nearest even, but flushes subnormals to zero and keeps
 * the payloads of NaNs.  Vectors with such numbers take the slower path.
 */
#define QUIET_NAN 0x01
#define SUBNORMAL 0x20
#define SIGNALLING_NAN 0x80
#define LONG_WAY (QUIET_NAN | SUBNORMAL | SIGNALLING_NAN)

/* Permutation that moves the low 16 lanes to the even positions, and the high
 * 16 lanes to the odd positions. */
#define LANES(i) (i), 16 + (i)
#define LANES_4(i) LANES(i), LANES((i) + 1), LANES((i) + 2), LANES((i) + 3)
static const u16v lanes = { LANES_4(0), LANES_4(4), LANES_4(8), LANES_4(12) };

INLINE u16v own_narrow(struct pair x)
{
	const __m512 a = (__m512)x.a, b = (__m512)x.b;
	const int special = _mm512_fpclass_ps_mask(a, LONG_WAY) |
	                    _mm512_fpclass_ps_mask(b, LONG_WAY);

	if (__builtin_expect(special, 0))
		return bf16_narrow(x);
	return (u16v)_mm512_permutexvar_epi16(
		(__m512i)lanes, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

DEFINE_TYPE(own, u16v, pair, bf16_widen, own_narrow, u16v, pair_sum)

const struct reduce_level reduce_avx512_bf16 = {
	.name = "avx512_bf16",
	.fold = {
		[ncclBfloat16] = {
			[ncclSum] = own_fold_sum,
			[ncclProd] = own_fold_prod,
			[ncclMax] = bf16_fold_max,
			[ncclMin] = bf16_fold_min,
			[ncclAvg] = own_fold_avg,
		},
	},
	.scaled = { [ncclBfloat16] = own_fold_scaled },
};
#endif

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
