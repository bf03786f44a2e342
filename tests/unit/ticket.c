/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Test of tickets whose numbers exceed the 32-bit words that devices write
 */

#include <criterion/criterion.h>

#include "core/comm.h"
#include "support/expect.h"
#include "support/ranks.h"

/* After 2^31 more tickets, the words of a slot have the same values again. */
Test(ticket, ticket_stays_done_after_the_words_of_its_slot_wrap, .timeout = 60)
{
	struct cohort_group_options o;
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	int32_t a = 1, b = 2;
	uint64_t t = 0;
	int i;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	group = ranks_ahead(2, &o, comms);
	for (i = 0; i < 17; i++) {
		ranks_sum(comms[1], &b);
		t = ranks_sum(comms[0], &a);
	}
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	cr_assert(comm_ticket_started(comms[0], 1));
	comms[0]->tickets.started[1] += UINT32_C(1) << 31;
	comms[0]->tickets.done[1] += UINT32_C(1) << 31;
	cr_assert(comm_ticket_done(comms[0], 1));
	cr_assert(comm_ticket_started(comms[0], 1));
	cr_assert(!comm_ticket_started(comms[0], t + 1));
	comms[0]->tickets.started[1] -= UINT32_C(1) << 31;
	comms[0]->tickets.done[1] -= UINT32_C(1) << 31;
	expect_close(group);
}
