/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A plain reference implementation of the collectives
 *
 * This code is simple rather than fast. The 16- and 8-bit floats are described
 * by their bit widths. A table holds the value of every bit pattern. Rounding
 * finds the two neighbors in the table and compares exact differences in
 * double, which can represent all of these values and their midpoints.
 */

#include "reference.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

/* Format of a small float: a sign bit, the exponent, and the mantissa in the
 * low bits */
struct reference_format {
	int exponent_bits;
	int mantissa_bits;
	bool has_infinity; /* if false, NaN is all ones */
	bool saturates;
};

static const struct reference_format formats[] = {
	[COHORT_F16] = { 5, 10, true, false },
	[COHORT_BF16] = { 8, 7, true, false },
	[COHORT_F8E4M3] = { 4, 3, false, true },
	[COHORT_F8E5M2] = { 5, 2, true, true },
};

#define REFERENCE_TYPES 12

/* Value of every bit pattern of each small float type */
static double *values[REFERENCE_TYPES];

static bool reference_is_small(int type)
{
	return type == COHORT_F16 || type == COHORT_BF16 ||
	       type == COHORT_F8E4M3 || type == COHORT_F8E5M2;
}

static double reference_value_of(const struct reference_format *format,
                                 unsigned bits)
{
	int mantissa_bits = format->mantissa_bits;
	int exponent_bits = format->exponent_bits;
	int bias = (1 << (exponent_bits - 1)) - 1;
	int top = (1 << exponent_bits) - 1;
	int mantissa = (int)(bits & ((1U << mantissa_bits) - 1));
	int exponent = (int)(bits >> mantissa_bits) & top;
	bool negative = bits >> (mantissa_bits + exponent_bits) & 1;
	double value;

	if (exponent == top && format->has_infinity)
		value = mantissa == 0 ? INFINITY : NAN;
	else if (exponent == top && mantissa == (1 << mantissa_bits) - 1)
		value = NAN;
	else if (exponent == 0)
		value = ldexp(mantissa, 1 - bias - mantissa_bits);
	else
		value = ldexp((1 << mantissa_bits) + mantissa,
		              exponent - bias - mantissa_bits);
	return negative ? -value : value;
}

void reference_begin(void)
{
	int type;
	unsigned bits;

	for (type = 0; type < REFERENCE_TYPES; type++) {
		unsigned patterns;

		if (!reference_is_small(type) || values[type])
			continue;
		patterns = 1U << 8 * reference_size(type);
		values[type] = malloc(patterns * sizeof(double));
		assert(values[type]);
		for (bits = 0; bits < patterns; bits++)
			values[type][bits] =
				reference_value_of(&formats[type], bits);
	}
}

size_t reference_size(int type)
{
	static const size_t sizes[] = {
#define REFERENCE_SIZE(name, value, bytes, text) [value] = bytes,
		COHORT_TYPE_LIST(REFERENCE_SIZE)
#undef REFERENCE_SIZE
	};

	return sizes[type];
}

bool reference_is_float(int type)
{
	return reference_is_small(type) || type == COHORT_F32 ||
	       type == COHORT_F64;
}

double reference_decode(int type, unsigned bits)
{
	return values[type][bits];
}

/* Return the bit pattern of the largest finite value. */
static unsigned reference_largest(int type)
{
	unsigned bits = (1U << (8 * reference_size(type) - 1)) - 1;

	while (!isfinite(values[type][bits]))
		bits--;
	return bits;
}

/*
 * Return the bit pattern for a magnitude above the largest finite value. Round
 * as if one more finite value existed: from the midpoint on, the magnitude
 * becomes infinity, unless the type saturates.
 */
static unsigned reference_overflow(int type, double magnitude)
{
	unsigned largest = reference_largest(type);
	double step = values[type][largest] - values[type][largest - 1];

	if (formats[type].saturates)
		return largest;
	/* The largest pattern is odd, so a tie rounds up. */
	if (magnitude < values[type][largest] + step / 2)
		return largest;
	return largest + 1;
}

static unsigned reference_nearest(int type, double magnitude)
{
	unsigned low = 0;
	unsigned high = reference_largest(type);
	double below;
	double above;

	if (magnitude > values[type][high])
		return reference_overflow(type, magnitude);
	/* Bit patterns without a sign are sorted by value. */
	while (high - low > 1) {
		unsigned middle = low + (high - low) / 2;

		if (values[type][middle] <= magnitude)
			low = middle;
		else
			high = middle;
	}
	below = magnitude - values[type][low];
	above = values[type][high] - magnitude;
	if (below == above)
		return low % 2 == 0 ? low : high;
	return below < above ? low : high;
}

