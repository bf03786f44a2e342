/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cells in which each rank has a thread of its own that is bound to it
 *
 * All ranks warm up, meet, and then act: sound ranks call and wait, the victim does what
 * the cell is about, and the main thread watches, aborts or closes.
 */

#include "cli/drill/drill.h"

#include <signal.h>
#include <string.h>

#include <cohort/sim.h>

#include "api/join.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cli/common/cli.h"

/* ---- threads ---------------------------------------------------------- */

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
		drill_warm_up(k, k->sibling);
	if (child)
		drill_warm_up(k, child);
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

/* Wait until all ranks have joined: a kernel that waits for a rank may hold up what that
 * rank allocates as it joins. */
static void meet_joined(struct drill_run *run)
{
	atomic_fetch_add(&run->shared->joined, 1);
	drill_await(run, joined, run->n);
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
	meet_joined(run);
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
	meet_joined(run);
	if (comm && drill_warms_up(run) &&
	    p->ncclAllReduce(k->tensors, k->tensors, DRILL_COUNT, ncclFloat32,
	                     ncclSum, comm, stream) != ncclSuccess)
		drill_complain(run, "the rank of another process cannot call");
	pthread_barrier_wait(&run->shared->ready);
	drill_await(run, left, run->n - 1);
	if (comm)
		p->ncclCommAbort(comm);
	if (stream)
		p->cudaStreamDestroy(stream);
}

static bool gives_up(const struct drill_rank *k)
{
	const bool waits = k->run->place == AT_TRANSFER
	                           ? drill_partner(k) == drill_victim(k->run)
	                           : k->number == 0;

	return k->run->trouble == BY_TIMEOUT && waits;
}

/* Wait until the rank's calls are done. */
static int await_calls(struct drill_rank *k)
{
	int rc = COHORT_OK, backwards = drill_is_odd(k, BY_ORDER);

	for (int i = 0; i < 2 && rc == COHORT_OK; i++)
		if (k->tickets[i ^ backwards])
			rc = cohort_wait(k->comm, k->tickets[i ^ backwards],
			                 DRILL_LIMIT_NS);
	return rc;
}

static void finish(struct drill_rank *k)
{
	k->status = await_calls(k);
	if (k->status == COHORT_OK && k->run->place != AT_SPLIT &&
	    k->run->cell->kind == COHORT_VERDICT_NONE)
		drill_check(k);
}

/* Be done with the communicator. */
static void leave(struct drill_rank *k)
{
	if (is_paused(k))
		drill_must(k->run, cohort_resume(k->parent), "resume");
	/* A worker is unbound when it returns, and a thread that exits stays bound. */
	if (!drill_has_workers(k->run) && !drill_is_odd(k, BY_EXIT))
		cohort_comm_unbind(k->parent ? k->parent : k->comm);
	atomic_fetch_add(&k->run->shared->left, 1);
}

/* The thread that a signal interrupts: the one that closes; or a rank of this process that
 * waits for the victim; or this one, if its partner is in another process and other ranks
 * are done. */
static pthread_t waiting_thread(const struct drill_run *run)
{
	if (run->place == AT_CLOSE)
		return run->main;
	if (run->place == AT_TRANSFER && run->options->processes > 1)
		return pthread_self();
	return run
	        ->ranks[drill_has_victim(run) ? drill_victim(run) - 1
	                                      : run->first]
	        .thread;
}

/* Do one step of a part: @k's, or the main thread's in the process whose first rank is
 * @k. */
static void act(struct drill_rank *k, enum drill_step step)
{
	struct drill_run *run = k->run;

	switch (step) {
	case CALL:
		k->status = drill_call(k);
		k->is_told = true;
		break;
	case FINISH:
		if (k->status == COHORT_OK)
			finish(k);
		break;
	case GIVE_UP:
		if (k->status == COHORT_OK)
			k->status = cohort_wait(k->comm, k->tickets[0],
			                        run->options->deadline_ns / 4);
		drill_mark_fault(run);
		k->is_told = false;
		break;
	case AWAIT_OTHERS:
		drill_await(run, called, run->n - 1);
		break;
	case AWAIT_ALL:
		drill_await(run, called, run->n);
		break;
	case AWAIT_CAUSE:
		drill_await_cause(run);
		break;
	case AWAIT_STUCK:
		drill_await(run, is_stuck, 1);
		break;
	case AWAIT_CLOSE:
		drill_await(run, is_closing, 1);
		break;
	case DAWDLE:
		drill_dawdle(run);
		break;
	case STRIKE:
		k->is_told = false;
		drill_strike(run);
		break;
	case BEFALL:
		drill_strike_process(run);
		break;
	case ABORT:
		drill_mark_fault(run);
		drill_fire(run, waiting_thread(run));
		break;
	case FIRE:
		drill_fire(run, waiting_thread(run));
		break;
	case CLOSE:
		drill_must(run, cohort_comm_close(k->comm), "close of a rank");
		break;
	case LEAVE:
		leave(k);
		break;
	case DONE:
		break;
	}
}

