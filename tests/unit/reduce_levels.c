/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the host platform's arithmetic with every vector unit of the CPU
 *
 * reduce.c checks the base level. All other levels must give the same bits. For
 * small types, all pairs of values are tried.
 */

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/random.h"
#include "sim/exec/reduce.h"
#include "sim/exec/reduce_levels.h"

#define MAX_RANKS 16
#define LENGTH 331

/*
 * Largest divisor to try. 41 in float32 and 49 in float64 are the first
 * divisors whose rounded inverse is too small.
 */
#define MAX_DIVISOR 64

#define BYTES (LENGTH * 8 + 64)
#define GUARD 0x5a

struct fold_case {
	int type;
	int op; /* ncclNumOps stands for scaled sums */
};

#define FOLD_CASES (ncclNumTypes * (ncclNumOps + 1))

static struct criterion_test_params every_fold(void)
{
	static struct fold_case cases[FOLD_CASES];

	for (int i = 0; i < FOLD_CASES; i++)
		cases[i] = (struct fold_case){ .type = i / (ncclNumOps + 1),
			                       .op = i % (ncclNumOps + 1) };
	return cr_make_param_array(struct fold_case, cases, FOLD_CASES);
}

/*
 * Return random bits. Often all exponent bits are equal, or all fraction bits.
 * These numbers are zeros, infinities, NaNs, subnormals and their neighbors.
 */
static uint64_t any_bits(size_t size, uint64_t *state)
{
	const int bits = (int)size * 8;
	const uint64_t r = random_next(state);
	const int cut = (int)((r >> 8) % (uint64_t)bits);
	const uint64_t low = (UINT64_C(1) << cut) - 1;

	switch (r % 8) {
	case 0:
		return r >> 16 & low;
	case 1:
		return r >> 16 | ~low;
	case 2:
		return (r >> 16 & 1) << (bits - 1) | low;
	case 3:
		return ~low;
	case 4:
		return ~low ^ (r >> 16 & 3) ^ UINT64_C(1) << (bits - 1);
	default:
		return random_next(state);
	}
}

static void fill(char *to, size_t count, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < count; i++) {
		const uint64_t bits = any_bits(size, &seed);

		memcpy(to + i * size, &bits, size);
	}
}

/* Buffers of one reduction */
struct bench {
	char at[MAX_RANKS][BYTES];
	char scalars[MAX_RANKS][8];
	const void *src[MAX_RANKS];
	const void *scalar[MAX_RANKS];
	void *out[MAX_RANKS];
};

static char apart[MAX_RANKS][BYTES];

/* Fill the buffers. Each source has a different misalignment. The outputs are
 * either in place or separate. */
static void set(struct bench *b, int type, int n, bool in_place, size_t shift)
{
	const size_t size = cohort_type_size(type);

	memset(b, GUARD, sizeof(*b));
	memset(apart, GUARD, sizeof(apart));
	for (int k = 0; k < n; k++) {
		char *at = b->at[k] + (shift * (size_t)(k + 1)) % 17;

		fill(at, LENGTH, size, (uint64_t)(100 * n + k));
		fill(b->scalars[k], 1, size, (uint64_t)(7 * n + k));
		b->src[k] = at;
		b->scalar[k] = b->scalars[k];
		b->out[k] = in_place ? at : apart[k] + shift;
	}
}

static void fold_by(const struct reduce_level *level, struct bench *b, int outs,
                    int n, size_t count, const struct fold_case *c)
{
	if (c->op < ncclNumOps)
		level->fold[c->type][c->op](b->out, outs, b->src, n, count);
	else
		level->scaled[c->type](b->out[0], b->src, b->scalar, n, count);
}

static struct bench want, got;
static char want_apart[MAX_RANKS][BYTES];

/*
 * Check that @level and the base level give equal results, and write nothing
 * outside the outputs.
 */
