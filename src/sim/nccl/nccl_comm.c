/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Communicators: their life, their state, their abort flags and those of their
 * kin, and NCCL's functions that ask about them
 */

#include "sim/nccl/nccl_comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/scoped_lock.h"
#include "base/thread.h"
#include "sim/host.h"
#include "sim/nccl/background.h"
#include "sim/nccl/lazy.h"
#include "sim/nccl/meeting.h"
#include "sim/nccl/nccl_group.h"
#include "sim/nccl/nccl_register.h"
#include "sim/nccl/spans.h"

/* ---- kin ------------------------------------------------------------- */

/* Guards the rings of kin; the locks of meetings and worlds may be acquired
 * inside. */
static pthread_mutex_t kin_lock = PTHREAD_MUTEX_INITIALIZER;

void comm_make_kin(struct ncclComm *parent, struct ncclComm *child)
{
	SCOPED_LOCK(&kin_lock);
	child->next_kin = parent->next_kin;
	child->last_kin = parent;
	parent->next_kin->last_kin = child;
	parent->next_kin = child;
	/* The child takes over the flag as it is. */
	child->aborted_for_good = parent->aborted_for_good;
	store_release(&child->member.aborted,
	              load_relaxed(&parent->member.aborted));
}

/* Let @comm be aborted by itself from now on. */
static void leave_kin(struct ncclComm *comm)
{
	SCOPED_LOCK(&kin_lock);
	comm->next_kin->last_kin = comm->last_kin;
	comm->last_kin->next_kin = comm->next_kin;
	comm->next_kin = comm->last_kin = comm;
}

/* ---- what is registered ------------------------------------------------ */

void comm_register(struct ncclComm *comm, struct registration *r)
{
	SCOPED_LOCK(&comm->lock);
	r->next = comm->registered;
	comm->registered = r;
}

void registered_free(struct registration *r)
{
	struct registration *next;

	for (; r; r = next) {
		next = r->next;
		free(r);
	}
}

/* Strict mode: a buffer that a collective has used must be deregistered before
 * its communicator ends.  NCCL would use a proxy thread that it has freed. */
static void check_registered(const struct ncclComm *comm)
{
	const struct registration *r;

	for (r = comm->registered; r; r = r->next)
		if (r->is_used && strcmp(r->function, "ncclCommRegister") == 0)
			member_die("ncclCommDestroy", &comm->member,
			           "a buffer that a collective has used is "
			           "still registered: call "
			           "ncclCommDeregister() first");
}

/* ---- life ------------------------------------------------------------- */

