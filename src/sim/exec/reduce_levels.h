/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_REDUCE_LEVELS_H
#define SIM_EXEC_REDUCE_LEVELS_H

/*
 * The arithmetic of reductions, once for each kind of vector unit
 *
 * A level is all of the arithmetic, compiled from one source (reduce_loops.h)
 * for other instructions.  Which level runs is chosen at run time; all give the
 * same results, bit for bit.  A level that has instructions for a single type
 * has that type alone: the next level does the rest.
 */

#include <stddef.h>

#include "platform/nccl_abi.h"

/* As reduce_fold_to() and reduce_fold_scaled(), of one type. */
typedef void reduce_fold_fn(void *const out[], int outs,
                            const void *const src[], int n, size_t count);
typedef void reduce_scaled_fn(void *out, const void *const src[],
                              const void *const scalars[], int n, size_t count);

struct reduce_level {
	const char *name;
	/* All of a type, or NULL. */
	reduce_fold_fn *fold[ncclNumTypes][ncclNumOps];
	reduce_scaled_fn *scaled[ncclNumTypes];
};

/* Those that this compiler can make; whether the CPU can run them is another
 * question. */
extern const struct reduce_level reduce_base;
#ifdef __x86_64__
extern const struct reduce_level reduce_avx2;
extern const struct reduce_level reduce_avx512;
#if defined(__clang__) || __GNUC__ >= 10
#define REDUCE_AVX512_BF16
extern const struct reduce_level reduce_avx512_bf16;
#endif
#endif

/* The @nth level that has @type and that this CPU can run, the best one first,
 * or NULL. */
const struct reduce_level *reduce_level(int type, int nth);

#endif
