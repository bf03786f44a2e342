/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/describe.h"

#include <string.h>

#include "base/clock.h"
#include "watch/symbolizer.h"

/* Minimum size of the text of a stack in bytes, if there is room for it. */
#define LEAST_STACK 192

/* Bytes that stay free after a stack, for the text about another rank. */
#define BEHIND_STACK 256

void describe_time(struct text *t, uint64_t ns)
{
	if (ns < NS_PER_S)
		text_add(t, "%.0f ms", (double)ns / 1e6);
	else
		text_add(t, "%.1f s", (double)ns / 1e9);
}

void describe_age(struct text *t, const struct snapshot *s, uint64_t time_ns)
{
	describe_time(t, s->now_ns > time_ns ? s->now_ns - time_ns : 0);
}

static void add_thread(struct text *t, const struct rank_snapshot *r)
{
	text_add(t, "thread %d", r->tid);
	if (*r->thread)
		text_add(t, " \"%s\"", r->thread);
}

/* Add the thread that called last for the rank.  Report only whether it is
 * alive, because any thread may make the rank's next call. */
static void add_last_seen(struct text *t, const struct rank_snapshot *r)
{
	text_add(t, ", last seen in ");
	add_thread(t, r);
	if (r->alive >= 0)
		text_add(t,
		         r->alive ? ", which is alive" : ", which has exited");
}

void describe_numbers(struct text *t, const struct snapshot *s,
                      const uint64_t *set)
{
	uint64_t world[COHORT_RANK_WORDS] = { 0 };
	int r, w;

	for (r = 0; r < s->world; r++) {
		if (!rank_set_has(set, r))
			continue;
		w = snapshot_world(s, r);
		if (w < 0) {
			memset(world, 0, sizeof(world));
			break;
		}
		rank_set_add(world, w);
	}
	rank_set_name(t, set, world, s->group);
}

void describe_number(struct text *t, const struct snapshot *s, int rank)
{
	uint64_t set[COHORT_RANK_WORDS] = { 0 };

	rank_set_add(set, rank);
	describe_numbers(t, s, set);
}

void describe_name_of(struct text *t, const struct snapshot *s,
                      const struct rank_snapshot *r)
{
	text_add(t, "rank %d (", s->is_child ? r->world : r->rank);
	if (s->is_child && r->world != r->rank)
		text_add(t, "%d in \"%s\", ", r->rank, s->group);
	if (s->pid && *s->host)
		text_add(t, "host %s, ", s->host);
	if (s->pid || r->pid)
		text_add(t, "pid %lld, ",
		         (long long)(r->pid ? r->pid : s->pid));
	if (!rank_has_thread(r)) {
		text_add(t, "device %d", r->device);
		if (r->tid)
			add_last_seen(t, r);
	} else {
		add_thread(t, r);
		text_add(t, ", device %d", r->device);
	}
	text_add(t, ")");
}

/* Add whether the rank's own thread is alive, and where it is in the
 * program. */
static void add_place(struct text *t, const struct rank_snapshot *r)
{
	if (rank_has_thread(r) && r->alive >= 0)
		text_add(t,
		         r->alive
		                 ? " is alive, "
		                 : " has lost its thread, which exited while ");
	else
		text_add(t, " is ");
	text_add(t, r->native    ? "using its native communicator"
	            : r->staged  ? "waiting inside a call with host memory"
	            : r->inside  ? "inside another call"
	            : r->waiting ? "waiting for an operation"
	                         : "busy in the program");
}

static size_t room_of_stack(const struct text *t)
{
	return t->room > LEAST_STACK + BEHIND_STACK ? t->room - BEHIND_STACK
	                                            : LEAST_STACK;
}

