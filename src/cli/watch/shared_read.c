/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/observed.h"

#include "base/util.h"
#include "platform/nccl_abi.h"

uint32_t shared_state_of(const struct shared_rank *e)
{
	const uint32_t state =
		atomic_load_explicit(&e->state, memory_order_acquire);

	return state == SHARED_ABORTED ? SHARED_CLOSED : state;
}

struct record shared_record(const struct shared_rank *e, uint64_t ticket)
{
	/* Nothing is written through these pointers. */
	const struct recorder recorder =
		SHARED_RECORDER((struct shared_rank *)(uintptr_t)e);
	struct record r = { .ticket = 0 };

	if (!recorder_read(&recorder, ticket, &r) || r.kind > OP_RECV ||
	    r.kind == OP_BARRIER || r.is_batch || r.from_host ||
	    (unsigned)r.type >= ncclNumTypes ||
	    (unsigned)r.redop > REDOP_PREMUL_SUM)
		r = (struct record){ .ticket = 0 };
	r.tag = r.label = 0;
	r.n = 1;
	return r;
}

uint64_t shared_called(const struct shared_rank *e)
{
	return atomic_load_explicit(&e->collectives, memory_order_acquire);
}

uint64_t shared_ticket(const struct shared_rank *e, uint64_t number)
{
	const uint64_t ticket =
		atomic_load(&e->tickets[number & (SHARED_SLOTS - 1)]);

	/* The next call may have stored its ticket, but not counted itself
	 * yet. */
	return shared_called(e) < number + SHARED_SLOTS - 1 ? ticket : 0;
}

/* NCCL completes the calls of a communicator in order.  See shared_calls.done
 * for the marks. */
uint64_t shared_last_done(const struct shared_calls *all,
                          const struct shared_rank *e)
{
	const _Atomic uint32_t *marks = all->done[e - all->ranks];
	const uint64_t last = atomic_load(&e->last);
	const uint64_t first = last > SHARED_SLOTS ? last - SHARED_SLOTS : 0;
	uint64_t done = last;
	uint32_t mark;

	for (uint64_t t = last; t > first; t--) {
		mark = atomic_load(&marks[t & (SHARED_SLOTS - 1)]);
		if (mark == (uint32_t)t)
			break;
		if (mark != ~(uint32_t)t)
			done = t - 1;
	}
	return done;
}

uint64_t shared_undone(const struct shared_calls *all,
                       const struct shared_rank *e)
{
	const uint64_t done = shared_last_done(all, e), n = shared_called(e);
	const uint64_t least = n > SHARED_SLOTS ? n - SHARED_SLOTS : 0;
	uint64_t first = n + 1;

	/* Search linearly from the newest call, because few are in flight. */
	while (first - 1 > least && shared_ticket(e, first - 1) > done)
		first--;
	return first;
}

uint32_t shared_transfer(const struct shared_rank *e, uint64_t ticket)
{
	return atomic_load(&e->transfers[ticket & (SHARED_SLOTS - 1)]);
}

uint32_t shared_transfers(const struct shared_rank *e, bool sends, int peer)
{
	return atomic_load_explicit(sends ? &e->sends[peer]
	                                  : &e->receives[peer],
	                            memory_order_acquire);
}