static void comm_free(struct ncclComm *comm)
{
	leave_kin(comm);
	background_drop(comm);
	if (strict_is_on())
		check_registered(comm);
	registered_free(comm->registered);
	launches_free(&comm->member);
	free(comm->redops.list);
	free(comm->member.lanes);
	pthread_mutex_destroy(&comm->lock);
	if (strict_is_on()) {
		lifetime_bury(comm);
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
	comm->member.device = device;
	comm->config = *config;
	comm->member.number = NO_WORLD;
	comm->next_kin = comm->last_kin = comm;
	store_relaxed(&comm->users, 1);
	if (!launches_init(&comm->member)) {
		free(comm);
		return NULL;
	}
	lock_init(&comm->lock);
	return comm;
}

void comm_get(struct ncclComm *comm)
{
	/* Relaxed: the caller is one. */
	add_relaxed(&comm->users, 1);
}

void comm_put(struct ncclComm *comm)
{
	/* Acquire and release: the last user sees what the others did. */
	if (atomic_fetch_sub_explicit(&comm->users, 1, memory_order_acq_rel) ==
	    1)
		comm_free(comm);
}

/* ---- worlds ----------------------------------------------------------- */

/* Afterwards no thread finds the world any more, and threads that have found it
 * are done with it: an abort of kin goes through all of its ranks. */
static void world_leave(struct world *w)
{
	int i;

	for (i = 0; i < w->n; i++)
		if (w->members[i]) {
			meeting_leave_world(comm_of(w->members[i]));
			leave_kin(comm_of(w->members[i]));
		}
}

void comm_free_world(struct world *w)
{
	int i;

	world_leave(w);
	for (i = 0; i < w->n; i++)
		if (w->members[i])
			comm_put(comm_of(w->members[i]));
	lazy_free(w);
	if (w->span)
		spans_leave(w);
	world_free(w);
}

/* ---- abort flags ------------------------------------------------------- */

static void raise_all(struct ncclComm *comm, bool pulse)
{
	struct ncclComm *kin = comm;
	struct world *w;

	pthread_mutex_lock(&kin_lock);
	do {
		/* seq_cst: then look where it has arrived, see at. */
		atomic_store(&kin->member.aborted, true);
		kin->aborted_for_good = kin->aborted_for_good || !pulse;
		w = meeting_cut(kin);
		if (w && (!pulse || comm_has_work(kin)))
			world_abort(w);
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

	SCOPED_LOCK(&kin_lock);
	do {
		w = meeting_world(kin);
		is_cut = w && world_is_broken(w) && comm_has_work(kin);
		kin = kin->next_kin;
	} while (!is_cut && kin != comm);
	return is_cut;
}

void comm_lower(struct ncclComm *comm)
{
	struct ncclComm *kin = comm;

	SCOPED_LOCK(&kin_lock);
	do {
		/* NCCL would also take back an abort that has come since. */
		if (!kin->aborted_for_good)
			store_release(&kin->member.aborted, false);
		kin = kin->next_kin;
	} while (kin != comm);
}

/* ---- whether something is a communicator, and ready -------------------- */

/* What a program passes may be anything, and be aligned to nothing. */
static bool has_magic(const struct ncclComm *comm, uint64_t magic)
{
	return comm && (uintptr_t)comm % _Alignof(struct ncclComm) == 0 &&
	       comm->magic == magic;
}

bool comm_is_valid(const struct ncclComm *comm, const char *function)
{
	if (has_magic(comm, COMM_BURIED))
		lifetime_used(comm, function);
	return has_magic(comm, COMM_MAGIC);
}

static bool is_revoked(const struct ncclComm *comm)
{
	return load_relaxed(&comm->revoked);
}

bool comm_shares(const struct ncclComm *comm, int configured)
{
	return configured && !is_revoked(comm);
}

/* What ncclCommGetAsyncError() answers (acquire). */
static ncclResult_t state_of(const struct ncclComm *comm)
{
	/* Acquire: pairs with the release when a group is done. */
	return (ncclResult_t)load_acquire(&comm->async_error);
}

ncclResult_t comm_ready(struct ncclComm *comm)
{
	ncclResult_t result = state_of(comm);

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
		lifetime_enter(comm, function);
	if (is_revoked(comm))
		return group_fail(ncclInvalidUsage,
		                  "the communicator was revoked");
	result = comm_ready(comm);
	if (result != ncclSuccess)
		return group_note(result);
	if (!comm->member.world)
		return group_fail(ncclInvalidArgument,
		                  "the communicator's init has not succeeded");
	return ncclSuccess;
}

bool comm_blocks(const struct ncclComm *comm)
{
	return !has_magic(comm, COMM_MAGIC) || comm->config.blocking;
}

ncclResult_t comm_answer(struct ncclComm *comm, ncclResult_t result)
{
	if (comm_blocks(comm))
		return result;
	/* The call was refused at once: the error does not stay. */
	if (result == ncclInvalidUsage && is_revoked(comm))
		return result;
	if (result != ncclSuccess && result != ncclInProgress)
		store_release(&comm->async_error, (int)result);
	/* Also if it is over already: the answer does not depend on which
	 * thread is faster. */
	return result == ncclInProgress ? result : state_of(comm);
}

/* ---- questions --------------------------------------------------------- */

const char *host_ncclGetLastError(ncclComm_t comm)
{
	if (strict_is_on())
		comm_is_valid(comm, "ncclGetLastError");
	return comm_last_error();
}

static ncclResult_t check_fact(const struct ncclComm *comm, const void *out,
                               const char *function)
{
	if (!comm_is_valid(comm, function))
		return comm_error(ncclInvalidArgument, "not a communicator");
	if (!out)
		return comm_error(ncclInvalidArgument, "output is NULL");
	return ncclSuccess;
}

/* A function that stores a number of a communicator that is ready. */
#define FACT(function, number)                                                 \
	ncclResult_t host_##function(const ncclComm_t comm, int *out)          \
	{                                                                      \
		ncclResult_t result = check_fact(comm, out, #function);        \
                                                                               \
		if (result == ncclSuccess)                                     \
			result = comm_ready(comm);                             \
		if (result == ncclSuccess)                                     \
			*out = comm->number;                                   \
		return result;                                                 \
	}

FACT(ncclCommCount, n)
FACT(ncclCommCuDevice, member.device)
FACT(ncclCommUserRank, member.rank)

ncclResult_t host_ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async)
{
	ncclResult_t result = check_fact(comm, async, "ncclCommGetAsyncError");

	if (result != ncclSuccess)
		return result;
	*async = state_of(comm);
	if (*async == ncclSuccess)
		background_settle(comm);
	return ncclSuccess;
}
