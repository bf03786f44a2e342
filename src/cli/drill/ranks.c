/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cells in which each rank has its own thread
 *
 * All ranks warm up and wait at a barrier. Then the victim suffers the cell's
 * fault, all other ranks call and wait, and the main thread waits, aborts or
 * closes.
 */

#include "cli/drill/drill.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <cohort/sim.h>

#include "api/join.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cli/common/cli.h"

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

/* Return the rank that exchanges messages with @k. If there are several
 * processes, it is in another process. */
static int partner(const struct drill_rank *k)
{
	return k->number ^ (k->run->options->processes > 1 ? k->run->n / 2 : 1);
}

static bool sends(const struct drill_rank *k)
{
	return k->number < partner(k);
}

/* Return the value that tensor @i must have in the end. Each rank sends its
 * number plus one. */
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

	if (!drill_check_ok(k->run,
	                    drill_copy(k->comm, values, k->tensors,
	                               sizeof(values)),
	                    "copy"))
		return;
	for (int i = 0; i < (1 + two) * DRILL_COUNT; i++) {
		if (values[i] == expected(k, i / DRILL_COUNT))
			continue;
		drill_record_error(k->run,
		                   "element %d of rank %d is %g, not %g", i,
		                   k->number, (double)values[i],
		                   (double)expected(k, i / DRILL_COUNT));
		return;
	}
}

/* Return whether the cell's fault is @trouble and @k is the victim. */
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

/* Call one collective, or two if @two is true. In a cell of BY_ORDER the victim
 * makes the two calls in reverse order. @tickets is NULL in a batch. */
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
	/* The victim leaves its batch open until the group has ended. */
	if (is_odd(k, BY_ABSENCE))
		drill_await_cause(k->run);
	ended = cohort_batch_end(k->comm, k->stream, ticket);
	return rc != COHORT_OK ? rc : ended;
}

/* Deadlines for a call that only the victim makes. The deadlines of the ranks
 * that wait for the victim must expire first, because their verdicts name the
 * victim. */
static const struct cohort_deadlines patient = {
	.join_ns = DRILL_LIMIT_NS,
	.exec_ns = DRILL_LIMIT_NS,
};

/* If the rank is a sender, send to its partner; otherwise receive from its
 * partner. If the fault is the order of calls, also exchange a message in the
 * other direction. */
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

/* All-reduce in @comm (the rank's communicator or a child of it), and wait. */
static int sum(struct drill_rank *k, struct cohort_comm *comm)
{
	float *t = tensor(k, 0);
	uint64_t ticket;
	int rc = cohort_all_reduce(comm, t, t, DRILL_COUNT, COHORT_F32,
	                           COHORT_SUM, cohort_comm_stream(comm),
	                           &ticket);

	return rc == COHORT_OK ? cohort_wait(comm, ticket, DRILL_LIMIT_NS) : rc;
}

/* Make a first call in @c, because first calls have another deadline, and fill
 * the tensors with the rank's data. */
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
	drill_check_ok(k->run, rc, "warm up");
}

/* All-reduce in the new communicator and in its parent, in the same order on
 * all ranks except a victim of BY_ORDER. */
static int use_both(struct drill_rank *k, struct cohort_comm *child)
{
	int rc;

	if (!is_odd(k, BY_ORDER)) {
		rc = sum(k, k->comm);
		return rc == COHORT_OK ? sum(k, child) : rc;
	}
	/* Only the communicator in which the others wait must report the
	 * hang. */
	drill_check_ok(k->run, cohort_deadline_push(child, &patient), "push");
	sum(k, child);
	return sum(k, k->comm);
}

static int call_split(struct drill_rank *k)
{
	struct cohort_comm *child = NULL;
	int rc = COHORT_OK, closed;
	uint64_t ticket;

	/* If the victim calls first, its wait reports the difference. */
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
		drill_check_ok(k->run, closed, "close of a child");
	return rc;
}

/* Return whether the victim's fault is in the call itself. */
static bool is_in_call(enum trouble trouble)
{
	return (trouble >= BY_COUNT && trouble <= BY_STUCK) ||
	       trouble == BY_MEMORY;
}

static bool launches_together(const struct drill_run *run)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	if (run->group_options.launch)
		return run->group_options.launch == COHORT_LAUNCH_TOGETHER;
	return cohort_platform_probe(run->options->platform, &info) ==
	               COHORT_OK &&
	       info.launch == COHORT_LAUNCH_TOGETHER;
}

/* Return whether calls at this place return only after all ranks have
 * called. */
