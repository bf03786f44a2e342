/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the ranks of a cell do: sound ranks call and wait, the victim does what the
 * cell is about
 */

#include "cli/drill/drill.h"

#include "base/clock.h"

bool drill_gives_up(const struct drill_rank *k)
{
	const bool waits = k->run->place == AT_TRANSFER
	                           ? drill_partner(k) == drill_victim(k->run)
	                           : k->number == 0;

	return k->run->trouble == BY_TIMEOUT && waits;
}

static int await_both(struct drill_rank *k, const uint64_t tickets[2])
{
	int i, rc = COHORT_OK, backwards = drill_is_odd(k, BY_ORDER);

	for (i = 0; i < 2 && rc == COHORT_OK; i++)
		if (tickets[i ^ backwards])
			rc = cohort_wait(k->comm, tickets[i ^ backwards],
			                 DRILL_LIMIT_NS);
	return rc;
}

/* Once only the victim has not called, wait for it with a short timeout. */
static void give_up(struct drill_rank *k, uint64_t ticket)
{
	struct drill_run *run = k->run;

	drill_await_counted(run, &run->shared->called, run->n - 1);
	k->status = cohort_wait(k->comm, ticket, run->options->deadline_ns / 4);
	drill_strike(run);
}

/* Make no further call; close the communicator first if the cell is about that. */
static void leave_early(struct drill_rank *k)
{
	drill_strike(k->run);
	if (k->run->trouble == BY_CLOSING)
		drill_must(k->run, cohort_comm_close(k->comm),
		           "close of a rank");
}

void drill_leave(struct drill_rank *k)
{
	/* A worker is unbound when it returns. */
	if (!drill_has_workers(k->run))
		cohort_comm_unbind(k->parent ? k->parent : k->comm);
	atomic_fetch_add(&k->run->shared->left, 1);
}

void drill_act_and_wait(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	uint64_t tickets[2] = { 0, 0 };

	if (run->trouble == BY_ALONE && !drill_is_odd(k, BY_ALONE)) {
		drill_await_cause(run);
		return;
	}
	k->status = drill_act(k, tickets);
	if (k->status != COHORT_OK || run->place == AT_CLOSE)
		return;
	/* In this place all ranks have called. */
	if (run->place == AT_WAIT)
		drill_await_counted(run, &run->shared->called, run->n);
	if (drill_gives_up(k)) {
		give_up(k, tickets[0]);
		return;
	}
	k->status = await_both(k, tickets);
	if (k->status == COHORT_OK && run->place != AT_SPLIT &&
	    run->cell->kind == COHORT_VERDICT_NONE)
		drill_check(k, run->place == AT_BATCH || tickets[1] ? 2 : 1);
}

pthread_t drill_waiting_thread(const struct drill_run *run)
{
	/* Its partner is in another process, and other ranks are done. */
	if (run->place == AT_TRANSFER && run->options->processes > 1)
		return pthread_self();
	return run
	        ->ranks[drill_has_victim(run) ? drill_victim(run) - 1
	                                      : run->first]
	        .thread;
}

void drill_abort_it(struct drill_run *run, pthread_t thread)
{
	drill_strike(run);
	if (run->trouble == BY_SIGNAL)
		drill_fire_by_signal(run, thread);
	else
		drill_fire(run);
	if (run->trouble == BY_TWO_ABORTS)
		drill_fire(run);
}

/* Fail where the other ranks have called and wait for the victim. */
static void fail_at_call(struct drill_rank *k)
{
	struct drill_run *run = k->run;

	switch (run->trouble) {
	case BY_ABSENCE:
		/* In a batch the call has begun and does not end. */
		if (run->place == AT_BATCH)
			drill_act_and_wait(k);
		else
			drill_await_cause(run);
		return;
	case BY_LATE:
		drill_dawdle(run);
		break;
	case BY_TOO_LATE:
	case BY_SIBLING:
		drill_await_cause(run);
		break;
	case BY_TIMEOUT:
		drill_await_cause(run);
		return;
	case BY_RETURN:
	case BY_CLOSING:
		drill_await_counted(run, &run->shared->called, run->n - 1);
		leave_early(k);
		return;
	case BY_PAUSED_PARENT:
		drill_dawdle(run);
		drill_dawdle(run);
		drill_dawdle(run);
		break;
	case BY_ALONE:
		break;
	case BY_EXIT:
		drill_await_counted(run, &run->shared->called, run->n - 1);
		drill_strike(run);
		return;
	case BY_TWO_ABORTS:
	case BY_SIGNAL:
		drill_await_counted(run, &run->shared->called, run->n - 1);
		drill_abort_it(run, drill_waiting_thread(run));
		break;
	case BY_KILL:
	case BY_PAUSE:
	case BY_STOP:
	case BY_DESCRIPTORS:
		drill_await_counted(run, &run->shared->called, run->n - 1);
		/* Let its other ranks' messages arrive. */
		if (run->place == AT_TRANSFER && run->trouble == BY_STOP)
			drill_dawdle(run);
		drill_strike(run);
		drill_strike_process(run);
		break;
	default:
		/* The others' deadlines begin before the victim's. */
		drill_await_counted(run, &run->shared->called, run->n - 1);
	}
	drill_act_and_wait(k);
}

