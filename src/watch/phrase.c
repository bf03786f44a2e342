/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/phrase.h"

#include <string.h>

#include "base/clock.h"
#include "watch/stacker.h"

/* Bytes of a stack at the least, where there is room, and of what may be told behind one:
 * another rank, say. */
#define LEAST_STACK 192
#define BEHIND_STACK 256

void phrase_time(struct text *t, uint64_t ns)
{
	if (ns < NS_PER_S)
		text_add(t, "%.0f ms", (double)ns / 1e6);
	else
		text_add(t, "%.1f s", (double)ns / 1e9);
}

void phrase_age(struct text *t, const struct snapshot *s, uint64_t time_ns)
{
	phrase_time(t, s->now_ns > time_ns ? s->now_ns - time_ns : 0);
}

static void add_thread(struct text *t, const struct rank_snapshot *r)
{
	text_add(t, "thread %d", r->tid);
	if (*r->thread)
		text_add(t, " \"%s\"", r->thread);
}

/* Any thread may make the next call: that this one lives, or does not, says nothing of
 * the rank. */
static void add_last_seen(struct text *t, const struct rank_snapshot *r)
{
	text_add(t, ", last seen in ");
	add_thread(t, r);
	if (r->alive >= 0)
		text_add(t,
		         r->alive ? ", which is alive" : ", which has exited");
}

void phrase_name(struct text *t, const struct rank_snapshot *r)
{
	text_add(t, "rank %d (", r->rank);
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

void phrase_place(struct text *t, const struct rank_snapshot *r)
{
	if (rank_has_thread(r) && r->alive >= 0)
		text_add(t, r->alive ? " is alive, "
		                     : " is dead (that thread has exited), ");
	else
		text_add(t, " is ");
	text_add(t, r->native   ? "inside its native communicator"
	            : r->staged ? "waiting inside a call with host memory"
	            : r->inside ? "inside another call"
	                        : "outside the library");
}

/* Some is left for what is told behind it. */
static size_t room_of_stack(const struct text *t)
{
	return t->room > LEAST_STACK + BEHIND_STACK ? t->room - BEHIND_STACK
	                                            : LEAST_STACK;
}

void phrase_thread(struct text *t, const struct rank_snapshot *r)
{
	if (*r->state)
		text_add(t, "; %s thread is %s",
		         rank_has_thread(r) ? "its" : "that", r->state);
	if (!r->stack)
		return;
	text_add(t, "; %s",
	         strncmp(r->stack->brief, STACK_UNAVAILABLE,
	                 strlen(STACK_UNAVAILABLE)) == 0
	                 ? ""
	                 : "its stack: ");
	stacker_add(t, r->stack->brief, room_of_stack(t));
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
	phrase_age(t, s, r->last.submitted_ns);
	text_add(t, " ago");
}

void phrase_absence(struct text *t, const struct snapshot *s,
                    const struct rank_snapshot *r)
{
	if (!r->tid) {
		text_add(t, " has never called anything");
		return;
	}
	if (r->closed)
		text_add(t, " has left by cohort_comm_close()");
	else
		phrase_place(t, r);
	if (*r->awaits)
		text_add(t, "; it waits for %s", r->awaits);
	if (r->last.ticket)
		add_last(t, s, r);
	if (!r->closed)
		phrase_thread(t, r);
}
