/* SPDX-License-Identifier: Apache-2.0 */

#include "core/split.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/launch_lock.h"

/* Wait until no operation of @c is in flight, as NCCL requires. */
static int await_own(struct cohort_comm *c)
{
	uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_relaxed);
	uint64_t slots = c->clique->slots;
	uint64_t ticket = last > slots ? last - slots + 1 : 1;
	struct backoff b = BACKOFF;
	int rc;

	for (; ticket <= last; ticket++)
		while (!comm_ticket_done(c, ticket)) {
			rc = clique_error(c->clique);
			if (rc != COHORT_OK)
				return rc;
			comm_ticket_progress(c, ticket, UINT64_MAX);
			backoff_wait(&b, UINT64_MAX);
		}
	return COHORT_OK;
}

/* Withdraw from the split.  Return false if all ranks have arrived. */
static bool withdraw(struct clique *q, int all)
{
	int arrived = atomic_load(&q->split_arrived);

	while (arrived != all)
		if (atomic_compare_exchange_weak(&q->split_arrived, &arrived,
		                                 arrived - 1))
			return true;
	return false;
}

/* Return the ranks' arguments, followed by room for as many struct new_rank, or
 * NULL if there is no memory. */
static struct split_rank *collect(const struct clique *q)
{
	struct split_rank *ranks = calloc(
		(size_t)q->size, sizeof(*ranks) + sizeof(struct new_rank));
	int r;

	for (r = 0; ranks && r < q->size; r++)
		ranks[r] = (struct split_rank){
			.device = q->comms[r].device,
			.parent = q->comms[r].native,
			.color = q->comms[r].split.color,
			.key = q->comms[r].split.key,
		};
	return ranks;
}

/* End the clique because the init deadline has passed, so that the native call
 * of the splitting thread returns. */
static void fire_late(struct clique *q, const struct connection *connection)
{
	struct cohort_cause cause = {
		.status = COHORT_INIT_TIMEOUT,
		.kind = COHORT_VERDICT_INIT_STUCK,
		.rank = -1,
	};
	unsigned long long ms = q->deadlines.init_ns / 1000000;
	const char *stuck = cohort_verdict_text(COHORT_VERDICT_INIT_STUCK);
	char place[64], name[RANK_NAME_SIZE];
	int i = connect_place(connection, place, sizeof(place));

	if (i < 0) {
		clique_fire(q, &cause,
		            "%s: %s of %d ranks has not returned within %llu "
		            "ms; NCCL does not say which of them it waits for",
		            stuck, connect_native_name(connection), q->size,
		            ms);
		return;
	}
	cause.rank = q->comms[i].rank;
	clique_fire(q, &cause,
	            "%s: comm_split: %s, for %s, has not returned within "
	            "%llu ms",
	            stuck, place, clique_name_rank(q, cause.rank, name), ms);
}

/* Return true if the clique has ended and the splitting thread is in a call to
 * CUDA, during which it does not use the clique. */
static bool can_abandon(struct clique *q, const struct connection *connection)
{
	char place[64];

	return clique_cause(q) &&
	       connect_place(connection, place, sizeof(place)) >= 0;
}

/* Wait for the splitting thread.  Return false if it must be abandoned, because
 * the clique is WEDGED or can_abandon() is true. */
static bool await_thread(struct clique *q, struct connection *connection)
{
	uint64_t deadline = clock_deadline(q->deadlines.init_ns);

	while (!connect_is_done(connection)) {
		if (clique_update_state(q) == CLIQUE_WEDGED ||
		    can_abandon(q, connection))
			return false;
		if (clock_now() >= deadline && !clique_cause(q))
			fire_late(q, connection);
	}
	return true;
}

/* End the clique because @c's call has failed and other ranks wait for it. */
static void fire_failed(struct cohort_comm *c, int status)
{
	const struct cohort_cause cause = {
		.status = status,
		.kind = status == COHORT_CUDA ? COHORT_VERDICT_CUDA_ERROR
		                              : COHORT_VERDICT_NATIVE_ERROR,
		.rank = c->rank,
	};
	char name[RANK_NAME_SIZE];

	clique_fire(c->clique, &cause, "%s, comm_split: %s",
	            clique_name_rank(c->clique, c->rank, name),
	            cohort_last_error());
}

/* Return the rank whose native call failed.  If the failure cannot be
 * attributed to one rank, return @c, the rank that runs the split for all
 * ranks. */
static struct cohort_comm *find_failed(struct cohort_comm *c,
                                       const struct split_rank *ranks)
{
	struct clique *q = c->clique;
	int r;

	for (r = 0; r < q->size; r++)
		if (ranks[r].has_failed)
			return &q->comms[r];
	return c;
}

/* Create the children of all ranks.  The rank that arrived last calls this. */
static void create_children(struct cohort_comm *c,
                            const struct split_call *call)
{
	struct clique *q = c->clique;
	struct split_rank *ranks = collect(q);
	struct connection *connection;
	int rc;

	if (!ranks) {
		fire_failed(c, error_set(COHORT_NO_MEMORY,
		                         "no memory for %d ranks", q->size));
		return;
	}
	rc = connect_split(q, ranks, &connection);
	if (rc == COHORT_OK && !await_thread(q, connection)) {
		connect_abandon(connection);
	} else if (rc == COHORT_OK) {
		rc = connect_end(connection, ranks);
		if (rc == COHORT_OK)
			rc = call->open(q, ranks, (void *)(ranks + q->size));
	}
	if (rc != COHORT_OK)
		fire_failed(find_failed(c, ranks), rc);
	free(ranks);
}

/* Wait until the leader, which arrived last, has created the children. */
static void await_leader(struct clique *q, unsigned round)
{
	struct backoff b = BACKOFF;

	/* The acquire pairs with the leader's release, which publishes this
	 * rank's result. */
	while (atomic_load_explicit(&q->splits, memory_order_acquire) < round) {
		/* The leader will not continue either, so stop waiting. */
		if (clique_update_state(q) == CLIQUE_WEDGED)
			return;
		backoff_wait(&b, UINT64_MAX);
	}
}

/* Wait until all ranks have arrived.  Return false if the clique gets a cause
 * first. */
static bool await_all(struct clique *q, int all)
{
	struct backoff b = BACKOFF;

	while (atomic_load(&q->split_arrived) < all) {
		if (clique_cause(q))
			return !withdraw(q, all);
		backoff_wait(&b, UINT64_MAX);
	}
	return true;
}

int split_run(struct cohort_comm *c, const struct split_call *call)
{
	struct clique *q = c->clique;
	unsigned round = ++c->split.count;
	int all = (int)(round * (unsigned)q->size);
	int rc = await_own(c);

	if (rc != COHORT_OK)
		return rc;
	c->split.color = call->color;
	c->split.key = call->key;
	c->split.child = NULL;
	/* seq_cst, so that the leader sees what all ranks have stored. */
	if (atomic_fetch_add(&q->split_arrived, 1) == all - 1) {
		create_children(c, call);
		atomic_store_explicit(&q->splits, round, memory_order_release);
	} else if (await_all(q, all)) {
		await_leader(q, round);
	}
	rc = clique_error(q);
	if (rc == COHORT_OK)
		*call->child = c->split.child;
	return rc;
}
