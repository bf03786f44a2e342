/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/bench/data.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/random.h"

/* ---- elements --------------------------------------------------------- */

static bool is_signed(int type)
{
	return type != COHORT_U8 && type != COHORT_U32 && type != COHORT_U64;
}

/* Encode a whole number as a float of a sign, an exponent and @mantissa bits,
 * which can hold it. */
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

/* ---- values ----------------------------------------------------------- */

/* For sums and products, two ranks give a value and the others the neutral
 * element; which two changes from element to element.  No rank gives the value
 * of the result. */
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
		/* The differences between the ranks cancel out. */
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

/* With many ranks a sum of 8 bits wraps before it is divided. */
static int64_t mean(int type, int64_t sum, int ranks)
{
	if (type == COHORT_I8)
		sum = (int8_t)sum;
	if (type == COHORT_U8)
		sum = (uint8_t)sum;
	return sum / ranks;
}

static int64_t fold_of(int type, int op, size_t i, int ranks)
{
	int64_t value = value_of(type, op, i, 0, ranks);

	for (int r = 1; r < ranks; r++)
		value = combine(op, value, value_of(type, op, i, r, ranks));
	return op == COHORT_AVG ? mean(type, value, ranks) : value;
}

/* ---- patterns --------------------------------------------------------- */

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
	for (size_t i = 0; i < PATTERN_PERIOD; i++)
		set(pattern, i, element(type, fold_of(type, op, i, ranks)));
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

static size_t count_wrong(const unsigned char *a, const unsigned char *b,
                          size_t size, size_t count)
{
	size_t wrong = 0;

	for (size_t i = 0; i < count; i++)
		wrong += memcmp(a + i * size, b + i * size, size) != 0;
	return wrong;
}

size_t pattern_wrong(const struct pattern *pattern, const void *at,
                     size_t first, size_t count)
{
	const unsigned char *in = at;
	size_t size = pattern->size, wrong = 0;

	first %= PATTERN_PERIOD;
	while (count) {
		const unsigned char *want = pattern->bytes + first * size;
		size_t n = PATTERN_PERIOD - first;

		if (n > count)
			n = count;
		if (memcmp(in, want, n * size))
			wrong += count_wrong(in, want, size, n);
		in += n * size;
		count -= n;
		first = 0;
	}
	return wrong;
}