static void play(struct drill_rank *k, enum drill_role role)
{
	const enum drill_step *step =
		drill_part(k->run->place, k->run->trouble, role);

	for (; *step != DONE; step++)
		act(k, *step);
}

/* Play the rank's part in the cell, on the rank's thread. */
static void be_rank(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	sigset_t signals;

	/* Threads are started with all signals blocked. */
	sigemptyset(&signals);
	sigaddset(&signals, DRILL_SIGNAL);
	sigaddset(&signals, CLI_STACK_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	if (!drill_has_workers(run))
		drill_must(run, cohort_comm_bind(k->comm), "bind");
	if (drill_warms_up(run))
		drill_warm_up(k, k->comm);
	if (run->place == AT_CHILD)
		enter_child(k);
	k->stream = cohort_comm_stream(k->comm);
	k->bad_stream = drill_bad_stream(run, k->number);
	if (is_paused(k))
		drill_must(run, cohort_pause(k->parent), "pause");
	pthread_barrier_wait(&run->shared->ready);
	play(k, k->number == drill_victim(run) ? STRICKEN
	        : gives_up(k)                  ? QUITTER
	                                       : SOUND);
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
	return gives_up(k) ? k->status : 0;
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

bool drill_start(struct drill_run *run, void *(*main)(void *rank))
{
	int r, err = 0;

	for (r = run->first; r < run->first + run->own_n; r++) {
		struct drill_rank *k = &run->ranks[r];

		k->run = run;
		k->number = r;
		sem_init(&k->ended, 0, 0);
		if (!err && !drill_has_workers(run))
			err = thread_start(&k->thread, main, k, "drill/%d", r);
	}
	if (drill_has_workers(run))
		err = thread_start(&run->runner, runner_main, run, "drill/run");
	if (!err)
		return true;
	drill_complain(run, "a thread could not be started: %s", strerror(err));
	run->is_hung = true; /* the threads that were started */
	return false;
}

void drill_join(struct drill_run *run)
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

/* Close the group while ranks may be inside, and return its status. */
static int begin_to_close(struct drill_run *run)
{
	const bool is_stuck = run->trouble == BY_STUCK;

	if (is_stuck && !drill_has_victim(run))
		return COHORT_OK;
	if (is_stuck) {
		drill_await(run, is_stuck, 1);
		if (cohort_group_close(run->group) == COHORT_STATE)
			return COHORT_OK;
		drill_complain(run, "closed with a rank inside its call");
		run->group = NULL;
		return COHORT_OK;
	}
	drill_await(run, left, run->n);
	/* One process's close ends the group, and the others close after it. */
	if (run->cell->bound == BY_DEADLINE && !drill_has(run, 0)) {
		drill_await_cause(run);
		return COHORT_OK;
	}
	atomic_store(&run->own->began_ns, clock_now());
	atomic_store(&run->shared->is_closing, 1);
	return run->cell->bound == BY_DEADLINE ? COHORT_ABORTED : COHORT_OK;
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

	if (!k->is_told || k->sibling)
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

	if (!drill_start(run, rank_main))
		return;
	atomic_store(&run->own->began_ns, clock_now());
	pthread_barrier_wait(&run->shared->ready);
	if (drill_has(run, 0))
		play(&run->ranks[0], MAIN);
	if (run->place == AT_CLOSE)
		status = begin_to_close(run);
	/* No abort releases what hangs there, which would be leaked. */
	if (run->place == AT_SPLIT && run->trouble == BY_STUCK &&
	    drill_await_cause(run))
		cohort_sim_faults_clear();
	/* In other places the group is closed when the ranks have left. */
	if (run->place != AT_CLOSE || run->trouble == BY_STUCK) {
		drill_join(run);
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
	drill_join(run);
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
