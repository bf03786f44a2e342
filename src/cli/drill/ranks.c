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

#include "api/join.h"
#include "base/clock.h"
#include "base/thread.h"

/* ---- threads ---------------------------------------------------------- */

/* Make a first collective, so that the deadline for it does not apply any more. */
static void warm_up(struct drill_rank *k, struct cohort_comm *c)
{
	void *stream = cohort_comm_stream(c);
	uint64_t ticket = 0;
	float *t = drill_tensor(k, 0);
	int rc;

	if (k->run->place == AT_TRANSFER)
		rc = drill_sends(k)
		             ? cohort_send(c, t, 1, COHORT_F32,
		                           drill_partner(k), stream, &ticket)
		             : cohort_recv(c, t, 1, COHORT_F32,
		                           drill_partner(k), stream, &ticket);
	else
		rc = cohort_all_reduce(c, t, t, 1, COHORT_F32, COHORT_SUM,
		                       stream, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(c, ticket, DRILL_LIMIT_NS);
	if (rc == COHORT_OK)
		rc = drill_fill(k);
	drill_must(k->run, rc, "warm up");
}

/* Split the group, with its ranks in reverse order, and return the rank's new communicator:
 * NULL if @color is COHORT_NO_COLOR. */
static struct cohort_comm *split(struct drill_rank *k, int color)
{
	struct cohort_comm *child = NULL;

	drill_must(k->run,
	           cohort_comm_split(k->parent, color,
	                             k->run->n - 1 - k->number, &child),
	           "split");
	return child;
}

/* Make the cell's communicator a child that has all ranks.  If the cell needs a sibling,
 * the victim is only in the sibling, and the rank before it is in both. */
static void enter_child(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	const bool has_sibling = run->trouble == BY_SIBLING;
	struct cohort_comm *child;

	k->parent = k->comm;
	child = split(k, !has_sibling || k->number < run->n - 1
	                         ? 0
	                         : COHORT_NO_COLOR);
	if (has_sibling)
		k->sibling =
			split(k, k->number >= run->n - 2 ? 1 : COHORT_NO_COLOR);
	k->comm = child ? child : k->sibling;
	if (k->sibling)
		warm_up(k, k->sibling);
	if (child)
		warm_up(k, child);
	if (k->number != run->first)
		return;
	cohort_abort_put(run->handle);
	run->handle = cohort_comm_abort_handle(k->comm);
}

/* True if the rank is paused during the cell.  That is one rank of each process, since a
 * process does not see the pauses of others. */
static bool is_paused(const struct drill_rank *k)
{
	return k->run->trouble == BY_PAUSED_PARENT &&
	       k->number == k->run->first + k->run->own_n - 1;
}

/* Join for BY_REMOTE. */
static bool join_by_id(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	const int rc =
		cohort_comm_join(&run->shared->ids[0], run->n, k->number,
	                         k->number, &run->group_options, &k->comm);

	if (rc == COHORT_OK && k->number == 0)
		run->handle = cohort_comm_abort_handle(k->comm);
	return drill_must(run, rc, "join");
}

/*
 * Be the missing rank of another process.  The simulated devices connect ranks of one
 * process only.  Therefore this one joins by NCCL's own functions, and the library knows as
 * little of it as of a rank in another process.
 */
static void be_stranger(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	const struct platform *p;
	const ncclUniqueId id = join_native_id(&run->shared->ids[0], &p);
	cudaStream_t stream = NULL;
	ncclComm_t comm = NULL;

	if (p->cudaSetDevice(k->number) != cudaSuccess ||
	    p->cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) !=
	            cudaSuccess ||
	    p->ncclCommInitRank(&comm, run->n, id, k->number) != ncclSuccess)
		drill_complain(run, "the rank of another process cannot join");
	else if (drill_warms_up(run) &&
	         p->ncclAllReduce(k->tensors, k->tensors, 1, ncclFloat32,
	                          ncclSum, comm, stream) != ncclSuccess)
		drill_complain(run, "the rank of another process cannot call");
	pthread_barrier_wait(&run->shared->ready);
	drill_await_counted(run, &run->shared->left, run->n - 1);
	if (comm)
		p->ncclCommAbort(comm);
	if (stream)
		p->cudaStreamDestroy(stream);
}

