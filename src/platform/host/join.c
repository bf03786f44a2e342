/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Unique ids, and the ranks that meet by them
 *
 * An id stands for a meeting, which ends when all ranks have arrived: the first
 * makes the world, and the last lets everyone go on.  Ranks are threads of one
 * process here, so an id is of use only in the process that made it.
 */

#include "platform/host/join.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "platform/host/census.h"
#include "platform/host/device.h"
#include "platform/host/fault.h"
#include "platform/host/group.h"
#include "platform/host/host.h"

struct meeting {
	uint64_t number; /* of the id; constant */

	/* Guarded by lock. */
	struct meeting *next;
	struct world *world; /* NULL until somebody has arrived */
	int arrived;
	int left; /* have seen that all have arrived */
};

/* What is in an id. */
struct content {
	uint64_t magic;
	uint64_t process; /* a random number */
	uint64_t pid;     /* the child of a fork is another process */
	uint64_t number;
};

#define ID_MAGIC UINT64_C(0x636f686f72746964)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_arrived = PTHREAD_COND_INITIALIZER;

/* Guarded by lock. */
static struct meeting *meetings; /* that are not over */
static uint64_t numbers;         /* given out */

/* ---- ids -------------------------------------------------------------- */

static bool id_create_locked(struct content *c)
{
	uint64_t process = process_number();
	struct meeting *m;

	if (!process)
		return false;
	m = calloc(1, sizeof(*m));
	if (!m)
		return false;
	m->number = ++numbers;
	m->next = meetings;
	meetings = m;
	*c = (struct content){ ID_MAGIC, process, (uint64_t)getpid(),
		               m->number };
	return true;
}

ncclResult_t host_ncclGetUniqueId(ncclUniqueId *id)
{
	struct content c;
	bool ok;

	if (!id)
		return comm_error(ncclInvalidArgument,
		                  "ncclGetUniqueId: id is NULL");
	pthread_mutex_lock(&lock);
	ok = id_create_locked(&c);
	pthread_mutex_unlock(&lock);
	if (!ok)
		return comm_error(ncclSystemError,
		                  "ncclGetUniqueId: out of memory or of random "
		                  "numbers");
	memset(id, 0, sizeof(*id));
	memcpy(id, &c, sizeof(c));
	return ncclSuccess;
}

size_t meeting_live(void)
{
	const struct meeting *m;
	size_t n = 0;

	pthread_mutex_lock(&lock);
	for (m = meetings; m; m = m->next)
		n++;
	pthread_mutex_unlock(&lock);
	return n;
}

/* The number in @id, or 0 if it was not made by this process. */
static uint64_t id_number(const ncclUniqueId *id)
{
	struct content c;

	memcpy(&c, id, sizeof(c));
	return c.magic == ID_MAGIC && c.process &&
	                       c.process == process_number() &&
	                       c.pid == (uint64_t)getpid()
	               ? c.number
	               : 0;
}

static struct meeting **find_locked(uint64_t number)
{
	struct meeting **at = &meetings;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

/* ---- meeting ---------------------------------------------------------- */

#define NOWHERE (-1) /* the device of a rank that has not arrived */

static struct world *empty_world(int n)
{
	struct world *w = world_create(n, NULL);
	int i;

