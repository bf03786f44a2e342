/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nccl/replay.h"
#include "sim/cuda/stream_handle.h"

#include "sim/cuda/capture.h"
#include "sim/nccl/buffers.h"
#include "sim/nccl/comm.h"
#include "sim/nccl/group.h"
#include "sim/nccl/queue.h"
#include "sim/strict/fault.h"
#include "sim/strict/strict.h"

/* A scripted fault, or the thread of a group in the background, acts on each
 * call: then the calls have to be made. */
static bool can_be_kept(const struct ncclComm *comm)
{
	return !fault_is_scripted() && comm->config.blocking;
}

void replay_keep(ncclComm_t comm, void **kept, bool is_same)
{
	struct launch *l = comm->open;

	if (*kept && is_same) /* in flight */
		return;
	if (*kept)
		launch_unkeep(*kept);
	*kept = NULL;
	if (!l || !can_be_kept(comm) || l->transfer_count ||
	    l->stream_count != 1 || l->fault.kind || capture_has(l->streams[0]))
		return;
	launch_keep(l);
	*kept = l;
}

static bool again(ncclComm_t comm, struct launch *l, cudaStream_t stream)
{
	struct stream *s = stream_find_on(comm->member.device, stream);

	if (!s || s->device != comm->member.device || capture_has(s) ||
	    group_is_open() || !can_be_kept(comm))
		return false;
	if (!launch_is_at_rest(l) ||
	    comm_use(comm, "ncclGroupEnd") != ncclSuccess ||
	    capture_check_together(&s, 1) != cudaSuccess)
		return false;
	if (strict_is_on())
		buffers_check_launch(l);
	launch_renew(l);
	l->streams[0] = s;
	comm->operations += l->call_count;
	atomic_store_explicit(&l->users, 1, memory_order_relaxed);
	launch_queue(l);
	return true;
}

bool replay_run(ncclComm_t comm, void *kept, cudaStream_t stream)
{
	const bool queued = again(comm, kept, stream);

	/* In an open group the thread has not gone inside. */
	if (strict_is_on() && !group_is_open())
		lifetime_leave();
	return queued;
}