/* Play the rank's part in the cell, on the rank's thread. */
static void be_rank(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	bool is_victim = k->number == drill_victim(run);
	sigset_t signals;

	/* Threads are started with all signals blocked. */
	sigemptyset(&signals);
	sigaddset(&signals, DRILL_SIGNAL);
	sigaddset(&signals, DRILL_STACK_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	if (!drill_has_workers(run))
		drill_must(run, cohort_comm_bind(k->comm), "bind");
	if (drill_warms_up(run))
		warm_up(k, k->comm);
	if (run->place == AT_CHILD)
		enter_child(k);
	k->stream = cohort_comm_stream(k->comm);
	k->bad_stream = drill_bad_stream(run, k->number);
	if (is_paused(k))
		drill_must(run, cohort_pause(k->parent), "pause");
	pthread_barrier_wait(&run->shared->ready);
	/* The cell has nothing but the abort. */
	if (run->place == AT_ABORT && run->trouble == BY_NOTHING)
		drill_await_cause(run);
	if (is_victim)
		drill_act_as_victim(k);
	else
		drill_act_and_wait(k);
	if (is_paused(k))
		drill_must(run, cohort_resume(k->parent), "resume");
	if (!is_victim || (run->trouble != BY_EXIT && run->place != AT_CLOSE))
		drill_leave(k);
}

static void *rank_main(void *arg)
{
	struct drill_rank *k = arg;

	if (drill_is_odd(k, BY_REMOTE))
		be_stranger(k);
	else if (k->comm || join_by_id(k))
		be_rank(k);
	else
		pthread_barrier_wait(&k->run->shared->ready);
	sem_post(&k->ended);
	return NULL;
}

static int worker_main(struct cohort_comm *comm, void *user)
{
	struct drill_run *run = user;
	struct drill_rank *k = &run->ranks[cohort_comm_rank(comm)];

	be_rank(k);
	sem_post(&k->ended);
	return drill_gives_up(k) ? k->status : 0;
}

/* Run the process's ranks as workers. */
static void *runner_main(void *arg)
{
	struct drill_run *run = arg;
	struct cohort_cause cause = { .status = COHORT_OK };
	const int rc = cohort_group_run(run->group, worker_main, run, &cause);

	if (rc != cause.status)
		drill_complain(run, "run: %s", cohort_last_error());
	return NULL;
}

static bool start(struct drill_run *run)
{
	int r, err = 0;

	for (r = run->first; r < run->first + run->own_n; r++) {
		struct drill_rank *k = &run->ranks[r];

		k->run = run;
		k->number = r;
		sem_init(&k->ended, 0, 0);
		if (!err && !drill_has_workers(run))
			err = thread_start(&k->thread, rank_main, k, "drill/%d",
			                   r);
	}
	if (drill_has_workers(run))
		err = thread_start(&run->runner, runner_main, run, "drill/run");
	if (!err)
		return true;
	drill_complain(run, "a thread could not be started: %s", strerror(err));
	run->is_hung = true; /* the threads that were started */
	return false;
}

static void join(struct drill_run *run)
{
	uint64_t deadline = clock_deadline(DRILL_LIMIT_NS);
	int r;

	for (r = run->first; r < run->first + run->own_n; r++) {
		if (clock_await(&run->ranks[r].ended, deadline)) {
			if (!drill_has_workers(run))
				pthread_join(run->ranks[r].thread, NULL);
			sem_destroy(&run->ranks[r].ended);
			continue;
		}
		drill_complain(run, "the thread of rank %d does not come back",
		               r);
		if (!drill_has_workers(run))
			pthread_detach(run->ranks[r].thread);
		run->is_hung = true;
	}
	if (drill_has_workers(run) && run->is_hung)
		pthread_detach(run->runner);
	else if (drill_has_workers(run))
		pthread_join(run->runner, NULL);
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
	const bool is_stuck = run->trouble == BY_STUCK;

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
	drill_await_counted(run, &run->shared->left, run->n);
	/* One process's close ends the group, and the others close after it. */
	if (run->cell->bound == BY_DEADLINE && !drill_has(run, 0)) {
		drill_await_cause(run);
		return COHORT_OK;
	}
	atomic_store(&run->own->began_ns, clock_now());
	atomic_store(&run->shared->is_closing, true);
	return run->cell->bound == BY_DEADLINE ? COHORT_ABORTED : COHORT_OK;
}

/* True if the rank may not have called, or has given up or left before the end. */
static bool is_silent(const struct drill_run *run, const struct drill_rank *k)
{
	const bool is_victim = k->number == drill_victim(run);

	switch (run->trouble) {
	case BY_ABSENCE:
		return is_victim && run->place != AT_BATCH;
	case BY_EXIT:
	case BY_RETURN:
	case BY_CLOSING:
	case BY_REMOTE:
		return is_victim;
	case BY_TIMEOUT:
		return is_victim || drill_gives_up(k);
	case BY_ALONE:
		return !is_victim;
	default:
		return k->sibling;
	}
}

/* Check the status that a rank's call returned. */
static void check_told(struct drill_run *run, const struct drill_rank *k,
                       int status)
{
	bool is_victim = k->number == drill_victim(run);
	/* A pair of ranks without the victim may be done; and what was called while the
	 * abort was under way. */
	bool may_be_done =
		run->place == AT_CLOSE ||
		(run->place == AT_ABORT &&
	         (run->trouble == BY_PAUSE || run->trouble == BY_STOP)) ||
		(run->place == AT_TRANSFER && !is_victim &&
	         drill_partner(k) != drill_victim(run));

	if (is_silent(run, k))
		return;
	if (k->status == status || (may_be_done && k->status == COHORT_OK))
		return;
	drill_complain(run, "the call of rank %d returned %s", k->number,
	               cohort_status_text(k->status));
}

static void check_all_told(struct drill_run *run)
{
	struct cohort_cause cause = { .status = COHORT_OK };
	int r;

	if (run->is_hung)
		return;
	drill_cause(run, &cause);
	for (r = run->first; r < run->first + run->own_n; r++)
		check_told(run, &run->ranks[r], cause.status);
}

/* Close the group, or all ranks that have joined without one. */
static void close_all(struct drill_run *run, int status)
{
	drill_close(run, status);
	for (int r = 0; run->trouble == BY_REMOTE && r < run->n - 1; r++) {
		const int rc = cohort_comm_close(run->ranks[r].comm);

		if (rc != COHORT_STALLED)
			drill_must(run, rc, "close");
	}
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
			close_all(run, status);
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
	if (run->trouble == BY_REMOTE) {
		if (drill_must(run, cohort_unique_id(&run->shared->ids[0]),
		               "an id"))
			conduct(run);
		return;
	}
	if (!drill_open(run))
		return;
	if (!drill_split(run, comms)) {
		drill_close(run, COHORT_OK);
		return;
	}
	for (r = 0; r < run->own_n; r++)
		run->ranks[run->first + r].comm = comms[r];
	drill_arm(run);
	conduct(run);
}
