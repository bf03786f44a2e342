/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NCCL's memory: allocation, registered buffers and windows
 *
 * A buffer is one rank's affair; a window is made by all ranks together.
 */

#include <stdlib.h>

#include "sim/cuda/memory.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/nccl/group.h"
#include "sim/nccl/register.h"

#define PAGE ((uintptr_t)4096)

/* ---- allocation ------------------------------------------------------- */

ncclResult_t host_ncclMemAlloc(void **memory, size_t bytes)
{
	if (host_cudaMalloc(memory, bytes) == cudaSuccess)
		return ncclSuccess;
	return comm_error(ncclUnhandledCudaError,
	                  memory ? "ncclMemAlloc: out of memory"
	                         : "ncclMemAlloc: memory is NULL");
}

ncclResult_t host_ncclMemFree(void *memory)
{
	if (host_cudaFree(memory) == cudaSuccess)
		return ncclSuccess;
	return comm_error(ncclUnhandledCudaError,
	                  "ncclMemFree: not memory of ncclMemAlloc()");
}

/* ---- buffers ---------------------------------------------------------- */

static const char a_window[] = "ncclCommWindowRegister";

ncclResult_t host_ncclCommRegister(const ncclComm_t comm, void *memory,
                                   size_t bytes, void **handle)
{
	struct registration *r, *same;

	if (!comm_is_valid(comm, registered_buffer))
		return comm_error(ncclInvalidArgument,
		                  "ncclCommRegister: not a communicator");
	if (!handle)
		return comm_error(ncclInvalidArgument,
		                  "ncclCommRegister: handle is NULL");
	r = registration_create(registered_buffer, memory, bytes, PAGE);
	if (!r)
		return comm_error(ncclSystemError, "out of memory");
	same = registered_find(comm, r);
	if (same) {
		free(r);
	} else {
		sync_memory();
		registered_add(comm, r);
	}
	*handle = same ? same : r;
	return ncclSuccess;
}

ncclResult_t host_ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	if (!comm_is_valid(comm, "ncclCommDeregister"))
		return comm_error(ncclInvalidArgument,
		                  "ncclCommDeregister: not a communicator");
	if (!handle || registered_remove(comm, handle, registered_buffer))
		return ncclSuccess;
	return comm_error(ncclInvalidUsage,
	                  "ncclCommDeregister: no such handle");
}

/* ---- windows ---------------------------------------------------------- */

static ncclResult_t check_memory(const void *memory, size_t bytes)
{
	struct memory m;

	if (!memory_find(memory, &m) || !memory_is_known(memory, bytes))
		return group_fail(ncclUnhandledCudaError,
		                  "ncclCommWindowRegister: not memory of one "
		                  "allocation");
	if (((uintptr_t)memory - (uintptr_t)m.start) %
	    NCCL_WIN_REQUIRED_ALIGNMENT)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommWindowRegister: not aligned to "
		                  "NCCL_WIN_REQUIRED_ALIGNMENT within its "
		                  "allocation");
	return ncclSuccess;
}

static ncclResult_t add_window(struct ncclComm *comm, void *memory,
                               size_t bytes, ncclWindow_t *window)
{
	struct join *j = calloc(1, sizeof(*j));

	if (!j)
		return group_fail(ncclSystemError, "out of memory");
	j->kind = JOIN_WINDOW;
	j->number = comm->member.number;
	j->n = comm->n;
	j->rank = comm->member.rank;
	j->parent = comm;
	comm_get(comm);
	j->window = registration_create(a_window, memory, bytes, 1);
	j->window_out = window;
	if (j->window)
		return group_join(j);
	join_free(j);
	return group_fail(ncclSystemError, "out of memory");
}

static ncclResult_t make_window(struct ncclComm *comm, void *memory,
                                size_t bytes, ncclWindow_t *window)
{
	ncclResult_t result = comm_use(comm, a_window);

	if (result != ncclSuccess)
		return result;
	if (!window)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommWindowRegister: window is NULL");
	*window = NULL;
	result = check_memory(memory, bytes);
	if (result == ncclSuccess)
		sync_memory();
	return result == ncclSuccess ? add_window(comm, memory, bytes, window)
	                             : result;
}

/* NCCL looks at no flag it does not know. */
ncclResult_t host_ncclCommWindowRegister(ncclComm_t comm, void *memory,
                                         size_t bytes, ncclWindow_t *window,
                                         int flags)
{
	ncclResult_t result, ended;

	(void)flags;
	group_start();
	result = make_window(comm, memory, bytes, window);
	ended = group_end();
	return result != ncclSuccess ? result : ended;
}

ncclResult_t host_ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	if (!window)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommWindowDeregister"))
		return comm_error(
			ncclInvalidArgument,
			"ncclCommWindowDeregister: not a communicator");
	if (registered_remove(comm, window, a_window))
		return ncclSuccess;
	return comm_error(ncclInternalError,
	                  "ncclCommWindowDeregister: no window of this "
	                  "communicator");
}
