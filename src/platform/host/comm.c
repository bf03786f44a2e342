/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of the host platform's communicators, and what they answer
 */

#include "platform/host/comm.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/thread.h"
#include "platform/host/census.h"
#include "platform/host/device.h"
#include "platform/host/fault.h"
#include "platform/host/group.h"
#include "platform/host/host.h"

#define NCCL_VERSION 22809

/* ---- errors ----------------------------------------------------------- */

/* Atomic; always a literal.  Process-wide, as in NCCL. */
static const char *_Atomic last_error = "";

ncclResult_t comm_error(ncclResult_t result, const char *text)
{
	atomic_store_explicit(&last_error, text, memory_order_release);
	return result;
}

const char *host_ncclGetLastError(ncclComm_t comm)
{
	if (strict_is_on())
		comm_is_valid(comm, "ncclGetLastError");
	return atomic_load_explicit(&last_error, memory_order_acquire);
}

const char *host_ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		[ncclSuccess] = "no error",
		[ncclUnhandledCudaError] = "unhandled cuda error",
		[ncclSystemError] = "unhandled system error",
		[ncclInternalError] = "internal error",
		[ncclInvalidArgument] = "invalid argument",
		[ncclInvalidUsage] = "invalid usage",
		[ncclRemoteError] =
			"remote process exited or there was a network error",
		[ncclInProgress] = "NCCL operation in progress",
	};
	size_t i = (size_t)result;

	return i < sizeof(texts) / sizeof(texts[0]) ? texts[i]
	                                            : "unknown result code";
}

ncclResult_t host_ncclGetVersion(int *version)
{
	if (!version)
		return comm_error(ncclInvalidArgument,
		                  "ncclGetVersion: version is NULL");
	*version = NCCL_VERSION;
	return ncclSuccess;
}

/* ---- launches --------------------------------------------------------- */

/* With room of its own for the usual. */
static struct launch *launch_init(struct launch *l)
{
	if (!l)
		return NULL;
	l->calls = l->own_calls;
	l->call_room = sizeof(l->own_calls) / sizeof(l->own_calls[0]);
	l->streams = l->own_streams;
	l->stream_room = sizeof(l->own_streams) / sizeof(l->own_streams[0]);
	return l;
}

struct launch *comm_launch_get(struct ncclComm *comm)
{
	struct launch *l;

	pthread_mutex_lock(&comm->lock);
	l = comm->unused;
	if (l)
		comm->unused = l->next;
	else if (comm->stock_used < COMM_STOCK)
		l = launch_init(&comm->stock[comm->stock_used++]);
	pthread_mutex_unlock(&comm->lock);
	if (!l)
		l = launch_init(calloc(1, sizeof(*l)));
	if (!l)
		return NULL;
	l->comm = comm;
	l->call_count = 0;
	l->stream_count = 0;
	l->fault.kind = 0;
	l->due_ns = 0;
	l->joined = false;
	atomic_store_explicit(&l->users, 1, memory_order_relaxed);
	return l;
}

void comm_launch_put(struct launch *l)
{
	struct ncclComm *comm = l->comm;

	/* Acquire and release: the last one sees what the other did. */
	if (atomic_fetch_sub_explicit(&l->users, 1, memory_order_acq_rel) > 1)
		return;
	pthread_mutex_lock(&comm->lock);
	l->next = comm->unused;
	comm->unused = l;
	pthread_mutex_unlock(&comm->lock);
}

void comm_launch_queue(struct launch *l)
{
	size_t i, n = l->stream_count - 1;
	struct stream *s = l->streams[n];
	struct work w = { .step = meet_step, .launch = l };
	uint64_t position;

	for (i = 0; i < n; i++)
		stream_push_wait(s, l->streams[i], l->streams[i]->queued);
	l->round = l->comm->rounds++;
	l->comm->last = s;
	atomic_store_explicit(&l->users, 2, memory_order_relaxed);
	atomic_fetch_add_explicit(&l->comm->pending, 1, memory_order_relaxed);
	stream_push(s, &w, &position);
	for (i = 0; i < n; i++) {
		stream_push_wait(l->streams[i], s, position);
		stream_go(l->streams[i]);
	}
	comm_launch_put(l);
}

/* ---- life ------------------------------------------------------------- */

