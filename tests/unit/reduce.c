/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the host platform's arithmetic
 *
 * The reference shares no code with the implementation. It computes the value
 * of a small float from its fields by ldexp(). To round, it searches the sorted
 * codes of the format, and compares with the midpoint of two neighbors, which
 * is exact in double. It reduces integers in 128 bits. Results are compared bit
 * by bit.
 */

#include "sim/exec/reduce.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/random.h"
#include "platform/nccl_abi.h"
#include "sim/exec/convert.h"
#include "sim/exec/reduce_levels.h"

#define MAX_RANKS 8

/* ---- formats of small floats, by their fields -------------------------- */

struct format {
	const char *name;
	int type;
	int bits;
	int mantissa;
	int bias;
	bool has_infinity;
	bool saturates;
	uint32_t largest; /* code of the largest finite value */
	uint32_t nan;     /* code of a NaN as a result */
	float (*widen)(uint32_t code);
	uint32_t (*narrow)(float x);
};

/* Convert one number, in the first lane of a vector. */
#define WRAP(format)                                                           \
	static float widen_##format(uint32_t code)                             \
	{                                                                      \
		return small_widen((u32v){ code }, format##_format)[0];        \
	}                                                                      \
	static uint32_t narrow_##format(float x)                               \
	{                                                                      \
		return small_narrow((f32v){ x }, format##_format)[0];          \
	}

WRAP(f16)
WRAP(e4m3)
WRAP(e5m2)

/* bfloat16 is converted in pairs. Both numbers of the pair are @code. */
static float widen_bf16(uint32_t code)
{
	return bf16_widen((u16v){ (uint16_t)code, (uint16_t)code }).a[0];
}

static uint32_t narrow_bf16(float x)
{
	return bf16_narrow((struct pair){ { x }, { x } })[1];
}

static const struct format formats[] = {
	{ "f16", ncclFloat16, 16, 10, 15, true, false, 0x7bff, 0x7e00,
	  widen_f16, narrow_f16 },
	{ "bf16", ncclBfloat16, 16, 7, 127, true, false, 0x7f7f, 0x7fc0,
	  widen_bf16, narrow_bf16 },
	{ "e4m3", ncclFloat8e4m3, 8, 3, 7, false, true, 0x7e, 0x7f, widen_e4m3,
	  narrow_e4m3 },
	{ "e5m2", ncclFloat8e5m2, 8, 2, 15, true, true, 0x7b, 0x7f, widen_e5m2,
	  narrow_e5m2 },
};

static const struct format *format_of(int type)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].type == type)
			return &formats[i];
	return NULL;
}

static uint32_t sign_of(const struct format *f)
{
	return 1u << (f->bits - 1);
}

/*
 * Return the value of a code without a sign, computed from its fields.
 * Infinities and NaNs are treated like ordinary numbers.
 */
static double plain_value(const struct format *f, uint32_t code)
{
	const int exponent = (int)(code >> f->mantissa);
	const uint32_t fraction = code & ((1u << f->mantissa) - 1);

	if (exponent == 0)
		return ldexp(fraction, 1 - f->bias - f->mantissa);
	return ldexp((1u << f->mantissa) + fraction,
	             exponent - f->bias - f->mantissa);
}

static double value_of(const struct format *f, uint32_t x)
{
	const uint32_t code = x & (sign_of(f) - 1);
	double value = NAN;

	if (code <= f->largest)
		value = plain_value(f, code);
	else if (f->has_infinity && code == f->largest + 1)
		value = INFINITY;
	return x & sign_of(f) ? -value : value;
}

/*
 * Return the largest code whose value is at most @x, which is from 0 to the
 * largest finite value.
 */
