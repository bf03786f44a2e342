/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the state of a rank's tickets from the words that the device writes */

#include "core/clique.h"

/* Return true if the word of @ticket's slot in @words, the started or done
 * words, shows that @ticket has started or is done.  If a later ticket has
 * reused the slot, @ticket is done; the word has only 32 bits and may no longer
 * show this. */
static bool is_marked(const struct cohort_comm *c, const uint32_t *words,
                      uint64_t ticket)
{
	const uint64_t slots = c->clique->slots;
	/* The acquire makes the operation's output visible or, for a started
	 * word, the results of earlier work on the stream.  It pairs with the
	 * mark. */
	uint32_t word =
		__atomic_load_n(&words[ticket & (slots - 1)], __ATOMIC_ACQUIRE);
	uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_acquire);

	if (last >= ticket && last - ticket >= slots)
		return true;
	return (int32_t)(word - (uint32_t)ticket) >= 0;
}

bool comm_ticket_done(const struct cohort_comm *c, uint64_t ticket)
{
	return is_marked(c, c->tickets.done, ticket);
}

bool comm_ticket_started(const struct cohort_comm *c, uint64_t ticket)
{
	return is_marked(c, c->tickets.started, ticket);
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
