/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cells in which each rank has a thread of its own that is bound to it
 *
 * All ranks warm up, meet, and then act: sound ranks call and wait, the victim does what
 * the cell is about, and the main thread watches, aborts or closes.
 */

#include "cli/drill/drill.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "base/clock.h"
#include "base/thread.h"

#define TOO_LONG_NS (30 * NS_PER_S)
/* ---- threads ---------------------------------------------------------- */

/* Make a first collective, so that the deadline for it does not apply any more. */
static void warm_up(struct drill_rank *k)
{
	uint64_t ticket = 0;
	float *t = drill_tensor(k, 0);
	int rc;

	if (k->run->place == AT_TRANSFER)
		rc = drill_sends(k)
		             ? cohort_send(k->comm, t, 1, COHORT_F32,
		                           drill_partner(k),
		                           cohort_comm_stream(k->comm), &ticket)
		             : cohort_recv(k->comm, t, 1, COHORT_F32,
		                           drill_partner(k),
		                           cohort_comm_stream(k->comm),
		                           &ticket);
	else
		rc = cohort_all_reduce(k->comm, t, t, 1, COHORT_F32, COHORT_SUM,
		                       cohort_comm_stream(k->comm), &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(k->comm, ticket, TOO_LONG_NS);
	if (rc == COHORT_OK)
		rc = drill_fill(k);
	drill_must(k->run, rc, "warm up");
}

static void *rank_main(void *arg)
{
	struct drill_rank *k = arg;
	struct drill_run *run = k->run;
	bool is_victim = k->number == drill_victim(run);
	sigset_t signals;

	/* Threads are started with all signals blocked. */
	sigemptyset(&signals);
	sigaddset(&signals, DRILL_SIGNAL);
	sigaddset(&signals, DRILL_STACK_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	drill_must(run, cohort_comm_bind(k->comm), "bind");
	if (run->place != AT_FIRST)
		warm_up(k);
	pthread_barrier_wait(&run->shared->ready);
	/* The cell has nothing but the abort. */
	if (run->place == AT_ABORT && run->trouble == BY_NOTHING)
		drill_await_cause(run);
	if (is_victim)
		drill_act_as_victim(k);
	else
		drill_act_and_wait(k);
	if (!is_victim || (run->trouble != BY_EXIT && run->place != AT_CLOSE))
		drill_leave(k);
	sem_post(&k->ended);
	return NULL;
}

/* Script the fault that strikes the devices. */
static void arm(struct drill_run *run)
{
	/* An error shows at the next native call; in a batch, at the last one. */
	bool is_last =
		run->place == AT_BATCH && drill_is_asked_for(run->trouble);
	uint64_t operation = run->place == AT_FIRST ? 0 : 1 + is_last;
	int rank = drill_victim(run);

	if (run->place == AT_SPLIT && !drill_is_asked_for(run->trouble)) {
		drill_arm_init(run, 0, 1);
		return;
	}
	drill_arm(run, operation);
	if (run->place != AT_WAIT && run->place != AT_CLOSE)
		return;
	switch (run->trouble) {
	case BY_LATE:
		drill_fault(run, rank, operation, COHORT_FAULT_DELAY,
		            run->options->deadline_ns / 2);
		break;
	case BY_TOO_LATE:
		drill_fault(run, rank, operation, COHORT_FAULT_DELAY,
		            TOO_LONG_NS);
		break;
	case BY_ABSENCE:
		if (run->place == AT_CLOSE)
			break; /* the victim does not call at all */
			       /* fallthrough */
	case BY_EXIT:
	case BY_TWO_ABORTS:
	case BY_SIGNAL:
	case BY_KILL:
		drill_fault(run, rank, operation, COHORT_FAULT_NEVER, 0);
		break;
	default:
		break;
	}
}

static bool start(struct drill_run *run)
{
	int r, err;

	for (r = run->first; r < run->first + run->own_n; r++) {
		struct drill_rank *k = &run->ranks[r];

		k->run = run;
		k->number = r;
		sem_init(&k->ended, 0, 0);
		err = thread_start(&k->thread, rank_main, k, "drill/%d", r);
		if (err) {
			drill_complain(run, "a thread could not be started: %s",
			               strerror(err));
			run->is_hung = true; /* the threads that were started */
			return false;
		}
	}
	return true;
}

static void join(struct drill_run *run)
{
	uint64_t deadline = clock_deadline(TOO_LONG_NS);
	int r;

	for (r = run->first; r < run->first + run->own_n; r++) {
		if (clock_await(&run->ranks[r].ended, deadline)) {
			pthread_join(run->ranks[r].thread, NULL);
			sem_destroy(&run->ranks[r].ended);
			continue;
		}
		drill_complain(run, "the thread of rank %d does not come back",
		               r);
		pthread_detach(run->ranks[r].thread);
		run->is_hung = true;
	}
}

/* ---- the main thread -------------------------------------------------- */

static void abort_the_group(struct drill_run *run)
{
	switch (run->trouble) {
	case BY_ERROR:
	case BY_ASYNC_ERROR:
	case BY_CUDA_ERROR:
	case BY_DEVICE_LOST:
		drill_await_cause(run);
		drill_fire(run);
		return;
	case BY_STUCK:
		drill_await(run, &run->shared->is_stuck,
		            "no rank is inside its call");
		break;
	case BY_NOTHING:
		break;
	case BY_PAUSE:
	case BY_STOP:
		drill_await_counted(run, &run->shared->called, run->n - 1);
		drill_dawdle(run);
		break;
	default:
		drill_await_counted(run, &run->shared->called, run->n - 1);
	}
	drill_abort_it(run, drill_waiting_thread(run));
}

/* Close the group while ranks may be inside, and return its status. */
static int begin_to_close(struct drill_run *run)
{
	bool is_stuck = run->trouble == BY_STUCK;

	drill_await_counted(run, &run->shared->left, run->n - is_stuck);
	if (is_stuck && !drill_has_victim(run))
		return COHORT_OK;
	if (is_stuck) {
		drill_await(run, &run->shared->is_stuck,
		            "no rank is inside its call");
		if (cohort_group_close(run->group) == COHORT_STATE)
			return COHORT_OK;
		drill_complain(run, "closed with a rank inside its call");
		run->group = NULL;
		return COHORT_OK;
	}
	/* One process's close ends the group, and the others close after it. */
	if (run->cell->bound == BY_DEADLINE && !drill_has(run, 0)) {
		drill_await_cause(run);
		return COHORT_OK;
	}
	atomic_store(&run->own->began_ns, clock_now());
	atomic_store(&run->shared->is_closing, true);
	return run->cell->bound == BY_DEADLINE ? COHORT_ABORTED : COHORT_OK;
}

/* Check the status that a rank's call returned. */
static void check_told(struct drill_run *run, const struct drill_rank *k,
                       int status)
{
	bool is_victim = k->number == drill_victim(run);
	bool is_silent = run->trouble == BY_ABSENCE || run->trouble == BY_EXIT;
	/* A pair of ranks without the victim may be done; and what was called while the
	 * abort was under way. */
	bool may_be_done =
		run->place == AT_CLOSE ||
		(run->place == AT_ABORT &&
	         (run->trouble == BY_PAUSE || run->trouble == BY_STOP)) ||
		(run->place == AT_TRANSFER && !is_victim &&
	         drill_partner(k) != drill_victim(run));

	if (is_victim && is_silent &&
	    (run->place != AT_BATCH || run->trouble == BY_EXIT))
		return;
	if (k->status == status || (may_be_done && k->status == COHORT_OK))
		return;
	drill_complain(run, "the call of rank %d returned %s", k->number,
	               cohort_status_text(k->status));
}

static void check_all_told(struct drill_run *run)
{
	struct cohort_cause cause;
	int r;

	if (run->is_hung || !run->group ||
	    cohort_group_cause(run->group, &cause) != COHORT_OK)
		return;
	for (r = run->first; r < run->first + run->own_n; r++)
		check_told(run, &run->ranks[r], cause.status);
}

static void conduct(struct drill_run *run)
{
	int status = COHORT_OK;

	if (!start(run))
		return;
	atomic_store(&run->own->began_ns, clock_now());
	pthread_barrier_wait(&run->shared->ready);
	if (run->place == AT_ABORT && drill_has(run, 0))
		abort_the_group(run);
	if (run->place == AT_CLOSE)
		status = begin_to_close(run);
	/* No abort releases what hangs there, which would be leaked. */
	if (run->place == AT_SPLIT && run->trouble == BY_STUCK &&
	    drill_await_cause(run))
		cohort_sim_faults_clear();
	/* In other places the group is closed when the ranks have left. */
	if (run->place != AT_CLOSE || run->trouble == BY_STUCK) {
		join(run);
		/* Ranks that have had their messages may be done before, and
		 * so may those that were paused. */
		if ((run->place == AT_TRANSFER || run->place == AT_ABORT) &&
		    run->cell->kind != COHORT_VERDICT_NONE)
			drill_await_cause(run);
		drill_keep_cause(run);
		check_all_told(run);
		if (!run->is_hung)
			drill_close(run, status);
		return;
	}
	drill_close(run, status);
	join(run);
}

void drill_by_ranks(struct drill_run *run)
{
	struct cohort_comm *comms[DRILL_MOST_RANKS];
	int r;

	run->main = pthread_self();
	if (!drill_open(run))
		return;
	if (!drill_split(run, comms)) {
		drill_close(run, COHORT_OK);
		return;
	}
	for (r = 0; r < run->own_n; r++)
		run->ranks[run->first + r].comm = comms[r];
	arm(run);
	conduct(run);
}
