/* SPDX-License-Identifier: Apache-2.0 */

/* The ranks of a watched program, and the numbers by which reports call them;
 * declared in observed.h */

#include "cli/watch/observed.h"

#include <string.h>

#include "base/util.h"

const struct shared_rank *observed_entry(const struct watch *w,
                                         const struct observed *o, int rank)
{
	return o->entries[rank] ? &w->shared->ranks[o->entries[rank] - 1]
	                        : NULL;
}

int observed_caller(const struct shared_rank *e)
{
	const struct record last = shared_record(e, atomic_load(&e->last));

	return last.ticket ? last.tid : atomic_load(&e->tid);
}

bool observed_is_same(const struct shared_rank *a, const struct shared_rank *b)
{
	const int device = atomic_load(&a->device);

	return atomic_load(&a->pid) == atomic_load(&b->pid) &&
	       atomic_load(&b->device) == device &&
	       (device >= 0 || observed_caller(a) == observed_caller(b));
}

int observed_world(const struct watch *w, const struct observed *o, int rank)
{
	const struct shared_rank *e = observed_entry(w, o, rank);
	const int world = e ? atomic_load(&e->root_rank) : -1;

	if (o->has_home)
		return o->worlds[rank];
	return world >= 0 && world < COHORT_MAX_RANKS ? world : rank;
}

/* Return whether all ranks of @o were created. */
static bool is_complete(const struct watch *w, const struct observed *o)
{
	const struct shared_rank *e;

	for (int r = 0; r < o->ranks; r++) {
		e = observed_entry(w, o, r);
		if (!e || atomic_load(&e->device) < 0)
			return false;
	}
	return true;
}

/* Return the number in @home of the rank of @e, or -1 if it is not there. */
static int find_rank(const struct watch *w, const struct observed *home,
                     const struct shared_rank *e)
{
	for (int r = 0; r < home->ranks; r++)
		if (observed_is_same(e, observed_entry(w, home, r)))
			return r;
	return -1;
}

/* Store the numbers in @home of all ranks of @o.  Return false, and store
 * nothing, unless @home has all these ranks. */
static bool move_to(const struct watch *w, struct observed *o,
                    const struct observed *home)
{
	uint64_t used[COHORT_RANK_WORDS] = { 0 };
	int worlds[COHORT_MAX_RANKS];

	for (int r = 0; r < o->ranks; r++) {
		worlds[r] = find_rank(w, home, observed_entry(w, o, r));
		if (worlds[r] < 0 || rank_set_has(used, worlds[r]))
			return false;
		rank_set_add(used, worlds[r]);
	}
	memcpy(o->worlds, worlds, (size_t)o->ranks * sizeof(*worlds));
	return true;
}

/* Find the largest communicator that has all ranks of @o, or the oldest one of
 * these. */
static void find_home(const struct watch *w, struct observed *o)
{
	int most = o->ranks - 1;

	o->has_home = false;
	for (const struct observed *home = w->all; home; home = home->next) {
		if (home->parent || !home->is_complete || home == o ||
		    home->ranks <= most ||
		    (home->ranks == o->ranks && home->number > o->number) ||
		    !move_to(w, o, home))
			continue;
		o->has_home = true;
		most = home->ranks;
	}
	o->now.is_child = o->parent || o->has_home;
}

void observed_number(struct watch *w)
{
	bool has_changed = w->has_changed;

	for (struct observed *o = w->all; o; o = o->next)
		if (!o->is_complete && is_complete(w, o))
			o->is_complete = has_changed = true;
	w->has_changed = false;
	for (struct observed *o = w->all; o && has_changed; o = o->next)
		if (o->is_complete)
			find_home(w, o);
}
