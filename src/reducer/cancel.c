/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A step that one rank gives up
 *
 * It still makes every call of the step, with zeros for what it does not have, so that
 * no other rank waits in vain.  Before it launches the first of these it says in its
 * communicator's block which step that is.  Each rank that has finished the step looks
 * there, at all ranks, before it answers.
 *
 * A step is told by the numbers of its collectives, which are the same on every rank:
 * the number that is published lies between the first and the last of them.
 *
 *  A. If a rank has launched anything that is not its gradient, every rank that has
 *     seen the step done sees the number: it was stored before that was launched, and
 *     the step is done after that.
 *  B. Two numbers are enough.  A rank that publishes the third has seen the step of the
 *     second done, or its weights, of which every rank has launched its part; so every
 *     rank has answered for the step of the first.
 *  C. No thread answers for a step that is finished on a stream, so that step cannot be
 *     given up: whoever comes second, the rank that gives it up or the one that finishes
 *     it on a stream, sees the other and ends the group.
 */

#include "base/clock.h"
#include "base/status.h"
#include "reducer/reducer.h"

/* ---- looking ---------------------------------------------------------- */

/* True if @c has given up a step of which a collective from @first to @last is. */
static bool has_cancelled(const struct cohort_comm *c, uint64_t first,
                          uint64_t last)
{
	uint64_t number;
	int k;

	/* seq_cst: pairs with reducer_publish(), as said in reducer_stream(); else what
	 * happens between them orders them, see A. */
	for (k = 0; k < CANCELLED; k++) {
		number = atomic_load(&c->cancelled[k]);
		if (number >= first && number <= last)
			return true;
	}
	return false;
}

/* The first rank that has given up the step of @r that is open; NULL: none has. */
static const struct cohort_comm *find_canceller(const struct cohort_reducer *r)
{
	const struct clique *q = r->comm->clique;
	/* Relaxed: written before the last ticket, which was waited for. */
	uint64_t first = atomic_load_explicit(&r->first, memory_order_relaxed);
	uint64_t newest =
		atomic_load_explicit(&r->newest, memory_order_relaxed);
	int k;

	for (k = 0; k < q->size && first; k++)
		if (has_cancelled(&q->comms[k], first, newest))
			return &q->comms[k];
	return NULL;
}

bool reducer_was_cancelled(const struct cohort_reducer *r)
{
	return r->is_cancelled || find_canceller(r);
}

/* ---- on a stream ------------------------------------------------------ */

static void end_group(struct cohort_reducer *r, int canceller, int other)
{
	const struct cohort_cause cause = {
		.status = COHORT_ABORTED,
		.kind = COHORT_VERDICT_ABORTED,
		.rank = canceller,
	};

	clique_fire(r->comm->clique, &cause,
	            "rank %d has cancelled a step of the reducer that rank %d "
	            "has finished on a stream, which goes on",
	            canceller, other);
}

int reducer_stream(struct cohort_reducer *r)
{
	uint64_t newest =
		atomic_load_explicit(&r->newest, memory_order_acquire);
	const struct cohort_comm *canceller;

	if (!newest) /* it has nothing to give up */
		return COHORT_OK;
	/* seq_cst, both here and in reducer_publish(): each stores, then looks, so that one
	 * sees the other. */
	atomic_store(&r->comm->streamed, newest);
	canceller = find_canceller(r);
	if (!canceller)
		return COHORT_OK;
	end_group(r, canceller->rank, r->comm->rank);
	return clique_error(r->comm->clique);
}

/* ---- cancel ----------------------------------------------------------- */

/* True if a gradient that has elements is not ready.  Of the others nothing is ever
 * launched: they are if nothing else is missing. */
static bool is_incomplete(struct cohort_reducer *r, uint64_t step)
{
	uint32_t i;

	for (i = 0; i < r->n; i++)
		if (r->items[i].count &&
		    atomic_load_explicit(&r->marked[i], memory_order_relaxed) !=
		            step)
			return true;
	for (i = 0; i < r->n; i++)
		reducer_mark(r, i, step);
	return false;
}

/* Say that the step is given up, and end the group if another rank has gone on.  Once
 * more if nothing of it is out: what the program has called since took the number. */
void reducer_publish(struct cohort_reducer *r)
{
	struct cohort_comm *c = r->comm;
	const struct clique *q = c->clique;
	/* The next one is of the step, as a gradient is missing; or weights, which
	 * are out, come to nothing, and there is none. */
	uint64_t first = atomic_load_explicit(&r->first, memory_order_acquire);
	uint64_t number = first ? first : atomic_load(&c->collectives) + 1;
	int k, older = c->cancelled[0] > c->cancelled[1];

	/* What was said of the same step is the newer one. */
	atomic_store(&c->cancelled[r->is_cancelled ? !older : older], number);
	r->is_cancelled = true;
	for (k = 0; k < q->size; k++)
		if (atomic_load(&q->comms[k].streamed) >= number)
			end_group(r, c->rank, q->comms[k].rank);
}

static int give_up(struct cohort_reducer *r)
{
	const struct clique *q = r->comm->clique;
	uint64_t step = atomic_load_explicit(&r->step, memory_order_relaxed);

	if (q->size < q->world)
		return error_set(COHORT_UNSUPPORTED,
		                 "cancel: %d of %d ranks are of other "
		                 "processes, which cannot be told",
		                 q->world - q->size, q->world);
	if (!is_incomplete(r, step))
		return COHORT_ALREADY;
	reducer_publish(r);
	return COHORT_OK;
}

int cohort_reducer_cancel(struct cohort_reducer *r, uint64_t timeout_ns)
{
	uint64_t deadline = clock_deadline(timeout_ns);
	int rc = reducer_check(r);

	if (rc == COHORT_OK)
		rc = reducer_check_open(r);
	if (rc == COHORT_OK && r->is_local) {
		reducer_close(r);
		return COHORT_OK;
	}
	if (rc == COHORT_OK && !r->is_cancelled)
		rc = give_up(r);
	if (rc == COHORT_OK)
		rc = reducer_finish_step(r, deadline);
	return rc == COHORT_SKIP ? COHORT_OK : rc;
}
