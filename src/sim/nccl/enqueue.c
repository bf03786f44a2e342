/* SPDX-License-Identifier: Apache-2.0 */

/* Checks a call and adds it to a group (see enqueue.h) */

#include "sim/nccl/enqueue.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/type.h"
#include "sim/cuda/copy.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/cuda/sync.h"
#include "sim/exec/p2p.h"
#include "sim/host.h"
#include "sim/nccl/buffers.h"
#include "sim/nccl/launch_queue.h"
#include "sim/nccl/nccl_group.h"
#include "sim/nccl/nccl_register.h"
#include "sim/strict/fault.h"
#include "sim/strict/strict.h"

/* True if scripted faults ignore the calls of this thread. */
static _Thread_local bool uncounted;

void enqueue_uncounted(bool begins)
{
	uncounted = begins;
}

/*
 * Check the arguments of a call in NCCL's order, even if the count is 0
 *
 * Like NCCL, do not check for NULL buffers, for overlaps or for the calls of
 * other ranks.
 */
static ncclResult_t check(struct ncclComm *comm, const struct call *c)
{
	ncclResult_t result = comm_use(comm, call_function(c->kind));

	if (result != ncclSuccess)
		return result;
	if (c->root < 0 || c->root >= comm->member.world->n)
		return group_fail(
			ncclInvalidArgument,
			"root or peer is not a rank of the communicator");
	if (c->type < 0 || c->type >= ncclNumTypes)
		return group_fail(ncclInvalidArgument, "invalid data type");
	if (c->op < 0 ||
	    (c->op >= ncclNumOps && !redop_find(&comm->redops, c->op)))
		return group_fail(ncclInvalidArgument,
		                  "invalid reduction operation");
	return ncclSuccess;
}

static ncclResult_t stuck(struct ncclComm *comm)
{
	struct backoff b = BACKOFF;

	while (!load_acquire(&comm->member.aborted))
		backoff_wait(&b, UINT64_MAX);
	return group_fail(ncclInternalError,
	                  "the communicator was aborted during the call");
}

/* Exit the calling thread in the middle of a call, and discard its group. */
__attribute__((noreturn)) static void die(void)
{
	group_drop();
	pthread_exit(NULL);
}

/* Apply a scripted fault to a call; the fault can change @c.  Faults that make
 * a rank late or missing are applied in rendezvous.c. */
static ncclResult_t strike(struct ncclComm *comm, struct call *c,
                           const struct cohort_fault *fault, uint64_t script)
{
	store_relaxed(&comm->member.struck, true);
	switch ((enum cohort_fault_kind)fault->kind) {
	case COHORT_FAULT_ERROR:
		return group_fail((ncclResult_t)fault->value, "scripted fault");
	case COHORT_FAULT_MEMORY:
		return group_fail(ncclUnhandledCudaError,
		                  "scripted fault: out of memory");
	case COHORT_FAULT_STUCK:
		return stuck(comm);
	case COHORT_FAULT_HUNG:
		fault_hold(script, UINT64_MAX);
		return group_fail(ncclInternalError, "scripted fault: hung");
	case COHORT_FAULT_DIE:
		die();
	case COHORT_FAULT_ASYNC:
		store_relaxed(&comm->async_error, (int)fault->value);
		break;
	case COHORT_FAULT_DEVICE:
		fault_fail_device(comm->member.device, (int)fault->value);
		break;
	case COHORT_FAULT_ARGUMENT:
		c->count -= c->count != 0;
		break;
	case COHORT_FAULT_NEVER:
	case COHORT_FAULT_DELAY:
	case COHORT_FAULT_INIT:
	case COHORT_FAULT_INIT_ERROR:
	case COHORT_FAULT_PATH:
	case COHORT_FAULT_GARBLE:
		break;
	}
	return ncclSuccess;
}

static ncclResult_t copied(cudaError_t error)
{
	return error == cudaSuccess
	               ? ncclSuccess
	               : group_fail(ncclUnhandledCudaError,
	                            host_cudaGetErrorString(error));
}

static bool has_device(const struct world *w, int device)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (w->members[r] && w->members[r]->device == device)
			return true;
	return false;
}

