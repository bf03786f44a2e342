/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/observed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "cli/common/cli.h"
#include "watch/describe.h"
#include "watch/expiry.h"

/* Time for which ranks must have waited for a process that has ended before its
 * end is reported.  Until then, these ranks may be about to end as well, or to
 * complete their last collective. */
#define ENDS_NS (NS_PER_S / 4)

/* ---- communicators ------------------------------------------------------- */

static struct observed *add(struct watch *w, const struct shared_rank *e,
                            uint64_t identity, int ranks)
{
	struct observed *o = cli_need(calloc(1, sizeof(*o))), **end;
	const size_t n = (size_t)ranks;

	o->identity = identity;
	o->parent = atomic_load(&e->parent);
	o->number = w->count++;
	o->ranks = ranks;
	o->entries = cli_need(calloc(n, sizeof(*o->entries)));
	o->others = cli_need(calloc(n, sizeof(*o->others)));
	o->progress = cli_need(calloc(n, sizeof(*o->progress)));
	o->worlds = cli_need(calloc(n, sizeof(*o->worlds)));
	o->now = (struct snapshot){
		.group = o->name,
		.host = "",
		.unknown = "an unknown rank",
		.world = ranks,
		.is_child = o->parent != 0,
		.reaping_rank = -1,
		.probing = -1,
		.remote = o->others,
		.ranks = cli_need(calloc(n, sizeof(*o->now.ranks))),
	};
	if (!verdict_init(&o->verdict, ranks))
		cli_need(NULL);
	/* Use the program's name or, if there is none, the number. */
	for (int i = 0; i < SHARED_NAME - 1; i++)
		o->name[i] = atomic_load(&e->name[i]);
	cli_sanitize(o->name);
	if (!*o->name)
		snprintf(o->name, sizeof(o->name), "comm %d", o->number);
	for (const struct observed *other = w->all; other; other = other->next)
		if (strcmp(other->name, o->name) == 0)
			text_append(o->name, sizeof(o->name), " (comm %d)",
			            o->number);
	for (end = &w->all; *end;)
		end = &(*end)->next;
	*end = o;
	w->has_changed = true;
	return o;
}

/* Add a rank to its communicator, unless the entry is invalid or the rank was
 * added before. */
static void add_rank(struct watch *w, int entry)
{
	const struct shared_rank *e = &w->shared->ranks[entry];
	const uint64_t identity = atomic_load(&e->identity);
	const int ranks = atomic_load(&e->ranks), rank = atomic_load(&e->rank);
	struct observed *o;

	if (!identity || ranks < 1 || ranks > COHORT_MAX_RANKS || rank < 0 ||
	    rank >= ranks)
		return;
	for (o = w->all; o && o->identity != identity;)
		o = o->next;
	if (!o)
		o = add(w, e, identity, ranks);
	if (o->ranks != ranks)
		o->is_uneven = true;
	else if (!o->entries[rank])
		o->entries[rank] = entry + 1;
}

static int count_used(const struct watch *w)
{
	return (int)MIN(atomic_load(&w->shared->used), (uint32_t)SHARED_RANKS);
}

const struct shared_rank *observed_next(const struct watch *w,
                                        const struct observed *o,
                                        const struct shared_rank *e)
{
	const struct shared_rank *end = w->shared->ranks + count_used(w);

	for (e = e ? e + 1 : w->shared->ranks; e < end; e++)
		if (shared_state_of(e) != SHARED_FREE &&
		    atomic_load(&e->identity) == o->identity)
			return e;
	return NULL;
}

static bool is_over(struct watch *w, const struct observed *o)
{
	const struct shared_rank *e = NULL;

	/* An aborted communicator is in use until the program closes it. */
	while ((e = observed_next(w, o, e)))
		if (atomic_load(&e->state) != SHARED_CLOSED &&
		    !started_find(w->started, atomic_load(&e->pid))->has_ended)
			return false;
	return true;
}

static void free_entry(struct shared_rank *e)
{
	atomic_store(&e->identity, 0);
	atomic_store_explicit(&e->state, SHARED_FREE, memory_order_release);
}

static void free_entries(struct watch *w, const struct observed *o)
{
	const struct shared_rank *e = NULL;

	while ((e = observed_next(w, o, e)))
		free_entry(&w->shared->ranks[e - w->shared->ranks]);
}

