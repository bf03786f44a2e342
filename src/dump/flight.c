/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/flight.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "core/comm_lock.h"
#include "core/pair.h"

const char *flight_state_name(enum flight_state state)
{
	static const char *const names[] = {
		[FLIGHT_SCHEDULED] = "scheduled",
		[FLIGHT_STARTED] = "started",
		[FLIGHT_COMPLETED] = "completed",
	};

	return names[state];
}

/* Return the maximum number of collectives in a flight.  Ranks are at most
 * @slots collectives apart, and each has records of at most @slots of them. */
static size_t meetings_of(unsigned slots)
{
	return 3 * (size_t)slots;
}

bool flight_init(struct flight *f, int size, unsigned slots)
{
	size_t ranks = (size_t)size * sizeof(*f->ranks);
	size_t per_rank = ((size_t)slots + 1) * sizeof(*f->ranks->ops);
	size_t ops = (size_t)size * per_rank;
	size_t meetings = meetings_of(slots) * sizeof(*f->meetings);
	char *at;
	int r;

	memset(f, 0, sizeof(*f));
	f->bytes = ranks + ops + meetings;
	/* Few ring buffers are full, and only pages that are written use
	 * memory. */
	f->memory = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE,
	                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (f->memory == MAP_FAILED) {
		f->memory = NULL;
		return false;
	}
	at = f->memory;
	f->ranks = f->memory;
	at += ranks;
	for (r = 0; r < size; r++, at += per_rank)
		f->ranks[r].ops = (void *)at;
	f->meetings = (void *)at;
	f->size = size;
	f->slots = slots;
	return true;
}

void flight_fini(struct flight *f)
{
	if (f->memory)
		munmap(f->memory, f->bytes);
	f->memory = NULL;
}

/* Copy the existing records in order.  A call that has not returned uses the
 * record after the last ticket's, and may have overwritten the oldest one. */
static void take_records(struct flight_rank *r, const struct cohort_comm *c)
{
	uint64_t last = atomic_load(&c->tickets.last) + 1,
		 slots = c->clique->slots;
	uint64_t first = last > slots ? last - slots : 1, ticket;

	r->n = 0;
	r->lost = first - 1;
	for (ticket = first; ticket <= last; ticket++) {
		memset(&r->ops[r->n], 0, sizeof(r->ops[r->n]));
		if (recorder_read(&c->recorder, ticket, &r->ops[r->n].r))
			r->n++;
		else if (ticket < last)
			r->lost++; /* the record was just overwritten */
	}
}

/* Return the operation of a ticket, or NULL.  Operations are in the order of
 * their tickets. */
static struct flight_op *find(struct flight_rank *r, uint64_t ticket)
{
	size_t low = 0, high = r->n, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (r->ops[middle].r.ticket < ticket)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->n && r->ops[low].r.ticket == ticket ? &r->ops[low]
	                                                    : NULL;
}

static void take_numbers(struct flight_rank *r, const struct cohort_comm *c)
{
	uint64_t called = agree_called(c), slots = c->clique->slots;
	uint64_t number = called > slots ? called - slots + 1 : 1;
	const struct agree_slot *slot;
	uint64_t ticket, timeout;
	struct flight_op *op;

	for (; number <= called; number++) {
		slot = agree_slot(c, number);
		ticket = atomic_load(&slot->ticket);
		timeout = MIN(atomic_load(&slot->join_ns),
		              atomic_load(&slot->exec_ns));
		op = agree_has(c, number) ? find(r, ticket) : NULL;
		if (!op)
			continue;
		op->number = number;
		op->timeout_ns = timeout;
	}
	r->last_enqueued = called;
}

/* Store the numbers of the transfers.  An operation with several transfers gets
 * the numbers of the first one. */
static void take_pairs(struct flight_rank *r, const struct cohort_comm *c)
{
	uint64_t count = pair_count(c), slots = c->clique->slots;
	uint64_t index = count > slots ? count - slots + 1 : 1;
	struct flight_op *op;
	struct transfer t;

	for (; index <= count; index++) {
		op = pair_read(c, index, &t) ? find(r, t.ticket) : NULL;
		if (!op || op->pair)
			continue;
		op->pair = t.number;
		op->transfer = index;
		if (!op->timeout_ns)
			op->timeout_ns =
				MIN(t.limits.join_ns, t.limits.exec_ns);
	}
}