/* Return the scripted fault of a path between @comm's device and another rank's
 * device.  The fault's kind is 0 if there is none.  Consider only faults that
 * name @comm's device as the second end of the path.  Like NCCL, ignore direct
 * paths if NCCL_P2P_DISABLE is 1. */
static struct cohort_fault path_fault(const struct ncclComm *comm)
{
	const char *off = getenv("NCCL_P2P_DISABLE");
	struct cohort_fault f;
	int after = 0, other;

	do
		f = fault_of_path(comm->member.device, &after, &other);
	while (f.kind && ((int)f.operation != comm->member.device ||
	                  !has_device(comm->member.world, other)));
	if (f.kind && f.rank != (int)f.operation && off &&
	    strcmp(off, "1") == 0)
		f.kind = 0;
	return f;
}

/* Flip the first bit of the data that the call sends.  The flip runs in stream
 * order. */
static ncclResult_t garble(const struct call *c, struct stream *s)
{
	if (!c->send || !c->count)
		return ncclSuccess;
	return copied(copy_garble(s, (void *)(uintptr_t)c->send, NULL));
}

/* Apply the scripted fault of a path, if any, to a call of this rank: either
 * corrupt the data that the call sends, or store in @fault a fault of the call
 * that has the same effect as the broken path. */
static ncclResult_t cross(struct ncclComm *comm, const struct call *c,
                          struct stream *s, struct cohort_fault *fault)
{
	const struct cohort_fault path = path_fault(comm);

	if (!path.kind)
		return ncclSuccess;
	store_relaxed(&comm->member.struck, true);
	if (path.kind == COHORT_FAULT_GARBLE)
		return garble(c, s);
	fault->value = path.value;
	fault->kind = path.value ? COHORT_FAULT_DEVICE : COHORT_FAULT_NEVER;
	if (path.value)
		fault_fail_device(comm->member.device, (int)path.value);
	return ncclSuccess;
}

/* Return true if a call on a one-rank communicator just copies.  NCCL has
 * one-rank kernels only for operations that multiply; an average of integers
 * divides by one, and so copies. */
static bool is_copy(const struct ncclComm *comm, const struct call *c)
{
	return comm->member.world->n == 1 &&
	       (c->op < ncclAvg ||
	        (c->op == ncclAvg && c->type < (int)ncclFloat16));
}

static bool is_misaligned(const struct ncclComm *comm, const struct call *c)
{
	const size_t rest = type_size(c->type) - 1;
	const bool has_recv =
		c->kind != CALL_REDUCE || c->root == comm->member.rank;

	if (!call_reduces(c->kind) || !c->count || is_copy(comm, c))
		return false;
	return ((uintptr_t)c->send & rest) ||
	       (has_recv && ((uintptr_t)c->recv & rest));
}

static bool launch_add(struct launch *l, const struct call *c, struct stream *s)
{
	if (!launch_add_stream(l, s))
		return false;
	if (!call_is_p2p(c))
		return launch_add_call(l, c);
	return p2p_init(l->member) && launch_add_transfer(l, c);
}

static ncclResult_t launch_one(struct ncclComm *comm, const struct call *c,
                               struct stream *s,
                               const struct cohort_fault *fault)
{
	struct launch *l = launch_get(&comm->member);
	struct batch b = { .first = l };

	if (!l)
		return group_fail(ncclSystemError, "out of memory");
	l->next = NULL;
	if (fault->kind)
		l->fault = *fault;
	if (!launch_add(l, c, s)) {
		launch_put(l);
		return group_fail(ncclSystemError, "out of memory");
	}
	return group_record_error(batch_run(&b, ncclSuccess));
}

/* Return true for a scaling operation on 8-bit floats, for which NCCL has no
 * one-rank kernel. */
static bool is_scaled_float8(const struct call *c)
{
	return (c->type == ncclFloat8e4m3 || c->type == ncclFloat8e5m2) &&
	       (c->op == ncclAvg || c->op == CALL_PRE_MUL_SUM);
}

/* Execute the call of a rank that is alone in its communicator.  As in NCCL,
 * the rank copies during the call, not at the end of the group. */
