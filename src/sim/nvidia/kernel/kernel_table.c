/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the table of functions from the loaded NCCL */

#include "sim/nvidia/kernel/kernel_table.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/nvidia/kernel/layout_read.h"

/* Return the number of functions: the largest id in @ids, plus 1.  Rows without
 * a function have id -1. */
static unsigned count_functions(const int *ids, int rows)
{
	int count = 0;

	for (int row = 0; row < rows; row++)
		if (ids[row] >= count)
			count = ids[row] + 1;
	return (unsigned)count;
}

/*
 * Read the functions of all rows
 *
 * Several rows can have the same id.  Such rows differ only in the signedness
 * of the type, which does not matter to the function.  Only the last of these
 * rows counts; its type is unsigned.
 */
static void read_rows(struct nvidia_kernels *k, const int *ids)
{
	const int rows = read_row_count(k->layout);

	for (unsigned id = 0; id < k->function_count; id++)
		k->functions[id].row = -1;
	for (int row = 0; row < rows; row++) {
		if (ids[row] < 0)
			continue;
		k->functions[ids[row]].row = row;
		k->functions[ids[row]].function = read_row(k->layout, row);
	}
}

struct nvidia_kernels *nvidia_kernels_open(int version, nvidia_lookup *lookup,
                                           void *context)
{
	const struct nccl_version *known = version_find(version);
	struct nvidia_kernels *k;
	const int *ids;
	unsigned count;

	if (!known)
		return NULL;
	ids = lookup(context, FUNCTION_TABLE);
	if (!ids)
		return NULL;
	count = count_functions(ids, read_row_count(&known->layout));
	k = malloc(sizeof(*k) + count * sizeof(k->functions[0]));
	if (!k)
		return NULL;
	k->layout = &known->layout;
	k->function_count = count;
	read_rows(k, ids);
	return k;
}

void nvidia_kernels_close(struct nvidia_kernels *kernels)
{
	free(kernels);
}

const struct function *kernels_function(const struct nvidia_kernels *kernels,
                                        unsigned id)
{
	if (id >= kernels->function_count || kernels->functions[id].row < 0)
		return NULL;
	return &kernels->functions[id].function;
}

const char *kernels_name(const struct function *function, char *out,
                         size_t size)
{
	static const char *const collectives[] = {
		[BROADCAST] = "Broadcast",   [REDUCE] = "Reduce",
		[ALL_GATHER] = "AllGather",  [REDUCE_SCATTER] = "ReduceScatter",
		[ALL_REDUCE] = "AllReduce",  [SEND_RECV] = "SendRecv",
		[BROADCASTS] = "AllGatherV",
	};
	static const char *const algorithms[] = {
		[ALGORITHM_TREE] = "Tree",
		[ALGORITHM_RING] = "Ring",
		[ALGORITHM_COLLNET_DIRECT] = "CollNetDirect",
		[ALGORITHM_COLLNET_CHAIN] = "CollNetChain",
		[ALGORITHM_NVLS] = "NVLS",
		[ALGORITHM_NVLS_TREE] = "NVLSTree",
		[ALGORITHM_PAT] = "PAT",
	};

	snprintf(out, size, "%s by %s", collectives[function->collective],
	         algorithms[function->algorithm]);
	return out;
}
