/* SPDX-License-Identifier: Apache-2.0 */

/* Queues launches and captures them into graphs (see launch_queue.h) */

#include "sim/nccl/launch_queue.h"

#include "sim/cuda/stream_capture.h"
#include "sim/cuda/sync.h"
#include "sim/exec/rank_launch.h"
#include "sim/host.h"
#include "sim/nccl/nccl_comm.h"
#include "sim/strict/fault.h"

/* Return true if it is the launch's turn and the launch ends as soon as its
 * collectives are done. */
static bool can_begin(const struct launch *l)
{
	return atomic_load(&l->member->turn) == l->round &&
	       !l->transfer_count && !l->fault.kind;
}

/* Queue a launch after the rank's earlier launches.  The stream takes ownership
 * of the caller's reference to the launch. */
static void push(struct launch *l, struct stream *s, uint64_t *position_out)
{
	struct work w = { .step = rendezvous_step, .launch = l };
	struct ncclComm *comm = comm_of(l->member);

	l->round = load_relaxed(&comm->member.rounds);
	store_relaxed(&comm->member.rounds, l->round + 1);
	comm->last = s;
	if (!position_out && can_begin(l))
		stream_push_begun(s, &w);
	else
		stream_push(s, &w, position_out);
}

static void queue(struct launch *l, struct stream *s, size_t others)
{
	uint64_t position = 0;
	size_t i;

	/* Relaxed, because the caller holds a reference. */
	if (others)
		add_relaxed(&l->users, 1);
	for (i = 0; i < others; i++)
		stream_push_wait(s, l->streams[i], l->streams[i]->queued);
	push(l, s, others ? &position : NULL);
	for (i = 0; i < others; i++) {
		stream_push_wait(l->streams[i], s, position);
		stream_drive_cheap(l->streams[i]);
	}
	if (others)
		launch_put(l);
}

/* ---- graphs ----------------------------------------------------------- */

/* Acquire a reference to the launch for a graph.  The graph also keeps the
 * communicator from being freed. */
static void retain_launch(struct work *w)
{
	add_relaxed(&w->launch->users, 1);
	add_relaxed(&comm_of(w->launch->member)->captured, 1);
}

static void drop_launch(struct work *w)
{
	struct ncclComm *comm = comm_of(w->launch->member);

	launch_put(w->launch);
	/* The release follows the graph's last use of the communicator, and
	 * pairs with the acquire of a thread that waits for the graphs before
	 * it frees the communicator. */
	atomic_fetch_sub_explicit(&comm->captured, 1, memory_order_release);
}

/* Copy all calls of a launch.  Transfers in the copy have no partners yet. */
static bool copy_calls(struct launch *to, const struct launch *from)
{
	struct call c;
	bool ok = true;
	size_t i;

	for (i = 0; ok && i < from->call_count; i++)
		ok = launch_add_call(to, &from->calls[i]);
	for (i = 0; ok && i < from->transfer_count; i++) {
		c = transfer_call(&from->transfers[i]);
		ok = launch_add_transfer(to, &c);
	}
	return ok;
}

static bool replay_launch(const struct work *w, struct stream *s)
{
	struct launch *l = launch_get(w->launch->member);

	if (!l)
		return false;
	if (!launch_add_stream(l, s) || !copy_calls(l, w->launch)) {
		launch_put(l);
		return false;
	}
	l->fault = w->launch->fault;
	push(l, s, NULL);
	return true;
}

static const struct graph_kind launch_kind = {
	.type = cudaGraphNodeTypeKernel,
	.keep = retain_launch,
	.drop = drop_launch,
	.replay = replay_launch,
};

/* Capture a launch into a graph.  If this fails, the capture becomes invalid,
 * and cudaStreamEndCapture() reports the failure. */
static void capture(struct launch *l, struct stream *s, size_t others)
{
	struct work w = { .step = rendezvous_step, .launch = l };
	size_t i;

	for (i = 0; i < others; i++)
		capture_join(s, l->streams[i]);
	retain_launch(&w);
	if (stream_submit(s, &w, &launch_kind, NULL) != cudaSuccess)
		drop_launch(&w);
	for (i = 0; i < others; i++)
		capture_join(l->streams[i], s);
	launch_put(l);
}

/* ---- checking and queueing -------------------------------------------- */

ncclResult_t launch_check_captures(const struct launch *l)
{
	switch (capture_check_together(l->streams, l->stream_count)) {
	case cudaSuccess:
		return ncclSuccess;
	case cudaErrorStreamCaptureIsolation:
		return ncclInvalidUsage;
	default:
		return ncclUnhandledCudaError;
	}
}

ncclResult_t launch_check(const struct launch *l)
{
	size_t i;

	if (l->to_self)
		return comm_error(
			ncclInvalidUsage,
			l->to_self > 0 ? "a rank sends to itself without a "
					 "receive from itself in the same group"
				       : "a rank receives from itself without "
					 "a send to itself in the same group");
	/* Refuse launches on a failed device, except the one whose scripted
	 * fault made the device fail. */
	if (l->fault.kind != COHORT_FAULT_DEVICE &&
	    fault_sticky(l->member->device) != cudaSuccess)
		return comm_error(ncclUnhandledCudaError,
		                  host_cudaGetErrorString(
					  fault_sticky(l->member->device)));
	for (i = 0; i < l->stream_count; i++)
		if (l->streams[i]->device != l->member->device)
			return comm_error(
				ncclUnhandledCudaError,
				"the stream belongs to another device");
	return launch_check_captures(l);
}

void launch_queue(struct launch *l)
{
	const size_t others = l->stream_count - 1;
	struct stream *s = l->streams[others];

	if (capture_has(s)) {
		capture(l, s, others);
		return;
	}
	sync_launch(l->member->device);
	queue(l, s, others);
}

/* ---- kernels ----------------------------------------------------------- */

/* Number of the kernel that only communicators of one rank use. */
#define KERNEL_ALONE 31

/* Return the number of a call's kernel.  Sends, receives, and the collectives
 * that NCCL builds from sends and receives share one kernel. */
static unsigned kernel_of(enum call_kind kind)
{
	switch (kind) {
	case CALL_RECV:
	case CALL_ALL_TO_ALL:
	case CALL_GATHER:
	case CALL_SCATTER:
		return CALL_SEND;
	default:
		return kind;
	}
}

static uint32_t kernels_of(const struct launch *l)
{
	uint32_t kernels = 0;
	size_t i;

	if (l->member->world->n == 1)
		return UINT32_C(1) << KERNEL_ALONE;
	for (i = 0; i < l->call_count; i++)
		kernels |= UINT32_C(1) << kernel_of(l->calls[i].kind);
	if (l->transfer_count)
		kernels |= UINT32_C(1) << kernel_of(CALL_SEND);
	return kernels;
}

/*
 * Load a launch's kernels on the devices of all ranks
 *
 * Loading never waits for another rank's kernel of the same communicator: the
 * first rank loads all kernels before it launches, and the other ranks find
 * them loaded.  If a smaller communicator has already used some of the devices,
 * only the other devices lack a kernel.
 */
void kernels_load(const struct launch *l)
{
	const struct world *w = l->member->world;
	int devices[HOST_MAX_RANKS], r, n = 0;

	for (r = 0; r < w->n; r++)
		if (w->members[r])
			devices[n++] = w->members[r]->device;
	sync_load(l->member->device, devices, n, kernels_of(l));
}
