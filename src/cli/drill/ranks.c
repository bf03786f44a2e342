/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cells in which each rank has a thread of its own that is bound to it
 *
 * All ranks warm up, meet, and then act: sound ranks call and wait, the victim
 * does what the cell is about, and the main thread watches, aborts or closes.
 */

#include "cli/drill/drill.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <cohort/sim.h>

#include "api/join.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cli/common/cli.h"

/* ---- one rank's memory ------------------------------------------------ */

static float *tensor(struct drill_rank *k, int i)
{
	return k->tensors + (size_t)i * DRILL_COUNT;
}

static int fill(struct drill_rank *k)
{
	float values[2 * DRILL_COUNT];

	for (int i = 0; i < 2 * DRILL_COUNT; i++)
		values[i] = (float)k->number + 1.0f;
	return drill_copy(k->comm, k->tensors, values, sizeof(values));
}

/* In transfers: the rank that sends to @k or receives from it, which is in
 * another process if there are several. */
static int partner(const struct drill_rank *k)
{
	return k->number ^ (k->run->options->processes > 1 ? k->run->n / 2 : 1);
}

static bool sends(const struct drill_rank *k)
{
	return k->number < partner(k);
}

/* The value that tensor @i must hold at the end: each rank sends its number
 * plus one. */
static float expected(const struct drill_rank *k, int i)
{
	int n = k->run->n;

	if (k->run->place == AT_TRANSFER)
		return (float)(sends(k) ? k->number : partner(k)) + 1.0f;
	return i ? 1.0f : (float)(n * (n + 1)) / 2.0f;
}

static void check_results(struct drill_rank *k)
{
	const bool two = k->run->place == AT_BATCH || k->tickets[1];
	float values[2 * DRILL_COUNT];

	if (!drill_must(k->run,
	                drill_copy(k->comm, values, k->tensors, sizeof(values)),
	                "copy"))
		return;
	for (int i = 0; i < (1 + two) * DRILL_COUNT; i++) {
		if (values[i] == expected(k, i / DRILL_COUNT))
			continue;
		drill_complain(k->run, "element %d of rank %d is %g, not %g", i,
		               k->number, (double)values[i],
		               (double)expected(k, i / DRILL_COUNT));
		return;
	}
}

/* ---- calls ------------------------------------------------------------ */

/* True if the cell has @trouble and @k is its victim. */
static bool is_odd(const struct drill_rank *k, enum trouble trouble)
{
	return k->run->trouble == trouble && k->number == drill_victim(k->run);
}

static int reduce(struct drill_rank *k, uint64_t *ticket)
{
	float *t = tensor(k, 0);

	return cohort_all_reduce(
		k->comm, t, t, DRILL_COUNT - is_odd(k, BY_COUNT),
		is_odd(k, BY_TYPE) ? COHORT_I32 : COHORT_F32,
		is_odd(k, BY_OPERATION) ? COHORT_MAX : COHORT_SUM,
		ticket ? k->stream : NULL, ticket);
}

static int spread(struct drill_rank *k, uint64_t *ticket)
{
	float *t = tensor(k, 1);

	return cohort_broadcast(k->comm, t, t, DRILL_COUNT, COHORT_F32,
	                        is_odd(k, BY_ROOT), ticket ? k->stream : NULL,
	                        ticket);
}

/* Call a collective, or two where their order or roots must differ.  In a batch
 * there are no tickets. */
static int call(struct drill_rank *k, bool two, uint64_t *tickets)
{
	const bool backwards = is_odd(k, BY_ORDER) && k->run->place != AT_WAIT;
	int rc = COHORT_OK;

	for (int i = 0; i < 1 + two && rc == COHORT_OK; i++)
		rc = (i ^ backwards ? spread : reduce)(k, tickets ? &tickets[i]
		                                                  : NULL);
	return rc;
}

