/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reaper: one job for each clique, started when the clique ends, and the
 * only one that aborts or destroys its native communicators
 *
 * docs/internals.md ("The abort protocol") says why the steps have this order.
 * clique.h declares the functions.
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

static void publish_call(struct clique *q, const char *function,
                         const struct cohort_comm *c)
{
	atomic_store_explicit(&q->reaping_place, c ? (int)(c - q->comms) : -1,
	                      memory_order_relaxed);
	atomic_store_explicit(&q->reaping, function, memory_order_relaxed);
}

/* Query the rank's event with its device current.  If the device cannot be made
 * current, return cudaErrorNotReady, because a query with a lost device current
 * always fails. */
static cudaError_t query_event(const struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	cudaError_t error = cudaErrorNotReady;
	int device = -1;

	publish_call(c->clique, "cudaEventQuery", c);
	p->cudaSetDevice(c->device);
	if (p->cudaGetDevice(&device) == cudaSuccess && device == c->device)
		error = p->cudaEventQuery(c->after.event);
	publish_call(c->clique, NULL, NULL);
	return error;
}

/* Return true if no work of the rank runs on its device: either the device is
 * lost, so that every query fails and no further mark is set, or @by_event is
 * true and the event shows that the unmarked work is done. */
static bool is_over(const struct cohort_comm *c, bool by_event)
{
	const cudaError_t error = query_event(c);

	return cuda_error_is_sticky(error) ||
	       (by_event && error == cudaSuccess);
}

/* Return true if no thread is inside @c and no operation is in flight. */
static bool is_quiet(struct cohort_comm *c)
{
	uint64_t ticket, last;

	/* seq_cst, see cause.h.  is_detached is also set with the lock held. */
	if (atomic_load(&c->lock.held) || atomic_load(&c->lock.is_detached))
		return false;
	last = atomic_load_explicit(&c->tickets.last, memory_order_acquire);
	for (ticket = last; ticket && last - ticket < c->clique->slots;
	     ticket--) {
		if (comm_ticket_done(c, ticket))
			continue;
		comm_ticket_progress(c, ticket, 0);
		return is_over(c, false);
	}
	return !c->tickets.unmarked || is_over(c, c->tickets.unmarked_event);
}

/* Wait until the prober is in no call for the clique.  Return false if the
 * clique became WEDGED.  From then on, the prober sees the cause and makes no
 * call. */
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

static bool is_launched(struct cohort_comm *c)
{
	return !atomic_load(&c->lock.is_detached);
}

/* Wait until @holds is true for every rank.  Return false if the clique became
 * WEDGED. */
static bool await_ranks(struct clique *q, bool (*holds)(struct cohort_comm *c))
{
	struct backoff b = BACKOFF;
	int r = 0;

	while (r < q->size)
		if (holds(&q->comms[r]))
			r++;
		else if (clique_update_state(q) == CLIQUE_WEDGED)
			return false;
		else
			backoff_wait(&b, UINT64_MAX);
	return true;
}

/* Never return, so that nothing is freed and the group that is open on this
 * thread stays open. */
static void park(void)
{
	for (;;)
		pause();
}

/* Abort or destroy every rank, in a group that is left open.  If the group
 * cannot be opened, park the thread, because without a group the last call
 * would immediately free all ranks. */
static ncclResult_t release_all(struct clique *q, const char *function,
                                ncclResult_t (*release)(ncclComm_t comm))
{
	ncclResult_t first, result;
	int r;

	publish_call(q, "ncclGroupStart", NULL);
	first = q->platform->ncclGroupStart();

	if (first != ncclSuccess)
		park();
	for (r = 0; r < q->size; r++) {
		publish_call(q, function, &q->comms[r]);
		result = release(q->comms[r].native);
		if (first == ncclSuccess)
			first = result;
	}
	publish_call(q, NULL, NULL);
	return first;
}

/* Abort the communicators that an unfinished or failed split has left, in the
 * open group.  Called after the ranks are aborted, because aborting a rank
 * writes to the memory of its child. */
static ncclResult_t abort_orphans(struct clique *q, ncclComm_t *natives)
{
	ncclResult_t first = ncclSuccess, result;
	int r;

	for (r = 0; natives && r < q->size; r++) {
		publish_call(q, "ncclCommAbort", &q->comms[r]);
		result = q->platform->ncclCommAbort(natives[r]);
		if (first == ncclSuccess)
			first = result;
	}
	publish_call(q, NULL, NULL);
	return first;
}

/* Deregister the memory of all ranks (register.h).  Called in a memory section,
 * because NCCL unmaps memory. */
