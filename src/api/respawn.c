/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Respawning: a new generation over the devices of the ranks that are left
 *
 * The former generation stays as it is, to answer for its tickets; a call on
 * its communicators answers COHORT_STALE.
 */

#include <stdlib.h>

#include "api/group.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/clique_tree.h"
#include "core/comm_lock.h"
#include "core/hazard.h"
#include "core/launch_lock.h"

/* Put the ranks in @lost, which may be of other processes, into the set. */
static int lost_check(const struct clique *q, const int *lost, int n,
                      uint64_t *set)
{
	int i;

	if (n < 0 || n >= q->world_size)
		return error_set(COHORT_INVALID,
		                 "n is %d, not 0 to %d: one of the %d ranks "
		                 "must be left",
		                 n, q->world_size - 1, q->world_size);
	if (n && !lost)
		return error_set(COHORT_INVALID, "lost_ranks is NULL");
	for (i = 0; i < n; i++) {
		if (lost[i] < 0 || lost[i] >= q->world_size)
			return error_set(COHORT_INVALID,
			                 "lost_ranks[%d] is %d, not 0 to %d", i,
			                 lost[i], q->world_size - 1);
		if (rank_set_has(set, lost[i]))
			return error_set(COHORT_INVALID,
			                 "lost_ranks[%d] is %d, as is one "
			                 "before it",
			                 i, lost[i]);
		rank_set_add(set, lost[i]);
	}
	return COHORT_OK;
}

/* Mark the ranks of this process that are in the set. */
static void mark_lost(const struct clique *q, const uint64_t *set,
                      bool *is_lost)
{
	int r;

	for (r = 0; r < q->size; r++)
		is_lost[r] = rank_set_has(set, q->comms[r].rank);
}

/* True if all that is left of a wedged clique is on lost ranks. */
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

/* True if every device of @child belongs to a lost rank of @q. */
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

/* Wait until what was split from @of is out of the way; an error if that does
 * not come.  @q has the ranks that are lost. */
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
			                 "\"%s\", which was split from the "
			                 "group, has not come to its end",
			                 child->name);
		rc = children_check(child, q, is_lost);
	}
	return rc;
}

/* Wait until the former generation is out of the way; an error if that does not
 * come. */
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

/* Free all but the last FORMER_KEPT former generations. */
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

/* Open the next generation over the devices of the ranks that are not lost,
 * with @room for two numbers of each rank. */
static int succeed(struct cohort_group *group, const bool *is_lost, int *room,
                   const struct process_part *part)
{
	struct generation *former = atomic_load(&group->now);
	struct clique *q = former->clique;
	int *devices = room, *origins = room + q->size;
	int r, n = 0, rc;

	for (r = 0; r < q->size; r++) {
		if (is_lost[r])
			continue;
		devices[n] = q->comms[r].device;
		origins[n++] = q->comms[r].origin;
	}
	rc = group_open_generation(group, devices, n, origins, part);
	if (rc != COHORT_OK)
		return rc;
	generation_pass(former);
	atomic_store(&group->split, false);
	forget_former(group);
	return COHORT_OK;
}

/* Begin the next generation, once the former one is out of the way here and in
 * all other processes. */
static int begin_anew(struct cohort_group *group, const uint64_t *lost,
                      bool *is_lost, int *room)
{
	struct generation *now = atomic_load(&group->now);
	struct clique *q = now->clique;
	struct process_part part;
	int rc;

	mark_lost(q, lost, is_lost);
	rc = former_check(now, is_lost);
	if (rc == COHORT_OK)
		rc = children_check(q, q, is_lost);
	rc = group_meet(group, rc, q->size, lost, &part);
	if (rc != COHORT_OK)
		return rc;
	if (!group->processes)
		return succeed(group, is_lost, room, NULL);
	mark_lost(q, part.lost, is_lost);
	return succeed(group, is_lost, room, &part);
}

/* While no run and no other respawn is under way. */
static int respawn(struct cohort_group *group, const int *ranks, int n)
{
	struct generation *now = atomic_load(&group->now);
	struct clique *q = now->clique;
	uint64_t lost[COHORT_RANK_WORDS] = { 0 };
	bool *is_lost;
	int *room, rc;

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
	room = malloc(2 * (size_t)q->size * sizeof(*room));
	rc = is_lost && room ? begin_anew(group, lost, is_lost, room)
	                     : error_set(COHORT_NO_MEMORY,
	                                 "no memory for %d ranks", q->size);
	free(room);
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
		                 "a run or a respawn is under way");
	hazard_announce(NULL); /* this thread is in no call of a communicator */
	rc = respawn(group, lost_ranks, n);
	atomic_store(&group->running, false);
	return rc;
}
