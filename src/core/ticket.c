/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the state of a rank's tickets from the words that the device writes */

#include "core/clique.h"

/* Return true if @word, the started or done word of @ticket's slot, shows that
 * @ticket has started or is done.  @last is the last ticket given out.  If a
 * later ticket has reused the slot, @ticket is done; the word has only 32 bits
 * and may no longer show this. */
static bool mark_is_set(const struct clique *q, uint64_t ticket, uint32_t word,
                        uint64_t last)
{
	if (last >= ticket && last - ticket >= q->slots)
		return true;
	return (int32_t)(word - (uint32_t)ticket) >= 0;
}

bool comm_ticket_done(const struct cohort_comm *c, uint64_t ticket)
{
	const struct clique *q = c->clique;
	/* The acquire makes the operation's output visible.  It pairs with the
	 * mark. */
	uint32_t word = __atomic_load_n(
		&c->tickets.done[ticket & (q->slots - 1)], __ATOMIC_ACQUIRE);
	uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_acquire);

	return mark_is_set(q, ticket, word, last);
}

bool comm_ticket_started(const struct cohort_comm *c, uint64_t ticket)
{
	const struct clique *q = c->clique;
	/* The acquire makes the results of earlier work on the stream visible.
	 * It pairs with the mark. */
	uint32_t word = __atomic_load_n(
		&c->tickets.started[ticket & (q->slots - 1)], __ATOMIC_ACQUIRE);
	uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_acquire);

	return mark_is_set(q, ticket, word, last);
}

void comm_record_done(struct cohort_comm *c, uint64_t ticket, uint64_t now_ns)
{
	while (ticket && !recorder_has_finished(&c->recorder, ticket) &&
	       comm_ticket_done(c, ticket) &&
	       recorder_set_finished(&c->recorder, ticket, now_ns))
		ticket--;
}

void comm_record_progress(struct cohort_comm *c, uint64_t now_ns)
{
	uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_acquire);
	uint64_t ticket = last;

	while (ticket && last - ticket < c->clique->slots &&
	       !recorder_has_finished(&c->recorder, ticket)) {
		if (comm_ticket_done(c, ticket))
			recorder_set_finished(&c->recorder, ticket, now_ns);
		else if (comm_ticket_started(c, ticket))
			recorder_set_started(&c->recorder, ticket, now_ns);
		ticket--;
	}
}

uint64_t comm_oldest(const struct cohort_comm *c)
{
	/* seq_cst, see cause.h.  This load must come before the load of the
	 * last ticket. */
	const bool inside = atomic_load(&c->lock.held);
	const uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_acquire);
	const uint64_t slots = c->clique->slots;
	uint64_t ticket = last > slots ? last - slots : 0;

	while (++ticket <= last)
		if (!comm_ticket_done(c, ticket))
			return ticket;
	return inside ? ticket : 0;
}

bool comm_is_idle(const struct cohort_comm *c)
{
	return !comm_oldest(c);
}

bool comm_ticket_was_done(const struct cohort_comm *c, uint64_t ticket)
{
	const uint64_t slots = c->clique->slots, slot = ticket & (slots - 1);

	if (ticket > c->tickets.last_then)
		return false;
	return c->tickets.last_then - ticket >= slots ||
	       c->tickets.done_then[slot / 64] >> slot % 64 & 1;
}

void comm_ticket_progress(struct cohort_comm *c, uint64_t ticket,
                          uint64_t until_ns)
{
	const struct clique *q = c->clique;

	q->platform->progress(c->device, recorder_stream(&c->recorder, ticket),
	                      &c->tickets.done[ticket & (q->slots - 1)],
	                      (uint32_t)ticket, until_ns);
}
