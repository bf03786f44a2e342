/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reaper: one job for each clique, run once the clique has a cause, and the
 * only one that aborts or destroys its native communicators
 *
 * NCCL raises a communicator's abort flags at the call of ncclCommAbort(), also
 * inside an open group, and frees at the group's end; it frees all ranks of a
 * process with the last of them, under any thread that is still inside.  So:
 * open a group, abort every rank (kernels exit, blocked calls return), wait
 * until nobody is inside and nothing is in flight, deregister memory, and only
 * then end the group.
 * What does not come to an end in time is left as it is, for ever.  clique.h
 * declares its functions.
 */

#include <stdlib.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/crew.h"
#include "core/clique.h"
#include "core/clique_tree.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "core/register.h"
#include "core/remote.h"

/* Publish which native call the reaper is in, and for which rank (NULL if none).
 */
static void at(struct clique *q, const char *function,
               const struct cohort_comm *c)
{
	atomic_store_explicit(&q->reaping_place, c ? (int)(c - q->comms) : -1,
	                      memory_order_relaxed);
	atomic_store_explicit(&q->reaping, function, memory_order_relaxed);
}

/* Query with the rank's device current, or answer cudaErrorNotReady: a lost
 * device answers whatever is asked while it is current. */
static cudaError_t query_event(const struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	cudaError_t error = cudaErrorNotReady;
	int device = -1;

	at(c->clique, "cudaEventQuery", c);
	p->cudaSetDevice(c->device);
	if (p->cudaGetDevice(&device) == cudaSuccess && device == c->device)
		error = p->cudaEventQuery(c->after.event);
	at(c->clique, NULL, NULL);
	return error;
}

/* True if nothing runs on the device any more, because it is lost: it answers
 * every query with that error, and what was in flight there is never marked as
 * done.  Or, with @by_event, if the event tells that what has no mark is
 * done. */
static bool is_over(const struct cohort_comm *c, bool by_event)
{
	const cudaError_t error = query_event(c);

	return cuda_error_is_sticky(error) ||
	       (by_event && error == cudaSuccess);
}

/* True if nobody is inside @c and nothing of it is in flight. */
static bool is_quiet(struct cohort_comm *c)
{
	uint64_t ticket, last;

	/* seq_cst, see cause.h.  is_detached is set with the lock held. */
	if (atomic_load(&c->lock.held) || atomic_load(&c->lock.is_detached))
		return false;
	last = atomic_load_explicit(&c->tickets.last, memory_order_acquire);
	for (ticket = last; ticket && last - ticket < c->clique->slots;
	     ticket--) {
		if (comm_ticket_done(c, ticket))
			continue;
		comm_ticket_help(c, ticket, 0);
		return is_over(c, false);
	}
	return !c->tickets.unmarked || is_over(c, c->tickets.unmarked_event);
}

/* Wait until the prober is out; false if the clique became WEDGED.  A prober
 * that comes in later sees the cause. */
static bool await_prober(struct clique *q)
{
	struct backoff b = BACKOFF;

	/* seq_cst, see cause.h. */
	while (atomic_load(&q->probing)) {
		if (clique_update_state(q) == CLIQUE_WEDGED)
			return false;
		backoff_wait(&b, UINT64_MAX);
	}
	return true;
}

/* Wait until every call whose caller has left is launched; false if the clique
 * became WEDGED. */
static bool await_detached(struct clique *q)
{
	struct backoff b = BACKOFF;
	int r;

	for (r = 0; r < q->size; r++)
		while (atomic_load(&q->comms[r].lock.is_detached)) {
			if (clique_update_state(q) == CLIQUE_WEDGED)
				return false;
			backoff_wait(&b, UINT64_MAX);
		}
	return true;
}

/* Wait until every rank is quiet; false if the clique became WEDGED. */
static bool quiesce(struct clique *q)
{
	struct backoff b = BACKOFF;
	int r = 0;

	/* A rank that was quiet stays quiet: a thread that comes later sees the
	 * cause at the lock. */
	while (r < q->size) {
		if (is_quiet(&q->comms[r]))
			r++;
		else if (clique_update_state(q) == CLIQUE_WEDGED)
			return false;
		else
			backoff_wait(&b, UINT64_MAX);
	}
	return await_prober(q) &&
	       clique_move(q, CLIQUE_FLAGGED, CLIQUE_QUIESCED);
}

/* Stay here for ever: nothing is freed, and the group that is open on this
 * thread stays open. */
static void park(void)
{
	for (;;)
		pause();
}

/* Abort or destroy every rank, in a group that is left open.  Without a group
 * nothing is done: the last rank would free all of them at once. */
static ncclResult_t release_all(struct clique *q, const char *function,
                                ncclResult_t (*release)(ncclComm_t comm))
{
	ncclResult_t first, result;
	int r;

	at(q, "ncclGroupStart", NULL);
	first = q->platform->ncclGroupStart();

	if (first != ncclSuccess)
		park();
	for (r = 0; r < q->size; r++) {
		at(q, function, &q->comms[r]);
		result = release(q->comms[r].native);
		if (first == ncclSuccess)
			first = result;
	}
	at(q, NULL, NULL);
	return first;
}

/* Abort what a failed split has left, in the group and after the ranks: the
 * abort of a rank writes to its child. */
static ncclResult_t abort_orphans(struct clique *q, ncclComm_t *natives)
{
	ncclResult_t first = ncclSuccess, result;
	int r;

	for (r = 0; natives && r < q->size; r++) {
		at(q, "ncclCommAbort", &q->comms[r]);
		result = q->platform->ncclCommAbort(natives[r]);
		if (first == ncclSuccess)
			first = result;
	}
	at(q, NULL, NULL);
	return first;
}