void observed_update(struct watch *w)
{
	for (int i = 0; i < count_used(w); i++)
		if (shared_state_of(&w->shared->ranks[i]) != SHARED_FREE)
			add_rank(w, i);
	for (struct observed *o = w->all; o; o = o->next)
		o->is_over = is_over(w, o);
	observed_number(w);
}

static bool has_communicator(const struct watch *w, int64_t pid)
{
	const struct shared_rank *e;

	for (const struct observed *o = w->all; o; o = o->next)
		for (int r = 0; r < o->ranks; r++) {
			e = observed_entry(w, o, r);
			if (e && atomic_load(&e->pid) == pid)
				return true;
		}
	return false;
}

/* Forget the processes that have ended and have no communicator, because their
 * pids may be reused. */
static void forget_ended(const struct watch *w)
{
	struct started *s = w->started;

	for (int i = s->n - 1; i >= 0; i--)
		if (s->processes[i].has_ended &&
		    !has_communicator(w, s->processes[i].pid))
			s->processes[i] = s->processes[--s->n];
}

void observed_drop(struct watch *w)
{
	struct observed **at = &w->all, *o;
	struct shared_rank *e = w->shared->ranks;
	bool has_dropped = false;

	/* Splits that have failed belong to no communicator. */
	for (; e < w->shared->ranks + count_used(w); e++)
		if (atomic_load(&e->state) == SHARED_CLOSED &&
		    atomic_load(&e->rank) < 0)
			free_entry(e);

	while ((o = *at)) {
		if (!o->is_over) {
			at = &o->next;
			continue;
		}
		free_entries(w, o);
		*at = o->next;
		verdict_fini(&o->verdict);
		free(o->now.ranks);
		free(o->others);
		free(o->worlds);
		free(o->progress);
		free(o->entries);
		free(o);
		has_dropped = true;
	}
	if (has_dropped) {
		w->has_changed = true;
		forget_ended(w);
	}
}

/* ---- snapshots ----------------------------------------------------------- */

void observed_rank(const struct watch *w, const struct observed *o, int rank,
                   struct rank_snapshot *r)
{
	const struct shared_rank *e = observed_entry(w, o, rank);

	*r = (struct rank_snapshot){
		.rank = rank,
		.world = observed_world(w, o, rank),
		.device = atomic_load(&e->device),
		.closed = shared_state_of(e) == SHARED_CLOSED,
		.last = shared_record(e, atomic_load(&e->last)),
		.pid = atomic_load(&e->pid),
		.tid = atomic_load(&e->tid),
		.alive = -1,
	};
	r->is_new = !r->last.ticket;
	if (r->last.ticket)
		r->tid = r->last.tid;
	r->inside = r->last.ticket && r->last.outcome == COHORT_TIMED_OUT;
	if (!r->closed && atomic_load(&e->closing_ns))
		snprintf(r->elsewhere, sizeof(r->elsewhere),
		         "is inside the call that ends its communicator");
	else if (r->inside && atomic_load(&e->grouped))
		snprintf(r->awaits, sizeof(r->awaits),
		         "ncclGroupEnd(), which launches the calls of its "
		         "group");
}

/* Store in @r the state of the front collective on a rank that has called
 * it. */
static void take_part(const struct watch *w, const struct observed *o,
                      struct rank_snapshot *r, const struct shared_rank *e)
{
	const uint64_t front = o->now.front;
	const uint64_t ticket = shared_ticket(e, front);

	r->joined = true;
	r->call = shared_record(e, ticket);
	/* Later calls may have overwritten the record. */
	r->arrived_ns = r->call.ticket
	                        ? MIN(r->call.submitted_ns, o->now.now_ns)
	                        : o->front_ns;
	r->limits = (struct limits){ w->deadline_ns, w->deadline_ns };
	r->done = r->closed || shared_undone(w->shared, e) > front;
	r->in_call = !r->done && r->call.outcome == COHORT_TIMED_OUT &&
	             r->call.ticket;
	r->meets = r->in_call && *r->awaits;
	r->in_call &= !r->meets;
	r->started = r->done;
}

/* Return the time since which a rank that has called the front has been
 * waiting, or the time of the snapshot if it is not waiting.  The root of a
 * broadcast and the leaf of a reduction may be done before other ranks call;
 * they wait only if a later collective is not done. */
