/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Buffers of random values that are determined by a seed
 *
 * A float is assembled from a sign, an exponent and a mantissa in its own
 * format. The kind of value only determines the range of the exponent.
 */

#include "fill.h"

#include <string.h>

#include <cohort/cohort.h>

#include "base/random.h"
#include "place.h"
#include "reference.h"

struct fill_format {
	int exponent_bits;
	int mantissa_bits;
	bool has_infinity;
};

static const struct fill_format formats[] = {
	[COHORT_F16] = { 5, 10, true },    [COHORT_F32] = { 8, 23, true },
	[COHORT_F64] = { 11, 52, true },   [COHORT_BF16] = { 8, 7, true },
	[COHORT_F8E4M3] = { 4, 3, false }, [COHORT_F8E5M2] = { 5, 2, true },
};

static uint64_t fill_pack(const struct fill_format *format, bool negative,
                          uint64_t exponent, uint64_t mantissa)
{
	int width = format->exponent_bits + format->mantissa_bits;

	mantissa &= (UINT64_C(1) << format->mantissa_bits) - 1;
	return (uint64_t)negative << width | exponent << format->mantissa_bits |
	       mantissa;
}

/* Return 0.5, 1 or 2, times 1 or 1.5, with either sign. These numbers have few
 * mantissa bits. */
static uint64_t fill_small_number(const struct fill_format *format,
                                  uint64_t random)
{
	uint64_t bias = (UINT64_C(1) << (format->exponent_bits - 1)) - 1;
	uint64_t half = UINT64_C(1) << (format->mantissa_bits - 1);

	return fill_pack(format, random & 1, bias - 1 + (random >> 1) % 3,
	                 random >> 8 & 1 ? half : 0);
}

/*
 * Return a number with the highest exponent of finite values. In a format
 * without infinity, one code with this exponent is a NaN, which is never
 * returned.
 */
static uint64_t fill_large(const struct fill_format *format, bool negative,
                           uint64_t mantissa)
{
	uint64_t top = (UINT64_C(1) << format->exponent_bits) - 1;

	if (format->has_infinity)
		return fill_pack(format, negative, top - 1, mantissa);
	return fill_pack(format, negative, top, mantissa & ~UINT64_C(1));
}

static uint64_t fill_float(const struct fill_format *format, uint64_t random,
                           bool special)
{
	uint64_t top = (UINT64_C(1) << format->exponent_bits) - 1;
	uint64_t bias = top / 2;
	uint64_t mantissa = random >> 12;
	bool negative = random >> 8 & 1;

	switch (random & 15) {
	case 0:
		return fill_pack(format, negative, 0, 0);
	case 1:
		return fill_pack(format, negative, 0, mantissa);
	case 2:
		return fill_large(format, negative, mantissa);
	case 3:
	case 4:
		return fill_pack(format, negative, (random >> 4) % top,
		                 mantissa);
	case 5:
		if (special && format->has_infinity)
			return fill_pack(format, negative, top, 0);
		if (special)
			return fill_pack(format, negative, top, top);
		return fill_pack(format, negative, bias, mantissa);
	case 6:
		if (special)
			return fill_pack(format, negative, top, UINT64_MAX);
		return fill_pack(format, negative, bias + 1, mantissa);
	case 7:
	case 8:
	case 9:
		return fill_small_number(format, random >> 8);
	default:
		return fill_pack(format, negative, bias - 1 + (random >> 4) % 3,
		                 mantissa);
	}
}

/* Return -1, 0 or 1. The sum or product of up to eight of these numbers does
 * not depend on the order. */
static uint64_t fill_unit(const struct fill_format *format, uint64_t random)
{
	uint64_t bias = (UINT64_C(1) << (format->exponent_bits - 1)) - 1;

	return random % 3 ? fill_pack(format, random % 3 == 1, bias, 0) : 0;
}

void fill_random(void *to, size_t count, int type, uint64_t seed, bool special)
{
	const bool has_order = !place_is_nvidia();
	size_t size = reference_size(type);
	uint64_t state = random_of(seed) + (uint64_t)type;
	size_t i;

	for (i = 0; i < count; i++) {
		uint64_t bits = random_next(&state);

		if (reference_is_float(type) && !has_order)
			bits = fill_unit(&formats[type], bits >> 1);
		else if (reference_is_float(type))
			bits = fill_float(&formats[type], bits, special);
		memcpy((char *)to + i * size, &bits, size);
	}
}

void fill_guard(void *to, size_t bytes)
{
	memset(to, 0xa5, bytes);
}

bool fill_guard_intact(const void *at, size_t bytes)
{
	const unsigned char *byte = at;
	size_t i;

	for (i = 0; i < bytes; i++)
		if (byte[i] != 0xa5)
			return false;
	return true;
}
