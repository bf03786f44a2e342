/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reductions on a single rank, which multiply by a scalar (see sim/nvidia/kernel.h)
 */

#include <string.h>

#include "base/util.h"
#include "platform/nccl_abi.h"
#include "sim/nvidia/kernel.h"
#include "sim/nvidia/kernel/combine.h"

#define KERNEL "oneRankReduceI13FuncPreMulSumI"

/* How C++ compilers write the types. */
static const struct {
	const char *name;
	int type;
} types[] = {
	{ "aE", ncclInt8 },
	{ "hE", ncclUint8 },
	{ "iE", ncclInt32 },
	{ "jE", ncclUint32 },
	{ "lE", ncclInt64 },
	{ "mE", ncclUint64 },
	{ "6__halfE", ncclFloat16 },
	{ "fE", ncclFloat32 },
	{ "dE", ncclFloat64 },
	{ "13__nv_bfloat16E", ncclBfloat16 },
	{ "13__nv_fp8_e4m3E", ncclFloat8e4m3 },
	{ "13__nv_fp8_e5m2E", ncclFloat8e5m2 },
};

int nvidia_one_rank_type(const char *name)
{
	const char *type = strstr(name, KERNEL);

	if (!type)
		return -1;
	type += strlen(KERNEL);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strncmp(type, types[i].name, strlen(types[i].name)) == 0)
			return types[i].type;
	return -1;
}

void nvidia_one_rank_reduce(int type, void *dst, const void *src, size_t count,
                            uint64_t scalar, bool is_pointer)
{
	struct combine c;

	if (is_pointer)
		scalar = combine_scalar_at(type,
		                           (const void *)(uintptr_t)scalar);
	c = combine_make(type, OPERATION_PRE_MUL_SUM, scalar);
	combine(&c, &dst, 1, &src, 1, count, true, true);
}
