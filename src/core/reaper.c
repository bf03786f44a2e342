/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reaper: one thread per clique, asleep until the clique has a cause, and
 * the only one that aborts or destroys its native communicators
 *
 * NCCL raises a communicator's abort flags at the call of ncclCommAbort(), also
 * inside an open group, and frees at the group's end; it frees all ranks of a
 * process with the last of them, under whoever is still inside.  So: open a
 * group, abort every rank (kernels exit, blocked calls return), wait until
 * nobody is inside and nothing is in flight, and only then end the group.  What
 * does not come to an end in time is left alone for ever.
 */

#include <errno.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "core/clique.h"

static bool move(struct clique *q, int from, int to)
{
	/* Release: what was done in the old state.  Pairs with the acquire in
	 * clique_look(). */
	return atomic_compare_exchange_strong(&q->state, &from, to);
}

/* What is done now is truly done: no flag is up yet. */
static void take_snapshot(struct clique *q)
{
	struct cohort_comm *c;
	unsigned slot;
	int r;

	for (r = 0; r < q->size; r++) {
		c = &q->comms[r];
		/* Acquire: pairs with the release when a ticket is given out,
		 * whose slot's former operation was then done. */
		c->last_then =
			atomic_load_explicit(&c->last, memory_order_acquire);
		for (slot = 0; slot < q->slots; slot++)
			c->done_then[slot] = __atomic_load_n(&c->done[slot],
			                                     __ATOMIC_ACQUIRE);
	}
	/* Release: pairs with the acquire of those who wait. */
	atomic_store_explicit(&q->snapshot, true, memory_order_release);
}

static bool stream_is_idle(const struct platform *p, cudaStream_t stream)
{
	return p->cudaStreamQuery(stream) != cudaErrorNotReady;
}

/* True if nobody is inside @c and nothing of it is in flight. */
static bool is_quiet(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	uint64_t ticket, last;

	/* seq_cst, see gate. */
	if (atomic_load(&c->gate))
		return false;
	last = atomic_load_explicit(&c->last, memory_order_acquire);
	for (ticket = last; ticket && last - ticket < c->clique->slots;
	     ticket--) {
		if (comm_ticket_done(c, ticket))
			continue;
		p->progress(recorder_stream(&c->recorder, ticket));
		return false;
	}
	return !c->unmarked || stream_is_idle(p, c->unmarked_stream);
}

/* Wait until every rank is quiet; false if the clique became WEDGED. */
static bool quiesce(struct clique *q)
{
	struct backoff b = BACKOFF;
	int r = 0;

	/* A rank that was quiet stays so: those who come later see the cause
	 * at the gate. */
	while (r < q->size) {
		if (is_quiet(&q->comms[r]))
			r++;
		else if (clique_look(q) == CLIQUE_WEDGED)
			return false;
		else
			backoff_wait(&b, UINT64_MAX);
	}
	return move(q, CLIQUE_FLAGGED, CLIQUE_QUIESCED);
}

/* Abort or destroy every rank; the group is left open. */
static ncclResult_t release_all(struct clique *q,
                                ncclResult_t (*release)(ncclComm_t comm))
{
	ncclResult_t first = q->platform->ncclGroupStart(), result;
	int r;

	for (r = 0; r < q->size; r++) {
		result = release(q->comms[r].native);
		if (first == ncclSuccess)
			first = result;
	}
	return first;
}

/* End the group, which frees if everything in it went well. */
static void reclaim(struct clique *q, int from, ncclResult_t released)
{
	ncclResult_t ended = q->platform->ncclGroupEnd();
	bool freed = released == ncclSuccess && ended == ncclSuccess;

	move(q, from, freed ? CLIQUE_RECLAIMED : CLIQUE_LEAKED);
}

/* The group stays open on this thread, and nothing is freed. */
static void park(void)
{
	for (;;)
		pause();
}

static void reap_by_abort(struct clique *q)
{
	ncclResult_t released;

	take_snapshot(q);
	released = release_all(q, q->platform->ncclCommAbort);
	if (!move(q, CLIQUE_LIVE, CLIQUE_FLAGGED) || !quiesce(q))
		park();
	reclaim(q, CLIQUE_QUIESCED, released);
}

/* Everything is done and nobody is inside: an orderly end. */
static void reap_by_destroy(struct clique *q)
{
	reclaim(q, CLIQUE_LIVE, release_all(q, q->platform->ncclCommDestroy));
}

void *reaper_main(void *arg)
{
	struct clique *q = arg;

	while (sem_wait(&q->caused) && errno == EINTR)
		;
	if (clique_cause(q))
		reap_by_abort(q);
	else
		reap_by_destroy(q);
	return NULL;
}
