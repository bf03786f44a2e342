/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements NCCL's memory functions: allocation, registered buffers and
 * windows
 *
 * Registration makes nothing faster here, because the simulator treats all
 * memory alike.  Only the handles are tracked, so that a program that misuses
 * them gets NCCL's errors.  A rank registers a buffer alone; a window is
 * created by all ranks together.
 */

#include "sim/nccl/nccl_register.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/nccl/nccl_group.h"

static const char a_buffer[] = "ncclCommRegister";
static const char a_window[] = "ncclCommWindowRegister";

/* Create a registration of [@memory, @memory + @bytes), extended to whole pages
 * of @page bytes.  @function is the NCCL function that creates it.  Return NULL
 * if out of memory. */
static struct registration *registration_create(const char *function,
                                                const void *memory,
                                                size_t bytes, uintptr_t page)
{
	struct registration *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->function = function;
	r->first = (uintptr_t)memory & -page;
	r->end = ((uintptr_t)memory + bytes + page - 1) & -page;
	r->users = 1;
	return r;
}

/* Drop one use of @handle, which @function created, and free the registration
 * after its last use.  Return false if @handle does not exist. */
static bool registered_remove(struct ncclComm *comm, const void *handle,
                              const char *function)
{
	struct registration *r;
	bool last;

	pthread_mutex_lock(&comm->lock);
	list_find(r, comm->registered, next,
	          r == handle && r->function == function);
	last = r && --r->users == 0;
	if (last)
		list_remove(comm->registered, r, next);
	pthread_mutex_unlock(&comm->lock);
	if (last) {
		sync_memory();
		free(r);
	}
	return r;
}

/* Find a registration that was made by the same function as @like and covers
 * the whole range of @like, and add a use to it.  Return NULL if there is
 * none. */
static struct registration *registered_find(struct ncclComm *comm,
                                            const struct registration *like)
{
	struct registration *r;

	SCOPED_LOCK(&comm->lock);
	list_find(r, comm->registered, next,
	          r->function == like->function && r->first <= like->first &&
	                  like->end <= r->end);
	if (r)
		r->users++;
	return r;
}

void registered_use(struct ncclComm *comm, const void *memory)
{
	const uintptr_t at = (uintptr_t)memory;
	struct registration *r;
	bool is_first = false;

	pthread_mutex_lock(&comm->lock);
	for (r = comm->registered; r; r = r->next) {
		if (at < r->first || at >= r->end)
			continue;
		is_first |= !r->is_used;
		r->is_used = true;
	}
	pthread_mutex_unlock(&comm->lock);
	if (is_first)
		sync_memory();
}

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
	return comm_error(
		ncclUnhandledCudaError,
		"ncclMemFree: the memory was not allocated by ncclMemAlloc()");
}

/* ---- buffers ---------------------------------------------------------- */

ncclResult_t host_ncclCommRegister(const ncclComm_t comm, void *memory,
                                   size_t bytes, void **handle)
{
	struct registration *r, *same;

	if (!comm_is_valid(comm, a_buffer))
		return comm_error(
			ncclInvalidArgument,
			"ncclCommRegister: comm is not a communicator");
	if (!handle)
		return comm_error(ncclInvalidArgument,
		                  "ncclCommRegister: handle is NULL");
	r = registration_create(a_buffer, memory, bytes, PAGE);
	if (!r)
		return comm_error(ncclSystemError, "out of memory");
	same = registered_find(comm, r);
	if (same) {
		free(r);
	} else {
		sync_memory();
		comm_register(comm, r);
	}
	*handle = same ? same : r;
	return ncclSuccess;
}

ncclResult_t host_ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	if (!comm_is_valid(comm, "ncclCommDeregister"))
		return comm_error(
			ncclInvalidArgument,
			"ncclCommDeregister: comm is not a communicator");
	if (!handle || registered_remove(comm, handle, a_buffer))
		return ncclSuccess;
	return comm_error(ncclInvalidUsage,
	                  "ncclCommDeregister: invalid handle");
}

/* ---- windows ---------------------------------------------------------- */

static ncclResult_t check_memory(const void *memory, size_t bytes)
{
	struct memory m;

	if (!memory_find(memory, &m) || !memory_is_known(memory, bytes))
		return group_fail(ncclUnhandledCudaError,
		                  "ncclCommWindowRegister: the range is not in "
		                  "one allocation");
	if (((uintptr_t)memory - (uintptr_t)m.start) %
	    NCCL_WIN_REQUIRED_ALIGNMENT)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommWindowRegister: the offset of buff "
		                  "in its allocation is not a multiple of "
		                  "NCCL_WIN_REQUIRED_ALIGNMENT");
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

/* As in NCCL, ignore unknown flags. */
ncclResult_t host_ncclCommWindowRegister(ncclComm_t comm, void *memory,
                                         size_t bytes, ncclWindow_t *window,
                                         int flags)
{
	(void)flags;
	group_start();
	return group_end_call(make_window(comm, memory, bytes, window));
}

ncclResult_t host_ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	if (!window)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommWindowDeregister"))
		return comm_error(
			ncclInvalidArgument,
			"ncclCommWindowDeregister: comm is not a communicator");
	if (registered_remove(comm, window, a_window))
		return ncclSuccess;
	return comm_error(ncclInternalError,
	                  "ncclCommWindowDeregister: win is not a window of "
	                  "this communicator");
}
