/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects the calls of a group, and executes them at its end
 *
 * All state is thread-local.
 */

#include "sim/nccl/nccl_group.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/type.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/nccl/background.h"
#include "sim/nccl/buffers.h"
#include "sim/nccl/launch_queue.h"
#include "sim/nccl/lazy.h"
#include "sim/nccl/nccl_comm.h"
#include "sim/strict/strict.h"

/* ---- ncclGroupSimulateEnd() ------------------------------------------- */

#define LAUNCH_US 5.0F
#define BYTES_PER_US 10000.0F

/* Return true if the size field of @info says that it has at least @end
 * bytes. */
static bool reaches(const ncclSimInfo_t *info, size_t end)
{
	return info->size >= end;
}

/* Return ncclInvalidArgument unless @info contains NCCL's magic number.  As in
 * NCCL, @info is read only as far as its size field allows. */
static ncclResult_t simulate_check(const ncclSimInfo_t *info)
{
	if (reaches(info, offsetof(ncclSimInfo_t, version)) &&
	    info->magic == NCCL_SIM_INFO_MAGIC)
		return ncclSuccess;
	return comm_error(ncclInvalidArgument,
	                  "ncclGroupSimulateEnd: the info is not initialized "
	                  "with NCCL_SIM_INFO_INITIALIZER");
}

/* Return the number of bytes that one rank sends and receives with the simplest
 * algorithm, which exchanges blocks with every other rank. */
static float sent_bytes(const struct call *c, int n)
{
	const float others = (float)(n - 1);
	const float block = (float)c->count * (float)type_size(c->type);

	switch (c->kind) {
	case CALL_ALL_REDUCE:
		return 2 * block * others / (float)n;
	case CALL_BROADCAST:
	case CALL_REDUCE:
	case CALL_SEND:
	case CALL_RECV:
		return block;
	default:
		return block * others;
	}
}

static float launch_us(const struct launch *l)
{
	const struct transfer *t;
	float bytes = 0;
	size_t i;

	for (i = 0; i < l->call_count; i++)
		bytes += sent_bytes(&l->calls[i], l->member->world->n);
	for (i = 0; i < l->transfer_count; i++) {
		t = &l->transfers[i];
		bytes += (float)t->count * (float)type_size(t->type);
	}
	return LAUNCH_US + bytes / BYTES_PER_US;
}

/*
 * Store an estimate of how long a list of launches takes, in microseconds
 *
 * A launch takes a fixed time, plus the time to transfer its rank's bytes at a
 * fixed rate.  The longest launch counts, because all ranks run concurrently.
 * The estimate is only good for comparisons and models no real machine.  If
 * there are no launches, store nothing.
 */
static void simulate_launches(const struct launch *first, ncclSimInfo_t *info)
{
	const struct launch *l;
	float us, most = 0;

	if (!first || !reaches(info, sizeof(*info)))
		return;
	for (l = first; l; l = l->next) {
		us = launch_us(l);
		if (us > most)
			most = us;
	}
	info->estimatedTime = most;
}

/* ---- executing a batch ------------------------------------------------ */

/* Run the joins before everything else, as NCCL does, because the group fails
 * if a rank cannot join. */
static ncclResult_t end_joins(struct join *joins, ncclResult_t error)
{
	if (error == ncclSuccess && joins)
		error = join_run(joins);
	join_free(joins);
	return error;
}

static void end_launches(struct launch *l, bool queue)
{
	const struct launch *c;
	struct launch *next;

	for (c = l; c && queue && strict_is_on(); c = c->next)
		buffers_check_launch(c);
	for (; l; l = next) {
		next = l->next;
		if (queue)
			launch_queue(l);
		else
			launch_put(l);
	}
}

static ncclResult_t end_jobs(const struct batch *b, bool run)
{
	ncclResult_t first = ncclSuccess, r;
	size_t i;

	for (i = 0; run && i < b->job_count; i++) {
		r = b->jobs[i].fn(b->jobs[i].comm);
		if (first == ncclSuccess)
			first = r;
	}
	free(b->jobs);
	return first;
}

static ncclResult_t check_launches(const struct launch *l)
{
	ncclResult_t result = ncclSuccess;

	for (; l && result == ncclSuccess; l = l->next)
		result = launch_check(l);
	return result;
}

static void load_kernels(const struct launch *l)
{
	for (; l; l = l->next)
		if (!capture_has(l->streams[0]))
			kernels_load(l);
}

/* Run a batch as batch_run() does.  If @info is not NULL, queue nothing;
 * instead, store an estimate of the time that the launches would take. */
static ncclResult_t batch_finish(struct batch *batch, ncclResult_t error,
                                 ncclSimInfo_t *info)
{
	const struct batch b = *batch;
	ncclResult_t result;

	*batch = (struct batch){ .first = NULL };
	error = end_joins(b.joins, error);
	if (error == ncclSuccess)
		error = check_launches(b.first);
	if (error == ncclSuccess)
		error = lazy_connect(b.first, info);
	if (error == ncclSuccess && info)
		simulate_launches(b.first, info);
	else if (error == ncclSuccess && sync_is_on())
		load_kernels(b.first);
	end_launches(b.first, error == ncclSuccess && !info);
	result = end_jobs(&b, error == ncclSuccess);
	return error != ncclSuccess ? error : result;
}

ncclResult_t batch_run(struct batch *batch, ncclResult_t error)
{
	return batch_finish(batch, error, NULL);
}

