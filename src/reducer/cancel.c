/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A step that one rank gives up; declared in reducer.h
 *
 * The rank still makes every call of the step, with zeros for missing
 * gradients, so that no other rank waits in vain.  Before it launches the first
 * of these calls, it publishes in its communicator which step it gives up.
 * Each rank that has finished the step looks at what all ranks have published
 * before it answers.
 *
 * The numbers of its collectives, which all ranks agree on, identify a step:
 * the published number lies between the first and the last of them.
 *
 *  A. If a rank has launched zeros in place of a gradient, every rank that sees
 *     the step done also sees the number: the rank stored the number before it
 *     launched, and the step is done after that launch.
 *  B. Two numbers are enough.  A rank that publishes a third number has seen
 *     the second step done, or at least its weights, for which every rank has
 *     launched its part; so every rank has answered for the first step.
 *  C. A step that is finished on a stream cannot be given up, because no thread
 *     answers for it.  If one rank gives the step up and another finishes it on
 *     a stream, the later of the two sees the other and ends the group.
 */

#include "base/clock.h"
#include "base/status.h"
#include "reducer/reducer.h"

/* ---- looking ---------------------------------------------------------- */

/* True if @c has given up the step whose collectives are @first to @last. */
static bool has_cancelled(const struct cohort_comm *c, uint64_t first,
                          uint64_t last)
{
	uint64_t number;
	int k;

	/* seq_cst: pairs with reducer_publish(), see reducer_stream().  Where
	 * the step is not on a stream, the launches between the two order them,
	 * see A. */
	for (k = 0; k < CANCELLED; k++) {
		number = atomic_load(&c->cancelled[k]);
		if (number >= first && number <= last)
			return true;
	}
	return false;
}

/* The first rank that has given up the open step, or NULL. */
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
	struct clique *q = r->comm->clique;
	char names[2][RANK_NAME_SIZE];

	clique_fire(q, &cause,
	            "%s has cancelled a step of the reducer that %s has "
	            "finished on a stream, which goes on",
	            clique_name_rank(q, canceller, names[0]),
	            clique_name_rank(q, other, names[1]));
}

int reducer_stream(struct cohort_reducer *r)
{
	uint64_t newest =
		atomic_load_explicit(&r->newest, memory_order_acquire);
	const struct cohort_comm *canceller;

	if (!newest) /* the step has nothing to give up */
		return COHORT_OK;
	/* seq_cst, here and in reducer_publish(): each function stores, then
	 * looks, so that at least one sees the other's store. */
	atomic_store(&r->comm->streamed, newest);
	canceller = find_canceller(r);
	if (!canceller)
		return COHORT_OK;
	end_group(r, canceller->rank, r->comm->rank);
	return clique_error(r->comm->clique);
}

/* ---- cancel ----------------------------------------------------------- */

/* True if a gradient that has elements is not ready.  If none is, mark the
 * gradients without elements as well: nothing is ever launched for these. */
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

/* Publish that the step is given up, and end the group if another rank has
 * finished it on a stream.  Called again while nothing of the step is launched,
 * because the program may have used up the published number by another call. */
void reducer_publish(struct cohort_reducer *r)
{
	struct cohort_comm *c = r->comm;
	const struct clique *q = c->clique;
	/* The next collective is the step's, because a gradient is missing;
	 * unless the launched weights add up to 0, and the step has no further
	 * one. */
	uint64_t first = atomic_load_explicit(&r->first, memory_order_acquire);
	uint64_t number =
		first ? first : atomic_load(&c->agreement.collectives) + 1;
	int k, older = c->cancelled[0] > c->cancelled[1];

	/* For a step that is published already, replace the newer number. */
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

	if (q->size < q->world_size)
		return error_set(COHORT_UNSUPPORTED,
		                 "cancel: %d of %d ranks are of other "
		                 "processes, which cannot be told",
		                 q->world_size - q->size, q->world_size);
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
