/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Groups of the host platform; all state is the thread's own
 */

#include "platform/host/group.h"

#include <stdlib.h>

#include "platform/host/host.h"
#include "platform/host/p2p.h"
#include "platform/host/simulate.h"

struct job {
	group_job_fn fn;
	struct ncclComm *comm;
};

/* Owned by the thread. */
static _Thread_local struct {
	int depth;
	ncclResult_t error; /* of the last call that failed */
	struct launch *first;
	struct launch *last;
	struct join *joins;
	struct job *jobs;
	size_t job_count, job_room;
} group;

void group_start(void)
{
	if (group.depth++ == 0) {
		group.error = ncclSuccess;
		group.first = NULL;
		group.last = NULL;
		group.job_count = 0;
	}
}

ncclResult_t group_fail(ncclResult_t result, const char *text)
{
	if (group.depth)
		group.error = result;
	return comm_error(result, text);
}

/* Put a launch in its place: by world, in the order of the first calls within
 * one.  All threads so queue on several worlds in the same order, and do not wait
 * for each other in a circle. */
static void insert(struct launch *l)
{
	struct launch **at = &group.first;

	if (group.last &&
	    group.last->comm->world->number <= l->comm->world->number)
		at = &group.last->next;
	while (*at && (*at)->comm->world->number <= l->comm->world->number)
		at = &(*at)->next;
	l->next = *at;
	*at = l;
	if (!l->next)
		group.last = l;
}

struct launch *group_launch(struct ncclComm *comm)
{
	struct launch *l = comm->open;

	if (l)
		return l;
	l = launch_get(comm);
	if (!l)
		return NULL;
	comm->open = l;
	insert(l);
	return l;
}

ncclResult_t group_job(group_job_fn fn, struct ncclComm *comm)
{
	size_t more = group.job_room ? 2 * group.job_room : 8;
	struct job *bigger;

	if (group.job_count == group.job_room) {
		bigger = realloc(group.jobs, more * sizeof(*bigger));
		if (!bigger)
			return group_fail(ncclSystemError, "out of memory");
		group.jobs = bigger;
		group.job_room = more;
	}
	group.jobs[group.job_count++] = (struct job){ fn, comm };
	return ncclSuccess;
}

void group_join(struct join *join)
{
	struct join **at = &group.joins;

	while (*at)
		at = &(*at)->next;
	*at = join;
}

/* Before the rest, as in NCCL: if a rank cannot join, the group has failed. */
static ncclResult_t end_joins(ncclResult_t error)
{
	struct join *joins = group.joins;

	group.joins = NULL;
	if (error == ncclSuccess)
		error = join_run(joins);
	join_free(joins);
	return error;
}

static ncclResult_t check_launches(void)
{
	ncclResult_t result = ncclSuccess;
	struct launch *l;

	for (l = group.first; l && result == ncclSuccess; l = l->next)
		result = p2p_check(l);
	return result;
}

static void end_launches(bool queue)
{
	struct launch *l, *next;

	for (l = group.first; l; l = next) {
		next = l->next;
		l->comm->open = NULL;
		if (queue)
			launch_queue(l);
		else
			launch_put(l);
	}
}

static ncclResult_t end_jobs(bool run)
{
	struct job *jobs = group.jobs;
	size_t i, n = group.job_count;
	ncclResult_t first = ncclSuccess, r;

	group.jobs = NULL;
	group.job_count = group.job_room = 0;
	for (i = 0; run && i < n; i++) {
		r = jobs[i].fn(jobs[i].comm);
		if (first == ncclSuccess)
			first = r;
	}
	free(jobs);
	return first;
}

/* @info: NULL, or where to store what the launches would take if they were
 * queued, which they are not then. */
static ncclResult_t end(ncclSimInfo_t *info)
{
	ncclResult_t error, result;

	if (!group.depth)
		return comm_error(ncclInvalidUsage,
		                  "ncclGroupEnd: not in a group call");
	if (--group.depth)
		return ncclSuccess;
	error = group.error;
	if (error == ncclSuccess && info)
		error = simulate_check(info);
	if (group.joins)
		error = end_joins(error);
	if (error == ncclSuccess)
		error = check_launches();
	if (error == ncclSuccess && info)
		simulate_launches(group.first, info);
	end_launches(error == ncclSuccess && !info);
	result = end_jobs(error == ncclSuccess);
	if (strict_is_on())
		strict_leave();
	return error != ncclSuccess ? error : result;
}

ncclResult_t group_end(void)
{
	return end(NULL);
}

void group_drop(void)
{
	group.depth = 0;
	join_free(group.joins);
	group.joins = NULL;
	end_launches(false);
	end_jobs(false);
}

ncclResult_t host_ncclGroupStart(void)
{
	group_start();
	if (strict_is_on())
		strict_open_group(&group.depth);
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
