/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_REDUCE_LEVELS_H
#define SIM_EXEC_REDUCE_LEVELS_H

/*
 * The arithmetic of reductions, compiled for each kind of vector unit
 *
 * All levels are compiled from the same source (reduce_loops.h), each for one
 * set of vector instructions.  The level is chosen at run time; all levels give
 * the same results, bit for bit.  A level whose instructions help only one type
 * contains only that type; the next level does the other types.
 */

#include <stddef.h>

#include "platform/nccl_abi.h"

typedef void reduce_fold_fn(void *const out[], int outs,
                            const void *const src[], int n, size_t count);

typedef void reduce_scaled_fn(void *out, const void *const src[],
                              const void *const scalars[], int n, size_t count);

struct reduce_level {
	const char *name;
	/* For each type, either all functions are set or all are NULL. */
	reduce_fold_fn *fold[ncclNumTypes][ncclNumOps];
	reduce_scaled_fn *scaled[ncclNumTypes];
};

/* Levels that this compiler can build.  The CPU might be unable to run them. */
extern const struct reduce_level reduce_base;
#ifdef __x86_64__
extern const struct reduce_level reduce_avx2;
extern const struct reduce_level reduce_avx512;
#if defined(__clang__) || __GNUC__ >= 10
#define REDUCE_AVX512_BF16
extern const struct reduce_level reduce_avx512_bf16;
#endif
#endif

/* Return the @nth level that has @type and that this CPU can run, starting with
 * the best one.  Returns NULL if there are fewer. */
const struct reduce_level *reduce_level(int type, int nth);

#endif
