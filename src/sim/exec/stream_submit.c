/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues work on streams, and waits for it */

#include <limits.h>

#include "base/backoff.h"
#include "sim/exec/rank_launch.h"
#include "sim/exec/scheduler.h"
#include "sim/strict/strict.h"

/* Back off while the head item of @s is not done.  In strict mode, also end the
 * program if the wait can never finish. */
static void back_off(struct stream *s, struct backoff *b)
{
	if (strict_is_on() && b->started_ns)
		rendezvous_check_wait(s, b->started_ns);
	backoff_wait(b, UINT64_MAX);
}

static uint64_t push(struct stream *s, const struct work *work)
{
	struct backoff b = BACKOFF;
	uint64_t position;

	while (!stream_put(s, work, &position)) {
		stream_help(s, position);
		back_off(s, &b);
	}
	return position;
}

void stream_push_wait(struct stream *s, struct stream *on, uint64_t position)
{
	struct work w = {
		.step = stream_wait_step,
		.wait = { .on = on, .position = position },
	};

	if (s != on && !stream_is_done(on, position))
		push(s, &w);
}

/* Make the legacy default stream wait for every blocking stream of its
 * device. */
static void order_legacy(struct stream *s)
{
	struct stream *other = NULL;
	uint64_t position;

	if (!stream_has_blocking(s->device))
		return;
	while ((other = stream_next_of(other, s->device, true, &position)))
		stream_push_wait(s, other, position);
}

/* Make a blocking stream wait for the legacy default stream of its device. */
static void order_blocking(struct stream *s)
{
	struct stream *l = stream_legacy_if_any(s->device);

	if (l)
		stream_push_wait(s, l, l->queued);
}

void stream_push(struct stream *s, const struct work *work,
                 uint64_t *position_out)
{
	uint64_t position;

	if (s->legacy)
		order_legacy(s);
	else if (s->blocking)
		order_blocking(s);
	position = push(s, work);
	if (position_out)
		*position_out = position;
	/* If the stream is registered, the poller reaches this item when it
	 * checks the earlier items. */
	if (position - stream_done(s) == 1 || !atomic_load(&s->is_registered))
		stream_drive_cheap(s);
}

void stream_push_begun(struct stream *s, struct work *work)
{
	if (!stream_is_idle(s) || !drive_first(s, work))
		stream_push(s, work, NULL);
}

void stream_wait(struct stream *s, uint64_t position)
{
	const struct drive d = {
		.effort = EFFORT_HELP,
		.position = position,
		.until_ns = UINT64_MAX,
	};
	struct backoff b = backoff_among(stream_is_crowded() ? INT_MAX : 1);

	while (!stream_is_done(s, position)) {
		stream_poll_for_waiter(s, &d);
		if (!stream_is_done(s, position))
			back_off(s, &b);
	}
	stream_leave(s);
}

void stream_wait_device(int device, bool only_blocking)
{
	struct stream *s = NULL;
	uint64_t position;

	while ((s = stream_next_of(s, device, only_blocking, &position)))
		stream_wait(s, position);
}
