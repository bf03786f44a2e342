/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_REDUCE_H
#define SIM_EXEC_REDUCE_H

/*
 * The arithmetic of reductions on the host platform
 *
 * What a result is depends on the values and their order alone: not on where
 * the buffers lie, not on how a range was cut into calls, not on the compiler
 * or which vector instructions the CPU has (reduce_levels.h).
 *
 *  A.  The fold goes from the first source to the last and starts with the
 *     first source's own value.
 *  B.  Integers: sum and prod wrap; avg is the wrapped sum, as a value of the
 *     type, divided by the number of sources and truncated toward zero.
 *  C.  f32 and f64 are folded in their own type; f16, bf16, e4m3 and e5m2 in
 *     f32, rounded once at the end (convert.h says how).  avg is the sum
 *     divided by the number of sources, before that rounding.
 *  D.  max and min of floats: a NaN loses to a number; of equal values, +0 and
 *     -0 among them, the earlier source's stays.
 *  E.  A NaN result is the type's one NaN, whatever the payloads and signs
 *     were: f16 7e00, bf16 7fc0, f32 7fc00000, f64 7ff8000000000000, e4m3 7f,
 *     e5m2 7f.  This holds for a single source too; otherwise a single source
 *     comes out as it went in, except that an infinite e5m2 becomes the largest
 *     finite one.
 *
 * C presumes the default floating-point environment in the calling thread
 * (round to nearest, subnormals on), as C does.
 */

#include <stddef.h>

/*
 * out[..][i] = src[0][i] op src[1][i] op ... op src[n - 1][i] for i < @count,
 * in each of the @outs outputs: the sources are read once.
 *
 * @type, @op: an ncclDataType_t and an ncclRedOp_t.  @n, @outs: 1 or more.  No
 * pointer needs to be aligned.  An output may be the same address as any of the
 * sources; otherwise it overlaps neither them nor another output.  Sources may
 * overlap each other.  Cannot fail.  Any thread; does not block.
 */
void reduce_fold_to(void *const out[], int outs, const void *const src[], int n,
                    size_t count, int type, int op);

/* As reduce_fold_to(), to a single output. */
void reduce_fold(void *out, const void *const src[], int n, size_t count,
                 int type, int op);

/*
 * The sum, to a single output, of sources that are each multiplied by their
 * scalar first: @scalars[i] points to one element of @type.  The product is
 * rounded to the type, integers wrap; it is what the fold begins or goes on
 * with.
 */
void reduce_fold_scaled(void *out, const void *const src[],
                        const void *const scalars[], int n, size_t count,
                        int type);

#endif
