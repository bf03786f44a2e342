/* SPDX-License-Identifier: Apache-2.0 */

#include "support/nccl_values.h"

#include <string.h>

#include "platform/nccl_abi.h"
#include "sim/exec/convert.h"

/* ---- values ------------------------------------------------------------ */

size_t nccl_type_size(int type)
{
	static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	return sizes[type];
}

static bool is_signed(int type)
{
	return type > ncclUint64 || type % 2 == 0;
}

static uint32_t narrow(int type, double x)
{
	union {
		float f;
		uint32_t u;
	} bits = { .f = (float)x };
	const f32v v = { (float)x };

	switch (type) {
	case ncclFloat16:
		return small_narrow(v, f16_format)[0];
	case ncclFloat8e4m3:
		return small_narrow(v, e4m3_format)[0];
	case ncclFloat8e5m2:
		return small_narrow(v, e5m2_format)[0];
	case ncclBfloat16:
		return bits.u >> 16;
	default:
		return bits.u;
	}
}

uint64_t nccl_bits(int type, double x)
{
	union {
		double x;
		uint64_t u;
	} wide = { .x = x };
	uint64_t u = (uint64_t)(int64_t)x;

	if (type == ncclFloat64)
		return wide.u;
	if (type > ncclUint64)
		return narrow(type, x);
	if (nccl_type_size(type) < 8)
		u &= (UINT64_C(1) << 8 * nccl_type_size(type)) - 1;
	return u;
}

void nccl_put(int type, void *memory, size_t i, double x)
{
	const uint64_t bits = nccl_bits(type, x);

	memcpy((char *)memory + i * nccl_type_size(type), &bits,
	       nccl_type_size(type));
}

uint64_t nccl_get(int type, const void *memory, size_t i)
{
	uint64_t bits = 0;

	memcpy(&bits, (const char *)memory + i * nccl_type_size(type),
	       nccl_type_size(type));
	return bits;
}

double nccl_value(int type, int rank, size_t i)
{
	return (double)((i * 7 + (size_t)rank * 3) % 5) -
	       (is_signed(type) ? 2 : 0);
}

/* ---- reference reductions ---------------------------------------------- */

#define SCALE 2

double nccl_expect(int type, enum reduction reduction, int ranks, size_t i)
{
	double x = nccl_value(type, 0, i), y;

	if (reduction == SCALED)
		x *= SCALE;
	for (int rank = 1; rank < ranks; rank++) {
		y = nccl_value(type, rank, i);
		if (reduction == PROD)
			x *= y;
		else if (reduction == MIN)
			x = y < x ? y : x;
		else if (reduction == MAX)
			x = y > x ? y : x;
		else
			x += reduction == SCALED ? SCALE * y : y;
	}
	return reduction == AVERAGE ? (double)((int64_t)x / ranks) : x;
}

enum operation nccl_operation(enum reduction reduction)
{
	static const enum operation operations[] = {
		[SUM] = OPERATION_SUM,
		[PROD] = OPERATION_PROD,
		[MIN] = OPERATION_MIN_MAX,
		[MAX] = OPERATION_MIN_MAX,
		[SCALED] = OPERATION_PRE_MUL_SUM,
		[AVERAGE] = OPERATION_SUM_POST_DIV,
	};

	return operations[reduction];
}

uint64_t nccl_scalar(int type, enum reduction reduction, int ranks)
{
	const uint64_t all = UINT64_MAX >> (64 - 8 * nccl_type_size(type));
	uint64_t mask = reduction == MAX ? all : 0;

	if (reduction == SCALED)
		return nccl_bits(type, SCALE);
	if (reduction == AVERAGE)
		return (uint64_t)ranks << 1 | is_signed(type);
	if (type <= ncclUint64 && is_signed(type))
		mask ^= all ^ all >> 1;
	return mask;
}