static uint64_t waits_since(const struct watch *w, const struct observed *o,
                            const struct rank_snapshot *r)
{
	const struct shared_rank *e = observed_entry(w, o, r->rank);
	const _Atomic uint32_t *marks = w->shared->done[e - w->shared->ranks];
	const uint64_t ticket = r->call.ticket;
	const uint64_t undone = shared_undone(w->shared, e);
	struct record next = { .ticket = 0 };

	/* Without a mark by the stream, it is not known whether the front is
	 * done, so assume that the rank waits. */
	if (!r->done || !ticket ||
	    atomic_load(&marks[ticket & (SHARED_SLOTS - 1)]) ==
	            ~(uint32_t)ticket)
		return r->arrived_ns;
	if (undone <= shared_called(e))
		next = shared_record(e, shared_ticket(e, undone));
	return next.ticket ? MIN(next.submitted_ns, o->now.now_ns)
	                   : o->now.now_ns;
}

/* Return the oldest collective that at least one known rank has not finished,
 * or 0 if no rank has called it. */
static uint64_t find_front(const struct watch *w, const struct observed *o)
{
	const struct shared_rank *e;
	uint64_t front = UINT64_MAX, most = 0;

	for (int r = 0; r < o->ranks; r++) {
		e = observed_entry(w, o, r);
		if (!e)
			continue;
		most = MAX(most, shared_called(e));
		/* A rank that has left makes no further call, and all its
		 * calls are done. */
		front = MIN(front, shared_state_of(e) == SHARED_CLOSED
		                           ? shared_called(e) + 1
		                           : shared_undone(w->shared, e));
	}
	return most >= front ? front : 0;
}

static void take_snapshot(struct watch *w, struct observed *o)
{
	struct snapshot *s = &o->now;
	const uint64_t former = s->front;
	const bool has_resumed = s->resumed_ns != w->resumed_ns;
	const struct shared_rank *e;
	uint64_t done;

	s->now_ns = clock_now();
	s->resumed_ns = w->resumed_ns;
	if (has_resumed)
		s->expired = s->transfer.expired = 0;
	s->front = find_front(w, o);
	if (s->front != former)
		o->front_ns = s->now_ns;
	s->all_joined = true;
	s->size = s->remote_count = 0;
	s->others_miss = s->others_left = false;
	for (int r = 0; r < o->ranks; r++) {
		e = observed_entry(w, o, r);
		if (!e)
			continue;
		done = shared_last_done(w->shared, e);
		if (done > o->progress[r].done)
			o->progress[r] = (struct progress){ done, s->now_ns };
		observed_rank(w, o, r, &s->ranks[s->size]);
		if (s->front && shared_called(e) >= s->front)
			take_part(w, o, &s->ranks[s->size], e);
		s->all_joined &= s->ranks[s->size++].joined;
	}
	for (int r = 0; r < s->size && !s->all_joined; r++)
		if (s->ranks[r].joined)
			s->ranks[r].arrived_ns =
				waits_since(w, o, &s->ranks[r]);
	observed_transfers(w, o, s);
	/* Calls that were queued after the former front start only now. */
	if (former && s->front > former)
		s->moved_ns = s->now_ns;
	if (s->front != former || s->all_joined != o->had_all)
		s->expired = 0;
	o->had_all = s->all_joined;
}

/* ---- ranks of processes that have ended or are stopped ------------------- */

bool observed_is_halted(struct watch *w, const struct observed *o,
                        const struct rank_snapshot *r, bool only_ended,
                        struct remote_rank *out)
{
	const struct started_process *p = started_find(w->started, r->pid);
	const char *stop =
		only_ended || p->has_ended ? NULL : thread_process_stop(r->pid);
	struct text t = { out->text, sizeof(out->text) };

	if (r->closed || (!p->has_ended && !stop))
		return false;
	*out = (struct remote_rank){
		.rank = r->rank,
		.world = r->world,
		.is_process = true,
		.kind = p->has_ended ? COHORT_VERDICT_LEFT
		                     : COHORT_VERDICT_PROCESS_STOPPED,
	};
	text_add(&t, "process %" PRId64 " (rank %d", r->pid, r->world);
	if (r->rank != r->world)
		text_add(&t, ", %d in \"%s\"", r->rank, o->name);
	text_add(&t, ") ");
	if (p->has_ended)
		thread_add_end(&t, p->status);
	else
		text_add(&t, "%s", stop);
	return true;
}

/* Return whether others may wait for @r: in the front or, if @is_transfer, in
 * the transfer. */