static int call_batch(struct drill_rank *k, uint64_t *ticket)
{
	int ended, rc = cohort_batch_begin(k->comm);

	if (rc != COHORT_OK)
		return rc;
	rc = call(k, true, NULL);
	/* With its batch open, and all calls in it. */
	if (is_odd(k, BY_ABSENCE))
		drill_await_cause(k->run);
	ended = cohort_batch_end(k->comm, k->stream, ticket);
	return rc != COHORT_OK ? rc : ended;
}

/* For a call of the victim that nobody answers: the deadline of the ranks that
 * wait for the victim must pass first, as they name it. */
static const struct cohort_deadlines patient = {
	.join_ns = DRILL_LIMIT_NS,
	.exec_ns = DRILL_LIMIT_NS,
};

/* A sender sends to its partner, which receives; where the order must differ,
 * they also send back. */
static int call_transfer(struct drill_rank *k)
{
	const size_t count = DRILL_COUNT - is_odd(k, BY_COUNT);
	const int type = is_odd(k, BY_TYPE) ? COHORT_I32 : COHORT_F32;
	const bool back = k->run->trouble == BY_ORDER;
	bool is_sender =
		sends(k) ^ (is_odd(k, BY_OPERATION) || is_odd(k, BY_ORDER));
	int peer = partner(k), rc = COHORT_OK;

	if (is_odd(k, BY_ROOT)) {
		peer = 0;
		rc = cohort_deadline_push(k->comm, &patient);
	}
	for (int i = 0; i < 1 + back && rc == COHORT_OK; i++) {
		float *t = tensor(k, i);

		rc = is_sender ? cohort_send(k->comm, t, count, type, peer,
		                             k->stream, &k->tickets[i])
		               : cohort_recv(k->comm, t, count, type, peer,
		                             k->stream, &k->tickets[i]);
		is_sender = !is_sender;
	}
	return rc;
}

/* Sum in @comm, which is the rank's or one that was split from it. */
static int sum(struct drill_rank *k, struct cohort_comm *comm)
{
	float *t = tensor(k, 0);
	uint64_t ticket;
	int rc = cohort_all_reduce(comm, t, t, DRILL_COUNT, COHORT_F32,
	                           COHORT_SUM, cohort_comm_stream(comm),
	                           &ticket);

	return rc == COHORT_OK ? cohort_wait(comm, ticket, DRILL_LIMIT_NS) : rc;
}

/* Make a first call in @comm, so that the deadline for it does not apply any
 * more, and fill the tensors with what the rank sends. */
static void warm_up(struct drill_rank *k, struct cohort_comm *c)
{
	void *stream = cohort_comm_stream(c);
	float *t = tensor(k, 0);
	uint64_t ticket = 0;
	int rc;

	if (k->run->place != AT_TRANSFER) {
		rc = sum(k, c);
	} else {
		rc = (sends(k) ? cohort_send(c, t, 1, COHORT_F32, partner(k),
		                             stream, &ticket)
		               : cohort_recv(c, t, 1, COHORT_F32, partner(k),
		                             stream, &ticket));
		if (rc == COHORT_OK)
			rc = cohort_wait(c, ticket, DRILL_LIMIT_NS);
	}
	if (rc == COHORT_OK)
		rc = fill(k);
	drill_must(k->run, rc, "warm up");
}

/* Use the new communicator and the parent, in an order that must be equal on
 * all ranks. */
static int use_both(struct drill_rank *k, struct cohort_comm *child)
{
	int rc;

	if (!is_odd(k, BY_ORDER)) {
		rc = sum(k, k->comm);
		return rc == COHORT_OK ? sum(k, child) : rc;
	}
	/* The communicator that the others wait for explains why. */
	drill_must(k->run, cohort_deadline_push(child, &patient), "push");
	sum(k, child);
	return sum(k, k->comm);
}

