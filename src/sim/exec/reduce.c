/* SPDX-License-Identifier: Apache-2.0 */

/* Chooses the arithmetic for the CPU (see reduce.h) */

#include "sim/exec/reduce.h"

#include <assert.h>
#include <stdbool.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/atomics.h"
#include "base/util.h"
#include "sim/exec/reduce_levels.h"

#ifdef __x86_64__
static bool has_avx2(void)
{
	unsigned a, b, c = 0, d;

	/* Some compilers do not accept the name "f16c" here. */
	return __builtin_cpu_supports("avx2") &&
	       __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl");
}

#ifdef REDUCE_AVX512_BF16
static bool has_avx512_bf16(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#endif
#endif

static const struct {
	const struct reduce_level *level;
	bool (*is_there)(void); /* NULL if every CPU can run the level */
} levels[] = {
#ifdef __x86_64__
#ifdef REDUCE_AVX512_BF16
	{ &reduce_avx512_bf16, has_avx512_bf16 },
#endif
	{ &reduce_avx512, has_avx512 },
	{ &reduce_avx2, has_avx2 },
#endif
	{ &reduce_base, NULL },
};

const struct reduce_level *reduce_level(int type, int nth)
{
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (levels[i].level->scaled[type] &&
		    (!levels[i].is_there || levels[i].is_there()) && nth-- == 0)
			return levels[i].level;
	return NULL;
}

/* Return the best level for @type, which is determined once. */
static const struct reduce_level *best_level(int type)
{
	/* Atomic, relaxed; the best level of each type, or NULL if not yet
	 * determined.  All threads that find NULL determine the same level. */
	static _Atomic(const struct reduce_level *) best[ncclNumTypes];
	const struct reduce_level *level = load_relaxed(&best[type]);

	if (!level) {
		level = reduce_level(type, 0);
		store_relaxed(&best[type], level);
	}
	return level;
}

void reduce_fold_to(void *const out[], int outs, const void *const src[], int n,
                    size_t count, int type, int op)
{
	assert(outs >= 1);
	assert(n >= 1);
	assert(type >= 0 && type < ncclNumTypes);
	assert(op >= 0 && op < ncclNumOps);

	best_level(type)->fold[type][op](out, outs, src, n, count);
}

void reduce_fold(void *out, const void *const src[], int n, size_t count,
                 int type, int op)
{
	reduce_fold_to(&out, 1, src, n, count, type, op);
}

void reduce_fold_scaled(void *out, const void *const src[],
                        const void *const scalars[], int n, size_t count,
                        int type)
{
	assert(n >= 1);
	assert(type >= 0 && type < ncclNumTypes);

	best_level(type)->scaled[type](out, src, scalars, n, count);
}
