/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the work of nonblocking communicators on background threads (see
 * background.h)
 */

#include "sim/nccl/background.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/thread.h"
#include "sim/nccl/meeting.h"

static void background_put(struct background *b)
{
	if (atomic_fetch_sub_explicit(&b->users, 1, memory_order_acq_rel) > 1)
		return;
	free(b->comms);
	free(b);
}

static struct background *detach_background(struct ncclComm *comm)
{
	/* First check without a barrier, because most communicators have no
	 * background operation. */
	if (!load_relaxed(&comm->background))
		return NULL;
	return atomic_exchange_explicit(&comm->background, NULL,
	                                memory_order_acq_rel);
}

static void await_end(struct background *b)
{
	struct backoff wait = BACKOFF;

	while (!load_acquire(&b->done))
		backoff_wait(&wait, UINT64_MAX);
	background_put(b);
}

void background_settle(struct ncclComm *comm)
{
	struct background *b = detach_background(comm);

	if (b)
		await_end(b);
}

void background_end(struct ncclComm *comm)
{
	struct background *b = detach_background(comm);

	if (!b)
		return;
	store_release(&b->ended, true);
	meeting_wake();
	await_end(b);
}

void background_drop(struct ncclComm *comm)
{
	struct background *b = detach_background(comm);

	if (b)
		background_put(b);
}

/* ---- the communicators of a batch ------------------------------------- */

typedef void (*visit_fn)(struct ncclComm *comm, void *user);

/* Call @fn for every communicator of a batch, possibly more than once.  For a
 * join that creates a child, call @fn for the parent. */
static void visit(const struct batch *b, visit_fn fn, void *user)
{
	const struct launch *l;
	const struct join *j;
	size_t i;

	for (j = b->joins; j; j = j->next)
		fn(j->parent ? j->parent : j->comm, user);
	for (l = b->first; l; l = l->next)
		fn(comm_of(l->member), user);
	for (i = 0; i < b->job_count; i++)
		fn(b->jobs[i].comm, user);
}

static void count(struct ncclComm *comm, void *user)
{
	size_t *n = user;

	(void)comm;
	++*n;
}

static void add(struct ncclComm *comm, void *user)
{
	struct background *b = user;
	size_t i;

	for (i = 0; i < b->count; i++)
		if (b->comms[i] == comm)
			return;
	b->comms[b->count++] = comm;
}

/* Change the state of @comm from @from to @to.  Do nothing if a scripted fault
 * has set another state. */
static void change_state(struct ncclComm *comm, ncclResult_t from,
                         ncclResult_t to)
{
	int state = (int)from;

	/* The release pairs with the acquire of threads that query the
	 * state. */
	atomic_compare_exchange_strong_explicit(&comm->async_error, &state,
	                                        (int)to, memory_order_release,
	                                        memory_order_relaxed);
}

/* ---- the thread ------------------------------------------------------- */

static struct background *background_create(struct batch *batch)
{
	struct background *b = calloc(1, sizeof(*b));
	struct join *j;
	size_t n = 0;

	if (!b)
		return NULL;
	visit(batch, count, &n);
	b->comms = malloc(n * sizeof(struct ncclComm *));
	if (!b->comms) {
		free(b);
		return NULL;
	}
	visit(batch, add, b);
	for (j = batch->joins; j; j = j->next)
		j->ended = &b->ended;
	b->batch = *batch;
	*batch = (struct batch){ .first = NULL };
	store_relaxed(&b->users, b->count + 1);
	return b;
}

static void finish(struct background *b, ncclResult_t result)
{
	size_t i;

	for (i = 0; i < b->count; i++) {
		change_state(b->comms[i], ncclInProgress, result);
		comm_put(b->comms[i]);
	}
	store_release(&b->done, true);
	background_put(b);
}

static void *background_main(void *arg)
{
	struct background *b = arg;

	finish(b, batch_run(&b->batch, ncclSuccess));
	return NULL;
}

static void begin(struct background *b)
{
	size_t i;

	for (i = 0; i < b->count; i++) {
		comm_get(b->comms[i]);
		background_settle(b->comms[i]);
		change_state(b->comms[i], ncclSuccess, ncclInProgress);
		/* The release pairs with the exchange in
		 * detach_background(). */
		store_release(&b->comms[i]->background, b);
	}
}

ncclResult_t background_run(struct batch *batch)
{
	struct background *b = background_create(batch);
	pthread_t thread;

	if (!b) {
		background_fail(batch, ncclSystemError);
		batch_run(batch, ncclSystemError);
		return comm_error(ncclSystemError, "out of memory");
	}
	begin(b);
	if (thread_start(&thread, background_main, b, "nccl:group") == 0) {
		pthread_detach(thread);
		return ncclInProgress;
	}
	finish(b, batch_run(&b->batch, ncclSystemError));
	return comm_error(ncclSystemError,
	                  "cannot start a thread for the group");
}

static void fail(struct ncclComm *comm, void *user)
{
	if (!comm->config.blocking)
		change_state(comm, ncclSuccess, *(const ncclResult_t *)user);
}

void background_fail(const struct batch *batch, ncclResult_t error)
{
	visit(batch, fail, &error);
}