static void deregister(struct clique *q)
{
	int r;

	for (r = 0; r < q->size; r++) {
		if (!q->comms[r].registrations)
			continue;
		publish_call(q, "ncclCommDeregister", &q->comms[r]);
		q->platform->cudaSetDevice(q->comms[r].device);
		register_end(&q->comms[r]);
	}
	publish_call(q, NULL, NULL);
}

/* End the group, which frees the communicators if all calls in it succeeded.
 * Called in a memory section. */
static void reclaim(struct clique *q, int from, ncclResult_t released)
{
	ncclResult_t ended;
	bool freed;

	publish_call(q, "ncclGroupEnd", NULL);
	ended = q->platform->ncclGroupEnd();
	publish_call(q, NULL, NULL);
	freed = released == ncclSuccess && ended == ncclSuccess;
	clique_set_state(q, from, freed ? CLIQUE_RECLAIMED : CLIQUE_LEAKED);
	cause_wake();
}

/* Wait until the other cliques that are being aborted on @q's devices have
 * raised their flags, but not beyond the abort deadline.  Freeing may wait for
 * all work on the devices, which only these flags can end. */
static void await_neighbours(const struct clique *q)
{
	const struct cohort_cause *cause = clique_cause(q);
	uint64_t deadline = clock_after(cause->time_ns, q->deadlines.abort_ns);
	struct backoff b = BACKOFF;

	while (!clique_tree_is_flagged(q) && clock_now() < deadline)
		backoff_wait(&b, deadline);
}

/* Send the cause to other processes, and wait until they have taken their
 * snapshots, for up to patience_ns or half of the abort deadline. */
static void await_others(struct clique *q)
{
	const uint64_t half = q->deadlines.abort_ns / 2;
	uint64_t patience;

	if (!q->remote || q->world_size == q->size)
		return;
	patience = q->remote->patience_ns;
	q->remote->send_cause(q, clique_explained_cause(q),
	                      clock_deadline(half < patience ? half
	                                                     : patience));
}

/* Make a device current on this thread.  In an abort, call this after all flags
 * are up: cudaSetDevice() may wait for a CUDA call that only the abort ends. */
static void make_device_current(struct clique *q)
{
	publish_call(q, "cudaSetDevice", q->comms);
	native_thread_init(q->platform, q->comms->device);
	publish_call(q, NULL, NULL);
}

static void reap_by_abort(struct clique *q)
{
	ncclResult_t released, orphans;
	ncclComm_t *natives;

	clique_tree_end(q);
	clique_record_completions(q);
	await_others(q);
	/* Abort even after the deadline, because the abort may unblock a
	 * thread. */
	released = release_all(q, "ncclCommAbort", q->platform->ncclCommAbort);
	natives = clique_take_orphans(q);
	orphans = abort_orphans(q, natives);
	if (released == ncclSuccess)
		released = orphans;
	/* Close the window now: every launch in it that the abort can unblock
	 * has been unblocked. */
	launch_lock_close(q);
	if (!clique_set_state(q, CLIQUE_NOTED, CLIQUE_FLAGGED))
		park();
	make_device_current(q);
	/* A quiet rank stays quiet, because a thread that takes its lock later
	 * sees the cause. */
	if (!await_ranks(q, is_quiet) || !await_prober(q) ||
	    !clique_set_state(q, CLIQUE_FLAGGED, CLIQUE_QUIESCED))
		park();
	await_neighbours(q);
	memory_section_begin();
	deregister(q);
	reclaim(q, CLIQUE_QUIESCED, released);
	memory_section_end();
	free(natives);
}

/* Destroy the communicators of a clique after an orderly close.  All operations
 * are done, and no thread is inside. */
static void reap_by_destroy(struct clique *q)
{
	clique_record_completions(q);
	if (q->remote)
		q->remote->publish_event(q->comms, REMOTE_NOTED);
	make_device_current(q);
	if (!await_prober(q) || !await_ranks(q, is_launched) ||
	    !clique_set_state(q, CLIQUE_NOTED, CLIQUE_QUIESCED))
		park();
	memory_section_begin();
	deregister(q);
	reclaim(q, CLIQUE_QUIESCED,
	        release_all(q, "ncclCommDestroy",
	                    q->platform->ncclCommDestroy));
	memory_section_end();
}

/* Free the ranks' resources.  Runs in a job, not in the thread that closes the
 * group, because freeing may wait for the device. */
static void release(struct clique *q)
{
	publish_call(q, "cudaFree", NULL);
	clique_tree_leave(q); /* no other thread reads the words from here on */
	clique_release(q);
	clique_set_state(q, CLIQUE_RECLAIMED, CLIQUE_RELEASED);
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
	/* Tickets may be queried until the clique is unused.  Until then the
	 * resources stay, and another job frees them later. */
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
