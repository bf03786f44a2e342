/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "core/comm_lock.h"
#include "core/remote.h"

/* Number of collectives, counted back from the front collective, whose tags are
 * compared. */
#define TAGS_COMPARED 8

bool snapshot_init(struct snapshot *s, const struct clique *q)
{
	int r;

	*s = (struct snapshot){
		.now_ns = clock_now(),
		.group = q->name,
		.generation = q->generation,
		.size = q->size,
		.world = q->world_size,
		.abort_ns = q->deadlines.abort_ns,
		.is_child = clique_is_child(q),
		.starts_are_marked = q->starts_are_marked,
		.probing = -1,
		.ranks = calloc((size_t)q->size, sizeof(*s->ranks)),
		.transfers = calloc((size_t)q->size, sizeof(*s->transfers)),
		.next = calloc((size_t)q->size, sizeof(*s->next)),
	};
	if (!s->ranks || !s->transfers || !s->next) {
		snapshot_fini(s);
		return false;
	}
	for (r = 0; r < q->size; r++)
		s->next[r] = s->transfers[r].next = 1;
	return true;
}

void snapshot_fini(struct snapshot *s)
{
	free(s->ranks);
	free(s->transfers);
	free(s->next);
	s->ranks = NULL;
	s->transfers = NULL;
	s->next = NULL;
}

/* Return true if a collective that @c has called is done.  It is also done if a
 * later call has taken its slot. */
static bool is_done(const struct cohort_comm *c, uint64_t number)
{
	uint64_t ticket = atomic_load(&agree_slot(c, number)->ticket);

	return !agree_has(c, number) || comm_ticket_done(c, ticket);
}

/* Return the first collective of @c from @next on that is not done, even if @c
 * has not called it. */
static uint64_t next_undone(const struct cohort_comm *c, uint64_t next)
{
	uint64_t called = agree_called(c), slots = c->clique->slots;

	/* The number of collectives in flight is at most the number of
	 * slots. */
	if (called >= slots && next <= called - slots)
		next = called - slots + 1;
	while (next <= called && is_done(c, next))
		next++;
	return next;
}

/* Return the front, the oldest collective that is not done on every rank; 0 if
 * no rank has called it. */
static uint64_t find_front(const struct clique *q, uint64_t *next)
{
	uint64_t front = UINT64_MAX;
	int r;

	for (r = 0; r < q->size; r++) {
		next[r] = next_undone(&q->comms[r], next[r]);
		front = MIN(front, next[r]);
	}
	for (r = 0; r < q->size; r++)
		if (agree_called(&q->comms[r]) >= front)
			return front;
	return 0;
}

uint64_t snapshot_undone(const struct cohort_comm *c)
{
	return next_undone(c, 1);
}

uint64_t snapshot_front(const struct clique *q)
{
	uint64_t front = UINT64_MAX, called = 0, next;
	int r;

	for (r = 0; r < q->size; r++) {
		next = next_undone(&q->comms[r], 1);
		front = MIN(front, next);
		called = MAX(called, agree_called(&q->comms[r]));
	}
	return called >= front ? front : 0;
}

/* Store the rank's part in the front collective.  @former is the rank in the
 * last snapshot. */
static void fill_part(struct rank_snapshot *r, const struct cohort_comm *c,
                      uint64_t front, const struct rank_snapshot *former)
{
	const struct agree_slot *slot = agree_slot(c, front);
	bool is_there = agree_has(c, front);
	uint64_t ticket;

	r->joined = agree_called(c) >= front;
	if (!r->joined)
		return;
	ticket = atomic_load(&slot->ticket);
	r->arrived_ns = atomic_load(&slot->arrived_ns);
	r->limits.join_ns = atomic_load(&slot->join_ns);
	r->limits.exec_ns = atomic_load(&slot->exec_ns);
	/* If the record was overwritten, the operation is done. */
	if (recorder_read(&c->recorder, ticket, &r->call))
		r->in_call = r->call.outcome == COHORT_TIMED_OUT;
	r->meets = r->in_call && atomic_load(&c->agreement.meeting) == front;
	r->in_call &= !r->meets;
	r->done = comm_ticket_done(c, ticket);
	if (!is_there || !agree_has(c, front)) {
		/* A later call has taken the slot, so this one is done. */
		r->done = true;
		r->in_call = r->meets = false;
		r->call.ticket = 0;
		r->arrived_ns = former->arrived_ns;
		r->limits = (struct limits){ COHORT_FOREVER, COHORT_FOREVER };
	}
	r->started = r->done || comm_ticket_started(c, ticket);
}

