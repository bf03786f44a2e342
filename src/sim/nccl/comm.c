/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of communicators
 */

#include "sim/nccl/comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "sim/nccl/background.h"
#include "sim/nccl/lazy.h"
#include "sim/nccl/meeting.h"
#include "sim/nccl/register.h"
#include "sim/nccl/spans.h"

/* ---- life ------------------------------------------------------------- */

static void comm_free(struct ncclComm *comm)
{
	comm_leave_kin(comm);
	background_drop(comm);
	if (strict_is_on())
		registered_check(comm);
	registered_free(comm->registered);
	launches_free(&comm->member);
	redops_free(&comm->redops);
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
	atomic_store_explicit(&comm->users, 1, memory_order_relaxed);
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
	atomic_fetch_add_explicit(&comm->users, 1, memory_order_relaxed);
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
			comm_leave_kin(comm_of(w->members[i]));
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
