/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Test of the reducer in a group that has ranks in other processes
 */

#include "core/clique.h"
#include "support/expect.h"
#include "support/model.h"
#include "support/ranks.h"

#define RANKS 2

Test(reducer, cancel_is_refused_if_ranks_are_in_other_processes, .timeout = 60)
{
	struct model model = model_of(RANKS);
	struct model_rank ranks[RANKS];
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group;
	struct clique *q;
	int r;

	place_need_no_sync("one thread makes the calls of both ranks");
	group = ranks_ahead(RANKS, NULL, comms);
	for (r = 0; r < RANKS; r++) {
		ranks_must(model_open(&ranks[r], &model, comms[r]), "open");
		ranks_must(cohort_reducer_begin(ranks[r].reducer,
		                                cohort_comm_stream(comms[r])),
		           "begin");
	}
	/* Pretend that one more rank is in another process. */
	q = comms[0]->clique;
	q->world_size++;
	expect(cohort_reducer_cancel(ranks[0].reducer, 0), COHORT_UNSUPPORTED,
	       "1 of 3 ranks are in other processes");
	q->world_size--;
	/* The refused call had no effect: the step can still be canceled. */
	expect(cohort_reducer_cancel(ranks[0].reducer, 0), COHORT_TIMED_OUT,
	       "");
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	for (r = 0; r < RANKS; r++)
		cohort_reducer_finish(ranks[r].reducer, RANKS_SOON);
	for (r = 0; r < RANKS; r++)
		ranks_must(model_close(&ranks[r]), "close");
	ranks_must(cohort_group_close(group), "close");
}
