/* SPDX-License-Identifier: Apache-2.0 */

/* Copies and reduces elements (see combine.h) */

#include "sim/nvidia/kernel/combine.h"

#include <string.h>

#include "base/type.h"
#include "platform/nccl_abi.h"
#include "sim/exec/reduce.h"

/* The bits of the value 1 in each type. */
static const uint64_t ones[ncclNumTypes] = {
	[ncclInt8] = 1,
	[ncclUint8] = 1,
	[ncclInt32] = 1,
	[ncclUint32] = 1,
	[ncclInt64] = 1,
	[ncclUint64] = 1,
	[ncclFloat16] = 0x3c00,
	[ncclFloat32] = 0x3f800000,
	[ncclFloat64] = UINT64_C(0x3ff0000000000000),
	[ncclBfloat16] = 0x3f80,
	[ncclFloat8e4m3] = 0x38,
	[ncclFloat8e5m2] = 0x3c,
};

uint64_t combine_scalar_at(int type, const void *address)
{
	uint64_t scalar = 0;

	memcpy(&scalar, address, type_size(type));
	return scalar;
}

static bool is_integer(int type)
{
	return type <= ncclUint64;
}

/*
 * Set up a minimum or maximum
 *
 * NCCL compares integers as unsigned after an exclusive OR with @mask.  The
 * mask flips the sign bit of signed integers, and all bits for a maximum.  For
 * floats, only the lowest bit of the mask matters.
 */
static void make_min_max(struct combine *c, uint64_t mask)
{
	const uint64_t sign = UINT64_C(1) << (8 * c->size - 1);
	const bool greatest = mask & 1;

	c->fold_op = greatest ? ncclMax : ncclMin;
	if (!is_integer(c->type))
		return;
	c->fold_type |= 1;
	if (!(mask & sign) == greatest)
		c->fold_type--;
}

struct combine combine_make(int type, enum operation operation, uint64_t scalar)
{
	struct combine c = {
		.type = type,
		.operation = operation,
		.size = type_size(type),
		.fold_type = type,
		.fold_op = operation == OPERATION_PROD ? ncclProd : ncclSum,
		.scale = { scalar, ones[type] },
	};

	if (operation == OPERATION_MIN_MAX)
		make_min_max(&c, scalar);
	c.divisor = (int64_t)(scalar >> 1);
	c.is_signed = scalar & 1;
	return c;
}

static void copy(void *to, const void *from, size_t bytes)
{
	if (to != from)
		memcpy(to, from, bytes);
}

/* ---- divisions -------------------------------------------------------- */

/* Divide integers, rounding toward zero.  The integers are sums, which might
 * have wrapped around. */
#define DEFINE_DIVIDE(name, type)                                              \
	static void name(type *x, int64_t by, size_t count)                    \
	{                                                                      \
		for (size_t i = 0; i < count; i++)                             \
			x[i] = (type)((int64_t)x[i] / by);                     \
	}

DEFINE_DIVIDE(divide_i8, int8_t)
DEFINE_DIVIDE(divide_u8, uint8_t)
DEFINE_DIVIDE(divide_i32, int32_t)
DEFINE_DIVIDE(divide_u32, uint32_t)
DEFINE_DIVIDE(divide_i64, int64_t)

static void divide_u64(uint64_t *x, uint64_t by, size_t count)
{
	for (size_t i = 0; i < count; i++)
		x[i] /= by;
}

static void divide(const struct combine *c, void *x, size_t count)
{
	if (c->size == 1 && c->is_signed)
		divide_i8(x, c->divisor, count);
	else if (c->size == 1)
		divide_u8(x, c->divisor, count);
	else if (c->size == 4 && c->is_signed)
		divide_i32(x, c->divisor, count);
	else if (c->size == 4)
		divide_u32(x, c->divisor, count);
	else if (c->is_signed)
		divide_i64(x, c->divisor, count);
	else
		divide_u64(x, (uint64_t)c->divisor, count);
}

/* ---- combining -------------------------------------------------------- */

/* Reduce one or two sources.  If @scale, multiply the first source by the
 * scalar. */
static void fold(const struct combine *c, void *to, const void *const from[],
                 int froms, size_t count, bool scale)
{
	const void *scalars[] = { &c->scale[0], &c->scale[1] };

	if (scale)
		reduce_fold_scaled(to, from, scalars, froms, count, c->type);
	else if (froms == 2)
		reduce_fold(to, from, 2, count, c->fold_type, c->fold_op);
	else
		copy(to, from[0], count * c->size);
}

void combine(const struct combine *c, void *const to[], int tos,
             const void *const from[], int froms, size_t count, bool scale,
             bool last)
{
	scale = scale && c->operation == OPERATION_PRE_MUL_SUM;
	fold(c, to[0], from, froms < 2 ? froms : 2, count, scale);
	for (int i = 2; i < froms; i++) {
		const void *pair[] = { to[0], from[i] };

		fold(c, to[0], pair, 2, count, false);
	}
	if (last && c->operation == OPERATION_SUM_POST_DIV)
		divide(c, to[0], count);
	for (int i = 1; i < tos; i++)
		copy(to[i], to[0], count * c->size);
}