bool comm_is_valid(const struct ncclComm *comm, const char *function)
{
	if (comm && comm->magic == COMM_BURIED)
		strict_used(comm, function);
	return comm && comm->magic == COMM_MAGIC;
}

static void comm_free(struct ncclComm *comm)
{
	struct launch *l, *next;

	for (l = comm->unused; l; l = next) {
		next = l->next;
		if (l->streams != l->own_streams)
			free(l->streams);
		if (l->calls != l->own_calls)
			free(l->calls);
		if (l < comm->stock || l >= comm->stock + COMM_STOCK)
			free(l);
	}
	free(comm->stock);
	pthread_mutex_destroy(&comm->lock);
	if (strict_is_on()) {
		strict_bury(comm);
		return;
	}
	comm->magic = 0;
	free(comm);
}

/* Atomic; those that are not freed.  Relaxed: a number. */
static atomic_size_t worlds_live;

size_t world_live(void)
{
	return atomic_load_explicit(&worlds_live, memory_order_relaxed);
}

void world_free(struct world *w)
{
	int i;

	atomic_fetch_sub_explicit(&worlds_live, 1, memory_order_relaxed);

	for (i = 0; i < w->n; i++)
		if (w->comms[i])
			comm_free(w->comms[i]);
	pthread_mutex_destroy(&w->lock);
	free(w->launches);
	free(w);
}

static struct ncclComm *comm_create(struct world *w, int rank, int device)
{
	struct ncclComm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->magic = COMM_MAGIC;
	comm->world = w;
	comm->rank = rank;
	comm->device = device;
	comm->number = w->number;
	comm->stock = calloc(COMM_STOCK, sizeof(*comm->stock));
	if (!comm->stock) {
		free(comm);
		return NULL;
	}
	lock_init(&comm->lock);
	return comm;
}

struct world *world_create(int n, const int *devices)
{
	static _Atomic uint64_t worlds; /* relaxed: a number */
	struct world *w =
		calloc(1, sizeof(*w) + (size_t)n * sizeof(w->comms[0]));
	int i;

	if (!w)
		return NULL;
	atomic_fetch_add_explicit(&worlds_live, 1, memory_order_relaxed);
	w->n = n;
	w->number = atomic_fetch_add_explicit(&worlds, 1, memory_order_relaxed);
	lock_init(&w->lock);
	w->launches = calloc((size_t)n, sizeof(*w->launches));
	for (i = 0; w->launches && i < n; i++) {
		w->comms[i] = comm_create(w, i, devices ? devices[i] : i);
		if (!w->comms[i])
			break;
	}
	if (i == n)
		return w;
	world_free(w);
	return NULL;
}

static ncclResult_t check_devices(int n, const int *devices)
{
	int i, k;

	for (i = 0; devices && i < n; i++) {
		if (devices[i] < 0 || devices[i] >= device_count())
			return comm_error(ncclInvalidArgument,
			                  "ncclCommInitAll: no such device");
		for (k = 0; k < i; k++)
			if (devices[k] == devices[i])
				return comm_error(ncclInvalidUsage,
				                  "ncclCommInitAll: duplicate "
				                  "device");
	}
	if (!devices && n > device_count())
		return comm_error(ncclUnhandledCudaError,
		                  "ncclCommInitAll: more ranks than devices");
	return ncclSuccess;
}

/* Take as long as a scripted fault wants. */
static void init_hold(int rank, uint64_t started_ns)
{
	uint64_t script = 0;
	uint64_t until_ns = fault_take_init(rank, started_ns, &script);

	fault_hold(script, until_ns);
}

ncclResult_t host_ncclCommInitAll(ncclComm_t *comms, int ndev,
                                  const int *devlist)
{
	const uint64_t started_ns = clock_now();
	struct world *w;
	ncclResult_t result;
	int i;

	if (!comms)
		return comm_error(ncclInvalidArgument,
		                  "ncclCommInitAll: comms is NULL");
	if (ndev < 0)
		return comm_error(ncclInvalidArgument,
		                  "ncclCommInitAll: ndev is negative");
	result = check_devices(ndev, devlist);
	if (result != ncclSuccess || !ndev)
		return result;
	for (i = 0; i < ndev; i++)
		init_hold(i, started_ns);
	w = world_create(ndev, devlist);
	if (!w)
		return comm_error(ncclSystemError, "out of memory");
	for (i = 0; i < ndev; i++)
		comms[i] = w->comms[i];
	return ncclSuccess;
}