static void check(const struct reduce_level *level, int outs, int n,
                  size_t count, bool in_place, const struct fold_case *c)
{
	const size_t shift = count % 5;

	set(&want, c->type, n, in_place, shift);
	fold_by(&reduce_base, &want, outs, n, count, c);
	memcpy(want_apart, apart, sizeof(apart));
	set(&got, c->type, n, in_place, shift);
	fold_by(level, &got, outs, n, count, c);
	cr_assert(memcmp(want.at, got.at, sizeof(got.at)) == 0 &&
	                  memcmp(want_apart, apart, sizeof(apart)) == 0,
	          "%s: type %d op %d n %d outs %d count %zu in place %d",
	          level->name, c->type, c->op, n, outs, count, in_place);
}

/* Check one, two and @n outputs. */
static void check_shapes(const struct reduce_level *level, int n, size_t count,
                         const struct fold_case *c)
{
	const int outs[] = { 1, 2 <= n ? 2 : 1, n };

	for (size_t i = 0; i < 3; i++) {
		if (c->op == ncclNumOps && outs[i] != 1)
			continue;
		check(level, outs[i], n, count, false, c);
		check(level, outs[i], n, count, true, c);
	}
}

ParameterizedTestParameters(reduce_levels, vector_units_agree_on_every_shape)
{
	return every_fold();
}

ParameterizedTest(struct fold_case *c, reduce_levels,
                  vector_units_agree_on_every_shape)
{
	static const int ranks[] = { 1, 2, 3, 4, 5, 8, 16 };
	static const size_t counts[] = { 0, 1, 2, 3, 7, 17, 64, 129, LENGTH };
	const struct reduce_level *level;

	for (int nth = 0; (level = reduce_level(c->type, nth)); nth++)
		for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
			for (size_t j = 0;
			     j < sizeof(counts) / sizeof(counts[0]); j++)
				check_shapes(level, ranks[i], counts[j], c);
}

ParameterizedTestParameters(reduce_levels,
                            vector_units_write_the_same_to_all_outputs)
{
	return every_fold();
}

ParameterizedTest(struct fold_case *c, reduce_levels,
                  vector_units_write_the_same_to_all_outputs)
{
	const size_t size = cohort_type_size(c->type);
	const int outs = c->op < ncclNumOps ? 5 : 1;
	const struct reduce_level *level;

	for (int nth = 0; (level = reduce_level(c->type, nth)); nth++) {
		set(&got, c->type, 5, true, 3);
		fold_by(level, &got, outs, 5, LENGTH, c);
		set(&want, c->type, 5, false, 0);
		fold_by(level, &want, 1, 5, LENGTH, c);
		for (int k = 0; k < outs; k++)
			cr_assert(memcmp(want.out[0], got.out[k],
			                 LENGTH * size) == 0,
			          "%s: output %d", level->name, k);
	}
}

/*
 * Compare @level with the base level for all pairs of 8-bit values, or for
 * every 251st 16-bit value paired with all 16-bit values.
 */
static void check_pairs(const struct reduce_level *level,
                        const struct fold_case *c)
{
	const size_t size = cohort_type_size(c->type);
	const size_t values = (size_t)1 << (8 * size);
	const size_t stride = size == 1 ? 1 : 251;
	char *all = malloc(values * size), *same = malloc(values * size);
	char *by_base = malloc(values * size),
	     *by_level = malloc(values * size);
	const void *const src[] = { same, all, same };
	void *const base_out[] = { by_base }, *const level_out[] = { by_level };

	for (size_t i = 0; i < values; i++)
		memcpy(all + i * size, &i, size);
	for (size_t x = 0; x < values; x += stride) {
		for (size_t i = 0; i < values; i++)
			memcpy(same + i * size, &x, size);
		for (int n = 2; n <= 3; n++) {
			reduce_base.fold[c->type][c->op](base_out, 1, src, n,
			                                 values);
			level->fold[c->type][c->op](level_out, 1, src, n,
			                            values);
			cr_assert(memcmp(by_base, by_level, values * size) == 0,
			          "%s: %#zx with all, %d ranks", level->name, x,
			          n);
		}
	}
	free(all);
	free(same);
	free(by_base);
	free(by_level);
}