static uint32_t code_below(const struct format *f, double x)
{
	uint32_t low = 0, high = f->largest + 1;

	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if (plain_value(f, middle) <= x)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static uint32_t round_nearest_even(const struct format *f, double x)
{
	const uint32_t sign = signbit(x) ? sign_of(f) : 0;
	uint32_t code;
	double middle;

	if (isnan(x))
		return f->nan;
	code = code_below(f, fabs(x));
	middle = (plain_value(f, code) + plain_value(f, code + 1)) / 2;
	if (fabs(x) > middle || (fabs(x) == middle && (code & 1)))
		code++;
	if (code > f->largest && f->saturates)
		code = f->largest;
	return sign | code;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* ---- conversions ------------------------------------------------------- */

/*
 * A test's parameters contain no pointers, because each test runs in its own
 * process, at other addresses.
 */
static struct criterion_test_params every_format(void)
{
	static int types[] = { ncclFloat16, ncclBfloat16, ncclFloat8e4m3,
		               ncclFloat8e5m2 };

	return cr_make_param_array(int, types, 4);
}

ParameterizedTestParameters(convert, every_small_float_widens_to_f32_exactly)
{
	return every_format();
}

ParameterizedTest(int *type, convert, every_small_float_widens_to_f32_exactly)
{
	const struct format *f = format_of(*type);

	for (uint32_t x = 0; x < 2 * sign_of(f); x++) {
		const double want = value_of(f, x);
		const float got = f->widen(x);

		if (isnan(want))
			cr_assert(isnan(got), "%s %" PRIx32 ": %a", f->name, x,
			          (double)got);
		else
			cr_assert(bits_of(got) == bits_of((float)want),
			          "%s %" PRIx32 ": %a, not %a", f->name, x,
			          (double)got, want);
	}
}

static void check_rounding(const struct format *f, float x)
{
	const uint32_t want = round_nearest_even(f, (double)x);
	const uint32_t got = f->narrow(x);

	cr_assert(got == want, "%a to %s: %" PRIx32 ", not %" PRIx32, (double)x,
	          f->name, got, want);
}

/* Check the rounding of @x and of its neighbors in float32, with both signs. */
static void check_rounding_around(const struct format *f, float x)
{
	const uint32_t bits = bits_of(x);

	for (uint32_t near = bits ? bits - 1 : 0; near <= bits + 1; near++) {
		check_rounding(f, float_of(near));
		check_rounding(f, float_of(near | 0x80000000));
	}
}

ParameterizedTestParameters(convert, f32_rounds_to_nearest_even_at_every_step)
{
	return every_format();
}

ParameterizedTest(int *type, convert, f32_rounds_to_nearest_even_at_every_step)
{
	const struct format *f = format_of(*type);

	for (uint32_t code = 0; code <= f->largest; code++) {
		const double low = plain_value(f, code);
		const double high = plain_value(f, code + 1);

		check_rounding_around(f, (float)low);
		check_rounding_around(f, (float)((low + high) / 2));
	}
}

ParameterizedTestParameters(convert,
                            dense_set_of_f32_values_rounds_to_small_floats)
{
	return every_format();
}

ParameterizedTest(int *type, convert,
                  dense_set_of_f32_values_rounds_to_small_floats)
{
	const struct format *f = format_of(*type);
	static const uint32_t extremes[] = {
		0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x7f7fffff,
		0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff,
	};

	for (size_t i = 0; i < sizeof(extremes) / sizeof(extremes[0]); i++) {
		check_rounding(f, float_of(extremes[i]));
		check_rounding(f, float_of(extremes[i] | 0x80000000));
	}
	/* All exponents and both signs. The step is odd, so all bits vary. */
	for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 4093)
		check_rounding(f, float_of((uint32_t)bits));
}

ParameterizedTestParameters(convert, every_small_float_converts_to_f32_and_back)
{
	return every_format();
}

ParameterizedTest(int *type, convert,
                  every_small_float_converts_to_f32_and_back)
{
	const struct format *f = format_of(*type);

	for (uint32_t x = 0; x < 2 * sign_of(f); x++) {
		uint32_t want = x;

		if (isnan(value_of(f, x)))
			want = f->nan;
		else if (isinf(value_of(f, x)) && f->saturates)
			want = x - 1;
		cr_assert(f->narrow(f->widen(x)) == want, "%s %" PRIx32,
		          f->name, x);
	}
}

Test(convert, f32_out_of_range_saturates_or_becomes_infinity)
{
	cr_assert(narrow_f16(65519.996f) == 0x7bff);
	cr_assert(narrow_f16(65520.0f) == 0x7c00);
	cr_assert(narrow_f16(-65520.0f) == 0xfc00);
	cr_assert(narrow_bf16(0x1.fep127f) == 0x7f7f);
	cr_assert(narrow_bf16(0x1.ffp127f) == 0x7f80);
	cr_assert(narrow_e4m3(448.0f) == 0x7e);
	cr_assert(narrow_e4m3(1e30f) == 0x7e);
	cr_assert(narrow_e4m3(-INFINITY) == 0xfe);
	cr_assert(narrow_e5m2(57344.0f) == 0x7b);
	cr_assert(narrow_e5m2(61440.0f) == 0x7b);
	cr_assert(narrow_e5m2(-INFINITY) == 0xfb);
}

/* ---- a reference for reductions ---------------------------------------- */

static bool is_float(int type)
{
	return type >= ncclFloat16;
}

static bool is_signed(int type)
{
	return type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

static uint64_t read_bits(const void *from, size_t i, size_t size)
{
	uint64_t bits = 0;

	memcpy(&bits, (const char *)from + i * size, size);
	return bits;
}

/* Return the low @bits bits of @x as a value of the type. */
static __int128 int_wrap(unsigned __int128 x, int bits, bool with_sign)
{
	const unsigned __int128 one = 1;
	const unsigned __int128 low = x & ((one << bits) - 1);

	if (with_sign && (low >> (bits - 1)))
		return (__int128)low - ((__int128)1 << bits);
	return (__int128)low;
}

static uint64_t fold_ints(const uint64_t *x, int n, int type, int op)
{
	const int bits = (int)cohort_type_size(type) * 8;
	const bool with_sign = is_signed(type);
	__int128 best = int_wrap(x[0], bits, with_sign);
	unsigned __int128 sum = x[0], prod = x[0];

	for (int i = 1; i < n; i++) {
		const __int128 value = int_wrap(x[i], bits, with_sign);

		sum += x[i];
		prod *= x[i];
		if (op == ncclMax ? value > best : value < best)
			best = value;
	}
	if (op == ncclSum)
		return (uint64_t)int_wrap(sum, bits, false);
	if (op == ncclProd)
		return (uint64_t)int_wrap(prod, bits, false);
	if (op == ncclAvg)
		best = int_wrap(sum, bits, with_sign) / n;
	return (uint64_t)int_wrap((unsigned __int128)best, bits, false);
}

/* Reduce @n floats in rank order, in double or in float. */
#define FOLD_FLOATS(name, real)                                                \
	static real name(const real *x, int n, int op)                         \
	{                                                                      \
		real r = x[0];                                                 \
                                                                               \
		for (int i = 1; i < n; i++) {                                  \
			if (op == ncclSum || op == ncclAvg)                    \
				r = r + x[i];                                  \
			else if (op == ncclProd)                               \
				r = r * x[i];                                  \
			else if (isnan(r))                                     \
				r = x[i];                                      \
			else if (!isnan(x[i]) &&                               \
			         (op == ncclMax ? x[i] > r : x[i] < r))        \
				r = x[i];                                      \
		}                                                              \
		return op == ncclAvg ? r / (real)n : r;                        \
	}

FOLD_FLOATS(fold_float, float)
FOLD_FLOATS(fold_double, double)

static uint64_t fold_f64(const uint64_t *x, int n, int op)
{
	double values[MAX_RANKS] = { 0 }, r;
	uint64_t bits;

	memcpy(values, x, (size_t)n * sizeof(*x));
	r = fold_double(values, n, op);
	if (isnan(r))
		return UINT64_C(0x7ff8000000000000);
	memcpy(&bits, &r, sizeof(bits));
	return bits;
}

static uint64_t fold_in_f32(const uint64_t *x, int n, int type, int op)
{
	const struct format *f = format_of(type);
	float values[MAX_RANKS] = { 0 }, r;

	for (int i = 0; i < n; i++)
		values[i] = f ? (float)value_of(f, (uint32_t)x[i])
		              : float_of((uint32_t)x[i]);
	r = fold_float(values, n, op);
	if (f)
		return round_nearest_even(f, (double)r);
	return isnan(r) ? 0x7fc00000 : bits_of(r);
}

/* Return the bits of the expected result for @n elements with bits @x. */
static uint64_t fold_reference(const uint64_t *x, int n, int type, int op)
{
	if (!is_float(type))
		return fold_ints(x, n, type, op);
	if (type == ncclFloat64)
		return fold_f64(x, n, op);
	return fold_in_f32(x, n, type, op);
}

/* ---- inputs ------------------------------------------------------------ */

/*
 * Return an edge value of a float type, with either sign: zero, the smallest
 * subnormal and normal numbers, infinity and its neighbors, and quiet NaNs.
 */
static uint64_t edge_bits(int type, uint64_t choice)
{
	const uint64_t sign = UINT64_C(1) << (cohort_type_size(type) * 8 - 1);
	const struct format *f = format_of(type);
	const int mantissa = f ? f->mantissa : type == ncclFloat32 ? 23 : 52;
	const uint64_t normal = UINT64_C(1) << mantissa;
	const uint64_t infinity = sign - normal;
	const uint64_t edges[] = {
		0,        1,
		normal,   infinity - 1,
		infinity, infinity | 1,
		sign - 1, infinity | normal >> 1,
	};

	return edges[(choice >> 1) % 8] | (choice & 1 ? sign : 0);
}

/*
 * Return random bits. For a float type, half of the values are small numbers,
 * such as 2.5.
 */
static uint64_t any_bits(int type, uint64_t *state)
{
	const uint64_t r = random_next(state);
	const struct format *f = format_of(type);
	const double small = (double)(int64_t)(r >> 60) - 7.5;
	uint64_t bits;

	if (!is_float(type) || r % 4 == 0)
		return r >> 8;
	if (r % 4 == 1)
		return edge_bits(type, r >> 8);
	if (f)
		return round_nearest_even(f, small);
	if (type == ncclFloat32)
		return bits_of((float)small);
	memcpy(&bits, &small, sizeof(bits));
	return bits;
}

static void fill(void *to, size_t count, int type, uint64_t seed)
{
	const size_t size = cohort_type_size(type);

	for (size_t i = 0; i < count; i++) {
		const uint64_t bits = any_bits(type, &seed);

		memcpy((char *)to + i * size, &bits, size);
	}
}

/* ---- reductions -------------------------------------------------------- */

struct fold_case {
	int type;
	int op;
};

#define FOLD_CASES (ncclNumTypes * ncclNumOps)

static struct criterion_test_params every_fold(void)
{
	static struct fold_case cases[FOLD_CASES];

	for (int i = 0; i < FOLD_CASES; i++)
		cases[i] = (struct fold_case){ .type = i / ncclNumOps,
			                       .op = i % ncclNumOps };
	return cr_make_param_array(struct fold_case, cases, FOLD_CASES);
}

/* Number of elements: several blocks, and an odd number of remaining elements */
#define LENGTH 1603

/* Buffers of one case, with room to shift them by some bytes */
static char buffers[MAX_RANKS][LENGTH * 8 + 16];
static char result[LENGTH * 8 + 16];
static char other[LENGTH * 8 + 16];

/* Fill @n sources. If @shifted, each has a different misalignment. */
static void fill_sources(const void *src[], int n, int type, bool shifted)
{
	for (int i = 0; i < n; i++) {
		char *at = buffers[i] + (shifted ? 1 + i : 0);

		fill(at, LENGTH, type, (uint64_t)(1000 * n + i));
		src[i] = at;
	}
}

static void check_against_reference(const void *out, const void *const src[],
                                    int n, const struct fold_case *c)
{
	const size_t size = cohort_type_size(c->type);

	for (size_t i = 0; i < LENGTH; i++) {
		uint64_t x[MAX_RANKS], want, got;

		for (int k = 0; k < n; k++)
			x[k] = read_bits(src[k], i, size);
		want = fold_reference(x, n, c->type, c->op);
		got = read_bits(out, i, size);
		cr_assert(got == want,
		          "type %d op %d n %d [%zu]: %" PRIx64 ", not %" PRIx64
		          " (of %" PRIx64 ", %" PRIx64 " ...)",
		          c->type, c->op, n, i, got, want, x[0],
		          x[n > 1 ? 1 : 0]);
	}
}

ParameterizedTestParameters(reduce, reduction_equals_the_reference)
{
	return every_fold();
}

/* Check the results of one vector unit. reduce_levels.c checks more cases. */
static void check_level(const struct reduce_level *level,
                        const struct fold_case *c)
{
	static const int ranks[] = { 1, 2, 3, 4, 7, 8 };
	void *const out = result;

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		const void *src[MAX_RANKS];

		fill_sources(src, ranks[i], c->type, false);
		level->fold[c->type][c->op](&out, 1, src, ranks[i], LENGTH);
		check_against_reference(result, src, ranks[i], c);
	}
}

ParameterizedTest(struct fold_case *c, reduce, reduction_equals_the_reference)
{
	const struct reduce_level *level;

	for (int nth = 0; (level = reduce_level(c->type, nth)); nth++)
		check_level(level, c);
}

ParameterizedTestParameters(reduce, reduction_accepts_misaligned_buffers)
{
	return every_fold();
}

ParameterizedTest(struct fold_case *c, reduce,
                  reduction_accepts_misaligned_buffers)
{
	const size_t bytes = LENGTH * cohort_type_size(c->type);
	const void *src[MAX_RANKS];

	fill_sources(src, 3, c->type, true);
	for (size_t shift = 1; shift < 8; shift++) {
		memset(result, 0x5a, sizeof(result));
		reduce_fold(result + shift, src, 3, LENGTH, c->type, c->op);
		check_against_reference(result + shift, src, 3, c);
		cr_assert(result[shift - 1] == 0x5a);
		cr_assert(result[shift + bytes] == 0x5a);
	}
}

ParameterizedTestParameters(reduce, reduction_in_pieces_gives_the_same_result)
{
	return every_fold();
}

ParameterizedTest(struct fold_case *c, reduce,
                  reduction_in_pieces_gives_the_same_result)
{
	static const size_t pieces[] = { 1, 3, 17, 511, 2, 513, 64, 5 };
	const size_t size = cohort_type_size(c->type);
	const void *src[MAX_RANKS], *part[MAX_RANKS];
	size_t count;

	fill_sources(src, 4, c->type, false);
	reduce_fold(result, src, 4, LENGTH, c->type, c->op);
	for (size_t done = 0, i = 0; done < LENGTH; done += count, i++) {
		count = pieces[i % 8];
		if (count > LENGTH - done)
			count = LENGTH - done;
		for (int k = 0; k < 4; k++)
			part[k] = (const char *)src[k] + done * size;
		reduce_fold(other + done * size, part, 4, count, c->type,
		            c->op);
	}
	cr_assert(memcmp(result, other, LENGTH * size) == 0);
}

ParameterizedTestParameters(reduce, reduction_may_overwrite_any_source)
{
	return every_fold();
}

ParameterizedTest(struct fold_case *c, reduce,
                  reduction_may_overwrite_any_source)
{
	const size_t bytes = LENGTH * cohort_type_size(c->type);
	const void *src[MAX_RANKS];

	for (int k = 0; k < 4; k++) {
		fill_sources(src, 4, c->type, true);
		reduce_fold(result, src, 4, LENGTH, c->type, c->op);
		reduce_fold(buffers[k] + 1 + k, src, 4, LENGTH, c->type, c->op);
		cr_assert(memcmp(result, src[k], bytes) == 0, "source %d", k);
	}
}

ParameterizedTestParameters(reduce, reduction_of_no_elements_writes_nothing)
{
	return every_fold();
}

ParameterizedTest(struct fold_case *c, reduce,
                  reduction_of_no_elements_writes_nothing)
{
	const void *nowhere[2] = { NULL, NULL };

	memset(result, 0x5a, 16);
	memset(other, 0x5a, 16);
	reduce_fold(result, nowhere, 2, 0, c->type, c->op);
	reduce_fold(NULL, nowhere, 2, 0, c->type, c->op);
	cr_assert(memcmp(result, other, 16) == 0);
}

/* ---- examples computed by hand ------------------------------------------ */

struct example {
	char rule[48]; /* no pointer, see every_format() */
	int type;
	int op;
	int n;
	uint64_t src[4];
	uint64_t want;
};

ParameterizedTestParameters(reduce,
                            reduction_matches_examples_worked_out_by_hand)
{
	/* clang-format off */
	static struct example examples[] = {
		{ "int8 sum wraps", ncclInt8, ncclSum, 2, { 0x7f, 1 }, 0x80 },
		{ "int8 avg divides the wrapped sum", ncclInt8, ncclAvg, 2,
		  { 0x7f, 1 }, 0xc0 },
		{ "int8 avg truncates toward zero", ncclInt8, ncclAvg, 2,
		  { 0xfe, 0xff }, 0xff },
		{ "uint8 avg divides without sign", ncclUint8, ncclAvg, 2,
		  { 0xfe, 1 }, 0x7f },
		{ "int32 prod wraps", ncclInt32, ncclProd, 2,
		  { 0x7fffffff, 0x7fffffff }, 1 },
		{ "int32 max respects the sign", ncclInt32, ncclMax, 2,
		  { 0xffffffff, 1 }, 1 },
		{ "uint32 max ignores the sign", ncclUint32, ncclMax, 2,
		  { 0xffffffff, 1 }, 0xffffffff },
		{ "int64 avg of the least value", ncclInt64, ncclAvg, 1,
		  { UINT64_C(1) << 63 }, UINT64_C(1) << 63 },
		{ "f32 max: the first of two zeros", ncclFloat32, ncclMax, 2,
		  { 0x80000000, 0 }, 0x80000000 },
		{ "f32 min: the first of two zeros", ncclFloat32, ncclMin, 2,
		  { 0, 0x80000000 }, 0 },
		{ "f32 max: NaN first loses", ncclFloat32, ncclMax, 2,
		  { 0xffc00001, 0xff800000 }, 0xff800000 },
		{ "f32 min: NaN last loses", ncclFloat32, ncclMin, 2,
		  { 0x7f800000, 0x7fffffff }, 0x7f800000 },
		{ "f64 max: of NaNs gives the canonical NaN", ncclFloat64, ncclMax, 2,
		  { UINT64_C(0xfff0000000000001),
		    UINT64_C(0x7fffffffffffffff) },
		  UINT64_C(0x7ff8000000000000) },
		{ "f32 sum: of NaNs gives the canonical NaN", ncclFloat32, ncclSum, 2,
		  { 0xffc12345, 0x7fc54321 }, 0x7fc00000 },
		{ "f32 sum: infinities cancel to NaN", ncclFloat32, ncclSum, 2,
		  { 0x7f800000, 0xff800000 }, 0x7fc00000 },
		{ "f32 sum: of negative zeros is negative", ncclFloat32, ncclSum, 2,
		  { 0x80000000, 0x80000000 }, 0x80000000 },
		{ "f32 sum goes in rank order", ncclFloat32, ncclSum, 3,
		  { 0x4b800000, 0x3f800000, 0x3f800000 }, 0x4b800000 },
		{ "f32 sum keeps subnormals", ncclFloat32, ncclSum, 2,
		  { 1, 2 }, 3 },
		{ "f16 avg may exceed the range on the way", ncclFloat16,
		  ncclAvg, 2, { 0x7bff, 0x7bff }, 0x7bff },
		{ "f16 sum overflows to infinity", ncclFloat16, ncclSum, 2,
		  { 0x7bff, 0x7bff }, 0x7c00 },
		{ "f16 single NaN gives the canonical NaN", ncclFloat16, ncclMax, 1,
		  { 0xfd01 }, 0x7e00 },
		{ "bf16 rounds once: 256 + 1 + 1", ncclBfloat16, ncclSum, 3,
		  { 0x4380, 0x3f80, 0x3f80 }, 0x4381 },
		{ "e4m3 sum saturates", ncclFloat8e4m3, ncclSum, 2,
		  { 0xfe, 0xfe }, 0xfe },
		{ "e4m3 sum with a NaN is NaN", ncclFloat8e4m3, ncclSum, 2,
		  { 0xff, 0x38 }, 0x7f },
		{ "e5m2 infinity saturates", ncclFloat8e5m2, ncclMin, 1,
		  { 0xfc }, 0xfb },
		{ "e5m2 infinity takes part as infinity", ncclFloat8e5m2,
		  ncclSum, 2, { 0x7c, 0xfc }, 0x7f },
	};
	/* clang-format on */

	return cr_make_param_array(struct example, examples,
	                           sizeof(examples) / sizeof(examples[0]));
}

ParameterizedTest(struct example *e, reduce,
                  reduction_matches_examples_worked_out_by_hand)
{
	const size_t size = cohort_type_size(e->type);
	const void *src[4];
	uint64_t got;

	for (int i = 0; i < e->n; i++)
		src[i] = &e->src[i];
	reduce_fold(result, src, e->n, 1, e->type, e->op);
	got = read_bits(result, 0, size);
	cr_assert(got == e->want, "%s: %" PRIx64 ", not %" PRIx64, e->rule, got,
	          e->want);
}

Test(reduce, int8_average_of_300_ranks_divides_the_wrapped_sum)
{
	const int8_t ones[1] = { 1 };
	const void *src[300];
	int8_t out;

	for (int i = 0; i < 300; i++)
		src[i] = ones;
	reduce_fold(&out, src, 300, 1, ncclInt8, ncclAvg);
	/* 300 wraps to 44, and 44 / 300 is 0. */
	cr_assert(out == 0);
}

Test(reduce, type_size_is_correct_for_every_type)
{
	static const size_t sizes[ncclNumTypes] = {
		1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1,
	};

	for (int type = 0; type < ncclNumTypes; type++)
		cr_assert(cohort_type_size(type) == sizes[type]);
	cr_assert(cohort_type_size(-1) == 0);
	cr_assert(cohort_type_size(ncclNumTypes) == 0);
}