static int call_split(struct drill_rank *k)
{
	struct cohort_comm *child = NULL;
	int rc = COHORT_OK, closed;
	uint64_t ticket;

	/* A victim that comes first learns of it in its wait. */
	if (is_odd(k, BY_OPERATION))
		return sum(k, k->comm);
	/* A split waits for earlier operations. */
	if (drill_is_asked_for(k->run))
		rc = reduce(k, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_comm_split(k->comm, 0, k->number, &child);
	if (!child)
		return rc;
	rc = use_both(k, child);
	closed = cohort_comm_close(child);
	if (rc == COHORT_OK)
		drill_must(k->run, closed, "close of a child");
	return rc;
}

/* True if the fault is in the call itself. */
static bool is_in_call(enum trouble trouble)
{
	return (trouble >= BY_COUNT && trouble <= BY_STUCK) ||
	       trouble == BY_MEMORY;
}

/* True if calls in the place return only when all ranks have called. */
static bool meets(const struct drill_rank *k)
{
	return k->run->place == AT_SPLIT ||
	       (k->run->place != AT_TRANSFER &&
	        cohort_comm_launch(k->comm) == COHORT_LAUNCH_TOGETHER);
}

static int call_place(struct drill_rank *k)
{
	const enum trouble by = k->run->trouble;

	if (k->sibling) {
		drill_must(k->run, cohort_deadline_push(k->sibling, &patient),
		           "push");
		return sum(k, k->sibling);
	}
	switch (k->run->place) {
	case AT_BATCH:
		return call_batch(k, &k->tickets[0]);
	case AT_TRANSFER:
		return call_transfer(k);
	case AT_SPLIT:
		return call_split(k);
	default:
		return call(k, by == BY_ORDER || by == BY_ROOT, k->tickets);
	}
}

/* Call with a bad stream, which must be refused. */
static void call_on_bad_stream(struct drill_rank *k)
{
	void *stream = k->stream;
	int rc;

	k->stream = k->bad_stream;
	rc = call_place(k);
	if (rc != COHORT_INVALID || k->tickets[0])
		drill_complain(k->run, "a bad stream is not refused: %s",
		               cohort_status_text(rc));
	k->stream = stream;
}

/* Make the calls of the place. */
static int call_cell(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	const bool waits = meets(k);
	/* BY_TIMEOUT launches ahead of the last rank's call: while launched
	 * calls wait on the devices, a copy may wait for them. */
	int rc = run->place == AT_FIRST && run->trouble != BY_TIMEOUT
	                 ? fill(k)
	                 : COHORT_OK;

	if (rc != COHORT_OK)
		return rc;
	if (waits)
		atomic_fetch_add(&run->shared->called, 1);
	if (k->number == drill_struck_rank(run) && is_in_call(run->trouble))
		drill_mark_fault(run);
	if (k->bad_stream)
		call_on_bad_stream(k);
	rc = call_place(k);
	if (!waits)
		atomic_fetch_add(&run->shared->called, 1);
	return rc;
}

/* ---- threads ---------------------------------------------------------- */

/* True if each rank is a worker of cohort_group_run(). */
static bool has_workers(const struct drill_run *run)
{
	return run->trouble == BY_RETURN || run->trouble == BY_TIMEOUT;
}

/* Split the group, with its ranks in reverse order, and return the rank's new
 * communicator: NULL if @color is COHORT_NO_COLOR. */
static struct cohort_comm *split(struct drill_rank *k, int color)
{
	struct cohort_comm *child = NULL;

	drill_must(k->run,
	           cohort_comm_split(k->parent, color,
	                             k->run->n - 1 - k->number, &child),
	           "split");
	return child;
}

/* Make the cell's communicator a child that has all ranks.  If the cell needs a
 * sibling, the victim is only in the sibling, and the rank before it is in
 * both. */
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

/* True if the rank is paused during the cell.  That is one rank of each
 * process, since a process does not see the pauses of others. */
static bool is_paused(const struct drill_rank *k)
{
	return k->run->trouble == BY_PAUSED_PARENT &&
	       k->number == k->run->first + k->run->own_n - 1;
}

/* Wait until all ranks have joined: a kernel that waits for a rank may hold up
 * what that rank allocates as it joins. */
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
 * Be the missing rank of another process.  The simulated devices connect ranks
 * of one process only.  Therefore this one joins by NCCL's own functions, and
 * the library knows as little of it as of a rank in another process.
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
	                           ? partner(k) == drill_victim(k->run)
	                           : k->number == 0;

	return k->run->trouble == BY_TIMEOUT && waits;
}