static bool is_awaited(const struct snapshot *s, const struct rank_snapshot *r,
                       bool is_transfer)
{
	const struct transfer_snapshot *x = &s->transfer;

	return is_transfer ? x->number && r->rank == x->peer && !x->other.done
	                   : s->front && !r->done;
}

/* Return whether @r, which has called the front, waits for other ranks. */
static bool is_waiting(struct watch *w, const struct observed *o,
                       const struct rank_snapshot *r)
{
	return waits_since(w, o, r) < o->now.now_ns &&
	       !started_find(w->started, r->pid)->has_ended;
}

/* Return whether a rank waits, in the front or the transfer, for a rank whose
 * process has ended.  Unless @only_ended, also return true if a process is
 * stopped. */
static bool has_halted(struct watch *w, const struct observed *o,
                       bool is_transfer, bool only_ended)
{
	const struct snapshot *s = &o->now;
	bool has_any = false, has_waiter = is_transfer;
	const struct rank_snapshot *r;
	struct remote_rank other;

	for (r = s->ranks; r < s->ranks + s->size; r++) {
		if (is_awaited(s, r, is_transfer) &&
		    observed_is_halted(w, o, r, only_ended, &other)) {
			has_any = true;
			has_waiter |=
				other.kind == COHORT_VERDICT_PROCESS_STOPPED;
		} else if (r->joined) {
			has_waiter |= is_waiting(w, o, r);
		}
	}
	return has_any && has_waiter;
}

/* If the process of an awaited rank has ended or is stopped, move the rank to
 * the snapshot's ranks of other processes.  Also move the ranks that do not
 * wait in the front collective.  Those that have not called it may be waiting
 * for these processes elsewhere. */
static void move_halted(struct watch *w, struct observed *o, bool is_transfer)
{
	struct snapshot *s = &o->now;
	const struct rank_snapshot *r;
	struct remote_rank other;
	int i, kept = 0;

	for (i = 0; i < s->size; i++) {
		r = &s->ranks[i];
		if (is_awaited(s, r, is_transfer) &&
		    observed_is_halted(w, o, r, false, &other))
			o->others[s->remote_count++] = other;
		else if (is_transfer || (r->joined && is_waiting(w, o, r)))
			s->ranks[kept++] = *r;
		else
			o->others[s->remote_count++] = (struct remote_rank){
				.rank = r->rank,
				.world = r->world,
				.kind = COHORT_VERDICT_OUTSIDE,
			};
	}
	/* If no rank waits, keep a rank that has the call. */
	for (i = 0; !kept && i < s->size; i++)
		if (s->ranks[i].joined)
			s->ranks[kept++] = s->ranks[i];
	s->size = kept;
	/* A stopped process may have continued since the last check. */
	if (is_transfer)
		s->transfer.is_local &= !s->remote_count;
	else
		s->all_joined = s->others_miss = true;
}

/* ---- judging ------------------------------------------------------------- */

/* Mark each rank with an unfinished call as waiting for that call, because a
 * deadline has passed. */
static void set_waiting(const struct watch *w, struct observed *o)
{
	const struct shared_rank *e;
	struct rank_snapshot *r;

	for (r = o->now.ranks; r < o->now.ranks + o->now.size; r++) {
		e = observed_entry(w, o, r->rank);
		r->waiting =
			!r->closed && !r->inside &&
			shared_last_done(w->shared, e) < atomic_load(&e->last);
	}
}

/* Replace control characters in the names of threads, which programs choose. */
static void sanitize(struct observed *o)
{
	struct snapshot *s = &o->now;

	for (struct rank_snapshot *r = s->ranks; r < s->ranks + s->size; r++)
		cli_sanitize(r->thread);
	for (int i = 0; i < s->waits.culprit_count; i++)
		cli_sanitize(s->waits.culprits[i].at.thread);
}