/* Fail where all ranks have called, and their operations do not end before the
 * fault. */
static void fail_at_wait(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	uint64_t tickets[2] = { 0, 0 };

	const bool leaves =
		run->trouble == BY_RETURN || run->trouble == BY_CLOSING;

	if (run->trouble != BY_EXIT && run->trouble != BY_TWO_ABORTS &&
	    run->trouble != BY_SIGNAL && run->trouble != BY_KILL && !leaves) {
		drill_act_and_wait(k);
		return;
	}
	k->status = drill_act(k, tickets);
	drill_await_counted(run, &run->shared->called, run->n);
	if (leaves) {
		leave_early(k);
		return;
	}
	if (run->trouble == BY_KILL) {
		drill_strike(run);
		drill_strike_process(run);
	}
	if (run->trouble == BY_EXIT) {
		drill_strike(run);
		return;
	}
	drill_abort_it(run, drill_waiting_thread(run));
	k->status = await_both(k, tickets);
}

/* Fail while the main thread closes, when no thread may use a communicator. */
static void fail_at_close(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	uint64_t tickets[2] = { 0, 0 };

	if (run->trouble == BY_PAUSE || run->trouble == BY_STOP) {
		/* Nothing is in flight when it is stopped. */
		k->status = drill_act(k, tickets);
		if (k->status == COHORT_OK)
			k->status = await_both(k, tickets);
	} else if (run->trouble != BY_ABSENCE) {
		drill_act_and_wait(k);
	}
	if (run->trouble == BY_CLOSING)
		leave_early(k);
	/* Exit while bound to the rank. */
	if (run->trouble == BY_EXIT)
		atomic_fetch_add(&run->shared->left, 1);
	else
		drill_leave(k);
	if (run->trouble != BY_EXIT && run->trouble != BY_TWO_ABORTS &&
	    run->trouble != BY_SIGNAL && run->trouble < BY_KILL)
		return;
	drill_await(run, &run->shared->is_closing, "the group is not closed");
	if (run->trouble != BY_STOP && run->trouble != BY_PAUSE)
		drill_dawdle(run);
	if (run->trouble >= BY_KILL) {
		drill_strike(run);
		drill_strike_process(run);
		return;
	}
	if (run->trouble == BY_EXIT)
		drill_strike(run);
	else
		drill_abort_it(run, run->main);
}

/* Where the main thread aborts. */
static void fail_at_abort(struct drill_rank *k)
{
	struct drill_run *run = k->run;

	switch (run->trouble) {
	case BY_ERROR:
	case BY_ASYNC_ERROR:
	case BY_CUDA_ERROR:
	case BY_DEVICE_LOST:
	case BY_STUCK:
		break;
	case BY_ABSENCE:
	case BY_EXIT:
		drill_await_cause(run);
		return;
	case BY_PAUSE:
	case BY_STOP:
		drill_await_counted(run, &run->shared->called, run->n - 1);
		drill_strike_process(run);
		break;
	case BY_KILL:
	case BY_DESCRIPTORS:
		drill_await_cause(run);
		drill_strike_process(run);
		break;
	case BY_TOO_LATE:
		drill_await_cause(run);
		drill_dawdle(run);
		drill_dawdle(run);
		drill_dawdle(run);
		break;
	default:
		drill_await_cause(run);
	}
	drill_act_and_wait(k);
}

void drill_act_as_victim(struct drill_rank *k)
{
	switch (k->run->place) {
	case AT_WAIT:
		fail_at_wait(k);
		break;
	case AT_CLOSE:
		fail_at_close(k);
		break;
	case AT_ABORT:
		fail_at_abort(k);
		break;
	default:
		if (k->run->trouble == BY_NOTHING)
			drill_act_and_wait(k);
		else
			fail_at_call(k);
	}
}
