/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements cohort_group_respawn(): opens a new generation on the devices of
 * the remaining ranks
 *
 * The former generation is kept so that its tickets can still be checked.  New
 * calls on its communicators return COHORT_STALE.
 */

#include <stdlib.h>

#include "api/communicator.h"
#include "api/group.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/clique_tree.h"
#include "core/comm_lock.h"
#include "core/hazard.h"
#include "core/launch_lock.h"

/* Check the program's list of lost ranks, which may include ranks of other
 * processes, and add them to @set. */
static int lost_check(const struct clique *q, const int *lost, int n,
                      uint64_t *set)
{
	if (n < 0 || n >= q->world_size)
		return error_set(COHORT_INVALID,
		                 "n is %d, not 0 to %d: at least one of the %d "
		                 "ranks must remain",
		                 n, q->world_size - 1, q->world_size);
	return rank_list_check("lost_ranks", lost, n, q->world_size, set);
}

static void mark_lost(const struct clique *q, const uint64_t *set,
                      bool *is_lost)
{
	int r;

	for (r = 0; r < q->size; r++)
		is_lost[r] = rank_set_has(set, q->comms[r].rank);
}

/* Return true if all ranks that still hang in the wedged clique @q are marked
 * as lost. */
static bool is_lost_with(const struct clique *q, const bool *is_lost)
{
	int r, probing = atomic_load(&q->probing) - 1;
	int reaping = atomic_load(&q->reaping_place);

	for (r = 0; r < q->size; r++)
		if (!is_lost[r] && (!comm_is_idle(&q->comms[r]) ||
		                    q->comms[r].tickets.unmarked ||
		                    probing == q->comms[r].rank))
			return false;
	return !atomic_load(&q->reaping) || (reaping >= 0 && is_lost[reaping]);
}

/* Return true if every device of @child belongs to a lost rank of @q. */
static bool is_on_lost(const struct clique *child, const struct clique *q,
                       const bool *is_lost)
{
	int r, k;

	for (r = 0; r < q->size; r++)
		for (k = 0; !is_lost[r] && k < child->size; k++)
			if (child->comms[k].device == q->comms[r].device)
				return false;
	return true;
}

/* Wait until the cliques that were split from @of have ended.  Return an error
 * if a clique does not end and uses the device of a rank that is not lost.
 * @is_lost: true for each lost rank of @q */
static int children_check(const struct clique *of, const struct clique *q,
                          const bool *is_lost)
{
	uint64_t deadline = clock_deadline(q->deadlines.abort_ns);
	struct clique *child;
	enum clique_state state;
	int rc = COHORT_OK;

	for (child = clique_tree_first(of); child && rc == COHORT_OK;
	     child = clique_tree_next(child)) {
		state = clique_await(child, CLIQUE_RECLAIMED, deadline);
		if ((state < CLIQUE_RECLAIMED || state == CLIQUE_WEDGED) &&
		    !is_on_lost(child, q, is_lost))
			return error_set(COHORT_STATE,
			                 "communicator \"%s\", which was split "
			                 "from the group, has not ended",
			                 child->name);
		rc = children_check(child, q, is_lost);
	}
	return rc;
}

/* Wait until the former generation has ended.  If it does not end, return an
 * error if this affects a rank that is not lost. */
static int former_check(struct generation *former, const bool *is_lost)
{
	struct clique *q = former->clique;
	uint64_t deadline = clock_deadline(q->deadlines.abort_ns);
	enum clique_state state = clique_await(q, CLIQUE_RECLAIMED, deadline);
	char text[1024];

	if (state >= CLIQUE_RECLAIMED && state != CLIQUE_WEDGED)
		return COHORT_OK;
	if (state == CLIQUE_WEDGED && is_lost_with(q, is_lost))
		return COHORT_OK;
	watch_explain(former->watch, text, sizeof(text));
	return error_set(COHORT_STATE, "%s", text);
}

static void forget_former(struct cohort_group *group)
{
	struct generation **at = &atomic_load(&group->now)->former, *former;
	int kept = 0;

	while ((former = *at)) {
		struct generation *const before = former->former;

		if (kept++ < FORMER_KEPT || !generation_forget(former))
			at = &former->former;
		else
			*at = before;
	}
}

/* Open the next generation on the devices of the ranks that are not lost.
 * @ranks: room for all ranks */
static int open_next_generation(struct cohort_group *group, const bool *is_lost,
                                struct new_rank *ranks,
                                const struct process_part *part)
{
	struct generation *former = atomic_load(&group->now);
	struct clique *q = former->clique;
	int r, n = 0, rc;

	for (r = 0; r < q->size; r++) {
		if (is_lost[r])
			continue;
		ranks[n].device = q->comms[r].device;
		ranks[n++].origin = q->comms[r].origin;
	}
	rc = group_open_generation(group, ranks, n, part);
	if (rc != COHORT_OK)
		return rc;
	generation_mark_replaced(former);
	atomic_store(&group->split, false);
	forget_former(group);
	return COHORT_OK;
}

/* Start the next generation once the former one has ended in this process and
 * in all other processes. */
static int start_next_generation(struct cohort_group *group,
                                 const uint64_t *lost, bool *is_lost,
                                 struct new_rank *ranks)
{
	struct generation *now = atomic_load(&group->now);
	struct clique *q = now->clique;
	struct process_part part;
	int rc;

	mark_lost(q, lost, is_lost);
	rc = former_check(now, is_lost);
	if (rc == COHORT_OK)
		rc = children_check(q, q, is_lost);
	rc = group_exchange(group, rc, q->size, lost, &part);
	if (rc != COHORT_OK)
		return rc;
	if (!group->processes)
		return open_next_generation(group, is_lost, ranks, NULL);
	mark_lost(q, part.lost, is_lost);
	return open_next_generation(group, is_lost, ranks, &part);
}

/* Respawn the group.  No run and no other respawn may be in progress. */
static int respawn(struct cohort_group *group, const int *ranks, int n)
{
	struct generation *now = atomic_load(&group->now);
	struct clique *q = now->clique;
	uint64_t lost[COHORT_RANK_WORDS] = { 0 };
	struct new_rank *next;
	bool *is_lost;
	int rc;

	if (!clique_cause(q))
		return error_set(COHORT_STATE,
		                 "the group has not ended: there is nothing to "
		                 "respawn");
	rc = watch_check_callback(q);
	if (rc != COHORT_OK)
		return rc;
	rc = lost_check(q, ranks, n, lost);
	if (rc != COHORT_OK)
		return rc;
	is_lost = calloc((size_t)q->size, sizeof(*is_lost));
	next = calloc((size_t)q->size, sizeof(*next));
	rc = is_lost && next ? start_next_generation(group, lost, is_lost, next)
	                     : error_set(COHORT_NO_MEMORY,
	                                 "no memory for %d ranks", q->size);
	free(next);
	free(is_lost);
	return rc;
}

int cohort_group_respawn(struct cohort_group *group, const int *lost_ranks,
                         int n)
{
	int rc = group_check_closely(group);

	if (rc == COHORT_OK)
		rc = memory_section_check("group_respawn");
	if (rc != COHORT_OK)
		return rc;
	if (atomic_exchange(&group->running, true))
		return error_set(COHORT_STATE,
		                 "a cohort_group_run() or "
		                 "cohort_group_respawn() is in progress");
	/* Withdraw the communicator that this thread announced in an earlier
	 * call. */
	hazard_announce(NULL);
	rc = respawn(group, lost_ranks, n);
	atomic_store(&group->running, false);
	return rc;
}