static void take_tags(struct flight_tag *out, const struct tags *tags)
{
	int i;

	for (i = 0; i < TAG_SLOTS; i++) {
		out[i].number = (unsigned)atomic_load(&tags->slots[i].number);
		tag_read(tags, out[i].number, out[i].text);
	}
}

/* Maximum number of stalled streams to track. */
#define STUCK_STREAMS 16

struct stuck {
	int n;
	const void *streams[STUCK_STREAMS];
};

static bool is_stuck(const struct stuck *s, const void *stream)
{
	int i;

	for (i = 0; i < s->n; i++)
		if (s->streams[i] == stream)
			return true;
	return false;
}

/* Determine the states.  An operation that is queued after an unfinished one on
 * the same stream has not started, even if its mark was set after an abort. */
static void take_states(struct flight_rank *r, const struct cohort_comm *c,
                        bool is_live)
{
	struct stuck stuck = { 0 };
	struct flight_op *op;
	uint64_t ticket;

	for (op = r->ops; op < r->ops + r->n; op++) {
		ticket = op->r.ticket;
		op->state = FLIGHT_SCHEDULED;
		if (op->r.outcome != COHORT_OK)
			continue; /* its call has failed or not returned */
		if (is_live ? comm_ticket_done(c, ticket)
		            : comm_ticket_was_done(c, ticket)) {
			op->state = FLIGHT_COMPLETED;
			continue;
		}
		if (is_stuck(&stuck, op->r.stream))
			continue;
		if (op->r.started_ns ||
		    (is_live && comm_ticket_started(c, ticket)))
			op->state = FLIGHT_STARTED;
		if (stuck.n < STUCK_STREAMS)
			stuck.streams[stuck.n++] = op->r.stream;
	}
}

static void make_times_consistent(struct flight_rank *r)
{
	struct flight_op *op;

	r->last_started = r->last_completed = 0;
	for (op = r->ops; op < r->ops + r->n; op++) {
		if (op->state < FLIGHT_COMPLETED) {
			op->r.finished_ns = 0;
			op->r.finished_at_most = false;
		}
		if (op->state < FLIGHT_STARTED)
			op->r.started_ns = 0;
		if (op->number && op->state >= FLIGHT_STARTED)
			r->last_started = op->number;
		if (op->number && op->state == FLIGHT_COMPLETED)
			r->last_completed = op->number;
	}
}

static void take_rank(struct flight_rank *r, struct cohort_comm *c)
{
	enum clique_state state = clique_update_state(c->clique);

	r->rank = c->rank;
	r->device = c->device;
	r->inside = comm_is_in_use(c);
	r->tid = comm_thread(c);
	r->alive = r->tid ? thread_lives(r->tid, r->thread) : -1;
	if (state == CLIQUE_LIVE)
		comm_record_progress(c, clock_now());
	take_records(r, c);
	take_numbers(r, c);
	take_pairs(r, c);
	take_tags(r->tags, &c->recorder.tags);
	take_tags(r->labels, &c->recorder.labels);
	take_states(r, c, state == CLIQUE_LIVE);
	/* If the group has ended since its state was read, an operation that
	 * seemed done may have been aborted. */
	if (state == CLIQUE_LIVE &&
	    clique_update_state(c->clique) != CLIQUE_LIVE)
		take_states(r, c, false);
	make_times_consistent(r);
}

void flight_take_facts(struct flight *f, struct clique *q, const char *trigger,
                       const struct cohort_verdict *verdict)
{
	const struct cohort_cause *cause = clique_explained_cause(q);

	f->trigger = trigger;
	snprintf(f->group, sizeof(f->group), "%s", q->name);
	f->generation = q->generation;
	f->serial = q->serial;
	f->world = q->world_size;
	f->platform = q->platform->name;
	q->platform->ncclGetVersion(&f->nccl_version);
	if (gethostname(f->host, sizeof(f->host) - 1))
		snprintf(f->host, sizeof(f->host), "unknown");
	f->pid = getpid();
	f->now_ns = clock_now();
	f->wall_ns = clock_read(CLOCK_REALTIME);
	f->cause =
		cause ? *cause
		      : (struct cohort_cause){ .rank = -1, .world_rank = -1 };
	f->has_verdict = verdict;
	if (verdict) {
		f->verdict = *verdict;
		text_copy(f->text, sizeof(f->text), verdict->text);
	}
}

