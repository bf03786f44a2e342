/* SPDX-License-Identifier: Apache-2.0 */

#include "core/wait_reason.h"

#include "base/backoff.h"

void awaited_set(struct awaited_slot *slot, const struct awaited *awaited)
{
	struct backoff b = BACKOFF;

	atomic_store(&slot->now, awaited);
	while (atomic_load(&slot->readers))
		backoff_wait(&b, UINT64_MAX);
}

void awaited_add(struct awaited_slot *slot, struct text *t)
{
	const struct awaited *awaited;

	atomic_fetch_add(&slot->readers, 1);
	awaited = atomic_load(&slot->now);
	if (awaited)
		awaited->add(awaited, t);
	atomic_fetch_sub(&slot->readers, 1);
}
