/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a communicator is in progress with (background_run.c has the thread that
 * does it)
 */

#include "sim/nccl/background.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "sim/nccl/meeting.h"

void background_put(struct background *b)
{
	if (atomic_fetch_sub_explicit(&b->users, 1, memory_order_acq_rel) > 1)
		return;
	free(b->comms);
	free(b);
}

static struct background *take(struct ncclComm *comm)
{
	/* Relaxed: most communicators have none. */
	if (!atomic_load_explicit(&comm->background, memory_order_relaxed))
		return NULL;
	return atomic_exchange_explicit(&comm->background, NULL,
	                                memory_order_acq_rel);
}

static void settle(struct background *b)
{
	struct backoff wait = BACKOFF;

	while (!atomic_load_explicit(&b->done, memory_order_acquire))
		backoff_wait(&wait, UINT64_MAX);
	background_put(b);
}

void background_settle(struct ncclComm *comm)
{
	struct background *b = take(comm);

	if (b)
		settle(b);
}

void background_end(struct ncclComm *comm)
{
	struct background *b = take(comm);

	if (!b)
		return;
	atomic_store_explicit(&b->ended, true, memory_order_release);
	meeting_wake();
	settle(b);
}

void background_drop(struct ncclComm *comm)
{
	struct background *b = take(comm);

	if (b)
		background_put(b);
}