unsigned reference_encode(int type, double value)
{
	unsigned sign = 1U << (8 * reference_size(type) - 1);

	if (isnan(value))
		return sign - 1; /* all ones, which is NaN in every format */
	return reference_nearest(type, fabs(value)) |
	       (signbit(value) ? sign : 0);
}

/* Fold @next into the result in a floating-point type. MIN and MAX ignore a NaN
 * unless both operands are NaN. */
#define REFERENCE_FOLD_FLOAT(name, real)                                       \
	static real name(real so_far, real next, int op)                       \
	{                                                                      \
		switch (op) {                                                  \
		case COHORT_PROD:                                              \
			return so_far * next;                                  \
		case COHORT_MAX:                                               \
			if (isnan(so_far))                                     \
				return isnan(next) ? so_far : next;            \
			return next > so_far ? next : so_far;                  \
		case COHORT_MIN:                                               \
			if (isnan(so_far))                                     \
				return isnan(next) ? so_far : next;            \
			return next < so_far ? next : so_far;                  \
		default:                                                       \
			return so_far + next;                                  \
		}                                                              \
	}
REFERENCE_FOLD_FLOAT(reference_fold_f32, float)
REFERENCE_FOLD_FLOAT(reference_fold_f64, double)
#undef REFERENCE_FOLD_FLOAT

static void reference_element_f64(void *out, const void *const in[], int n,
                                  size_t at, int op)
{
	double result;
	double next;
	int r;

	memcpy(&result, (const char *)in[0] + at * sizeof(double), 8);
	for (r = 1; r < n; r++) {
		memcpy(&next, (const char *)in[r] + at * sizeof(double), 8);
		result = reference_fold_f64(result, next, op);
	}
	if (op == COHORT_AVG)
		result = result / n;
	memcpy(out, &result, sizeof(result));
}

static float reference_load(const void *in, size_t at, int type)
{
	size_t size = reference_size(type);
	unsigned bits = 0;
	float value;

	if (type == COHORT_F32) {
		memcpy(&value, (const char *)in + at * size, size);
		return value;
	}
	memcpy(&bits, (const char *)in + at * size, size);
	return (float)reference_decode(type, bits);
}

static void reference_store(void *out, float value, int type)
{
	unsigned bits;

	if (type == COHORT_F32) {
		memcpy(out, &value, sizeof(value));
		return;
	}
	bits = reference_encode(type, (double)value);
	memcpy(out, &bits, reference_size(type));
}

/* Reduce one element of a type that accumulates in float32. */
static void reference_element_f32(void *out, const void *const in[], int n,
                                  size_t at, int type, int op)
{
	float result = reference_load(in[0], at, type);
	int r;

	for (r = 1; r < n; r++)
		result = reference_fold_f32(
			result, reference_load(in[r], at, type), op);
	if (op == COHORT_AVG)
		result = result / (float)n;
	reference_store(out, result, type);
}

static bool reference_is_signed(int type)
{
	return type == COHORT_I8 || type == COHORT_I32 || type == COHORT_I64;
}

/* Extend an integer of @size bytes to 64 bits, so that results wrap as in its
 * type. */
static uint64_t reference_widen(uint64_t bits, size_t size, bool is_signed)
{
	unsigned shift = (unsigned)(64 - 8 * size);

	bits <<= shift;
	return is_signed ? (uint64_t)((int64_t)bits >> shift) : bits >> shift;
}

