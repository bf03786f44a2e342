/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Groups; all state is the thread's own
 */

#include "sim/nccl/group.h"

#include <stdlib.h>

#include "sim/host.h"
#include "sim/nccl/background.h"
#include "sim/nccl/simulate.h"
#include "sim/strict/strict.h"

/* How the end of a group is done: by the thread, or by one in the
 * background. */
enum mode {
	MODE_ANY,
	MODE_BLOCKING,
	MODE_BACKGROUND,
};

/* Owned by the thread. */
static _Thread_local struct {
	int depth;
	ncclResult_t error; /* of the last call that failed */
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

ncclResult_t group_note(ncclResult_t result)
{
	if (group.depth && result != ncclSuccess)
		group.error = result;
	return result;
}

ncclResult_t group_fail(ncclResult_t result, const char *text)
{
	return group_note(comm_error(result, text));
}

/* Put a launch in its place: by world, in the order of the first calls on each
 * world.  So all threads queue on several worlds in one order, and do not wait
 * for each other in a circle. */
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

/* @comm takes part in the group with a join or a job. */
static ncclResult_t take_mode(const struct ncclComm *comm)
{
	if (atomic_load_explicit(&comm->ending, memory_order_relaxed))
		group_block();
	else if (group.mode == MODE_ANY)
		group.mode = mode_of(comm);
	else if (group.mode != mode_of(comm))
		return group_fail(ncclInvalidArgument,
		                  "blocking and non-blocking communicators in "
		                  "one group");
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
	/* Unlike with joins and jobs, of several communicators the last
	 * decides. */
	group.mode = mode_of(comm);
	return l;
}

static ncclResult_t add_job(struct batch *b, group_job_fn fn,
                            struct ncclComm *comm)
{
	size_t more = b->job_room ? 2 * b->job_room : 8;
	struct job *bigger;

	if (b->job_count == b->job_room) {
		bigger = realloc(b->jobs, more * sizeof(*bigger));
		if (!bigger)
			return group_fail(ncclSystemError, "out of memory");
		b->jobs = bigger;
		b->job_room = more;
	}
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

/* ---- the end ---------------------------------------------------------- */

static bool is_empty(const struct batch *b)
{
	return !b->first && !b->joins && !b->job_count;
}

/* The launches belong to no open group any more. */
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
		                  "ncclGroupEnd: not in a group call");
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
