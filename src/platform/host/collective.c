/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The collectives of the host platform: arguments are checked in NCCL's order,
 * then the call joins the open group
 *
 * What NCCL does not check (NULL buffers, overlaps, what the other ranks call)
 * is not checked here either.
 */

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "platform/host/copy.h"
#include "platform/host/device.h"
#include "platform/host/fault.h"
#include "platform/host/group.h"
#include "platform/host/host.h"

static const char *const functions[] = {
	[CALL_ALL_REDUCE] = "ncclAllReduce",
	[CALL_BROADCAST] = "ncclBroadcast",
	[CALL_REDUCE] = "ncclReduce",
	[CALL_ALL_GATHER] = "ncclAllGather",
	[CALL_REDUCE_SCATTER] = "ncclReduceScatter",
};

static ncclResult_t check(struct ncclComm *comm, const struct call *c)
{
	ncclResult_t result = comm_use(comm, functions[c->kind]);

	if (result != ncclSuccess)
		return result;
	if (c->root < 0 || c->root >= comm->world->n)
		return group_fail(ncclInvalidArgument, "no such root");
	if (c->type < 0 || c->type >= ncclNumTypes)
		return group_fail(ncclInvalidArgument, "no such data type");
	if (c->op < 0 || c->op >= ncclNumOps)
		return group_fail(ncclInvalidArgument,
		                  "no such reduction operation");
	return ncclSuccess;
}

/* A call that does not return until its communicator is aborted. */
static ncclResult_t stuck(struct ncclComm *comm)
{
	struct backoff b = BACKOFF;

	while (!atomic_load_explicit(&comm->aborted, memory_order_acquire))
		backoff_wait(&b, UINT64_MAX);
	return group_fail(ncclInternalError, "aborted while in the call");
}

/* The thread ends inside the call, and what it had begun with it. */
__attribute__((noreturn)) static void die(void)
{
	group_drop();
	pthread_exit(NULL);
}

/* What a scripted fault does at the call, to which it may change @c.  The
 * others make the rank come late or never: meet.c. */
static ncclResult_t strike(struct ncclComm *comm, struct call *c,
                           const struct cohort_fault *fault, uint64_t script)
{
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
		atomic_store_explicit(&comm->async_error, (int)fault->value,
		                      memory_order_relaxed);
		break;
	case COHORT_FAULT_ARGUMENT:
		c->count -= c->count != 0;
		break;
	case COHORT_FAULT_NEVER:
	case COHORT_FAULT_DELAY:
	case COHORT_FAULT_INIT:
		break;
	}
	return ncclSuccess;
}

/* Make room for one more of @size in an array that begins as @own. */
static bool grow(void **array, const void *own, size_t count, size_t *room,
                 size_t size)
{
	size_t more = 2 * *room;
	void *bigger;

	if (count < *room)
		return true;
	bigger = realloc(*array == own ? NULL : *array, more * size);
	if (!bigger)
		return false;
	if (*array == own)
		memcpy(bigger, own, count * size);
	*array = bigger;
	*room = more;
	return true;
}

static bool add_call(struct launch *l, const struct call *c)
{
	void *calls = l->calls;
	bool ok = grow(&calls, l->own_calls, l->call_count, &l->call_room,
	               sizeof(*c));

	l->calls = calls;
	if (ok)
		l->calls[l->call_count++] = *c;
	return ok;
}

static bool add_stream(struct launch *l, struct stream *s)
{
	void *streams = l->streams;
	size_t i;
	bool ok;

	for (i = 0; i < l->stream_count; i++)
		if (l->streams[i] == s)
			return true;
	ok = grow(&streams, l->own_streams, l->stream_count, &l->stream_room,
	          sizeof(s));
	l->streams = streams;
	if (ok)
		l->streams[l->stream_count++] = s;
	return ok;
}

/* A rank on its own copies at the call, not at the group's end. */
static ncclResult_t alone(struct stream *s, const struct call *c)
{
	if (c->send != c->recv)
		copy_push(s, c->recv, c->send,
		          c->count * cohort_type_size(c->type), NULL);
	return ncclSuccess;
}

static struct stream *stream_of(const struct ncclComm *comm,
                                cudaStream_t stream)
{
	if (!stream || stream == cudaStreamLegacy)
		return stream_legacy(comm->device);
	return stream_find(stream);
}

static ncclResult_t join(struct ncclComm *comm, const struct call *c,
                         struct stream *s, const struct cohort_fault *fault)
{
	struct launch *l = group_launch(comm);

	if (!l || !add_stream(l, s) || !add_call(l, c))
		return group_fail(ncclSystemError, "out of memory");
	if (fault->kind)
		l->fault = *fault;
	return ncclSuccess;
}

/* What every collective comes to; inside a group. */
static ncclResult_t enqueue(struct ncclComm *comm, struct call *c,
                            cudaStream_t stream)
{
	ncclResult_t result = check(comm, c);
	struct cohort_fault fault;
	uint64_t script;
	struct stream *s;

	if (result != ncclSuccess)
		return result;
	fault = fault_take(comm->rank, comm->operations++, &script);
	if (fault.kind)
		result = strike(comm, c, &fault, script);
	if (result != ncclSuccess)
		return result;
	if (!c->count)
		return ncclSuccess;
	s = stream_of(comm, stream);
	if (!s)
		return group_fail(ncclUnhandledCudaError, "no such stream");
	if (comm->world->n == 1 && !fault.kind)
		return alone(s, c);
	return join(comm, c, s, &fault);
}

static ncclResult_t collective(struct ncclComm *comm, struct call *c,
                               cudaStream_t stream)
{
	ncclResult_t result, ended;

	group_start();
	result = enqueue(comm, c, stream);
	ended = group_end();
	return result != ncclSuccess ? result : ended;
}

ncclResult_t host_ncclAllReduce(const void *send, void *recv, size_t count,
                                ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm,
	                  &(struct call){
				  .kind = CALL_ALL_REDUCE,
				  .send = send,
				  .recv = recv,
				  .count = count,
				  .type = (int)type,
				  .op = (int)op,
			  },
	                  stream);
}

ncclResult_t host_ncclBroadcast(const void *send, void *recv, size_t count,
                                ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream)
{
	return collective(comm,
	                  &(struct call){
				  .kind = CALL_BROADCAST,
				  .send = send,
				  .recv = recv,
				  .count = count,
				  .type = (int)type,
				  .root = root,
			  },
	                  stream);
}

ncclResult_t host_ncclReduce(const void *send, void *recv, size_t count,
                             ncclDataType_t type, ncclRedOp_t op, int root,
                             ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm,
	                  &(struct call){
				  .kind = CALL_REDUCE,
				  .send = send,
				  .recv = recv,
				  .count = count,
				  .type = (int)type,
				  .op = (int)op,
				  .root = root,
			  },
	                  stream);
}

ncclResult_t host_ncclAllGather(const void *send, void *recv, size_t count,
                                ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream)
{
	return collective(comm,
	                  &(struct call){
				  .kind = CALL_ALL_GATHER,
				  .send = send,
				  .recv = recv,
				  .count = count,
				  .type = (int)type,
			  },
	                  stream);
}

ncclResult_t host_ncclReduceScatter(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm,
	                  &(struct call){
				  .kind = CALL_REDUCE_SCATTER,
				  .send = send,
				  .recv = recv,
				  .count = count,
				  .type = (int)type,
				  .op = (int)op,
			  },
	                  stream);
}