static ncclResult_t alone(struct ncclComm *comm, const struct call *c,
                          struct stream *s, const struct cohort_fault *fault)
{
	if (strict_is_on())
		buffers_check_call(comm, c);
	if (is_scaled_float8(c))
		return group_fail(ncclInvalidArgument,
		                  "an average or premultiplied sum of 8-bit "
		                  "floats needs more than one rank");
	if (c->op == CALL_PRE_MUL_SUM)
		return launch_one(comm, c, s, fault);
	if (c->send != c->recv)
		return copied(copy_submit(s, c->recv, c->send,
		                          c->count * type_size(c->type), NULL));
	return ncclSuccess;
}

static ncclResult_t join(struct ncclComm *comm, const struct call *c,
                         struct stream *s, const struct cohort_fault *fault)
{
	struct launch *l = group_launch(comm);
	const size_t streams = l ? l->stream_count : 0;

	if (!l || !launch_add(l, c, s))
		return group_fail(ncclSystemError, "out of memory");
	if (streams && l->stream_count > streams &&
	    launch_check_captures(l) == ncclInvalidUsage)
		return group_fail(ncclInvalidUsage,
		                  "the streams of this group belong to "
		                  "different captures");
	if (fault->kind)
		l->fault = *fault;
	return ncclSuccess;
}

/* Replace the handle of a user-defined operation with its contents, because the
 * program can destroy the handle after the call. */
static ncclResult_t resolve(const struct ncclComm *comm, struct call *c)
{
	const struct redop *op = redop_find(&comm->redops, c->op);

	if (!op)
		return ncclSuccess;
	if (op->type != c->type)
		return group_fail(ncclInvalidArgument,
		                  "the reduction operation is for another data "
		                  "type");
	c->op = CALL_PRE_MUL_SUM;
	c->scalar = op->scalar;
	return ncclSuccess;
}

/* Check a call, and either add it to the open group or queue it immediately. */
static ncclResult_t add(struct ncclComm *comm, struct call *c,
                        cudaStream_t stream, bool grouped)
{
	static const struct cohort_fault misaligned = {
		.kind = COHORT_FAULT_DEVICE,
		.value = cudaErrorMisalignedAddress,
	};
	ncclResult_t result = check(comm, c);
	struct cohort_fault fault = { .kind = 0 };
	uint64_t script;
	struct stream *s;

	if (result != ncclSuccess)
		return result;
	if (!uncounted)
		fault = fault_take(comm->member.rank, false, comm->operations++,
		                   &script);
	if (fault.kind)
		result = strike(comm, c, &fault, script);
	if (result != ncclSuccess)
		return result;
	if (!c->count && !call_is_p2p(c))
		return ncclSuccess;
	result = resolve(comm, c);
	if (result != ncclSuccess)
		return result;
	s = stream_find_on(comm->member.device, stream);
	if (!s)
		return group_fail(ncclUnhandledCudaError, "invalid stream");
	if (!fault.kind && !uncounted && !capture_has(s) && fault_is_scripted())
		result = cross(comm, c, s, &fault);
	if (result != ncclSuccess)
		return result;
	if (!fault.kind && !capture_has(s) && is_misaligned(comm, c)) {
		fault = misaligned;
		strike(comm, c, &fault, 0);
	}
	if (comm->member.world->n == 1 && !fault.kind && !call_is_p2p(c))
		return alone(comm, c, s, &fault);
	if (strict_is_on() || sync_is_on()) {
		registered_use(comm, c->send);
		registered_use(comm, c->recv);
	}
	return grouped ? join(comm, c, s, &fault)
	               : launch_one(comm, c, s, &fault);
}

/* Return true if the call can be queued without opening a group for it. */
static bool needs_no_group(const struct ncclComm *comm, const struct call *c)
{
	return !group_is_open() && !call_is_p2p(c) && comm_blocks(comm);
}

ncclResult_t enqueue(struct ncclComm *comm, struct call *c, cudaStream_t stream)
{
	ncclResult_t result;

	if (needs_no_group(comm, c)) {
		result = add(comm, c, stream, false);
		if (strict_is_on())
			lifetime_leave();
		return result;
	}
	group_start();
	return comm_answer(comm, group_end_call(add(comm, c, stream, true)));
}
