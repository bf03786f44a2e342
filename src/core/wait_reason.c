/* SPDX-License-Identifier: Apache-2.0 */

#include "core/wait_reason.h"

#include "base/backoff.h"

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
