/* SPDX-License-Identifier: Apache-2.0 */

/* Runs joins: waits for the other ranks, and stores the new communicators and
 * windows (see nccl_join.h) */

#include "sim/nccl/nccl_join.h"

#include <stdlib.h>

#include "base/clock.h"
#include "sim/cuda/arena.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/nccl/meeting.h"
#include "sim/nccl/spans.h"
#include "sim/strict/fault.h"

/* Abort the communicators that were created, because another rank of the group
 * cannot join.  No rank may wait for the ranks of a failed group. */
static void abort_all(struct join *first)
{
	for (; first; first = first->next)
		if (first->comm && meeting_world(first->comm))
			comm_raise(first->comm);
}

/* Forget the children, because they are complete.  As in NCCL, an abort of the
 * parent then no longer writes to their flags. */
static void forget_children(struct join *first)
{
	for (; first; first = first->next)
		if (first->parent)
			store_relaxed(&first->parent->lifetime.child, NULL);
}

/* Store the handle of a child.  The program then owns a reference. */
static void store_child(const struct join *j)
{
	comm_get(j->comm);
	/* The release pairs with the acquire of threads that poll the
	 * handle. */
	__atomic_store_n(j->out, j->comm, __ATOMIC_RELEASE);
}

static void store_window(struct join *j, ncclResult_t result)
{
	if (result != ncclSuccess)
		return;
	comm_register(j->parent, j->window);
	/* The release pairs with the acquire of threads that poll the
	 * handle. */
	__atomic_store_n(j->window_out, (ncclWindow_t)j->window,
	                 __ATOMIC_RELEASE);
	j->window = NULL;
}

ncclResult_t join_apply_fault(struct join *j, int rank, uint64_t operation)
{
	const struct cohort_fault f =
		fault_take(rank, true, operation, &j->script);

	if (f.kind == COHORT_FAULT_INIT_ERROR)
		return comm_error((ncclResult_t)f.value, "scripted fault");
	if (f.kind)
		j->until_ns = f.value ? clock_deadline(f.value) : UINT64_MAX;
	return ncclSuccess;
}

/* Fail if a device has failed.  In NCCL, the first CUDA call on the device then
 * returns an error. */
static ncclResult_t check_devices(const struct join *first)
{
	const struct join *j;
	cudaError_t error;

	for (j = first; j; j = j->next) {
		error = j->comm ? fault_sticky(j->comm->member.device)
		                : cudaSuccess;
		if (error != cudaSuccess)
			return comm_error(ncclUnhandledCudaError,
			                  host_cudaGetErrorString(error));
	}
	return ncclSuccess;
}

/* Wait for the scripted delays.  With COHORT_HOST_SYNC, also wait as an
 * allocation on a GPU would. */
static void begin(const struct join *first)
{
	const struct join *j;

	for (j = first; j; j = j->next)
		fault_hold(j->script, j->until_ns);
	for (j = first; j && !j->comm; j = j->next)
		;
	if (j)
		sync_memory();
}

ncclResult_t join_run(struct join *first)
{
	ncclResult_t result = check_devices(first);
	struct join *j;

	if (result == ncclSuccess) {
		begin(first);
		result = arena_is_shared() ? spans_run(first)
		                           : meeting_run(first);
	}
	if (result != ncclSuccess)
		abort_all(first);
	else
		forget_children(first);
	for (j = first; j; j = j->next)
		if (j->out)
			store_child(j);
		else if (j->window)
			store_window(j, result);
	return result;
}

void join_free(struct join *first)
{
	struct join *next;

	for (; first; first = next) {
		next = first->next;
		if (first->comm) {
			meeting_forget(first->comm);
			comm_put(first->comm);
		}
		if (first->parent)
			comm_put(first->parent);
		registered_free(first->window);
		free(first->list);
		free(first);
	}
}