/* Return true if the rank's worker has returned 0.  This is recorded in the
 * communicator of the root group. */
static bool has_returned(const struct cohort_comm *c)
{
	c = comm_root(c);
	/* Once the group has ended, workers return because of that end, even
	 * if communicators split from it have not ended yet. */
	return atomic_load(&c->thread.returned) &&
	       !cause_or_closing(c->clique->end);
}

bool snapshot_has_left(const struct cohort_comm *c)
{
	return atomic_load(&c->lock.closed) || has_returned(c);
}

static void take_rank(struct rank_snapshot *r, const struct cohort_comm *c,
                      const struct rank_snapshot *former)
{
	uint64_t last = atomic_load(&c->tickets.last);
	const struct cohort_comm *up;

	*r = (struct rank_snapshot){
		.rank = c->rank,
		.world = c->world_rank,
		.device = c->device,
		.inside = atomic_load(&c->lock.held) ||
		          atomic_load(&c->lock.holders),
		.staged = comm_is_reserved(c),
		.waiting = atomic_load(&c->thread.waits) >
		           atomic_load(&c->thread.waits_ended),
		.helped = atomic_load(&c->thread.helpers) > 0,
		.idle = comm_is_idle(c),
		.closed = atomic_load(&c->lock.closed),
		.returned = has_returned(c),
		.is_run_over = atomic_load(&comm_root(c)->thread.is_run_over),
		.is_uncompared = atomic_load(&c->transfers.is_uncompared),
		.bound = atomic_load(&c->lock.owner) ||
		         atomic_load(&c->thread.orphaned),
		.tid = comm_thread(c),
		.alive = -1,
		.captured = atomic_load(&c->captured),
	};
	for (up = c->above; up && !r->tid; up = up->above) {
		r->is_new = true;
		r->tid = comm_thread(up);
	}
	r->staged &= !r->inside;
	r->inside |= r->staged;
	r->native = r->inside && atomic_load(&c->lock.native_user);
	if (r->tid == former->tid) {
		r->alive = former->alive;
		memcpy(r->thread, former->thread, sizeof(r->thread));
		memcpy(r->state, former->state, sizeof(r->state));
	}
	/* If a thread is still inside a call, that call has the next ticket. */
	if (!recorder_read(&c->recorder, last + 1, &r->last) &&
	    !recorder_read(&c->recorder, last, &r->last))
		r->last.ticket = 0;
	if (r->last.ticket && r->last.tag)
		tag_read(&c->recorder.tags, r->last.tag, r->tag);
	tag_read(&c->recorder.tags,
	         atomic_load_explicit(&c->recorder.tags.now,
	                              memory_order_relaxed),
	         r->tag_now);
	if (r->last.ticket && r->last.label)
		tag_read(&c->recorder.labels, r->last.label, r->label);
}

const struct remote_rank *snapshot_remote(const struct snapshot *s, int rank)
{
	int i = 0;

	while (i < s->remote_count && s->remote[i].rank != rank)
		i++;
	return i < s->remote_count ? &s->remote[i] : NULL;
}

int snapshot_world(const struct snapshot *s, int rank)
{
	const struct rank_snapshot *r = snapshot_rank(s, rank);
	const struct remote_rank *x = snapshot_remote(s, rank);

	if (!s->is_child)
		return rank;
	return r ? r->world : x ? x->world : -1;
}

void snapshot_part(struct rank_snapshot *r, const struct cohort_comm *c,
                   uint64_t front)
{
	const struct rank_snapshot none = { .rank = -1 };

	take_rank(r, c, &none);
	if (front)
		fill_part(r, c, front, &none);
}

