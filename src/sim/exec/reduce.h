/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_REDUCE_H
#define SIM_EXEC_REDUCE_H

/*
 * The arithmetic of reductions in the simulator
 *
 * A result depends only on the values and their order.  It does not depend on
 * where the buffers are, how a range was cut into calls, the compiler, or the
 * vector instructions of the CPU (reduce_levels.h).
 *
 *  A.  Sources are combined from the first to the last, starting with the first
 *      source's own value.
 *  B.  Integers: sum and prod wrap.  avg is the wrapped sum, as a value of the
 *      type, divided by the number of sources and truncated toward zero.
 *  C.  f32 and f64 are reduced in their own type; f16, bf16, e4m3 and e5m2 in
 *      f32, rounded once at the end (see convert.h).  avg is the sum divided by
 *      the number of sources, before that rounding.
 *  D.  max and min of floats: a NaN loses to a number.  If values are equal, as
 *      +0 and -0 are, the earlier source's value is kept.
 *  E.  A NaN result is always the type's only NaN, whatever the payloads and
 *      signs were: f16 7e00, bf16 7fc0, f32 7fc00000, f64 7ff8000000000000,
 *      e4m3 7f, e5m2 7f.  Even the NaNs of a single source are replaced.
 *      Otherwise, a single source is copied unchanged, except that an
 *      infinite e5m2 becomes the largest finite value.
 *
 * C requires the default floating-point environment in the calling thread:
 * round to nearest, subnormals enabled.
 */

#include <stddef.h>

/*
 * reduce_fold_to - reduce @n sources element by element, to one or more outputs
 * @out:   the @outs outputs (1 or more), which all get the same result
 * @src:   the @n sources (1 or more), each read once
 * @count: number of elements in each
 * @type:  an ncclDataType_t
 * @op:    an ncclRedOp_t
 *
 * out[..][i] = src[0][i] op src[1][i] op ... op src[n - 1][i] for i < @count.
 *
 * No pointer needs to be aligned.  An output may be the same address as any
 * source; otherwise, it must not overlap a source or another output.  Sources
 * may overlap.  May be called from any thread.  Does not block and cannot fail.
 */
void reduce_fold_to(void *const out[], int outs, const void *const src[], int n,
                    size_t count, int type, int op);

void reduce_fold(void *out, const void *const src[], int n, size_t count,
                 int type, int op);

/*
 * reduce_fold_scaled - sum sources that are first multiplied by their scalars
 * @scalars: for each source, a pointer to one element of @type
 *
 * Each product is rounded to the type (integers wrap) before it is added.  For
 * the rest, see reduce_fold_to().
 */
void reduce_fold_scaled(void *out, const void *const src[],
                        const void *const scalars[], int n, size_t count,
                        int type);

#endif
