/* SPDX-License-Identifier: Apache-2.0 */

/* Queueing and capturing launches (see launch_queue.h) */

#include "sim/nccl/launch_queue.h"

#include "sim/cuda/stream_capture.h"
#include "sim/cuda/sync.h"
#include "sim/exec/rendezvous.h"
#include "sim/host.h"
#include "sim/nccl/nccl_comm.h"
#include "sim/strict/fault.h"

/* True if a launch would not have to wait for its turn, and ends with its
 * round. */
static bool can_begin(const struct launch *l)
{
	return atomic_load(&l->member->turn) == l->round &&
	       !l->transfer_count && !l->fault.kind;
}

/* Queue a launch after the earlier launches of its rank.  The caller's use of
 * it becomes the stream's. */
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

	/* Relaxed: the caller is a user. */
	if (others)
		add_relaxed(&l->users, 1);
	for (i = 0; i < others; i++)
		stream_push_wait(s, l->streams[i], l->streams[i]->queued);
	push(l, s, others ? &position : NULL);
	for (i = 0; i < others; i++) {
		stream_push_wait(l->streams[i], s, position);
		stream_go(l->streams[i]);
	}
	if (others)
		launch_put(l);
}

/* ---- in graphs -------------------------------------------------------- */

/* A graph, too, uses the communicator, which cannot be freed before it. */
static void keep_launch(struct work *w)
{
	add_relaxed(&w->launch->users, 1);
	add_relaxed(&comm_of(w->launch->member)->captured, 1);
}

static void drop_launch(struct work *w)
{
	struct ncclComm *comm = comm_of(w->launch->member);

	launch_put(w->launch);
	/* Release: the graph's last use.  Pairs with the acquire of a thread
	 * that waits for the graphs before it frees the communicator. */
	atomic_fetch_sub_explicit(&comm->captured, 1, memory_order_release);
}

/* Copy all calls; the matching of transfers begins anew. */
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
	.keep = keep_launch,
	.drop = drop_launch,
	.replay = replay_launch,
};

/* If this fails the capture is invalid, which its end will say. */
static void capture(struct launch *l, struct stream *s, size_t others)
{
	struct work w = { .step = rendezvous_step, .launch = l };
	size_t i;

	for (i = 0; i < others; i++)
		capture_join(s, l->streams[i]);
	keep_launch(&w);
	if (stream_submit(s, &w, &launch_kind, NULL) != cudaSuccess)
		drop_launch(&w);
	for (i = 0; i < others; i++)
		capture_join(l->streams[i], s);
	launch_put(l);
}

/* ---- either ----------------------------------------------------------- */

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
		return comm_error(ncclInvalidUsage,
		                  l->to_self > 0
		                          ? "send to self without a receive "
		                            "from self in the same group"
		                          : "receive from self without a "
		                            "send to self in the same group");
	/* The launch that makes the device fail is queued. */
	if (l->fault.kind != COHORT_FAULT_DEVICE &&
	    fault_sticky(l->member->device) != cudaSuccess)
		return comm_error(ncclUnhandledCudaError,
		                  host_cudaGetErrorString(
					  fault_sticky(l->member->device)));
	for (i = 0; i < l->stream_count; i++)
		if (l->streams[i]->device != l->member->device)
			return comm_error(ncclUnhandledCudaError,
			                  "the stream is of another device");
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

/* The only rank of a world uses a kernel that others do not. */
#define KERNEL_ALONE 31

/* Sends, receives and the collectives that NCCL builds from them share one
 * kernel. */
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

/* Loading never waits for another rank's kernel of the same communicator: the
 * first rank is launched only after all kernels are loaded, and the others find
 * them loaded.  They are loaded on the devices of all ranks, as a smaller
 * communicator may have used only some of them. */
void kernels_load(const struct launch *l)
{
	const struct world *w = l->member->world;
	int devices[HOST_MAX_RANKS], r, n = 0;

	for (r = 0; r < w->n; r++)
		if (w->members[r])
			devices[n++] = w->members[r]->device;
	sync_load(l->member->device, devices, n, kernels_of(l));
}
