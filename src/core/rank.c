/* SPDX-License-Identifier: Apache-2.0 */

/* Finds and names the ranks of a clique, computes the deadlines of their calls,
 * and keeps the reasons why they wait */

#include <string.h>

#include "base/backoff.h"
#include "core/clique.h"
#include "core/remote.h"

/* Return the deadlines that the rank has pushed on @c.  If a deadline was not
 * pushed on @c, use the one pushed on the nearest communicator that @c was
 * split from, or 0 if there is none. */
static struct limits pushed_limits(const struct cohort_comm *c)
{
	struct limits l = { 0, 0 };

	for (; c && (!l.join_ns || !l.exec_ns); c = c->above) {
		if (!l.join_ns)
			l.join_ns = atomic_load(&c->deadlines.join_ns);
		if (!l.exec_ns)
			l.exec_ns = atomic_load(&c->deadlines.exec_ns);
	}
	return l;
}

struct limits comm_limits(const struct cohort_comm *c, bool connects)
{
	const struct cohort_deadlines *d = &c->clique->deadlines;
	struct limits pushed = pushed_limits(c), l = { d->join_ns, d->exec_ns };

	if (pushed.join_ns)
		l.join_ns = pushed.join_ns;
	if (pushed.exec_ns)
		l.exec_ns = pushed.exec_ns;
	if (connects && l.exec_ns < d->init_ns)
		l.exec_ns = d->init_ns;
	return l;
}

int clique_world(const struct clique *q, int rank)
{
	const struct cohort_comm *c = clique_rank(q, rank);

	if (c)
		return c->world_rank;
	if (!clique_is_child(q))
		return rank;
	return q->remote ? q->remote->world(q, rank) : -1;
}

bool clique_translate(const struct clique *q, uint64_t *to,
                      const struct clique *from, const uint64_t *set)
{
	uint64_t worlds[COHORT_RANK_WORDS] = { 0 };
	uint64_t out[COHORT_RANK_WORDS] = { 0 };
	bool is_known = true;
	int r, world;

	for (r = 0; r < from->world_size; r++) {
		world = clique_world(from, r);
		is_known &= world >= 0;
		if (world >= 0 && rank_set_has(set, r))
			rank_set_add(worlds, world);
	}
	for (r = 0; r < q->world_size; r++) {
		world = clique_world(q, r);
		is_known &= world >= 0;
		if (world >= 0 && rank_set_has(worlds, world))
			rank_set_add(out, r);
	}
	memcpy(to, out, sizeof(out));
	return is_known;
}

const struct cohort_comm *clique_rank(const struct clique *q, int rank)
{
	int i;

	/* If all ranks are in this process, each rank is at its own index. */
	if (rank >= 0 && rank < q->size && q->comms[rank].rank == rank)
		return &q->comms[rank];
	for (i = 0; i < q->size; i++)
		if (q->comms[i].rank == rank)
			return &q->comms[i];
	return NULL;
}

const struct cohort_comm *clique_rank_of_world(const struct clique *q,
                                               int world)
{
	int i;

	for (i = 0; i < q->size; i++)
		if (q->comms[i].world_rank == world)
			return &q->comms[i];
	return NULL;
}

void clique_add_ranks(struct text *t, const struct clique *q,
                      const uint64_t *set)
{
	uint64_t world[COHORT_RANK_WORDS] = { 0 };
	int r, w;

	for (r = 0; r < q->world_size; r++) {
		if (!rank_set_has(set, r))
			continue;
		w = clique_world(q, r);
		if (w < 0) {
			memset(world, 0, sizeof(world));
			break;
		}
		rank_set_add(world, w);
	}
	rank_set_name(t, set, world, q->name);
}

const char *clique_name_rank(const struct clique *q, int rank,
                             char name[RANK_NAME_SIZE])
{
	uint64_t set[COHORT_RANK_WORDS] = { 0 };

	rank_set_add(set, rank);
	clique_add_ranks(&(struct text){ name, RANK_NAME_SIZE }, q, set);
	return name;
}

void wait_reason_set(struct wait_reason_slot *slot,
                     const struct wait_reason *reason)
{
	struct backoff b = BACKOFF;

	atomic_store(&slot->now, reason);
	while (atomic_load(&slot->readers))
		backoff_wait(&b, UINT64_MAX);
}

void wait_reason_add(struct wait_reason_slot *slot, struct text *t)
{
	const struct wait_reason *reason;

	atomic_fetch_add(&slot->readers, 1);
	reason = atomic_load(&slot->now);
	if (reason)
		reason->add(reason, t);
	atomic_fetch_sub(&slot->readers, 1);
}