/* Wait until everything that this rank launched is done. */
static ncclResult_t comm_sync(struct ncclComm *comm)
{
	struct backoff b = BACKOFF;

	/* Acquire: pairs with the release when a launch is done. */
	while (atomic_load_explicit(&comm->pending, memory_order_acquire)) {
		stream_help(comm->last, UINT64_MAX);
		backoff_wait(&b, UINT64_MAX);
	}
	return ncclSuccess;
}

/* Release one rank; the last one frees all. */
static ncclResult_t comm_reclaim(struct ncclComm *comm, const char *function)
{
	struct world *w = comm->world;
	const int n = w->n; /* once released, w may be gone */
	int i;

	if (strict_is_on())
		strict_release(comm, function);
	/* Acquire and release: the last sees what the others did before. */
	if (atomic_fetch_add_explicit(&w->released, 1, memory_order_acq_rel) !=
	    n - 1)
		return ncclSuccess;
	if (strict_is_on())
		strict_check_free(w, function);
	for (i = 0; i < n; i++)
		comm_sync(w->comms[i]);
	if (strict_is_on())
		strict_check_buffers(w, function);
	world_free(w);
	return ncclSuccess;
}

static ncclResult_t comm_destroy(struct ncclComm *comm)
{
	return comm_reclaim(comm, "ncclCommDestroy");
}

static ncclResult_t comm_abort(struct ncclComm *comm)
{
	return comm_reclaim(comm, "ncclCommAbort");
}

static ncclResult_t run_at_end(group_job_fn fn, struct ncclComm *comm)
{
	ncclResult_t result = group_job(fn, comm), ended;

	ended = group_end();
	return result != ncclSuccess ? result : ended;
}

ncclResult_t host_ncclCommDestroy(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommDestroy"))
		return group_fail(ncclInvalidArgument,
		                  "ncclCommDestroy: not a communicator");
	group_start();
	if (strict_is_on())
		strict_enter(comm, "ncclCommDestroy");
	return run_at_end(comm_destroy, comm);
}

ncclResult_t host_ncclCommAbort(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommAbort"))
		return group_fail(ncclInvalidArgument,
		                  "ncclCommAbort: not a communicator");
	group_start();
	meet_abort(comm);
	return run_at_end(comm_abort, comm);
}

ncclResult_t host_ncclCommFinalize(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommFinalize"))
		return group_fail(ncclInvalidArgument,
		                  "ncclCommFinalize: not a communicator");
	if (comm->finalized)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommFinalize: called twice");
	group_start();
	if (strict_is_on())
		strict_enter(comm, "ncclCommFinalize");
	comm->finalized = true;
	return run_at_end(comm_sync, comm);
}

/* ---- facts ------------------------------------------------------------ */

static ncclResult_t comm_fact(const struct ncclComm *comm, const void *out,
                              const char *function)
{
	if (!comm_is_valid(comm, function))
		return comm_error(ncclInvalidArgument, "not a communicator");
	if (!out)
		return comm_error(ncclInvalidArgument, "output is NULL");
	return ncclSuccess;
}

ncclResult_t host_ncclCommCount(const ncclComm_t comm, int *count)
{
	ncclResult_t result = comm_fact(comm, count, "ncclCommCount");

	if (result == ncclSuccess)
		*count = comm->world->n;
	return result;
}

ncclResult_t host_ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	ncclResult_t result = comm_fact(comm, device, "ncclCommCuDevice");

	if (result == ncclSuccess)
		*device = comm->device;
	return result;
}

ncclResult_t host_ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	ncclResult_t result = comm_fact(comm, rank, "ncclCommUserRank");

	if (result == ncclSuccess)
		*rank = comm->rank;
	return result;
}

ncclResult_t host_ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async)
{
	ncclResult_t result = comm_fact(comm, async, "ncclCommGetAsyncError");

	if (result == ncclSuccess)
		*async = (ncclResult_t)atomic_load_explicit(
			&comm->async_error, memory_order_relaxed);
	return result;
}
