/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kicks: a thread notes the streams whose first work may go on, and drives them
 * before it returns (stream_settle())
 */

#include "sim/exec/scheduler.h"

static _Thread_local struct stream *kicked_by_us;

void stream_kick(struct stream *s)
{
	/* Acquire and release: if it was set already, the thread that set it clears
	 * it with the exchange in stream_take_kicked() before it drives the stream,
	 * and so sees what we did. */
	if (atomic_exchange_explicit(&s->kicked, true, memory_order_acq_rel))
		return;
	s->next_kicked = kicked_by_us;
	kicked_by_us = s;
}

struct stream *stream_take_kicked(void)
{
	struct stream *s = kicked_by_us;

	if (!s)
		return NULL;
	kicked_by_us = s->next_kicked;
	atomic_exchange_explicit(&s->kicked, false, memory_order_acq_rel);
	return s;
}

static void set_blocked(struct stream *s, bool blocked)
{
	atomic_store_explicit(&s->blocked, blocked, memory_order_relaxed);
}

void stream_kick_all_locked(struct stream **list)
{
	struct stream *s;

	while ((s = *list)) {
		*list = s->next_follower;
		s->follows = false;
		set_blocked(s, false);
		stream_kick(s);
	}
}

void stream_follow_locked(struct stream **list, struct stream *s)
{
	set_blocked(s, true);
	if (s->follows)
		return;
	s->follows = true;
	s->next_follower = *list;
	*list = s;
}

void stream_unfollow_locked(struct stream **list, struct stream *s)
{
	set_blocked(s, false);
	if (!s->follows)
		return;
	while (*list != s)
		list = &(*list)->next_follower;
	*list = s->next_follower;
	s->follows = false;
}