ParameterizedTestParameters(reduce_levels,
                            vector_units_agree_on_all_pairs_of_small_values)
{
	return every_fold();
}

ParameterizedTest(struct fold_case *c, reduce_levels,
                  vector_units_agree_on_all_pairs_of_small_values)
{
	const struct reduce_level *level;

	if (c->op == ncclNumOps || cohort_type_size(c->type) > 2)
		return;
	for (int nth = 0; (level = reduce_level(c->type, nth)); nth++)
		check_pairs(level, c);
}

static uint64_t quotient(int type, uint64_t bits, int n)
{
	switch (type) {
	case ncclInt8:
		return (uint64_t)((int8_t)bits / n);
	case ncclInt32:
		return (uint64_t)((int32_t)bits / n);
	case ncclInt64:
		return (uint64_t)((int64_t)bits / n);
	default:
		return bits / (uint64_t)n;
	}
}

/*
 * Check averages of @n values, of which all but one are zero. That value is
 * near zero, or near a multiple of @n at an end of the type's range.
 */
static void check_quotients(const struct reduce_level *level, int type, int n)
{
	const size_t size = cohort_type_size(type);
	const uint64_t top = ~UINT64_C(0) >> (64 - 8 * size);
	const uint64_t ends[] = { 0, top / 2 - top / 2 % (uint64_t)n,
		                  top - top % (uint64_t)n };
	const uint64_t zero = 0;
	const void *src[MAX_DIVISOR];

	for (int k = 0; k < n; k++)
		src[k] = &zero;
	for (int i = 0; i < 3 * 128; i++) {
		const int near = i % 128 - 64;
		const uint64_t x =
			(ends[i / 128] + (uint64_t)(near / 3 * n + near % 3)) &
			top;
		uint64_t mean = 0;
		void *const out = &mean;

		src[i % n] = &x;
		level->fold[type][ncclAvg](&out, 1, src, n, 1);
		src[i % n] = &zero;
		cr_assert(mean == (quotient(type, x, n) & top),
		          "%s: type %d: %#jx / %d: %#jx", level->name, type,
		          (uintmax_t)x, n, (uintmax_t)mean);
	}
}

Test(reduce_levels, vector_units_average_integers_exactly)
{
	const struct reduce_level *level;

	for (int type = 0; type <= ncclUint64; type++)
		for (int nth = 0; (level = reduce_level(type, nth)); nth++)
			for (int n = 1; n <= MAX_DIVISOR; n++)
				check_quotients(level, type, n);
}

/* The other tests compare vector units with each other, so they would not
 * detect an error that all of them have. */
Test(reduce_levels, scaling_by_minus_zero_keeps_the_sign)
{
	const float one = 1, zero = -0.0f;
	const void *src[] = { &one }, *scalars[] = { &zero };
	const struct reduce_level *level;
	float out;

	for (int nth = 0; (level = reduce_level(ncclFloat32, nth)); nth++) {
		out = 1;
		level->scaled[ncclFloat32](&out, src, scalars, 1, 1);
		cr_assert(out == 0 && signbit(out), "%s: %g", level->name,
		          (double)out);
	}
}

static void check_all_there(const struct reduce_level *level, int type)
{
	cr_assert(level->scaled[type]);
	for (int op = 0; op < ncclNumOps; op++)
		cr_assert(level->fold[type][op]);
}

Test(reduce_levels, every_vector_unit_has_all_reductions)
{
	const struct reduce_level *level, *last = NULL;

	for (int type = 0; type < ncclNumTypes; type++) {
		for (int nth = 0; (level = reduce_level(type, nth)); nth++) {
			last = level;
			check_all_there(level, type);
		}
		cr_assert(last == &reduce_base);
	}
}
