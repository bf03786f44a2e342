/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cancel a step: one rank cancels it, and the other ranks notice
 *
 * The canceling rank still makes every call of the step, with zeros for missing
 * gradients, because the other ranks wait for its part.  Before it launches the
 * first of these calls, it publishes in its communicator which step it cancels.
 * When the step is done, each rank checks what all ranks have published.
 *
 * A step is identified by the numbers of its collectives, on which all ranks
 * agree: the published number lies between the first and the last of them.
 *
 *  A. If a rank has launched zeros in place of a gradient, every rank that sees
 *     the step done also sees the number: the rank stored the number before it
 *     launched, and the step is done after that launch.
 *  B. Each rank needs to keep only its last two numbers.  When it publishes a
 *     third, it has seen the second step done, or at least the all-reduce of
 *     that step's weights.  Every rank has taken part in that, so every rank
 *     has returned from the first step.
 *  C. A step that is finished on a stream cannot be canceled, because no thread
 *     waits for its result.  If one rank cancels the step and another finishes
 *     it on a stream, the later of the two sees what the other has published
 *     and ends the group.
 */

#include "base/clock.h"
#include "base/status.h"
#include "reducer/reducer.h"

/* Return true if @c has canceled the step whose collectives are @first to
 * @last. */
static bool has_cancelled(const struct cohort_comm *c, uint64_t first,
                          uint64_t last)
{
	uint64_t number;
	int k;

	/* The load is seq_cst and pairs with reducer_publish(), see
	 * reducer_stream().  If the step is not finished on a stream, the
	 * launches between that store and this load order the two accesses (see
	 * A above). */
	for (k = 0; k < CANCELLED; k++) {
		number = atomic_load(&c->cancelled[k]);
		if (number >= first && number <= last)
			return true;
	}
	return false;
}

/* Return the first rank that has canceled the open step, or NULL. */
static const struct cohort_comm *find_canceller(const struct cohort_reducer *r)
{
	const struct clique *q = r->comm->clique;
	/* Relaxed order is enough, because the number was written before the
	 * last ticket, for which this thread has waited. */
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
	            "%s has canceled a step of the reducer that %s has already "
	            "finished on a stream",
	            clique_name_rank(q, canceller, names[0]),
	            clique_name_rank(q, other, names[1]));
}

int reducer_stream(struct cohort_reducer *r)
{
	uint64_t newest =
		atomic_load_explicit(&r->newest, memory_order_acquire);
	const struct cohort_comm *canceller;

	if (!newest) /* the step has launched no collective */
		return COHORT_OK;
	/* All accesses here and in reducer_publish() are seq_cst: each function
	 * first stores, then checks, so at least one of the two threads sees
	 * the other's store. */
	atomic_store(&r->comm->streamed, newest);
	canceller = find_canceller(r);
	if (!canceller)
		return COHORT_OK;
	end_group(r, canceller->rank, r->comm->rank);
	return clique_error(r->comm->clique);
}

/* Return true if a gradient with elements is not ready.  Otherwise mark the
 * gradients without elements as ready, because nothing is launched for them. */
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

/* End the group if another rank has finished the step on a stream.  Called
 * again until a collective of the step is launched, because another call of the
 * program may have taken the published number. */
void reducer_publish(struct cohort_reducer *r)
{
	struct cohort_comm *c = r->comm;
	const struct clique *q = c->clique;
	/* The next collective belongs to the step, because a gradient is
	 * missing.  The exception is a step whose launched weights add up to 0:
	 * it has no further collective. */
	uint64_t first = atomic_load_explicit(&r->first, memory_order_acquire);
	uint64_t number =
		first ? first : atomic_load(&c->agreement.collectives) + 1;
	int k, older = c->cancelled[0] > c->cancelled[1];

	/* If the step was published before, replace the newer of the two
	 * numbers. */
	atomic_store(&c->cancelled[r->is_cancelled ? !older : older], number);
	r->is_cancelled = true;
	for (k = 0; k < q->size; k++)
		if (atomic_load(&q->comms[k].streamed) >= number)
			end_group(r, c->rank, q->comms[k].rank);
}

static int withdraw_step(struct cohort_reducer *r)
{
	const struct clique *q = r->comm->clique;
	uint64_t step = atomic_load_explicit(&r->step, memory_order_relaxed);

	if (q->size < q->world_size)
		return error_set(COHORT_UNSUPPORTED,
		                 "cancel: the step cannot be canceled, because "
		                 "%d of %d ranks are in other processes",
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
		rc = withdraw_step(r);
	if (rc == COHORT_OK)
		rc = reducer_finish_step(r, deadline);
	return rc == COHORT_SKIP ? COHORT_OK : rc;
}