/* Wait until the rank's calls are done. */
static int await_calls(struct drill_rank *k)
{
	int rc = COHORT_OK, backwards = is_odd(k, BY_ORDER);

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
		check_results(k);
}

/* Be done with the communicator. */
static void leave(struct drill_rank *k)
{
	if (is_paused(k))
		drill_must(k->run, cohort_resume(k->parent), "resume");
	/* A worker is unbound when it returns, and a thread that exits stays
	 * bound. */
	if (!has_workers(k->run) && !is_odd(k, BY_EXIT))
		cohort_comm_unbind(k->parent ? k->parent : k->comm);
	atomic_fetch_add(&k->run->shared->left, 1);
}

/* The thread that a signal interrupts: the one that closes; or a rank of this
 * process that waits for the victim; or this one, if its partner is in another
 * process and other ranks are done. */
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

/* Do one step of a part: @k's, or the main thread's in the process whose first
 * rank is @k. */
static void act(struct drill_rank *k, enum drill_step step)
{
	struct drill_run *run = k->run;

	switch (step) {
	case CALL:
		k->status = call_cell(k);
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
	if (!has_workers(run))
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
	play(k, k->number == drill_victim(run) ? STRICKEN
	        : gives_up(k)                  ? QUITTER
	                                       : SOUND);
}

static void *rank_main(void *arg)
{
	struct drill_rank *k = arg;

	if (is_odd(k, BY_REMOTE))
		be_stranger(k);
	else if (k->comm || join_by_id(k))
		be_rank(k);
	else
		pthread_barrier_wait(&k->run->shared->ready);
	return NULL;
}

static int worker_main(struct cohort_comm *comm, void *user)
{
	struct drill_run *run = user;
	struct drill_rank *k = &run->ranks[cohort_comm_rank(comm)];

	be_rank(k);
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
		if (!err && !has_workers(run))
			err = thread_start(&k->thread, main, k, "drill/%d", r);
	}
	if (has_workers(run))
		err = thread_start(&run->runner, runner_main, run, "drill/run");
	if (!err)
		return true;
	drill_complain(run, "a thread could not be started: %s", strerror(err));
	run->is_hung = true; /* the threads that were started */
	return false;
}

/* Wait until a thread has ended, or complain and leave it. */
static void end_thread(struct drill_run *run, pthread_t thread,
                       uint64_t deadline_ns, const char *name)
{
	const struct timespec until = clock_timespec(deadline_ns);

	if (!pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until))
		return;
	drill_complain(run, "the thread of %s does not come back", name);
	pthread_detach(thread);
	run->is_hung = true;
}

void drill_join(struct drill_run *run)
{
	uint64_t deadline = clock_deadline(DRILL_LIMIT_NS);
	char name[32];

	if (has_workers(run)) {
		end_thread(run, run->runner, deadline, "the run");
		run->is_hung |= cohort_group_abandoned(run->group, NULL, 0) > 0;
		if (run->is_hung)
			drill_complain(run, "a worker does not come back");
		return;
	}
	for (int r = run->first; r < run->first + run->own_n; r++) {
		snprintf(name, sizeof(name), "rank %d", r);
		end_thread(run, run->ranks[r].thread, deadline, name);
	}
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
	/* A pair of ranks without the victim may be done; and what was called
	 * while the abort was under way. */
	bool may_be_done =
		run->place == AT_CLOSE ||
		(run->place == AT_ABORT &&
	         (run->trouble == BY_PAUSE || run->trouble == BY_STOP)) ||
		(run->place == AT_TRANSFER && !is_victim &&
	         partner(k) != drill_victim(run));

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
