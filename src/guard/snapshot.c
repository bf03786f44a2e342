/* SPDX-License-Identifier: Apache-2.0 */

#include "guard/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

bool snapshot_init(struct snapshot *s, const struct clique *q)
{
	int r;

	*s = (struct snapshot){
		.group = q->name,
		.generation = q->generation,
		.size = q->size,
		.world = q->world,
		.abort_ns = q->deadlines.abort_ns,
		.starts_are_marked = q->platform->starts_are_marked,
		.probing = -1,
		.ranks = calloc((size_t)q->size, sizeof(*s->ranks)),
		.next = calloc((size_t)q->size, sizeof(*s->next)),
	};
	if (!s->ranks || !s->next) {
		snapshot_fini(s);
		return false;
	}
	for (r = 0; r < q->size; r++)
		s->next[r] = 1;
	return true;
}

void snapshot_fini(struct snapshot *s)
{
	free(s->ranks);
	free(s->next);
	s->ranks = NULL;
	s->next = NULL;
}

/* The first collective of @c from @next on that is not done, called or not. */
static uint64_t next_undone(const struct cohort_comm *c, uint64_t next)
{
	uint64_t called = agree_called(c), slots = c->clique->slots;

	/* It has no more in flight than slots, with the last call's own. */
	if (called >= slots && next <= called - slots)
		next = called - slots + 1;
	while (next <= called &&
	       comm_ticket_done(c, atomic_load(&agree_slot(c, next)->ticket)))
		next++;
	return next;
}

/* What the front is: the oldest that is not done everywhere, if any rank has
 * called it. */
static uint64_t find_front(const struct clique *q, uint64_t *next)
{
	uint64_t front = UINT64_MAX;
	int r;

	for (r = 0; r < q->size; r++) {
		next[r] = next_undone(&q->comms[r], next[r]);
		if (next[r] < front)
			front = next[r];
	}
	for (r = 0; r < q->size; r++)
		if (agree_called(&q->comms[r]) >= front)
			return front;
	return 0;
}

/* A rank's part of the front.  False if its slot was taken again meanwhile: by
 * the call that is so many later. */
static bool take_part(struct rank_snapshot *r, const struct cohort_comm *c,
                      uint64_t front)
{
	const struct agree_slot *slot = agree_slot(c, front);
	uint64_t ticket;

	r->joined = agree_called(c) >= front;
	if (!r->joined)
		return true;
	ticket = atomic_load(&slot->ticket);
	r->arrived_ns = atomic_load(&slot->arrived_ns);
	r->limits.join_ns = atomic_load(&slot->join_ns);
	r->limits.exec_ns = atomic_load(&slot->exec_ns);
	/* A record that is gone is of an operation that is done. */
	if (recorder_read(&c->recorder, ticket, &r->call))
		r->in_call = r->call.outcome == COHORT_TIMED_OUT;
	r->done = comm_ticket_done(c, ticket);
	r->started = r->done || comm_ticket_started(c, ticket);
	return agree_called(c) - front < c->clique->slots;
}

static void take_rank(struct rank_snapshot *r, const struct cohort_comm *c)
{
	uint64_t last = atomic_load(&c->last);
	struct rank_snapshot former = *r;

	*r = (struct rank_snapshot){
		.rank = c->rank,
		.device = c->device,
		.inside = atomic_load(&c->gate),
		.idle = comm_is_idle(c),
		.closed = atomic_load(&c->closed),
		.bound = atomic_load(&c->owner),
		.tid = atomic_load(&c->tid),
		.alive = -1,
	};
	r->native = r->inside && atomic_load(&c->native_user);
	if (r->tid == former.tid) {
		r->alive = former.alive;
		memcpy(r->thread, former.thread, sizeof(r->thread));
	}
	/* The one it is inside of has no ticket yet. */
	if (!recorder_read(&c->recorder, last + 1, &r->last) &&
	    !recorder_read(&c->recorder, last, &r->last))
		r->last.ticket = 0;
}

static bool take(struct snapshot *s, struct clique *q)
{
	bool whole = true;
	int r;

	/* In this order: one that goes on in between is seen. */
	s->paused = atomic_load(&q->paused) > 0;
	s->resumed_ns = atomic_load(&q->resumed_ns);
	s->front = find_front(q, s->next);
	s->all_joined = true;
	for (r = 0; r < q->size; r++) {
		take_rank(&s->ranks[r], &q->comms[r]);
		if (s->front)
			whole &=
				take_part(&s->ranks[r], &q->comms[r], s->front);
		s->all_joined &= s->ranks[r].joined;
	}
	s->state = clique_look(q);
	s->reaping = atomic_load(&q->reaping);
	s->reaping_rank = atomic_load(&q->reaping_rank);
	s->probing = atomic_load(&q->probing) - 1;
	s->now_ns = clock_now();
	return whole;
}

void snapshot_take(struct snapshot *s, struct clique *q)
{
	uint64_t front = s->front, resumed_ns = s->resumed_ns;
	bool all_joined = s->all_joined;

	while (!take(s, q))
		;
	if (s->front == front && s->all_joined == all_joined &&
	    s->resumed_ns == resumed_ns)
		return;
	s->warned = false;
	s->expired = 0;
}

void snapshot_threads(struct snapshot *s)
{
	struct rank_snapshot *r;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		if (r->tid)
			r->alive = thread_lives(r->tid, r->thread);
}
