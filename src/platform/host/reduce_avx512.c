/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reductions with AVX-512
 */

#ifdef __x86_64__

#include <float.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "platform/host/reduce_levels.h"

#ifdef __clang__
#pragma clang attribute push(                                                  \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))),         \
	apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#define LEVEL reduce_avx512
#define NAME "avx512"
#define WIDTH 64
#define F16_HALVES

#include "platform/host/convert.h"

INLINE f32v f16_widen(u16h x)
{
	return (f32v)_mm512_cvtph_ps((__m256i)x);
}

/* The instruction would keep payloads. */
INLINE u16h f16_narrow(f32v x)
{
	return (u16h)_mm512_cvtps_ph((__m512)f32_one_nan(x),
	                             _MM_FROUND_TO_NEAREST_INT);
}

#include "platform/host/reduce_loops.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
