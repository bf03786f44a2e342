/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of open native communicators
 *
 * Every access is relaxed, except when an entry is allocated or freed. If the
 * table ordered the library's accesses, ThreadSanitizer could not detect that
 * the library itself fails to order them.
 */

#include "support/ledger.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "platform/platform.h"
#include "support/ranks.h"
#include "support/stress.h"

#define MOST 64

struct entry {
	atomic_ulong world; /* number of the group, or 0 if the entry is free */
	_Atomic(ncclComm_t) comm;
	/* number of threads inside a call on comm */
	atomic_int inside;
	atomic_int released;
};

static struct entry entries[MOST];
static atomic_ulong worlds;
static const struct platform *real; /* constant after ledger_open() */

/* Number of the group whose communicators this thread is releasing, or 0 */
static _Thread_local unsigned long mine;

#define LOAD(atom) atomic_load_explicit(&(atom), memory_order_relaxed)
#define ADD(atom, n) atomic_fetch_add_explicit(&(atom), n, memory_order_relaxed)

static struct entry *find(ncclComm_t comm, const char *call)
{
	int i;

	for (i = 0; i < MOST; i++)
		if (LOAD(entries[i].comm) == comm)
			return &entries[i];
	stress_fail("%s of a communicator that is not open", call);
}

static void add(ncclComm_t comm, unsigned long world)
{
	unsigned long none = 0;
	int i;

	for (i = 0; i < MOST; i++, none = 0) {
		if (!atomic_compare_exchange_strong(&entries[i].world, &none,
		                                    world))
			continue;
		atomic_store(&entries[i].inside, 0);
		atomic_store(&entries[i].released, 0);
		atomic_store(&entries[i].comm, comm);
		return;
	}
	stress_fail("more than %d communicators are open", MOST);
}

static ncclResult_t ledger_init_all(ncclComm_t *comms, int n,
                                    const int *devices)
{
	ncclResult_t result = real->ncclCommInitAll(comms, n, devices);
	unsigned long world = ADD(worlds, 1) + 1;
	int i;

	for (i = 0; result == ncclSuccess && i < n; i++)
		add(comms[i], world);
	return result;
}

/* ---- releasing -------------------------------------------------------- */

static void check_reaper(void)
{
	char name[16] = "?";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (!strstr(name, "/reap"))
		stress_fail("thread \"%s\" is no reaper, but releases a "
		            "communicator",
		            name);
}

static void release(ncclComm_t comm, const char *call)
{
	struct entry *e = find(comm, call);
	unsigned long world = LOAD(e->world);

	check_reaper();
	if (ADD(e->released, 1))
		stress_fail("%s: the communicator was already released", call);
	if (mine && mine != world)
		stress_fail("%s: the reaper of group %lu is used for group %lu",
		            call, mine, world);
	mine = world;
}

static ncclResult_t ledger_abort(ncclComm_t comm)
{
	release(comm, "ncclCommAbort");
	return real->ncclCommAbort(comm);
}

static ncclResult_t ledger_destroy(ncclComm_t comm)
{
	release(comm, "ncclCommDestroy");
	return real->ncclCommDestroy(comm);
}

/*
 * Remove @e. Call this before ncclGroupEnd() frees the communicator, because a
 * new communicator may then reuse its address immediately.
 */
static void forget(struct entry *e)
{
	if (LOAD(e->released) != 1)
		stress_fail("a communicator is freed after %d releases",
		            LOAD(e->released));
	if (LOAD(e->inside))
		stress_fail("a communicator is freed with %d threads in a call",
		            LOAD(e->inside));
	atomic_store(&e->comm, NULL);
	atomic_store(&e->world, 0);
}

static ncclResult_t ledger_group_end(void)
{
	int i;

	for (i = 0; mine && i < MOST; i++)
		if (LOAD(entries[i].world) == mine)
			forget(&entries[i]);
	mine = 0; /* the thread can be the reaper of another group later */
	return real->ncclGroupEnd();
}

/* ---- calls ------------------------------------------------------------ */

#define LEDGER_CALL(name, parameters, arguments)                               \
	static ncclResult_t ledger_##name parameters                           \
	{                                                                      \
		struct entry *e = find(comm, #name);                           \
		ncclResult_t result;                                           \
                                                                               \
		ADD(e->inside, 1);                                             \
		result = real->name arguments;                                 \
		ADD(e->inside, -1);                                            \
		return result;                                                 \
	}

LEDGER_CALL(ncclAllReduce,
            (const void *send, void *recv, size_t count, ncclDataType_t type,
             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream),
            (send, recv, count, type, op, comm, stream))
LEDGER_CALL(ncclReduceScatter,
            (const void *send, void *recv, size_t count, ncclDataType_t type,
             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream),
            (send, recv, count, type, op, comm, stream))
LEDGER_CALL(ncclReduce,
            (const void *send, void *recv, size_t count, ncclDataType_t type,
             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream),
            (send, recv, count, type, op, root, comm, stream))
LEDGER_CALL(ncclBroadcast,
            (const void *send, void *recv, size_t count, ncclDataType_t type,
             int root, ncclComm_t comm, cudaStream_t stream),
            (send, recv, count, type, root, comm, stream))
LEDGER_CALL(ncclAllGather,
            (const void *send, void *recv, size_t count, ncclDataType_t type,
             ncclComm_t comm, cudaStream_t stream),
            (send, recv, count, type, comm, stream))
LEDGER_CALL(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *async),
            (comm, async))

void ledger_open(void)
{
	static struct platform table;

	real = place_table();
	table = *real;
	table.ncclCommInitAll = ledger_init_all;
	table.ncclCommAbort = ledger_abort;
	table.ncclCommDestroy = ledger_destroy;
	table.ncclGroupEnd = ledger_group_end;
	table.ncclAllReduce = ledger_ncclAllReduce;
	table.ncclReduceScatter = ledger_ncclReduceScatter;
	table.ncclReduce = ledger_ncclReduce;
	table.ncclBroadcast = ledger_ncclBroadcast;
	table.ncclAllGather = ledger_ncclAllGather;
	table.ncclCommGetAsyncError = ledger_ncclCommGetAsyncError;
	platform_override(&table);
}

void ledger_check(void)
{
	int i;

	for (i = 0; i < MOST; i++)
		if (LOAD(entries[i].world))
			stress_fail("communicator %d of group %lu was not "
			            "released",
			            i, LOAD(entries[i].world));
}
