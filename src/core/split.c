/* SPDX-License-Identifier: Apache-2.0 */

#include "core/split.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/launch_lock.h"

/* ---- before ----------------------------------------------------------- */

/* Wait until nothing of @c is in flight: NCCL wants that before a split. */
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
			comm_ticket_help(c, ticket, UINT64_MAX);
			backoff_wait(&b, UINT64_MAX);
		}
	return COHORT_OK;
}

/* Leave before all ranks have come; false if they have come. */
static bool withdraw(struct clique *q, int all)
{
	int arrived = atomic_load(&q->split_arrived);

	while (arrived != all)
		if (atomic_compare_exchange_weak(&q->split_arrived, &arrived,
		                                 arrived - 1))
			return true;
	return false;
}

/* ---- the last to come ------------------------------------------------- */

static struct split_rank *collect(const struct clique *q)
{
	struct split_rank *ranks = calloc((size_t)q->size, sizeof(*ranks));
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

/* The time is up: end the clique, so that the thread's call returns. */
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
		            "ms; which of them it waits for, NCCL does not say",
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

/* True if the thread uses nothing of the parent any more: the children's
 * communicators are made, only a device hangs. */
static bool may_be_left(struct clique *q, const struct connection *connection)
{
	char place[64];

	return clique_cause(q) &&
	       connect_place(connection, place, sizeof(place)) >= 0;
}

/* Wait for the thread; false if the clique has ended before, and the thread is
 * to be left. */
static bool await_thread(struct clique *q, struct connection *connection)
{
	uint64_t deadline = clock_deadline(q->deadlines.init_ns);

	while (!connect_is_done(connection)) {
		if (clique_update_state(q) == CLIQUE_WEDGED ||
		    may_be_left(q, connection))
			return false;
		if (clock_now() >= deadline && !clique_cause(q))
			fire_late(q, connection);
	}
	return true;
}

/* End the clique, as the call of @c's rank has failed and the other ranks wait
 * for it. */
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

/* The rank whose call has failed; @c, which made all calls, if it was no
 * rank's. */
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

/* Make the children of all ranks. */
static void lead(struct cohort_comm *c, const struct split_call *call)
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
		connect_leave(connection);
	} else if (rc == COHORT_OK) {
		rc = connect_end(connection, ranks);
		if (rc == COHORT_OK)
			rc = call->open(q, ranks, q->size);
	}
	if (rc != COHORT_OK)
		fire_failed(find_failed(c, ranks), rc);
	free(ranks);
}

/* ---- taking part ------------------------------------------------------ */

/* Wait until the last rank to come has made the children. */
static void await_leader(struct clique *q, unsigned round)
{
	struct backoff b = BACKOFF;

	/* Acquire: what that rank has stored for this one. */
	while (atomic_load_explicit(&q->splits, memory_order_acquire) < round) {
		/* The other rank does not go on either. */
		if (clique_update_state(q) == CLIQUE_WEDGED)
			return;
		backoff_wait(&b, UINT64_MAX);
	}
}

/* Wait until all ranks have come; false if the clique has a cause before. */
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
	/* seq_cst: the last to come sees what all have stored. */
	if (atomic_fetch_add(&q->split_arrived, 1) == all - 1) {
		lead(c, call);
		atomic_store_explicit(&q->splits, round, memory_order_release);
	} else if (await_all(q, all)) {
		await_leader(q, round);
	}
	rc = clique_error(q);
	if (rc == COHORT_OK)
		*call->child = c->split.child;
	return rc;
}

int split_discard(struct clique *parent, const struct split_rank *ranks, int n)
{
	const struct platform *p = parent->platform;
	int i;

	memory_section_begin();
	p->ncclGroupStart(); /* around the group of each rank */
	for (i = 0; i < n; i++)
		if (ranks[i].connected.native)
			connect_discard(p, &ranks[i].device, 1,
			                &ranks[i].connected);
	p->ncclGroupEnd();
	memory_section_end();
	return error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
}

void split_set_child(struct clique *parent, int index,
                     struct cohort_comm *child)
{
	parent->comms[index].split.child = child;
}