/* Deregister the memory of all ranks: see register.h.  In a memory section, as
 * NCCL unmaps memory. */
static void deregister(struct clique *q)
{
	int r;

	for (r = 0; r < q->size; r++) {
		if (!q->comms[r].registrations)
			continue;
		at(q, "ncclCommDeregister", &q->comms[r]);
		q->platform->cudaSetDevice(q->comms[r].device);
		register_end(&q->comms[r]);
	}
	at(q, NULL, NULL);
}

/* End the group, which frees if all calls in it succeeded.  In a memory
 * section. */
static void reclaim(struct clique *q, int from, ncclResult_t released)
{
	ncclResult_t ended;
	bool freed;

	at(q, "ncclGroupEnd", NULL);
	ended = q->platform->ncclGroupEnd();
	at(q, NULL, NULL);
	freed = released == ncclSuccess && ended == ncclSuccess;
	clique_move(q, from, freed ? CLIQUE_RECLAIMED : CLIQUE_LEAKED);
	cause_wake();
}

/* Wait until the other cliques that are being aborted on these devices have
 * raised their flags: to free may wait for all that runs there.  Raising flags
 * waits for nobody; after the abort deadline this is not waited for. */
static void await_neighbours(const struct clique *q)
{
	const struct cohort_cause *cause = clique_cause(q);
	uint64_t deadline = clock_after(cause->time_ns, q->deadlines.abort_ns);
	struct backoff b = BACKOFF;

	while (!clique_tree_is_flagged(q) && clock_now() < deadline)
		backoff_wait(&b, deadline);
}

/* The others have less time to note what was done than an abort may take. */
static void await_others(struct clique *q)
{
	const uint64_t half = q->deadlines.abort_ns / 2;
	uint64_t patience;

	if (!q->remote || q->world_size == q->size)
		return;
	patience = q->remote->patience_ns;
	q->remote->tell(q, clique_explained_cause(q),
	                clock_deadline(half < patience ? half : patience));
}

/* Make a device current on this thread.  On an abort, call this after all flags
 * are up: cudaSetDevice() may wait for a CUDA call that only the abort ends. */
static void set_up(struct clique *q)
{
	at(q, "cudaSetDevice", q->comms);
	native_thread_init(q->platform, q->comms->device);
	at(q, NULL, NULL);
}

static void reap_by_abort(struct clique *q)
{
	ncclResult_t released, orphans;
	ncclComm_t *natives;

	clique_tree_end(q);
	clique_record_completions(q);
	await_others(q);
	/* Also past the deadline: it may release a thread. */
	released = release_all(q, "ncclCommAbort", q->platform->ncclCommAbort);
	natives = clique_take_orphans(q);
	orphans = abort_orphans(q, natives);
	if (released == ncclSuccess)
		released = orphans;
	/* A launch that is stuck in the window goes on now, or never will. */
	launch_lock_close(q);
	if (!clique_move(q, CLIQUE_NOTED, CLIQUE_FLAGGED))
		park();
	set_up(q);
	if (!quiesce(q))
		park();
	await_neighbours(q);
	memory_section_begin();
	deregister(q);
	reclaim(q, CLIQUE_QUIESCED, released);
	memory_section_end();
	free(natives);
}

/* Everything is done and nobody is inside: an orderly end. */
static void reap_by_destroy(struct clique *q)
{
	clique_record_completions(q);
	set_up(q);
	if (!await_prober(q) || !await_detached(q) ||
	    !clique_move(q, CLIQUE_NOTED, CLIQUE_QUIESCED))
		park();
	memory_section_begin();
	deregister(q);
	reclaim(q, CLIQUE_QUIESCED,
	        release_all(q, "ncclCommDestroy",
	                    q->platform->ncclCommDestroy));
	memory_section_end();
}

/* Give back what the ranks have.  Apart from the close that waits for it, as it
 * may wait for the device. */
static void release(struct clique *q)
{
	at(q, "cudaFree", NULL);
	clique_tree_leave(q); /* no other thread reads the words from here on */
	clique_release(q);
	clique_move(q, CLIQUE_RECLAIMED, CLIQUE_RELEASED);
}

static bool release_main(void *arg)
{
	struct clique *q = arg;

	native_thread_init(q->platform, q->comms->device);
	release(q);
	return true;
}

static bool reaper_main(void *arg)
{
	struct clique *q = arg;
	int none = UNUSED_NOT;

	if (clique_cause(q))
		reap_by_abort(q);
	else
		reap_by_destroy(q);
	/* Tickets are asked about until the clique is unused.  If it is not
	 * yet, another job releases it. */
	if (clique_update_state(q) == CLIQUE_RECLAIMED &&
	    !atomic_compare_exchange_strong(&q->unused, &none, UNUSED_REAPED))
		release(q);
	return true;
}

void clique_reap(struct clique *q)
{
	if (atomic_exchange(&q->is_reaped, true))
		return;
	q->reaper.is_native = true;
	crew_run(&q->reaper, reaper_main, q, "%.8s/reap", q->name);
}

void clique_set_unused(struct clique *q)
{
	if (atomic_exchange(&q->unused, UNUSED) != UNUSED_REAPED)
		return;
	q->releaser.is_native = true;
	crew_fill();
	crew_run(&q->releaser, release_main, q, "%.8s/free", q->name);
}

void clique_close(struct clique *q)
{
	cause_set_closing(q->end);
	crew_fill();
	clique_reap(q);
}