static void make_verdict(struct watch *w, struct observed *o,
                         const struct expiry *due)
{
	char name[sizeof(o->name) + 2];

	/* If a process has ended or is stopped, no other explanation is
	 * needed. */
	memset(&o->now.waits, 0, sizeof(o->now.waits));
	o->now.crossing.exists = false;
	if (!o->now.remote_count) {
		set_waiting(w, o);
		observed_waits(w, o, due->is_transfer);
	}
	snapshot_threads(&o->now);
	sanitize(o);
	observed_stacks(o, due->is_transfer);
	verdict_stalled(&o->now, due, &o->verdict);
	for (int i = 0; i < o->now.size; i++)
		if (o->now.ranks[i].closed && o->now.ranks[i].joined)
			text_append(o->verdict.text, sizeof(o->verdict.text),
			            "\nnote   rank %d has closed \"%s\"",
			            o->now.ranks[i].rank, o->name);
	snprintf(name, sizeof(name), "\"%s\"", o->name);
	if (!strstr(o->verdict.text, name))
		text_append(o->verdict.text, sizeof(o->verdict.text),
		            "\ncomm   %s", name);
}

/* Return the time at which the first rank called the front, or the time of the
 * snapshot if no rank has called it. */
static uint64_t first_arrival(const struct snapshot *s)
{
	uint64_t first = s->now_ns;

	for (int i = 0; i < s->size; i++)
		if (s->ranks[i].joined)
			first = MIN(first, s->ranks[i].arrived_ns);
	return first;
}

bool observed_end_is_due(struct observed *o, bool is_awaited)
{
	if (!is_awaited)
		o->ended_ns = 0;
	else if (!o->ended_ns)
		o->ended_ns = o->now.now_ns;
	if (!is_awaited || o->reported_end ||
	    o->now.now_ns - o->ended_ns < ENDS_NS)
		return false;
	o->reported_end = true;
	return true;
}

/* Return whether to report a process that has ended while others wait for
 * it. */
static bool judge_ends(struct watch *w, struct observed *o)
{
	const bool in_front = has_halted(w, o, false, true);
	struct expiry due = {
		.what = EXPIRY_VERDICT,
		.is_transfer = !in_front,
	};

	if (!observed_end_is_due(o, in_front || has_halted(w, o, true, true)))
		return false;
	due.since_ns =
		in_front ? first_arrival(&o->now) : o->now.transfer.since_ns;
	move_halted(w, o, !in_front);
	make_verdict(w, o, &due);
	return true;
}

/* Return whether the front or the transfer has exceeded its deadline, or half
 * of the deadline if @is_early. */
static bool judge_waits(struct watch *w, struct observed *o, bool is_early)
{
	const uint64_t ahead_ns = is_early ? w->deadline_ns / 2 : 0;
	struct expiry due;
	unsigned expired;

	o->now.now_ns += ahead_ns;
	due = expiry_next(&o->now);
	expired = due.deadline_ns ? (unsigned)((o->now.now_ns - due.since_ns) /
	                                       due.deadline_ns)
	                          : 1;
	o->now.now_ns -= ahead_ns;
	if (due.what != EXPIRY_VERDICT)
		return false;
	*(due.is_transfer ? &o->now.transfer.expired : &o->now.expired) =
		expired;
	if (has_halted(w, o, due.is_transfer, false))
		move_halted(w, o, due.is_transfer);
	make_verdict(w, o, &due);
	/* Repeat the verdict about the mismatch, which the snapshot does not
	 * contain. */
	if (!due.is_transfer && o->now.front == o->different)
		observed_differs(w, o, o->different);
	return true;
}

enum finding observed_judge(struct watch *w, struct observed *o, bool is_early)
{
	bool hangs;

	take_snapshot(w, o);
	if (!o->different && observed_find_difference(w, o))
		return FOUND_DIFFERENCE;
	/* While ranks are being created, do not judge calls: they may be
	 * waiting for these ranks. */
	if (!observed_creation(w, o, &hangs))
		hangs = judge_ends(w, o) || judge_waits(w, o, is_early) ||
		        observed_end(w, o);
	return hangs ? FOUND_HANG : FOUND_NOTHING;
}

void observed_print(struct watch *w, struct observed *o, FILE *out)
{
	struct rank_snapshot *r;
	char line[1024];
	struct text t;

	take_snapshot(w, o);
	snapshot_threads(&o->now);
	fprintf(out, "NOW    \"%s\", %d ranks: ", o->name, o->ranks);
	if (o->now.front)
		fprintf(out, "collective %" PRIu64 " is in flight\n",
		        o->now.front);
	else
		fprintf(out, "no collective is in flight\n");
	for (r = o->now.ranks; r < o->now.ranks + o->now.size; r++) {
		t = (struct text){ line, sizeof(line) };
		line[0] = '\0';
		describe_rank(&t, &o->now, r);
		cli_sanitize(line);
		fprintf(out, "       %s\n", line);
	}
}