	for (i = 0; w && i < n; i++)
		w->comms[i]->device = NOWHERE;
	return w;
}

static ncclResult_t check_place(const struct world *w, const struct join *j)
{
	int i;

	if (w->n != j->n)
		return comm_error(ncclInvalidUsage,
		                  "ncclCommInitRank: another rank has another "
		                  "number of ranks");
	if (w->comms[j->rank]->device != NOWHERE)
		return comm_error(
			ncclInvalidUsage,
			"ncclCommInitRank: the rank is there already");
	for (i = 0; i < w->n; i++)
		if (w->comms[i]->device == j->device)
			return comm_error(ncclInvalidUsage,
			                  "ncclCommInitRank: duplicate device");
	return ncclSuccess;
}

static ncclResult_t arrive_locked(struct join *j)
{
	struct meeting *m = *find_locked(j->number);
	ncclResult_t result;

	if (!m)
		return comm_error(ncclInvalidUsage,
		                  "ncclCommInitRank: the id was used before");
	if (!m->world)
		m->world = empty_world(j->n);
	if (!m->world)
		return comm_error(ncclSystemError, "out of memory");
	result = check_place(m->world, j);
	if (result != ncclSuccess)
		return result;
	m->world->comms[j->rank]->device = j->device;
	m->arrived++;
	j->meeting = m;
	return ncclSuccess;
}

static void withdraw_locked(struct join *j)
{
	struct meeting *m = j->meeting;

	m->world->comms[j->rank]->device = NOWHERE;
	if (--m->arrived)
		return;
	world_free(m->world);
	m->world = NULL;
}

/* All of a group or none. */
static ncclResult_t arrive_all_locked(struct join *first)
{
	ncclResult_t result;
	struct join *j, *k;

	for (j = first; j; j = j->next) {
		result = arrive_locked(j);
		if (result == ncclSuccess)
			continue;
		for (k = first; k != j; k = k->next)
			withdraw_locked(k);
		return result;
	}
	return ncclSuccess;
}

/* End the meetings of a group that are complete: their ids are used up. */
static void end_meetings_locked(const struct join *first)
{
	const struct join *j;
	struct meeting **at;

	for (j = first; j; j = j->next) {
		at = find_locked(j->number);
		if (!*at || (*at)->arrived < j->n)
			continue;
		*at = (*at)->next;
		pthread_cond_broadcast(&all_arrived);
	}
}

/* Wait for the other ranks.  Called with the lock held; releases and re-acquires
 * it.  The last to leave frees the meeting. */
static void wait_locked(struct join *j)
{
	struct meeting *m = j->meeting;

	while (m->arrived < j->n)
		pthread_cond_wait(&all_arrived, &lock);
	*j->out = m->world->comms[j->rank];
	if (++m->left == j->n)
		free(m);
}

ncclResult_t join_run(struct join *first)
{
	ncclResult_t result;
	struct join *j;

	for (j = first; j; j = j->next)
		fault_hold(j->script, j->until_ns);
	pthread_mutex_lock(&lock);
	result = arrive_all_locked(first);
	if (result == ncclSuccess) {
		end_meetings_locked(first);
		for (j = first; j; j = j->next)
			wait_locked(j);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

void join_free(struct join *first)
{
	struct join *next;

	for (; first; first = next) {
		next = first->next;
		free(first);
	}
}

/* ---- the call --------------------------------------------------------- */

/* Inside a group. */
static ncclResult_t join_add(ncclComm_t *comm, int n, uint64_t number, int rank)
{
	struct join *j = calloc(1, sizeof(*j));

	if (!j)
		return group_fail(ncclSystemError, "out of memory");
	j->out = comm;
	j->number = number;
	j->n = n;
	j->rank = rank;
	j->device = device_current();
	j->until_ns = fault_take_init(rank, clock_now(), &j->script);
	group_join(j);
	return ncclSuccess;
}

/* In NCCL's order. */
static ncclResult_t check_join(ncclComm_t *comm, int n, int rank)
{
	if (!comm)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommInitRank: comm is NULL");
	*comm = NULL;
	if (rank < 0 || rank >= n)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommInitRank: no such rank");
	if (n > device_count())
		return group_fail(ncclInvalidUsage,
		                  "ncclCommInitRank: more ranks than devices");
	return ncclSuccess;
}

ncclResult_t host_ncclCommInitRank(ncclComm_t *comm, int nranks,
                                   ncclUniqueId id, int rank)
{
	ncclResult_t result, ended;
	uint64_t number;

	/* As in NCCL, this one does not make an open group fail. */
	if (nranks < 1)
		return comm_error(ncclInvalidArgument,
		                  "ncclCommInitRank: nranks is less than 1");
	result = check_join(comm, nranks, rank);
	if (result != ncclSuccess)
		return result;
	number = id_number(&id);
	if (!number)
		return group_fail(ncclInvalidUsage,
		                  "ncclCommInitRank: the id is not of this "
		                  "process, and the host platform joins ranks "
		                  "of one process only");
	group_start();
	result = join_add(comm, nranks, number, rank);
	ended = group_end();
	return result != ncclSuccess ? result : ended;
}