void flight_take_ranks(struct flight *f, struct clique *q)
{
	int r;

	for (r = 0; r < f->size; r++)
		take_rank(&f->ranks[r], &q->comms[r]);
	flight_compute_meetings(f);
}

/* Find the range of the ranks' collective numbers.  Return false if there are
 * no collectives. */
static bool find_range(struct flight *f)
{
	const struct flight_op *op;
	uint64_t lowest = UINT64_MAX, highest = 0, most = meetings_of(f->slots);
	int r;

	for (r = 0; r < f->size; r++)
		for (op = f->ranks[r].ops; op < f->ranks[r].ops + f->ranks[r].n;
		     op++) {
			if (!op->number)
				continue;
			lowest = MIN(lowest, op->number);
			highest = MAX(highest, op->number);
		}
	if (!highest)
		return false;
	/* The numbers may come from a damaged file: keep only the newest. */
	if (highest - lowest >= most)
		lowest = highest - most + 1;
	f->lowest = lowest;
	f->meetings_count = highest - lowest + 1;
	return true;
}

static void join(struct flight_meeting *m, int r, uint64_t time_ns)
{
	if (!m->joined++ || time_ns < m->first_ns)
		m->first_ns = time_ns;
	if (m->joined > 1 && time_ns <= m->last_ns)
		return;
	m->last_ns = time_ns;
	m->last = r;
}

void flight_compute_meetings(struct flight *f)
{
	const struct flight_rank *rank;
	size_t i;
	int r;

	f->meetings_count = 0;
	if (!find_range(f))
		return;
	memset(f->meetings, 0, f->meetings_count * sizeof(*f->meetings));
	for (r = 0; r < f->size; r++) {
		rank = &f->ranks[r];
		for (i = 0; i < rank->n; i++)
			if (rank->ops[i].number >= f->lowest)
				join(&f->meetings[rank->ops[i].number -
				                  f->lowest],
				     r, rank->ops[i].r.submitted_ns);
	}
}

const struct flight_meeting *flight_meeting(const struct flight *f,
                                            uint64_t number)
{
	if (!number || number < f->lowest ||
	    number - f->lowest >= f->meetings_count)
		return NULL;
	return &f->meetings[number - f->lowest];
}

/* Return true if the verdict says that ranks have not called the collective.
 * These ranks may belong to another process, or their dumps may be missing. */
static bool is_missed(const struct flight *f, uint64_t number)
{
	return f->has_verdict && f->verdict.collective == number &&
	       !rank_set_is_empty(f->verdict.missing);
}

struct flight_span flight_span(const struct flight *f,
                               const struct flight_op *op,
                               uint64_t busy_until_ns, uint64_t end_ns)
{
	const struct flight_meeting *m = flight_meeting(f, op->number);
	struct flight_span s;

	s.begin_ns = MAX(op->r.submitted_ns, busy_until_ns);
	s.end_ns = MAX(s.begin_ns, end_ns);
	s.joined_ns = s.begin_ns;
	if (m && m->joined == f->size && !is_missed(f, op->number))
		s.joined_ns = MIN(MAX(s.begin_ns, m->last_ns), s.end_ns);
	else if (m && op->state != FLIGHT_COMPLETED)
		s.joined_ns = s.end_ns;
	return s;
}

static const char *find_tag(const struct flight_tag *tags, unsigned number)
{
	int i;

	for (i = 0; number && i < TAG_SLOTS; i++)
		if (tags[i].number == number)
			return tags[i].text;
	return "";
}

const char *flight_tag(const struct flight_rank *r, const struct flight_op *op)
{
	return find_tag(r->tags, op->r.tag);
}

const char *flight_label(const struct flight_rank *r,
                         const struct flight_op *op)
{
	return find_tag(r->labels, op->r.label);
}

uint64_t flight_wall(const struct flight *f, uint64_t time_ns)
{
	return time_ns ? f->wall_ns - (f->now_ns - time_ns) : 0;
}

void flight_put_set(struct json *j, const char *key, const uint64_t *set)
{
	int r;

	json_open(j, key, '[');
	for (r = 0; r < COHORT_MAX_RANKS; r++)
		if (rank_set_has(set, r))
			json_int(j, NULL, r);
	json_close(j, ']');
}