/* The thread that executes the end of a group: undecided, the calling thread,
 * or a background thread. */
enum mode {
	MODE_ANY,
	MODE_BLOCKING,
	MODE_BACKGROUND,
};

/* The open group of this thread. */
static _Thread_local struct {
	int depth;
	ncclResult_t error;
	enum mode mode;
	struct batch batch;
} group;

void group_start(void)
{
	if (group.depth++ == 0) {
		group.error = ncclSuccess;
		group.mode = MODE_ANY;
	}
}

bool group_is_open(void)
{
	return group.depth;
}

ncclResult_t group_record_error(ncclResult_t result)
{
	if (group.depth && result != ncclSuccess)
		group.error = result;
	return result;
}

ncclResult_t group_fail(ncclResult_t result, const char *text)
{
	return group_record_error(comm_error(result, text));
}

/* Insert a launch into the group's list, sorted by world.  Every thread queues
 * its launches in this order, so that threads cannot wait for each other in a
 * cycle. */
static void insert(struct launch *l)
{
	struct batch *b = &group.batch;
	struct launch **at = &b->first;

	if (b->last && b->last->member->world->order <= l->member->world->order)
		at = &b->last->next;
	while (*at && (*at)->member->world->order <= l->member->world->order)
		at = &(*at)->next;
	l->next = *at;
	*at = l;
	if (!l->next)
		b->last = l;
}

static enum mode mode_of(const struct ncclComm *comm)
{
	return comm->config.blocking ? MODE_BLOCKING : MODE_BACKGROUND;
}

void group_block(void)
{
	group.mode = MODE_BLOCKING;
}

/* Choose the thread that executes the group's end when a join or job of @comm
 * enters the group.  Fail if the group mixes blocking and nonblocking
 * communicators. */
static ncclResult_t take_mode(const struct ncclComm *comm)
{
	if (load_relaxed(&comm->ending))
		group_block();
	else if (group.mode == MODE_ANY)
		group.mode = mode_of(comm);
	else if (group.mode != mode_of(comm))
		return group_fail(ncclInvalidArgument,
		                  "a group cannot contain both blocking and "
		                  "non-blocking communicators");
	return ncclSuccess;
}

struct launch *group_launch(struct ncclComm *comm)
{
	struct launch *l = comm->open;

	if (l)
		return l;
	l = launch_get(&comm->member);
	if (!l)
		return NULL;
	comm->open = l;
	insert(l);
	/* Unlike joins and jobs, launches of blocking and nonblocking
	 * communicators can be mixed.  The last communicator decides. */
	group.mode = mode_of(comm);
	return l;
}

static ncclResult_t add_job(struct batch *b, group_job_fn fn,
                            struct ncclComm *comm)
{
	if (!array_grow(&b->jobs, NULL, b->job_count, &b->job_room,
	                sizeof(*b->jobs)))
		return group_fail(ncclSystemError, "out of memory");
	b->jobs[b->job_count++] = (struct job){ fn, comm };
	return ncclSuccess;
}

ncclResult_t group_job(group_job_fn fn, struct ncclComm *comm)
{
	ncclResult_t result = take_mode(comm);

	return result == ncclSuccess ? add_job(&group.batch, fn, comm) : result;
}

ncclResult_t group_join(struct join *join)
{
	ncclResult_t result =
		take_mode(join->parent ? join->parent : join->comm);
	struct join **at = &group.batch.joins;

	if (result != ncclSuccess) {
		join_free(join);
		return result;
	}
	while (*at)
		at = &(*at)->next;
	*at = join;
	return ncclSuccess;
}

/* ---- ending a group --------------------------------------------------- */

static bool is_empty(const struct batch *b)
{
	return !b->first && !b->joins && !b->job_count;
}

static void close_launches(void)
{
	struct launch *l;

	for (l = group.batch.first; l; l = l->next)
		comm_of(l->member)->open = NULL;
}

static ncclResult_t end_batch(ncclSimInfo_t *info)
{
	ncclResult_t error = group.error;

	close_launches();
	if (error == ncclSuccess && info)
		error = simulate_check(info);
	if (error != ncclSuccess)
		background_fail(&group.batch, error);
	else if (group.mode == MODE_BACKGROUND && !info &&
	         !is_empty(&group.batch))
		return background_run(&group.batch);
	return batch_finish(&group.batch, error, info);
}

static ncclResult_t end(ncclSimInfo_t *info)
{
	ncclResult_t result;

	if (!group.depth)
		return comm_error(ncclInvalidUsage,
		                  "ncclGroupEnd: no group is open: call "
		                  "ncclGroupStart() first");
	if (--group.depth)
		return ncclSuccess;
	result = end_batch(info);
	if (strict_is_on())
		lifetime_leave();
	return result;
}

ncclResult_t group_end(void)
{
	return end(NULL);
}

ncclResult_t group_end_call(ncclResult_t result)
{
	const ncclResult_t ended = group_end();

	return result != ncclSuccess ? result : ended;
}

void group_drop(void)
{
	group.depth = 0;
	close_launches();
	batch_run(&group.batch, ncclInternalError);
}

ncclResult_t host_ncclGroupStart(void)
{
	group_start();
	if (strict_is_on())
		lifetime_open_group(&group.depth);
	return ncclSuccess;
}

ncclResult_t host_ncclGroupEnd(void)
{
	return group_end();
}

ncclResult_t host_ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	return end(info);
}