static void take_all(struct snapshot *s, struct clique *q)
{
	/* If the time of a new front collective's call is unknown, assume that
	 * it is now: since the last snapshot, either the rank has called the
	 * collective, or the collective has become the front. */
	const struct rank_snapshot none = {
		.rank = -1,
		.arrived_ns = s->now_ns,
	};
	struct rank_snapshot former;
	uint64_t front = find_front(q, s->next);
	struct remote_state others = { .called = -1 };
	int r, left = 0;

	s->all_joined = true;
	for (r = 0; r < q->size; r++) {
		former = s->ranks[r];
		take_rank(&s->ranks[r], &q->comms[r], &former);
		if (front)
			fill_part(&s->ranks[r], &q->comms[r], front,
			          front == s->front ? &former : &none);
		s->all_joined &= s->ranks[r].joined;
		left += rank_has_left(&s->ranks[r]);
	}
	s->front = front;
	if (q->remote)
		others = q->remote->get_state(q, front);
	s->others_ns = others.last_ns;
	s->has_left = (left > 0 && left < q->size) || others.has_closed;
	s->others_joined = others.called > 0 ? others.called : 0;
	s->others_miss = s->all_joined && others.called >= 0 &&
	                 others.called < s->world - s->size;
	s->others_left = s->others_miss && others.has_left;
}

/* Return true if both snapshots show the same operation with the same clock. */
static bool is_same(const struct transfer_snapshot *a,
                    const struct transfer_snapshot *b)
{
	return a->number && a->rank == b->rank && a->ticket == b->ticket &&
	       a->met == b->met;
}

/* Return true if all ranks have called the front collective, but a rank called
 * it in a batch with a transfer that the peer has not called, so that the batch
 * waits for the peer. */
static bool batch_awaits_peer(const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;
	int r = 0;

	if (!s->front || !s->all_joined || !x->number || x->met)
		return false;
	while (s->ranks[r].rank != x->rank)
		r++;
	return s->ranks[r].call.ticket == x->ticket;
}

/* Find the paused ranks.  A rank that is paused in a communicator is also
 * paused in all communicators that were split from it. */
static void take_pauses(struct snapshot *s, const struct clique *q)
{
	struct remote_state others;
	uint64_t resumed_ns;

	s->paused = false;
	s->resumed_ns = 0;
	for (; q; q = clique_is_child(q) ? q->comms->above->clique : NULL) {
		/* Loaded in this order, so that a resume between the loads is
		 * not missed. */
		s->paused |= atomic_load(&q->paused) > 0;
		resumed_ns = atomic_load(&q->resumed_ns);
		if (resumed_ns > s->resumed_ns)
			s->resumed_ns = resumed_ns;
		if (!q->remote)
			continue;
		others = q->remote->get_state(q, 0);
		s->paused |= others.is_paused;
		if (others.resumed_ns > s->resumed_ns)
			s->resumed_ns = others.resumed_ns;
	}
}

void snapshot_take(struct snapshot *s, struct clique *q)
{
	uint64_t front = s->front, resumed_ns = s->resumed_ns;
	struct transfer_snapshot transfer = s->transfer;
	bool has_all = snapshot_has_all(s);
	int place;

	take_pauses(s, q);
	take_all(s, q);
	s->split_tid = atomic_load(&q->split_tid);
	s->closing = cause_or_closing(q->end) && !clique_cause(q);
	s->reaping = atomic_load(&q->reaping);
	place = atomic_load(&q->reaping_place);
	s->reaping_rank = place < 0 ? -1 : q->comms[place].rank;
	s->probing = atomic_load(&q->probing) - 1;
	/* Another collective has become the front collective since the last
	 * snapshot. */
	if (front && s->front > front)
		s->moved_ns = s->now_ns;
	p2p_snapshot_take(s, q);
	s->now_ns = clock_now();
	if (batch_awaits_peer(s))
		s->moved_ns = s->now_ns;
	if (s->resumed_ns == resumed_ns && is_same(&s->transfer, &transfer)) {
		s->transfer.slow = transfer.slow;
		s->transfer.expired = transfer.expired;
	}
	if (s->front != front)
		s->slow = false;
	if (s->front == front && snapshot_has_all(s) == has_all &&
	    s->resumed_ns == resumed_ns)
		return;
	s->expired = 0;
}