void describe_thread(struct text *t, const struct rank_snapshot *r)
{
	/* If a thread waits in the library, its state needs no description. */
	if (*r->state && !r->waiting && !r->staged)
		text_add(t, "; %s thread is %s",
		         rank_has_thread(r) ? "its" : "that", r->state);
	if (!r->stack)
		return;
	text_add(t, "; %s",
	         symbolizer_has_stack(r->stack) ? "its stack: " : "");
	symbolizer_add(t, r->stack->brief, room_of_stack(t));
	if (r->stack->holds_python == 1)
		text_add(t, "; it holds Python's interpreter lock");
}

void describe_call(struct text *t, const struct record *call)
{
	if (call->ticket)
		record_add(t, call);
	else
		text_add(t, "a call that is no longer on record");
}

static void add_last(struct text *t, const struct snapshot *s,
                     const struct rank_snapshot *r)
{
	text_add(t, "; its last call, ");
	record_add(t, &r->last);
	text_add(t, " (ticket %llu", (unsigned long long)r->last.ticket);
	if (*r->tag)
		text_add(t, ", tag \"%s\"", r->tag);
	if (*r->label)
		text_add(t, ", label \"%s\"", r->label);
	text_add(t, "), was ");
	describe_age(t, s, r->last.submitted_ns);
	text_add(t, " ago");
}

void describe_absence(struct text *t, const struct snapshot *s,
                      const struct rank_snapshot *r)
{
	if (!*r->elsewhere && (!r->tid || (r->is_new && !rank_is_gone(r)))) {
		text_add(t, " has never called anything%s",
		         r->is_new ? " in this communicator" : "");
		describe_thread(t, r);
		return;
	}
	if (r->closed)
		text_add(t, " has left with cohort_comm_close()");
	else if (rank_is_gone(r))
		text_add(t, " has left: its worker returned 0");
	else if (*r->elsewhere)
		text_add(t, " %s", r->elsewhere);
	else
		add_place(t, r);
	if (*r->awaits)
		text_add(t, "; it waits for %s", r->awaits);
	if (r->last.ticket)
		add_last(t, s, r);
	if (!rank_is_gone(r))
		describe_thread(t, r);
}

/* Add the progress of a rank that has called the front collective. */
static void add_progress(struct text *t, const struct snapshot *s,
                         const struct rank_snapshot *r)
{
	if (r->meets) {
		text_add(t, s->all_joined
		                    ? " has called, and is about to launch"
		                    : " has called, and waits for the other "
		                      "ranks' calls to launch it with them");
	} else if (r->in_call) {
		text_add(t, " has been inside %s for ",
		         record_native_name(&r->call));
		describe_age(t, s, r->arrived_ns);
	} else if (r->done) {
		text_add(t, " is done");
	} else if (!s->starts_are_marked) {
		text_add(t, " has queued its operation, which is not done");
	} else if (r->started) {
		text_add(t, " has started, but not finished");
	} else {
		text_add(t, " has not started: its stream is still busy with "
		            "earlier work");
	}
}

void describe_rank(struct text *t, const struct snapshot *s,
                   const struct rank_snapshot *r)
{
	describe_name_of(t, s, r);
	if (!r->joined) {
		describe_absence(t, s, r);
		return;
	}
	add_progress(t, s, r);
	if (r->in_call)
		describe_thread(t, r);
}

void describe_half(struct text *t, const struct snapshot *s,
                   const struct rank_snapshot *r, bool sends,
                   const struct half *h)
{
	describe_name_of(t, s, r);
	if (!h) {
		text_add(t, " has not called its %s, and",
		         sends ? "send" : "recv");
		describe_absence(t, s, r);
	} else if (h->in_call) {
		text_add(t, " is inside the native call");
		describe_thread(t, r);
	} else if (h->done)
		text_add(t, " is done");
	else if (!s->starts_are_marked)
		text_add(t, " has queued its operation");
	else if (h->started)
		text_add(t, " has started, but not finished");
	else
		text_add(t, " has not started: its stream is still busy with "
		            "earlier work");
}