static bool reference_less(uint64_t a, uint64_t b, bool is_signed)
{
	return is_signed ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t reference_fold_integer(uint64_t so_far, uint64_t next, int op,
                                       bool is_signed)
{
	switch (op) {
	case COHORT_PROD:
		return so_far * next;
	case COHORT_MAX:
		return reference_less(so_far, next, is_signed) ? next : so_far;
	case COHORT_MIN:
		return reference_less(next, so_far, is_signed) ? next : so_far;
	default:
		return so_far + next;
	}
}

static uint64_t reference_divide(uint64_t sum, int n, bool is_signed)
{
	if (is_signed)
		return (uint64_t)((int64_t)sum / n);
	return sum / (uint64_t)n;
}

static void reference_element_integer(void *out, const void *const in[], int n,
                                      size_t at, int type, int op)
{
	size_t size = reference_size(type);
	bool is_signed = reference_is_signed(type);
	uint64_t result = 0;
	int r;

	for (r = 0; r < n; r++) {
		uint64_t next = 0;

		memcpy(&next, (const char *)in[r] + at * size, size);
		next = reference_widen(next, size, is_signed);
		result = r == 0 ? next
		                : reference_fold_integer(result, next, op,
		                                         is_signed);
		result = reference_widen(result, size, is_signed);
	}
	if (op == COHORT_AVG)
		result = reference_divide(result, n, is_signed);
	memcpy(out, &result, size);
}

void reference_reduce(void *out, const void *const in[], int n, size_t count,
                      int type, int op)
{
	size_t size = reference_size(type);
	size_t i;

	/* On one rank, the result is a copy without rounding. */
	if (n == 1) {
		memcpy(out, in[0], count * size);
		return;
	}
	for (i = 0; i < count; i++) {
		void *to = (char *)out + i * size;

		if (type == COHORT_F64)
			reference_element_f64(to, in, n, i, op);
		else if (reference_is_float(type))
			reference_element_f32(to, in, n, i, type, op);
		else
			reference_element_integer(to, in, n, i, type, op);
	}
}

void reference_all_gather(void *out, const void *const in[], int n,
                          size_t count, int type)
{
	size_t bytes = count * reference_size(type);
	int r;

	for (r = 0; r < n; r++)
		memcpy((char *)out + (size_t)r * bytes, in[r], bytes);
}

void reference_reduce_scatter(void *out, const void *const in[], int n,
                              size_t count, int type, int op, int rank)
{
	size_t skip = (size_t)rank * count * reference_size(type);
	const void *blocks[64];
	int r;

	assert(n <= 64);
	for (r = 0; r < n; r++)
		blocks[r] = (const char *)in[r] + skip;
	reference_reduce(out, blocks, n, count, type, op);
}

void reference_broadcast(void *out, const void *const in[], size_t count,
                         int type, int root)
{
	memcpy(out, in[root], count * reference_size(type));
}

void reference_all_to_all(void *out, const void *const in[], int n,
                          size_t count, int type, int rank)
{
	size_t bytes = count * reference_size(type);
	int r;

	for (r = 0; r < n; r++)
		memcpy((char *)out + (size_t)r * bytes,
		       (const char *)in[r] + (size_t)rank * bytes, bytes);
}

void reference_scatter(void *out, const void *const in[], size_t count,
                       int type, int root, int rank)
{
	size_t bytes = count * reference_size(type);

	memcpy(out, (const char *)in[root] + (size_t)rank * bytes, bytes);
}

static uint64_t reference_load_integer(const void *in, size_t at, size_t size)
{
	uint64_t bits = 0;

	memcpy(&bits, (const char *)in + at * size, size);
	return bits;
}

static void reference_scale_f64(void *out, const void *in, const void *scalar,
                                size_t at)
{
	double x, y;

	memcpy(&x, (const char *)in + at * sizeof(x), sizeof(x));
	memcpy(&y, scalar, sizeof(y));
	x = x * y;
	memcpy((char *)out + at * sizeof(x), &x, sizeof(x));
}

void reference_scale(void *out, const void *in, const void *scalar,
                     size_t count, int type)
{
	size_t size = reference_size(type), i;
	uint64_t product;

	for (i = 0; i < count; i++) {
		if (type == COHORT_F64) {
			reference_scale_f64(out, in, scalar, i);
		} else if (reference_is_float(type)) {
			reference_store((char *)out + i * size,
			                reference_load(in, i, type) *
			                        reference_load(scalar, 0, type),
			                type);
		} else {
			product = reference_load_integer(in, i, size) *
			          reference_load_integer(scalar, 0, size);
			memcpy((char *)out + i * size, &product, size);
		}
	}
}

static bool reference_is_nan(const void *element, int type)
{
	double wide;

	if (!reference_is_float(type))
		return false;
	if (type != COHORT_F64)
		return isnan(reference_load(element, 0, type));
	memcpy(&wide, element, sizeof(wide));
	return isnan(wide);
}

size_t reference_compare(const void *a, const void *b, size_t count, int type)
{
	size_t size = reference_size(type);
	size_t i;

	if (memcmp(a, b, count * size) == 0)
		return count;
	for (i = 0; i < count; i++) {
		const char *x = (const char *)a + i * size;
		const char *y = (const char *)b + i * size;

		if (memcmp(x, y, size) == 0)
			continue;
		if (!reference_is_nan(x, type) || !reference_is_nan(y, type))
			break;
	}
	return i;
}
