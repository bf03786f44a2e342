/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Functions of NCCL that the host platform does not have yet
 */

#include "platform/host/host.h"

ncclResult_t host_ncclMemAlloc(void **memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
	return ncclInternalError;
}

ncclResult_t host_ncclMemFree(void *memory)
{
	(void)memory;
	return ncclInternalError;
}

ncclResult_t host_ncclCommRegister(const ncclComm_t comm, void *memory,
                                   size_t bytes, void **handle)
{
	(void)comm;
	(void)memory;
	(void)bytes;
	(void)handle;
	return ncclInternalError;
}

ncclResult_t host_ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	(void)comm;
	(void)handle;
	return ncclInternalError;
}

ncclResult_t host_ncclCommWindowRegister(ncclComm_t comm, void *memory,
                                         size_t bytes, ncclWindow_t *window,
                                         int flags)
{
	(void)comm;
	(void)memory;
	(void)bytes;
	(void)window;
	(void)flags;
	return ncclInternalError;
}

ncclResult_t host_ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	(void)comm;
	(void)window;
	return ncclInternalError;
}
