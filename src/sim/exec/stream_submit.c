/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queueing work on streams, and waiting for it
 */

#include <limits.h>

#include "base/backoff.h"
#include "sim/exec/scheduler.h"
#include "sim/exec/self_wait.h"
#include "sim/strict/strict.h"

/* Wait a little for the first work of @s. */
static void wait_a_little(struct stream *s, struct backoff *b)
{
	if (strict_is_on() && b->started_ns)
		self_wait_check(s, b->started_ns);
	backoff_wait(b, UINT64_MAX);
}

static uint64_t push(struct stream *s, const struct work *work)
{
	struct backoff b = BACKOFF;
	uint64_t position;

	while (!stream_put(s, work, &position)) {
		stream_help(s, position);
		wait_a_little(s, &b);
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

/* The legacy default stream waits for every blocking stream of its device. */
static void order_legacy(struct stream *s)
{
	struct stream *other = NULL;
	uint64_t position;

	if (!stream_has_blocking(s->device))
		return;
	while ((other = stream_next_of(other, s->device, true, &position)))
		stream_push_wait(s, other, position);
}

/* A blocking stream waits for the legacy default stream of its device. */
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
	/* Behind work that only waits to be looked at, the poller's look will
	 * do. */
	if (position - stream_done(s) == 1 || !atomic_load(&s->is_noted))
		stream_go(s);
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
		stream_attend(s, &d);
		if (!stream_is_done(s, position))
			wait_a_little(s, &b);
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
