/* SPDX-License-Identifier: Apache-2.0 */

/* Giving the ranks that have met their world (see nccl_join.h) */

#include "sim/nccl/nccl_join.h"

#include <stdlib.h>

#include "base/clock.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/nccl/meeting.h"
#include "sim/nccl/spans.h"
#include "sim/strict/fault.h"

/* A rank of the group cannot join: no rank may wait for those that have
 * joined. */
static void abort_all(struct join *first)
{
	for (; first; first = first->next)
		if (first->comm && meeting_world(first->comm))
			comm_raise(first->comm);
}

/* The children are made: from now on they are aborted by themselves, as in
 * NCCL. */
static void forget_children(struct join *first)
{
	for (; first; first = first->next)
		if (first->parent)
			store_relaxed(&first->parent->lifetime.child, NULL);
}

/* Store a child, which has an owner from now on. */
static void hand_over(const struct join *j)
{
	comm_get(j->comm);
	/* Release: pairs with the acquire of threads that poll for it. */
	__atomic_store_n(j->out, j->comm, __ATOMIC_RELEASE);
}

/* Store a window, if it was made. */
static void hand_window_over(struct join *j, ncclResult_t result)
{
	if (result != ncclSuccess)
		return;
	comm_register(j->parent, j->window);
	/* Release: pairs with the acquire of threads that poll for it. */
	__atomic_store_n(j->window_out, (ncclWindow_t)j->window,
	                 __ATOMIC_RELEASE);
	j->window = NULL;
}

ncclResult_t join_strike(struct join *j, int rank, uint64_t operation)
{
	const struct cohort_fault f =
		fault_take_init(rank, operation, &j->script);

	if (f.kind == COHORT_FAULT_INIT_ERROR)
		return comm_error((ncclResult_t)f.value, "scripted fault");
	if (f.kind)
		j->until_ns = f.value ? clock_deadline(f.value) : UINT64_MAX;
	return ncclSuccess;
}

/* As in NCCL, whose first call of CUDA fails on a device that has failed. */
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

/* Prepare to meet, which may take a while. */
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
		result = spans_are_on() ? spans_run(first) : meeting_run(first);
	}
	if (result != ncclSuccess)
		abort_all(first);
	else
		forget_children(first);
	for (j = first; j; j = j->next)
		if (j->out)
			hand_over(j);
		else if (j->window)
			hand_window_over(j, result);
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
