/* SPDX-License-Identifier: Apache-2.0 */

#include "empty.h"

static struct platform table;

static ncclResult_t empty_all_reduce(const void *send, void *recv, size_t count,
                                     ncclDataType_t type, ncclRedOp_t op,
                                     ncclComm_t comm, cudaStream_t stream)
{
	(void)send;
	(void)recv;
	(void)count;
	(void)type;
	(void)op;
	(void)comm;
	(void)stream;
	return ncclSuccess;
}

static cudaError_t empty_mark(cudaStream_t stream, uint32_t *word,
                              uint32_t value)
{
	(void)stream;
	/* A mark is a store with release. */
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return cudaSuccess;
}

const struct platform *empty_wrap(const struct platform *behind)
{
	table = *behind;
	table.name = "empty";
	table.ncclAllReduce = empty_all_reduce;
	table.mark = empty_mark;
	return &table;
}
