/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reductions with the vector instructions that every CPU of the architecture
 * has
 */

#include "sim/exec/convert.h"

#ifdef __aarch64__
#include <arm_neon.h>

#define LEVEL_F16

INLINE f32v f16_widen(u16h x)
{
	return (f32v)vcvt_f32_f16((float16x4_t)x);
}

INLINE u16h f16_narrow(f32v x)
{
	return (u16h)vcvt_f16_f32((float32x4_t)f32_one_nan(x));
}
#endif

#define LEVEL reduce_base
#define NAME "base"

#include "sim/exec/reduce_loops.h"