/* Store in @tag the tag of collective @number of @c.  Return false if the
 * collective is not on record. */
static bool read_tag(const struct cohort_comm *c, uint64_t number,
                     char tag[TAG_SIZE])
{
	uint64_t ticket = atomic_load(&agree_slot(c, number)->ticket);
	struct record r;

	tag[0] = '\0';
	if (!agree_has(c, number) || !recorder_read(&c->recorder, ticket, &r))
		return false;
	if (r.tag)
		tag_read(&c->recorder.tags, r.tag, tag);
	return true;
}

/* If the tags of collective @number differ, write them into s->tags. */
static void compare_tags(struct snapshot *s, const struct clique *q,
                         uint64_t number)
{
	struct text t = { s->tags, sizeof(s->tags) };
	char tag[TAG_SIZE], other[TAG_SIZE];
	uint64_t added[COHORT_RANK_WORDS] = { 0 }, side[COHORT_RANK_WORDS];
	int i, k, n, sides = 0;

	text_add(&t,
	         "tags of collective %llu differ:", (unsigned long long)number);
	for (i = 0; i < q->size; i++) {
		if (rank_set_has(added, i) ||
		    !read_tag(&q->comms[i], number, tag))
			continue;
		memset(side, 0, sizeof(side));
		for (k = i, n = 0; k < q->size; k++) {
			if (!read_tag(&q->comms[k], number, other) ||
			    strcmp(tag, other) != 0)
				continue;
			rank_set_add(added, k);
			n++;
			rank_set_add(side, q->comms[k].rank);
		}
		text_add(&t, "%s \"%s\" (%s ", sides++ ? "," : "", tag,
		         n == 1 ? "rank" : "ranks");
		rank_set_format(&t, side);
		text_add(&t, ")");
	}
	if (sides < 2)
		s->tags[0] = '\0';
}

void snapshot_tags(struct snapshot *s, const struct clique *q)
{
	uint64_t number =
		s->front > TAGS_COMPARED ? s->front - TAGS_COMPARED : 1;

	s->tags[0] = '\0';
	for (; number < s->front && !*s->tags; number++)
		compare_tags(s, q, number);
}

const struct rank_snapshot *snapshot_rank(const struct snapshot *s, int rank)
{
	int i;

	for (i = 0; i < s->size; i++)
		if (s->ranks[i].rank == rank)
			return &s->ranks[i];
	return NULL;
}

const struct record *snapshot_front_call(const struct snapshot *s)
{
	static const struct record none = { .ticket = 0 };
	int i;

	for (i = 0; i < s->size; i++)
		if (s->ranks[i].joined && s->ranks[i].call.ticket)
			return &s->ranks[i].call;
	return &none;
}

void snapshot_thread(struct rank_snapshot *r)
{
	if (!r->tid)
		return;
	if (r->pid) {
		r->alive = thread_of_lives(r->pid, r->tid, r->thread);
		thread_of_state(r->pid, r->tid, r->state);
	} else {
		r->alive = thread_lives(r->tid, r->thread);
		thread_state(r->tid, r->state);
	}
}

static void snapshot_wait_reason(struct rank_snapshot *r, struct cohort_comm *c)
{
	struct text t = { r->awaits, sizeof(r->awaits) };

	r->awaits[0] = '\0';
	wait_reason_add(&c->thread.wait_reason, &t);
}

void snapshot_threads(struct snapshot *s)
{
	struct rank_snapshot *r;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		snapshot_thread(r);
}

void snapshot_awaited(struct snapshot *s, struct clique *q)
{
	int r;

	for (r = 0; r < q->size; r++)
		snapshot_wait_reason(&s->ranks[r], &q->comms[r]);
}

void snapshot_details(struct rank_snapshot *r, struct cohort_comm *c,
                      uint64_t front)
{
	const struct rank_snapshot none = { .rank = -1 };
	struct rank_snapshot former;

	/* Read the rank again at the end, because querying the system about its
	 * thread takes time. */
	take_rank(&former, c, &none);
	snapshot_thread(&former);
	take_rank(r, c, &former);
	if (front)
		fill_part(r, c, front, &none);
	snapshot_wait_reason(r, c);
}