static bool is_synchronizing(const struct drill_rank *k)
{
	return k->run->place == AT_SPLIT ||
	       (k->run->place != AT_TRANSFER && launches_together(k->run));
}

static int call_place(struct drill_rank *k)
{
	const enum trouble by = k->run->trouble;

	if (k->sibling) {
		drill_check_ok(k->run,
		               cohort_deadline_push(k->sibling, &patient),
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

static void call_on_bad_stream(struct drill_rank *k)
{
	void *stream = k->stream;
	int rc;

	k->stream = k->bad_stream;
	rc = call_place(k);
	if (rc != COHORT_INVALID || k->tickets[0])
		drill_record_error(k->run, "a bad stream was not refused: %s",
		                   cohort_status_text(rc));
	k->stream = stream;
}

static int call_cell(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	const bool waits = is_synchronizing(k);
	/* With BY_TIMEOUT, calls launch before all ranks have called, and a
	 * copy may wait for launched calls. */
	int rc = run->place == AT_FIRST && run->trouble != BY_TIMEOUT
	                 ? fill(k)
	                 : COHORT_OK;

	if (rc != COHORT_OK)
		return rc;
	if (waits)
		atomic_fetch_add(&run->shared->called, 1);
	if (k->number == drill_struck_rank(run) && is_in_call(run->trouble))
		drill_mark_fault(run);
	if (k->number == drill_victim(run))
		atomic_store(&run->shared->is_stuck, run->trouble == BY_STUCK);
	if (k->bad_stream)
		call_on_bad_stream(k);
	rc = call_place(k);
	if (!waits)
		atomic_fetch_add(&run->shared->called, 1);
	return rc;
}

static bool has_workers(const struct drill_run *run)
{
	return run->trouble == BY_RETURN || run->trouble == BY_TIMEOUT;
}

/* Split the group, with the order of its ranks reversed. Return the rank's new
 * communicator, or NULL if @color is COHORT_NO_COLOR. */
static struct cohort_comm *split(struct drill_rank *k, int color)
{
	struct cohort_comm *child = NULL;

	drill_check_ok(k->run,
	               cohort_comm_split(k->parent, color,
	                                 k->run->n - 1 - k->number, &child),
	               "split");
	return child;
}

/* Replace the rank's communicator with a child. If the cell needs no sibling,
 * the child has all ranks. Otherwise, the last rank, which is the victim, is
 * only in the sibling, and the rank before it is in both. */
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

/* Return whether the rank pauses its communicator during the cell. One rank of
 * each process does so, because a process does not see pauses in other
 * processes. */
static bool is_paused(const struct drill_rank *k)
{
	return k->run->trouble == BY_PAUSED_PARENT &&
	       k->number == k->run->first + k->run->own_n - 1;
}

/* Wait until all ranks have joined. Otherwise this rank could launch a kernel
 * that waits for a rank whose join is not done, and that blocks the memory
 * allocations of that join. */
static void await_joined(struct drill_run *run)
{
	atomic_fetch_add(&run->shared->joined, 1);
	drill_await(run, joined, run->n);
}

static bool join_by_id(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	const int rc =
		cohort_comm_join(&run->shared->ids[0], run->n, k->number,
	                         k->number, &run->group_options, &k->comm);

	if (rc == COHORT_OK && k->number == 0)
		run->handle = cohort_comm_abort_handle(k->comm);
	await_joined(run);
	return drill_check_ok(run, rc, "join");
}

/* Act as the missing rank of another process, which the simulated devices could
 * not connect. This rank calls NCCL directly, so that the library treats it as
 * a rank of another process. */
static void play_outside_rank(struct drill_rank *k)
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
		drill_record_error(run,
		                   "the rank of another process cannot join");
	await_joined(run);
	if (comm && drill_warms_up(run) &&
	    p->ncclAllReduce(k->tensors, k->tensors, DRILL_COUNT, ncclFloat32,
	                     ncclSum, comm, stream) != ncclSuccess)
		drill_record_error(run,
		                   "the rank of another process cannot call");
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

static void finish(struct drill_rank *k)
{
	uint64_t ticket;

	for (int i = 0; i < 2 && k->status == COHORT_OK; i++) {
		ticket = k->tickets[i ^ is_odd(k, BY_ORDER)];
		if (ticket)
			k->status =
				cohort_wait(k->comm, ticket, DRILL_LIMIT_NS);
	}
	if (k->status == COHORT_OK && k->run->place != AT_SPLIT &&
	    k->run->cell->kind == COHORT_VERDICT_NONE)
		check_results(k);
}

static void leave(struct drill_rank *k)
{
	if (is_paused(k))
		drill_check_ok(k->run, cohort_resume(k->parent), "resume");
	/* A worker is unbound when it returns, and a thread that exits with
	 * BY_EXIT must stay bound. */
	if (!has_workers(k->run) && !is_odd(k, BY_EXIT))
		cohort_comm_unbind(k->parent ? k->parent : k->comm);
	atomic_fetch_add(&k->run->shared->left, 1);
}

/* Return the thread that the signal must interrupt: the main thread at a close;
 * the calling thread in a transfer between processes; otherwise a rank of this
 * process that waits for the victim. */
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

/* Wait until the victim is in the call in which it is stuck, and the other
 * ranks have called. If the victim belongs to another process, it may only be
 * about to call. */
static void await_stuck(struct drill_run *run)
{
	const uint64_t deadline = clock_deadline(DRILL_LIMIT_NS);
	struct cohort_rank_report ranks[DRILL_MOST_RANKS] = { { 0 } };
	const int at = drill_victim(run) - run->first;
	struct backoff b = BACKOFF;

	if (!drill_await(run, called, run->n - 1) ||
	    !drill_await(run, is_stuck, 1) || !drill_has_victim(run))
		return;
	do
		backoff_wait(&b, deadline);
	while (cohort_group_snapshot(run->group, ranks, DRILL_MOST_RANKS,
	                             sizeof(ranks[0])) == COHORT_OK &&
	       !ranks[at].inside && clock_now() < deadline);
	if (!ranks[at].inside)
		drill_record_error(run, "the victim is not in its call");
}

/* Do one step of the thread of rank @k. The main thread passes the first
 * rank. */
static void do_step(struct drill_rank *k, enum drill_step step)
{
	struct drill_run *run = k->run;

	switch (step) {
	case CALL:
		k->status = call_cell(k);
		k->must_be_cause = true;
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
		k->must_be_cause = false;
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
		await_stuck(run);
		break;
	case AWAIT_CLOSE:
		drill_await(run, is_closing, 1);
		break;
	case DAWDLE:
		drill_delay(run);
		break;
	case STRIKE:
		k->must_be_cause = false;
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
		drill_check_ok(run, cohort_comm_close(k->comm),
		               "close of a rank");
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
		do_step(k, *step);
}

static void play_rank(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	sigset_t signals;

	/* Threads start with all signals blocked. */
	sigemptyset(&signals);
	sigaddset(&signals, DRILL_SIGNAL);
	sigaddset(&signals, CLI_STACK_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	if (!has_workers(run))
		drill_check_ok(run, cohort_comm_bind(k->comm), "bind");
	if (drill_warms_up(run))
		warm_up(k, k->comm);
	if (run->place == AT_CHILD)
		enter_child(k);
	k->stream = cohort_comm_stream(k->comm);
	k->bad_stream = drill_bad_stream(run, k->number);
	if (is_paused(k))
		drill_check_ok(run, cohort_pause(k->parent), "pause");
	pthread_barrier_wait(&run->shared->ready);
	play(k, k->number == drill_victim(run) ? STRICKEN
	        : gives_up(k)                  ? QUITTER
	                                       : SOUND);
}

static void *rank_main(void *arg)
{
	struct drill_rank *k = arg;

	if (is_odd(k, BY_REMOTE))
		play_outside_rank(k);
	else if (k->comm || join_by_id(k))
		play_rank(k);
	else
		pthread_barrier_wait(&k->run->shared->ready);
	return NULL;
}

static int worker_main(struct cohort_comm *comm, void *user)
{
	struct drill_run *run = user;
	struct drill_rank *k = &run->ranks[cohort_comm_rank(comm)];

	play_rank(k);
	return gives_up(k) ? k->status : 0;
}

static void *runner_main(void *arg)
{
	struct drill_run *run = arg;
	struct cohort_cause cause = { .status = COHORT_OK };
	const int rc = cohort_group_run(run->group, worker_main, run, &cause);

	if (rc != cause.status)
		drill_record_error(run, "run: %s", cohort_last_error());
	return NULL;
}

bool drill_start(struct drill_run *run, void *(*main)(void *rank))
{
	int err = 0;

	for (int r = run->first; r < run->first + run->own_n; r++) {
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
	drill_record_error(run, "a thread could not be started: %s",
	                   strerror(err));
	run->is_hung = true; /* the threads that have started are not joined */
	return false;
}

/* Wait until a thread has ended. If it does not end in time, record an error
 * and detach it. */
static void end_thread(struct drill_run *run, pthread_t thread,
                       uint64_t deadline_ns, const char *name)
{
	const struct timespec until = clock_timespec(deadline_ns);

	if (!pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until))
		return;
	drill_record_error(run, "the thread of %s does not return", name);
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
			drill_record_error(run, "a worker does not return");
		return;
	}
	for (int r = run->first; r < run->first + run->own_n; r++) {
		snprintf(name, sizeof(name), "rank %d", r);
		end_thread(run, run->ranks[r].thread, deadline, name);
	}
}

/* Prepare the close of the group. Return the status that the close must
 * return. */
static int begin_to_close(struct drill_run *run)
{
	const bool is_stuck = run->trouble == BY_STUCK;

	if (is_stuck && !drill_has_victim(run))
		return COHORT_OK;
	if (is_stuck) {
		await_stuck(run);
		if (cohort_group_close(run->group) != COHORT_STATE) {
			drill_record_error(run, "closed with a rank inside "
			                        "its call");
			run->group = NULL;
		}
		return COHORT_OK;
	}
	drill_await(run, left, run->n);
	/* The close in rank 0's process ends the group. The other processes
	 * close afterwards. */
	if (run->cell->bound == BY_DEADLINE && !drill_has(run, 0)) {
		drill_await_cause(run);
		return COHORT_OK;
	}
	atomic_store(&run->own->began_ns, clock_now());
	atomic_store(&run->shared->is_closing, 1);
	return run->cell->bound == BY_DEADLINE ? COHORT_ABORTED : COHORT_OK;
}

static void check_status_of_rank(struct drill_run *run,
                                 const struct drill_rank *k, int status)
{
	bool is_victim = k->number == drill_victim(run);
	/* These calls may have succeeded: calls of a pair of ranks without the
	 * victim, and calls at about the time of the close or abort. */
	bool may_be_done =
		run->place == AT_CLOSE ||
		(run->place == AT_ABORT &&
	         (run->trouble == BY_PAUSE || run->trouble == BY_STOP)) ||
		(run->place == AT_TRANSFER && !is_victim &&
	         partner(k) != drill_victim(run));

	if (!k->must_be_cause || k->sibling)
		return;
	if (k->status == status || (may_be_done && k->status == COHORT_OK))
		return;
	drill_record_error(run, "the call of rank %d returned %s", k->number,
	                   cohort_status_text(k->status));
}

static void check_statuses(struct drill_run *run)
{
	struct cohort_cause cause = { .status = COHORT_OK };

	if (run->is_hung)
		return;
	drill_cause(run, &cause);
	for (int r = run->first; r < run->first + run->own_n; r++)
		check_status_of_rank(run, &run->ranks[r], cause.status);
}

/* Close the group, or each communicator if ranks have joined without a
 * group. */
static void close_all(struct drill_run *run, int status)
{
	drill_close(run, status);
	for (int r = 0; run->trouble == BY_REMOTE && r < run->n - 1; r++) {
		const int rc = cohort_comm_close(run->ranks[r].comm);

		if (rc != COHORT_STALLED)
			drill_check_ok(run, rc, "close");
	}
}

static void run_cell_ranks(struct drill_run *run)
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
	/* An abort does not end a hanging split, so end it here to avoid a
	 * leak. */
	if (run->place == AT_SPLIT && run->trouble == BY_STUCK &&
	    drill_await_cause(run))
		cohort_sim_faults_clear();
	/* At other places, close the group after all ranks are done. */
	if (run->place != AT_CLOSE || run->trouble == BY_STUCK) {
		drill_join(run);
		/* Ranks may finish before the group ends: ranks that have
		 * received their messages, and ranks of a paused process. */
		if ((run->place == AT_TRANSFER || run->place == AT_ABORT) &&
		    run->cell->kind != COHORT_VERDICT_NONE)
			drill_await_cause(run);
		drill_keep_cause(run);
		check_statuses(run);
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

	run->main = pthread_self();
	if (run->trouble == BY_REMOTE) {
		if (drill_check_ok(run,
		                   cohort_unique_id(COHORT_PLATFORM_AUTO,
		                                    &run->shared->ids[0]),
		                   "an id"))
			run_cell_ranks(run);
		return;
	}
	if (!drill_open(run))
		return;
	if (!drill_split(run, comms)) {
		drill_close(run, COHORT_OK);
		return;
	}
	for (int r = 0; r < run->own_n; r++)
		run->ranks[run->first + r].comm = comms[r];
	drill_arm(run);
	run_cell_ranks(run);
}
