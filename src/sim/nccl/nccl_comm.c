/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the lifetime, the state and the abort flags of communicators, and
 * NCCL's functions that query them
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

/* ---- communicators that are aborted together -------------------------- */

/* Guards the families (rings of communicators that are aborted together).  A
 * thread that holds this lock may also acquire the lock of meetings or of a
 * world. */
static pthread_mutex_t family_lock = PTHREAD_MUTEX_INITIALIZER;

void comm_join_family(struct ncclComm *parent, struct ncclComm *child)
{
	SCOPED_LOCK(&family_lock);
	child->next_in_family = parent->next_in_family;
	child->prev_in_family = parent;
	parent->next_in_family->prev_in_family = child;
	parent->next_in_family = child;
	/* A child of an aborted parent is aborted from the start. */
	child->aborted_for_good = parent->aborted_for_good;
	store_release(&child->member.aborted,
	              load_relaxed(&parent->member.aborted));
}

/* Remove @comm from its family, so that no other communicator is aborted with
 * it. */
static void leave_family(struct ncclComm *comm)
{
	SCOPED_LOCK(&family_lock);
	comm->next_in_family->prev_in_family = comm->prev_in_family;
	comm->prev_in_family->next_in_family = comm->next_in_family;
	comm->next_in_family = comm->prev_in_family = comm;
}

/* ---- registrations ---------------------------------------------------- */

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

/* End the program if a buffer that a collective has used is still registered
 * when its communicator ends (strict mode).  In this case, NCCL would use a
 * proxy thread that it has already freed. */
static void check_registered(const struct ncclComm *comm)
{
	const struct registration *r;

	for (r = comm->registered; r; r = r->next)
		if (r->is_used && strcmp(r->function, "ncclCommRegister") == 0)
			member_abort_program(
				"ncclCommDestroy", &comm->member,
				"a buffer that a collective has used is "
				"still registered: call "
				"ncclCommDeregister() first");
}

/* ---- creating and freeing --------------------------------------------- */

static void comm_free(struct ncclComm *comm)
{
	leave_family(comm);
	background_drop(comm);
	if (strict_is_on())
		check_registered(comm);
	registered_free(comm->registered);
	launches_free(&comm->member);
	free(comm->redops.list);
	free(comm->member.lanes);
	pthread_mutex_destroy(&comm->lock);
	if (strict_is_on()) {
		lifetime_add_destroyed(comm);
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
	comm->next_in_family = comm->prev_in_family = comm;
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
	/* Relaxed, because the caller already holds a reference. */
	add_relaxed(&comm->users, 1);
}

void comm_put(struct ncclComm *comm)
{
	/* Acquire and release, so that the last user sees what the other users
	 * did. */
	if (atomic_fetch_sub_explicit(&comm->users, 1, memory_order_acq_rel) ==
	    1)
		comm_free(comm);
}

/* ---- worlds ----------------------------------------------------------- */

/* Detach all communicators from @w.  An abort visits all related communicators
 * under family_lock, so no thread can still use the world after this
 * function. */
static void world_leave(struct world *w)
{
	int i;

	for (i = 0; i < w->n; i++)
		if (w->members[i]) {
			meeting_leave_world(comm_of(w->members[i]));
			leave_family(comm_of(w->members[i]));
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
	struct ncclComm *relative = comm;
	struct world *w;

	pthread_mutex_lock(&family_lock);
	do {
		/* Raise the flag before world_abort() reads the rank's stream
		 * (member.at).  Both accesses are seq_cst. */
		atomic_store(&relative->member.aborted, true);
		relative->aborted_for_good =
			relative->aborted_for_good || !pulse;
		w = meeting_cut(relative);
		if (w && (!pulse || member_has_work(&relative->member)))
			world_abort(w);
		relative = relative->next_in_family;
	} while (relative != comm);
	pthread_mutex_unlock(&family_lock);
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

bool comm_family_is_cut(struct ncclComm *comm)
{
	struct ncclComm *relative = comm;
	struct world *w;
	bool is_cut;

	SCOPED_LOCK(&family_lock);
	do {
		w = meeting_world(relative);
		is_cut = w && world_is_broken(w) &&
		         member_has_work(&relative->member);
		relative = relative->next_in_family;
	} while (!is_cut && relative != comm);
	return is_cut;
}

void comm_lower(struct ncclComm *comm)
{
	struct ncclComm *relative = comm;

	SCOPED_LOCK(&family_lock);
	do {
		/* Unlike NCCL, do not lower the flag of a permanent abort. */
		if (!relative->aborted_for_good)
			store_release(&relative->member.aborted, false);
		relative = relative->next_in_family;
	} while (relative != comm);
}

/* ---- checking a communicator ------------------------------------------ */

/* Return true if @comm is a communicator with @magic.  A program can pass any
 * pointer, even an unaligned one. */
static bool has_magic(const struct ncclComm *comm, uint64_t magic)
{
	return comm && (uintptr_t)comm % _Alignof(struct ncclComm) == 0 &&
	       comm->magic == magic;
}

bool comm_is_valid(const struct ncclComm *comm, const char *function)
{
	if (has_magic(comm, COMM_DESTROYED))
		lifetime_used(comm, function);
	return has_magic(comm, COMM_MAGIC);
}

bool comm_shares(const struct ncclComm *comm, int configured)
{
	return configured && !load_relaxed(&comm->revoked);
}

/* Return what ncclCommGetAsyncError() reports. */
static ncclResult_t state_of(const struct ncclComm *comm)
{
	/* The acquire pairs with the release in change_state()
	 * (background.c). */
	return (ncclResult_t)load_acquire(&comm->async_error);
}

ncclResult_t comm_ready(struct ncclComm *comm)
{
	ncclResult_t result = state_of(comm);

	if (result == ncclSuccess || member_is_aborted(&comm->member)) {
		background_settle(comm);
		return ncclSuccess;
	}
	if (result == ncclInProgress)
		return comm_error(ncclInvalidArgument,
		                  "the communicator was used before its last "
		                  "operation returned ncclSuccess");
	return comm_error(result, "the communicator has already failed");
}

ncclResult_t comm_use(struct ncclComm *comm, const char *function)
{
	ncclResult_t result;

	if (!comm_is_valid(comm, function))
		return group_fail(ncclInvalidArgument,
		                  "comm is not a communicator");
	if (strict_is_on())
		lifetime_enter(comm, function);
	if (load_relaxed(&comm->revoked))
		return group_fail(ncclInvalidUsage,
		                  "the communicator was revoked");
	result = comm_ready(comm);
	if (result != ncclSuccess)
		return group_record_error(result);
	if (!comm->member.world)
		return group_fail(ncclInvalidArgument,
		                  "the initialization of the communicator has "
		                  "not succeeded");
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
	/* A revoked communicator refuses the call but does not record the
	 * error. */
	if (result == ncclInvalidUsage && load_relaxed(&comm->revoked))
		return result;
	if (result != ncclSuccess && result != ncclInProgress)
		store_release(&comm->async_error, (int)result);
	/* Return ncclInProgress even if the work is already done, so that the
	 * result does not depend on timing. */
	return result == ncclInProgress ? result : state_of(comm);
}

/* ---- queries ---------------------------------------------------------- */

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
		return comm_error(ncclInvalidArgument,
		                  "comm is not a communicator");
	if (!out)
		return comm_error(ncclInvalidArgument, "output is NULL");
	return ncclSuccess;
}

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
