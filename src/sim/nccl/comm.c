/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of the host platform's communicators, and what they answer
 */

#include "sim/nccl/comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/thread.h"
#include "sim/exec/replay.h"
#include "sim/exec/split_round.h"
#include "sim/host.h"
#include "sim/nccl/background.h"
#include "sim/nccl/group.h"
#include "sim/nccl/join.h"
#include "sim/nccl/register.h"
#include "sim/strict/census.h"

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
	/* NCCL's own, to the letter: programs compare them. */
	static const char *const texts[] = {
		[ncclSuccess] = "no error",
		[ncclUnhandledCudaError] =
			"unhandled cuda error (run with NCCL_DEBUG=INFO for "
			"details)",
		[ncclSystemError] = "unhandled system error (run with "
				    "NCCL_DEBUG=INFO for details)",
		[ncclInternalError] =
			"internal error - please report this issue to the NCCL "
			"developers",
		[ncclInvalidArgument] =
			"invalid argument (run with NCCL_DEBUG=WARN for "
			"details)",
		[ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN "
				     "for details)",
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

/* ---- abort flags ------------------------------------------------------ */

/* Guards the rings of kin; the locks of meetings and worlds may be acquired
 * inside. */
static pthread_mutex_t kin_lock = PTHREAD_MUTEX_INITIALIZER;

void comm_make_kin(struct ncclComm *parent, struct ncclComm *child)
{
	pthread_mutex_lock(&kin_lock);
	child->next_kin = parent->next_kin;
	child->last_kin = parent;
	parent->next_kin->last_kin = child;
	parent->next_kin = child;
	/* It has the flag as it is. */
	child->aborted_for_good = parent->aborted_for_good;
	atomic_store_explicit(&child->aborted,
	                      atomic_load_explicit(&parent->aborted,
	                                           memory_order_relaxed),
	                      memory_order_release);
	pthread_mutex_unlock(&kin_lock);
}

static bool is_revoked(const struct ncclComm *comm)
{
	return atomic_load_explicit(&comm->revoked, memory_order_relaxed);
}

bool comm_shares(const struct ncclComm *comm, int configured)
{
	return configured && !is_revoked(comm);
}

static void leave_kin(struct ncclComm *comm)
{
	pthread_mutex_lock(&kin_lock);
	comm->next_kin->last_kin = comm->last_kin;
	comm->last_kin->next_kin = comm->next_kin;
	comm->next_kin = comm->last_kin = comm;
	pthread_mutex_unlock(&kin_lock);
}

static void raise_all(struct ncclComm *comm, bool pulse)
{
	struct ncclComm *kin = comm;
	struct world *w;

	pthread_mutex_lock(&kin_lock);
	do {
		/* seq_cst: then look where it has arrived, see at. */
		atomic_store(&kin->aborted, true);
		kin->aborted_for_good = kin->aborted_for_good || !pulse;
		w = join_cut(kin);
		if (w && (!pulse || comm_has_work(kin)))
			rendezvous_break(w);
		kin = kin->next_kin;
	} while (kin != comm);
	pthread_mutex_unlock(&kin_lock);
	stream_settle();
}

void comm_raise(struct ncclComm *comm)
{
	raise_all(comm, false);
}

void comm_pulse(struct ncclComm *comm)
{
	raise_all(comm, true);
}

bool comm_kin_is_cut(struct ncclComm *comm)
{
	struct ncclComm *kin = comm;
	struct world *w;
	bool is_cut;

	pthread_mutex_lock(&kin_lock);
	do {
		w = join_world(kin);
		is_cut = w && world_is_broken(w) && comm_has_work(kin);
		kin = kin->next_kin;
	} while (!is_cut && kin != comm);
	pthread_mutex_unlock(&kin_lock);
	return is_cut;
}

void comm_lower(struct ncclComm *comm)
{
	struct ncclComm *kin = comm;

	pthread_mutex_lock(&kin_lock);
	do {
		/* NCCL would take back an abort, too, that has come since. */
		if (!kin->aborted_for_good)
			atomic_store_explicit(&kin->aborted, false,
			                      memory_order_release);
		kin = kin->next_kin;
	} while (kin != comm);
	pthread_mutex_unlock(&kin_lock);
}

/* ---- state ------------------------------------------------------------ */

ncclResult_t comm_state(const struct ncclComm *comm)
{
	/* Acquire: pairs with the release when a group is done. */
	return (ncclResult_t)atomic_load_explicit(&comm->async_error,
	                                          memory_order_acquire);
}

ncclResult_t comm_ready(struct ncclComm *comm)
{
	ncclResult_t result = comm_state(comm);

	if (result == ncclSuccess || comm_is_aborted(comm)) {
		background_settle(comm);
		return ncclSuccess;
	}
	if (result == ncclInProgress)
		return comm_error(ncclInvalidArgument,
		                  "the communicator was used before its last "
		                  "operation returned ncclSuccess");
	return comm_error(result, "the communicator has failed before");
}

ncclResult_t comm_use(struct ncclComm *comm, const char *function)
{
	ncclResult_t result;

	if (!comm_is_valid(comm, function))
		return group_fail(ncclInvalidArgument, "not a communicator");
	if (strict_is_on())
		strict_enter(comm, function);
	if (is_revoked(comm))
		return group_fail(ncclInvalidUsage,
		                  "the communicator was revoked");
	result = comm_ready(comm);
	if (result != ncclSuccess)
		return group_note(result);
	if (!comm->world)
		return group_fail(ncclInvalidArgument,
		                  "the communicator's init has not succeeded");
	return ncclSuccess;
}

/* What a program passes may be anything, and be aligned to nothing. */
static bool has_magic(const struct ncclComm *comm, uint64_t magic)
{
	return comm && (uintptr_t)comm % _Alignof(struct ncclComm) == 0 &&
	       comm->magic == magic;
}

bool comm_blocks(const struct ncclComm *comm)
{
	return !has_magic(comm, COMM_MAGIC) || comm->config.blocking;
}

ncclResult_t comm_answer(struct ncclComm *comm, ncclResult_t result)
{
	if (comm_blocks(comm))
		return result;
	/* Not even begun: no error that stays. */
	if (result == ncclInvalidUsage && is_revoked(comm))
		return result;
	if (result != ncclSuccess && result != ncclInProgress)
		atomic_store_explicit(&comm->async_error, (int)result,
		                      memory_order_release);
	/* Also if it is over already: the same answer whoever is faster. */
	return result == ncclInProgress ? result : comm_state(comm);
}

/* ---- life ------------------------------------------------------------- */

bool comm_is_valid(const struct ncclComm *comm, const char *function)
{
	if (has_magic(comm, COMM_BURIED))
		strict_used(comm, function);
	return has_magic(comm, COMM_MAGIC);
}

static void comm_free(struct ncclComm *comm)
{
	leave_kin(comm);
	background_drop(comm);
	registered_free(comm->registered);
	replay_free(comm);
	launches_free(comm);
	redops_free(&comm->redops);
	free(comm->lanes);
	pthread_mutex_destroy(&comm->lock);
	if (strict_is_on()) {
		strict_bury(comm);
		return;
	}
	comm->magic = 0;
	free(comm);
}

struct ncclComm *comm_create(int device, const ncclConfig_t *config)
{
	struct ncclComm *comm = aligned_alloc(CACHE_LINE, sizeof(*comm));

	if (!comm)
		return NULL;
	memset(comm, 0, sizeof(*comm));
	comm->magic = COMM_MAGIC;
	comm->device = device;
	comm->config = *config;
	comm->number = NO_WORLD;
	comm->next_kin = comm->last_kin = comm;
	atomic_store_explicit(&comm->users, 1, memory_order_relaxed);
	if (!launches_init(comm)) {
		free(comm);
		return NULL;
	}
	lock_init(&comm->lock);
	return comm;
}

void comm_get(struct ncclComm *comm)
{
	/* Relaxed: the caller is one. */
	atomic_fetch_add_explicit(&comm->users, 1, memory_order_relaxed);
}

void comm_put(struct ncclComm *comm)
{
	/* Acquire and release: the last one sees what the others did. */
	if (atomic_fetch_sub_explicit(&comm->users, 1, memory_order_acq_rel) ==
	    1)
		comm_free(comm);
}

/* ---- worlds ----------------------------------------------------------- */

/* Atomic; those that are not freed.  Relaxed: a number. */
static atomic_size_t worlds_live;

size_t world_live(void)
{
	return atomic_load_explicit(&worlds_live, memory_order_relaxed);
}

static void world_clear(struct world *w)
{
	free(w->comms);
	free(w->shares);
	free(w->lists);
	free(w->slots);
	free(w->split_rounds);
	free(w->seats);
	free(w);
}

/* Memory in whole cache lines, all 0, or NULL. */
static void *get_lines(size_t bytes)
{
	size_t whole = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	void *p = aligned_alloc(CACHE_LINE, whole);

	return p ? memset(p, 0, whole) : NULL;
}

struct world *world_create(int n)
{
	static _Atomic uint64_t worlds; /* relaxed: a number */
	const bool is_small = n <= SLOT_RANKS, is_crowded = n > cpu_count();
	struct world *w =
		get_lines(sizeof(*w) + (size_t)n * sizeof(w->places[0]));

	if (!w)
		return NULL;
	w->shares = get_lines((size_t)n * sizeof(*w->shares));
	w->lists = get_lines((size_t)n * sizeof(*w->lists));
	w->comms = get_lines((size_t)n * sizeof(*w->comms));
	if (is_crowded)
		w->seats = get_lines((size_t)n * sizeof(*w->seats));
	if (is_small)
		w->slots = get_lines(2 * (size_t)n * sizeof(*w->slots));
	if (is_small && !is_crowded)
		w->split_rounds =
			get_lines((size_t)n * sizeof(*w->split_rounds));
	if (!w->shares || !w->lists || !w->comms || (is_crowded && !w->seats) ||
	    (is_small && !w->slots) ||
	    (is_small && !is_crowded && !w->split_rounds)) {
		world_clear(w);
		return NULL;
	}
	w->n = n;
	w->is_crowded = is_crowded;
	w->round.world = w;
	w->round.places = w->places;
	w->round.lists = w->lists;
	w->number = atomic_fetch_add_explicit(&worlds, 1, memory_order_relaxed);
	lock_init(&w->lock);
	stream_crowd(w->is_crowded);
	atomic_fetch_add_explicit(&worlds_live, 1, memory_order_relaxed);
	return w;
}

void world_add(struct world *w, struct ncclComm *comm, int rank)
{
	w->comms[rank] = comm;
	/* One that joins by an id has both, which anybody may ask for. */
	if (comm->n != w->n || comm->rank != rank) {
		comm->rank = rank;
		comm->n = w->n;
	}
	comm->number = w->number;
	comm->world = w;
}

/* Then nobody finds the world any more, and whoever has found it is done with it:
 * an abort of kin goes through all of its ranks. */
static void world_leave(struct world *w)
{
	int i;

	for (i = 0; i < w->n; i++)
		if (w->comms[i]) {
			join_leave_world(w->comms[i]);
			leave_kin(w->comms[i]);
		}
}

void world_free(struct world *w)
{
	int i;

	world_leave(w);
	for (i = 0; i < w->n; i++)
		if (w->comms[i])
			comm_put(w->comms[i]);
	pthread_mutex_destroy(&w->lock);
	stream_crowd(-w->is_crowded);
	world_clear(w);
	atomic_fetch_sub_explicit(&worlds_live, 1, memory_order_relaxed);
}

/* ---- facts ------------------------------------------------------------ */

static ncclResult_t check_fact(const struct ncclComm *comm, const void *out,
                               const char *function)
{
	if (!comm_is_valid(comm, function))
		return comm_error(ncclInvalidArgument, "not a communicator");
	if (!out)
		return comm_error(ncclInvalidArgument, "output is NULL");
	return ncclSuccess;
}

static ncclResult_t comm_fact(struct ncclComm *comm, const void *out,
                              const char *function)
{
	ncclResult_t result = check_fact(comm, out, function);

	return result == ncclSuccess ? comm_ready(comm) : result;
}

ncclResult_t host_ncclCommCount(const ncclComm_t comm, int *count)
{
	ncclResult_t result = comm_fact(comm, count, "ncclCommCount");

	if (result == ncclSuccess)
		*count = comm->n;
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
	ncclResult_t result = check_fact(comm, async, "ncclCommGetAsyncError");

	if (result != ncclSuccess)
		return result;
	*async = comm_state(comm);
	if (*async == ncclSuccess)
		background_settle(comm);
	return ncclSuccess;
}
