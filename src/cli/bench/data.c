/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The data that ranks send if results are checked, and the expected results
 *
 * Data to reduce are small whole numbers, so that every type holds the result
 * exactly, in any order of reduction. Data that are only copied can have any
 * bits. The expected results are computed here, in integers, without the
 * library.
 */

#include "cli/bench/bench.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/random.h"

static bool is_signed(int type)
{
	return type != COHORT_U8 && type != COHORT_U32 && type != COHORT_U64;
}

/* Encode a whole number as a float of @bits bits: a sign, an exponent, and a
 * mantissa of @mantissa bits, which must be enough to hold the number. */
static uint64_t encode(int64_t value, int bits, int mantissa, int bias)
{
	uint64_t sign = value < 0,
		 size = (uint64_t)(value < 0 ? -value : value);
	int exponent = 0;

	if (size == 0)
		return 0;
	while (size >> exponent > 1)
		exponent++;
	size -= UINT64_C(1) << exponent;
	return sign << (bits - 1) | (uint64_t)(exponent + bias) << mantissa |
	       size << (mantissa - exponent);
}

static uint64_t element(int type, int64_t value)
{
	switch (type) {
	case COHORT_F16:
		return encode(value, 16, 10, 15);
	case COHORT_BF16:
		return encode(value, 16, 7, 127);
	case COHORT_F32:
		return encode(value, 32, 23, 127);
	case COHORT_F64:
		return encode(value, 64, 52, 1023);
	case COHORT_F8E4M3:
		return encode(value, 8, 3, 7);
	case COHORT_F8E5M2:
		return encode(value, 8, 2, 15);
	}
	return (uint64_t)value;
}

static void set(struct pattern *pattern, size_t i, uint64_t bits)
{
	/* Little endian: the low bytes come first. */
	memcpy(pattern->bytes + i * pattern->size, &bits, pattern->size);
}

/* Return element @i of the data that @rank sends. For a sum or a product, two
 * ranks contribute a value, and the others contribute the neutral element.
 * Which two ranks these are depends on @i. No rank contributes the result
 * itself. */
static int64_t value_of(int type, int op, size_t i, int rank, int ranks)
{
	uint64_t m = random_of(i) >> 8;
	int place = (int)((m + (uint64_t)rank) % (uint64_t)ranks);
	int sign = is_signed(type) ? -1 : 1;

	switch (op) {
	case COHORT_SUM:
		return place == 0   ? 1 + (int64_t)(m % 3)
		       : place == 1 ? sign * (4 + (int64_t)(m / 3 % 3))
		                    : 0;
	case COHORT_PROD:
		return place == 0   ? 2
		       : place == 1 ? sign * (2 + (int64_t)(m % 2))
		                    : 1;
	case COHORT_AVG:
		/* Two ranks deviate from the average, by 1 and by -1. */
		return 1 + (int64_t)(m % 2) +
		       (ranks == 1 ? 0 : (place == 0) - (place == 1));
	}
	m = random_of(i * (uint64_t)ranks + (uint64_t)rank) >> 8;
	return (int64_t)(m % 7) - (is_signed(type) ? 3 : 0);
}

static int64_t combine(int op, int64_t a, int64_t b)
{
	switch (op) {
	case COHORT_PROD:
		return a * b;
	case COHORT_MAX:
		return a > b ? a : b;
	case COHORT_MIN:
		return a < b ? a : b;
	}
	return a + b;
}

void pattern_of_rank(struct pattern *pattern, int type, int op, int rank,
                     int ranks)
{
	pattern->size = cohort_type_size(type);
	for (size_t i = 0; i < PATTERN_PERIOD; i++) {
		uint64_t bits;

		if (op < 0)
			bits = random_of((uint64_t)rank * PATTERN_PERIOD + i);
		else
			bits = element(type,
			               value_of(type, op, i, rank, ranks));
		set(pattern, i, bits);
	}
}

void pattern_of_fold(struct pattern *pattern, int type, int op, int ranks)
{
	pattern->size = cohort_type_size(type);
	for (size_t i = 0; i < PATTERN_PERIOD; i++) {
		int64_t value = value_of(type, op, i, 0, ranks);

		for (int r = 1; r < ranks; r++)
			value = combine(op, value,
			                value_of(type, op, i, r, ranks));
		/* The sum wraps before the division if the type has 8 bits. */
		if (op == COHORT_AVG)
			value = (type == COHORT_I8   ? (int8_t)value
			         : type == COHORT_U8 ? (uint8_t)value
			                             : value) /
			        ranks;
		set(pattern, i, element(type, value));
	}
}

void pattern_put(const struct pattern *pattern, void *to, size_t count)
{
	unsigned char *out = to;

	while (count) {
		size_t n = count < PATTERN_PERIOD ? count : PATTERN_PERIOD;

		memcpy(out, pattern->bytes, n * pattern->size);
		out += n * pattern->size;
		count -= n;
	}
}

size_t pattern_wrong(const struct pattern *pattern, const void *at,
                     size_t first, size_t count)
{
	const unsigned char *in = at;
	size_t size = pattern->size, wrong = 0;
	bool differs;

	first %= PATTERN_PERIOD;
	while (count) {
		const unsigned char *want = pattern->bytes + first * size;
		size_t n = PATTERN_PERIOD - first;

		if (n > count)
			n = count;
		differs = memcmp(in, want, n * size);
		for (size_t i = 0; i < n && differs; i++)
			wrong += memcmp(in + i * size, want + i * size, size) !=
			         0;
		in += n * size;
		count -= n;
		first = 0;
	}
	return wrong;
}
