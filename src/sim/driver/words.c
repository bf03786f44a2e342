/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lists of words that a stream writes, and that it waits for
 */

#include "sim/driver/driver.h"

static CUresult do_one(CUstream stream, const CUstreamBatchMemOpParams *p)
{
	/* Waits and writes have one layout. */
	const struct CUstreamMemOpValueParams_st *v = &p->waitValue;

	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return driver_cuStreamWaitValue32_v2(stream, v->address,
		                                     v->value, v->flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return driver_cuStreamWriteValue32_v2(stream, v->address,
		                                      v->value, v->flags);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return driver_cuStreamWaitValue64_v2(stream, v->address,
		                                     v->value64, v->flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return driver_cuStreamWriteValue64_v2(stream, v->address,
		                                      v->value64, v->flags);
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* What comes before a bad operation is queued. */
CUresult driver_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                      CUstreamBatchMemOpParams *list,
                                      unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;
	unsigned int i;

	if (!driver_can_use(stream))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (flags || (count && !list) || count > 256)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = do_one(stream, &list[i]);
	return result;
}
