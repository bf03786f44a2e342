/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The cells of the drill where each rank has a thread of its own, bound to it
 *
 * All ranks warm up, meet, and then act: those that are sound call and wait, the
 * victim does what the cell is about, the main thread looks on, or aborts or closes.
 */

#include "drill.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "base/clock.h"
#include "base/thread.h"

#define TOO_LONG_NS (30 * NS_PER_S)

/* ---- one rank's memory ------------------------------------------------ */

static float *tensor(struct drill_rank *k, int i)
{
	return k->tensors + (size_t)i * DRILL_COUNT;
}

/* What a rank gives: its number and one in each element. */
static int fill(struct drill_rank *k)
{
	float values[2 * DRILL_COUNT];
	int i, rc;

	for (i = 0; i < 2 * DRILL_COUNT; i++)
		values[i] = (float)k->number + 1.0f;
	rc = cohort_copy(k->comm, k->tensors, values, sizeof(values),
	                 cohort_comm_stream(k->comm));
	return rc == COHORT_OK ? cohort_synchronize(k->comm, TOO_LONG_NS) : rc;
}

/* What tensor @i is to hold at the end. */
static float expected(const struct drill_rank *k, int i)
{
	int n = k->run->n;

	if (k->run->place == AT_TRANSFER)
		return (float)k->number + (k->number % 2 == 0);
	return i ? 1.0f : (float)(n * (n + 1)) / 2.0f;
}

static void check(struct drill_rank *k, int tensors)
{
	float values[2 * DRILL_COUNT];
	int i, rc;

	rc = cohort_copy(k->comm, values, k->tensors, sizeof(values),
	                 cohort_comm_stream(k->comm));
	if (rc == COHORT_OK)
		rc = cohort_synchronize(k->comm, TOO_LONG_NS);
	drill_must(k->run, rc, "copy");
	for (i = 0; rc == COHORT_OK && i < tensors * DRILL_COUNT; i++) {
		if (values[i] == expected(k, i / DRILL_COUNT))
			continue;
		drill_complain(k->run, "element %d of rank %d is %g, not %g", i,
		               k->number, (double)values[i],
		               (double)expected(k, i / DRILL_COUNT));
		return;
	}
}

/* ---- calls ------------------------------------------------------------ */

/* Whether @k is what makes the cell, by @trouble. */
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
		ticket ? cohort_comm_stream(k->comm) : NULL, ticket);
}

static int spread(struct drill_rank *k, uint64_t *ticket)
{
	float *t = tensor(k, 1);

	return cohort_broadcast(k->comm, t, t, DRILL_COUNT, COHORT_F32,
	                        is_odd(k, BY_ROOT),
	                        ticket ? cohort_comm_stream(k->comm) : NULL,
	                        ticket);
}

/* A collective; two where their order or their roots are to differ.  In a batch
 * without tickets. */
static int call(struct drill_rank *k, bool two, uint64_t tickets[2])
{
	uint64_t *first = tickets, *second = tickets ? tickets + 1 : NULL;
	int rc;

	if (!two)
		return reduce(k, first);
	if (is_odd(k, BY_ORDER) && k->run->place != AT_WAIT) {
		rc = spread(k, first);
		return rc == COHORT_OK ? reduce(k, second) : rc;
	}
	rc = reduce(k, first);
	return rc == COHORT_OK ? spread(k, second) : rc;
}

static int call_batch(struct drill_rank *k, uint64_t *ticket)
{
	int ended, rc = cohort_batch_begin(k->comm);

	if (rc != COHORT_OK)
		return rc;
	rc = call(k, true, NULL);
	/* With its batch open, and all in it. */
	if (is_odd(k, BY_ABSENCE))
		drill_await_cause(k->run);
	ended = cohort_batch_end(k->comm, cohort_comm_stream(k->comm), ticket);
	return rc != COHORT_OK ? rc : ended;
}

/* Even ranks send to the next, which receive; where the order is to differ there and
 * back. */
static int call_transfer(struct drill_rank *k, uint64_t tickets[2])
{
	bool sends = k->number % 2 == 0, back = k->run->trouble == BY_ORDER;
	int peer = sends ? k->number + 1 : k->number - 1, i, rc = COHORT_OK;
	void *stream = cohort_comm_stream(k->comm);

	if (is_odd(k, BY_ROOT))
		peer = 0;
	sends ^= is_odd(k, BY_OPERATION) || is_odd(k, BY_ORDER);
	for (i = 0; i < 1 + back && rc == COHORT_OK; i++, sends = !sends)
		rc = sends ? cohort_send(k->comm, tensor(k, i), DRILL_COUNT,
		                         COHORT_F32, peer, stream, &tickets[i])
		           : cohort_recv(k->comm, tensor(k, i), DRILL_COUNT,
		                         COHORT_F32, peer, stream, &tickets[i]);
	return rc;
}

/* The new communicator works. */
static int use_child(struct drill_rank *k, struct cohort_comm *child)
{
	float *t = tensor(k, 0);
	uint64_t ticket;
	int rc = cohort_all_reduce(child, t, t, DRILL_COUNT, COHORT_F32,
	                           COHORT_SUM, cohort_comm_stream(child),
	                           &ticket);

	return rc == COHORT_OK ? cohort_wait(child, ticket, TOO_LONG_NS) : rc;
}

/* The former one still works, too. */
static int use_parent(struct drill_rank *k)
{
	uint64_t ticket;
	int rc = reduce(k, &ticket);

	return rc == COHORT_OK ? cohort_wait(k->comm, ticket, TOO_LONG_NS) : rc;
}

/* Both in turn, which is to be the same on all ranks. */
static int use_both(struct drill_rank *k, struct cohort_comm *child)
{
	int rc;

	if (!is_odd(k, BY_ORDER)) {
		rc = use_parent(k);
		return rc == COHORT_OK ? use_child(k, child) : rc;
	}
	/* Why is told by the one that the others wait for. */
	use_child(k, child);
	return use_parent(k);
}

static int call_split(struct drill_rank *k)
{
	struct cohort_comm *child = NULL;
	int rc = COHORT_OK, closed;
	uint64_t ticket;

	/* A split waits for what is before it. */
	if (is_odd(k, BY_OPERATION) || k->run->trouble == BY_ASYNC_ERROR)
		rc = reduce(k, &ticket);
	if (rc == COHORT_OK && !is_odd(k, BY_OPERATION))
		rc = cohort_comm_split(k->comm, 0, k->number, &child);
	if (!child)
		return rc;
	rc = use_both(k, child);
	closed = cohort_comm_close(child);
	if (rc == COHORT_OK)
		drill_must(k->run, closed, "close of a child");
	return rc;
}

/* Whether the fault is in the call itself. */
static bool is_in_call(enum trouble trouble)
{
	return (trouble >= BY_COUNT && trouble <= BY_STUCK) ||
	       trouble == BY_MEMORY;
}

/* Call what the place is about; which tickets it gave, 0: none. */
static int act(struct drill_rank *k, uint64_t tickets[2])
{
	struct drill_run *run = k->run;
	enum trouble by = run->trouble;
	int rc = run->place == AT_FIRST ? fill(k) : COHORT_OK;

	if (rc != COHORT_OK)
		return rc;
	/* It takes until all have called. */
	if (run->place == AT_SPLIT)
		atomic_fetch_add(&run->called, 1);
	if (k->number == drill_victim(run) && is_in_call(by))
		drill_strike(run);
	if (run->place == AT_BATCH)
		rc = call_batch(k, &tickets[0]);
	else if (run->place == AT_TRANSFER)
		rc = call_transfer(k, tickets);
	else if (run->place == AT_SPLIT)
		rc = call_split(k);
	else
		rc = call(k, by == BY_ORDER || by == BY_ROOT, tickets);
	if (run->place != AT_SPLIT)
		atomic_fetch_add(&run->called, 1);
	return rc;
}

/* ---- what the ranks do ------------------------------------------------ */

static int await_both(struct drill_rank *k, const uint64_t tickets[2])
{
	int i, rc = COHORT_OK, backwards = is_odd(k, BY_ORDER);

	for (i = 0; i < 2 && rc == COHORT_OK; i++)
		if (tickets[i ^ backwards])
			rc = cohort_wait(k->comm, tickets[i ^ backwards],
			                 TOO_LONG_NS);
	return rc;
}

/* Its thread is done with the communicator. */
static void leave(struct drill_rank *k)
{
	cohort_comm_unbind(k->comm);
	atomic_fetch_add(&k->run->left, 1);
}

/* What a sound rank does. */
static void act_and_wait(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	uint64_t tickets[2] = { 0, 0 };

	k->status = act(k, tickets);
	if (k->status != COHORT_OK || run->place == AT_CLOSE)
		return;
	/* The place is where all have called. */
	if (run->place == AT_WAIT)
		drill_await_counted(run, &run->called, run->n);
	k->status = await_both(k, tickets);
	if (k->status == COHORT_OK && run->place != AT_SPLIT &&
	    run->cell->kind == COHORT_VERDICT_NONE)
		check(k, run->place == AT_BATCH || tickets[1] ? 2 : 1);
}

/* Of a rank that waits for the victim. */
static pthread_t a_waiting_thread(const struct drill_run *run)
{
	int rank = run->place == AT_TRANSFER ? drill_victim(run) - 1 : 0;

	return run->ranks[rank].thread;
}

/* End the group from outside. */
static void abort_it(struct drill_run *run, pthread_t thread)
{
	drill_strike(run);
	if (run->trouble == BY_SIGNAL)
		drill_fire_by_signal(run, thread);
	else
		drill_fire(run);
	if (run->trouble == BY_TWO_ABORTS)
		drill_fire(run);
}

/* Where the others call, and wait for the victim. */
static void fail_at_call(struct drill_rank *k)
{
	struct drill_run *run = k->run;

	switch (run->trouble) {
	case BY_ABSENCE:
		/* There it has begun, and does not end. */
		if (run->place == AT_BATCH)
			act_and_wait(k);
		else
			drill_await_cause(run);
		return;
	case BY_LATE:
		drill_dawdle(run);
		break;
	case BY_TOO_LATE:
		drill_await_cause(run);
		break;
	case BY_EXIT:
		drill_await_counted(run, &run->called, run->n - 1);
		drill_strike(run);
		return;
	case BY_TWO_ABORTS:
	case BY_SIGNAL:
		drill_await_counted(run, &run->called, run->n - 1);
		abort_it(run, a_waiting_thread(run));
		break;
	default:
		/* The others' clocks are older than its own. */
		drill_await_counted(run, &run->called, run->n - 1);
	}
	act_and_wait(k);
}

/* Where all have called, and what they wait for does not end before the fault. */
static void fail_at_wait(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	uint64_t tickets[2] = { 0, 0 };

	if (run->trouble != BY_EXIT && run->trouble != BY_TWO_ABORTS &&
	    run->trouble != BY_SIGNAL) {
		act_and_wait(k);
		return;
	}
	k->status = act(k, tickets);
	drill_await_counted(run, &run->called, run->n);
	if (run->trouble == BY_EXIT) {
		drill_strike(run);
		return;
	}
	abort_it(run, a_waiting_thread(run));
	k->status = await_both(k, tickets);
}

/* The same while the main thread closes: nobody may use a communicator then. */
static void fail_at_close(struct drill_rank *k)
{
	struct drill_run *run = k->run;

	if (run->trouble != BY_ABSENCE)
		act_and_wait(k);
	/* Bound as it is. */
	if (run->trouble == BY_EXIT)
		atomic_fetch_add(&run->left, 1);
	else
		leave(k);
	if (run->trouble != BY_EXIT && run->trouble != BY_TWO_ABORTS &&
	    run->trouble != BY_SIGNAL)
		return;
	drill_await(run, &run->is_closing, "nobody closes");
	drill_dawdle(run);
	if (run->trouble == BY_EXIT)
		drill_strike(run);
	else
		abort_it(run, run->main);
}

/* Where the main thread aborts. */
static void fail_at_abort(struct drill_rank *k)
{
	struct drill_run *run = k->run;

	switch (run->trouble) {
	case BY_ERROR:
	case BY_ASYNC_ERROR:
	case BY_STUCK:
		break;
	case BY_ABSENCE:
	case BY_EXIT:
		drill_await_cause(run);
		return;
	case BY_TOO_LATE:
		drill_await_cause(run);
		drill_dawdle(run);
		drill_dawdle(run);
		drill_dawdle(run);
		break;
	default:
		drill_await_cause(run);
	}
	act_and_wait(k);
}

static void act_as_victim(struct drill_rank *k)
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
			act_and_wait(k);
		else
			fail_at_call(k);
	}
}

/* ---- threads ---------------------------------------------------------- */

/* So that the first deadline does not count any more. */
static void warm_up(struct drill_rank *k)
{
	uint64_t ticket = 0;
	float *t = tensor(k, 0);
	int rc;

	if (k->run->place == AT_TRANSFER)
		rc = k->number % 2 == 0
		             ? cohort_send(k->comm, t, 1, COHORT_F32,
		                           k->number + 1,
		                           cohort_comm_stream(k->comm), &ticket)
		             : cohort_recv(k->comm, t, 1, COHORT_F32,
		                           k->number - 1,
		                           cohort_comm_stream(k->comm),
		                           &ticket);
	else
		rc = cohort_all_reduce(k->comm, t, t, 1, COHORT_F32, COHORT_SUM,
		                       cohort_comm_stream(k->comm), &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(k->comm, ticket, TOO_LONG_NS);
	if (rc == COHORT_OK)
		rc = fill(k);
	drill_must(k->run, rc, "warm up");
}

static void *rank_main(void *arg)
{
	struct drill_rank *k = arg;
	struct drill_run *run = k->run;
	bool is_victim = k->number == drill_victim(run);
	sigset_t signals;

	/* Threads are started with all of them blocked. */
	sigemptyset(&signals);
	sigaddset(&signals, DRILL_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	drill_must(run, cohort_comm_bind(k->comm), "bind");
	if (run->place != AT_FIRST)
		warm_up(k);
	pthread_barrier_wait(&run->ready);
	/* The abort is all there is. */
	if (run->place == AT_ABORT && run->trouble == BY_NOTHING)
		drill_await_cause(run);
	if (is_victim)
		act_as_victim(k);
	else
		act_and_wait(k);
	if (!is_victim || (run->trouble != BY_EXIT && run->place != AT_CLOSE))
		leave(k);
	sem_post(&k->ended);
	return NULL;
}

/* What strikes the devices. */
static void arm(struct drill_run *run)
{
	/* An error shows at the next call: at the last of a batch. */
	bool is_last = run->place == AT_BATCH && run->trouble == BY_ASYNC_ERROR;
	uint64_t operation = run->place == AT_FIRST ? 0 : 1 + is_last;
	int rank = drill_victim(run);

	if (run->place == AT_SPLIT && run->trouble != BY_ASYNC_ERROR) {
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
			break; /* it does not even call */
			       /* fallthrough */
	case BY_EXIT:
	case BY_TWO_ABORTS:
	case BY_SIGNAL:
		drill_fault(run, rank, operation, COHORT_FAULT_NEVER, 0);
		break;
	default:
		break;
	}
}

static bool start(struct drill_run *run)
{
	int r, err;

	pthread_barrier_init(&run->ready, NULL, (unsigned)run->n + 1);
	for (r = 0; r < run->n; r++) {
		struct drill_rank *k = &run->ranks[r];

		k->run = run;
		k->number = r;
		sem_init(&k->ended, 0, 0);
		err = thread_start(&k->thread, rank_main, k, "drill/%d", r);
		if (err) {
			drill_complain(run, "a thread: %s", strerror(err));
			run->is_hung = true; /* those that there are */
			return false;
		}
	}
	return true;
}

static void join(struct drill_run *run)
{
	uint64_t deadline = clock_deadline(TOO_LONG_NS);
	int r;

	for (r = 0; r < run->n; r++) {
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
	if (!run->is_hung)
		pthread_barrier_destroy(&run->ready);
}

/* ---- the main thread -------------------------------------------------- */

static void abort_the_group(struct drill_run *run)
{
	switch (run->trouble) {
	case BY_ERROR:
	case BY_ASYNC_ERROR:
		drill_await_cause(run);
		drill_fire(run);
		return;
	case BY_STUCK:
		drill_await(run, &run->is_stuck, "no rank is inside its call");
		break;
	case BY_NOTHING:
		break;
	default:
		drill_await_counted(run, &run->called, run->n - 1);
	}
	abort_it(run, a_waiting_thread(run));
}

/* While ranks may be inside; how it answers. */
static int begin_to_close(struct drill_run *run)
{
	bool is_stuck = run->trouble == BY_STUCK;

	drill_await_counted(run, &run->left, run->n - is_stuck);
	if (is_stuck) {
		drill_await(run, &run->is_stuck, "no rank is inside its call");
		if (cohort_group_close(run->group) == COHORT_STATE)
			return COHORT_OK;
		drill_complain(run, "closed with a rank inside its call");
		run->group = NULL;
		return COHORT_OK;
	}
	atomic_store(&run->began_ns, clock_now());
	atomic_store(&run->is_closing, true);
	return run->cell->bound == BY_DEADLINE ? COHORT_ABORTED : COHORT_OK;
}

/* Whether a rank was told what became of the group. */
static void check_told(struct drill_run *run, const struct drill_rank *k,
                       int status)
{
	bool is_victim = k->number == drill_victim(run);
	bool is_silent = run->trouble == BY_ABSENCE || run->trouble == BY_EXIT;
	/* Of other pairs. */
	bool may_be_done =
		run->place == AT_CLOSE || (run->place == AT_TRANSFER &&
	                                   k->number < drill_victim(run) - 1);

	if (is_victim && is_silent &&
	    (run->place != AT_BATCH || run->trouble == BY_EXIT))
		return;
	if (k->status == status || (may_be_done && k->status == COHORT_OK))
		return;
	drill_complain(run, "rank %d was told %s", k->number,
	               cohort_status_text(k->status));
}

static void check_all_told(struct drill_run *run)
{
	struct cohort_cause cause;
	int r;

	if (run->is_hung || !run->group ||
	    cohort_group_cause(run->group, &cause) != COHORT_OK)
		return;
	for (r = 0; r < run->n; r++)
		check_told(run, &run->ranks[r], cause.status);
}

static void conduct(struct drill_run *run)
{
	int status = COHORT_OK;

	if (!start(run))
		return;
	atomic_store(&run->began_ns, clock_now());
	pthread_barrier_wait(&run->ready);
	if (run->place == AT_ABORT)
		abort_the_group(run);
	if (run->place == AT_CLOSE)
		status = begin_to_close(run);
	/* No abort lets that go: what hangs in there would be leaked. */
	if (run->place == AT_SPLIT && run->trouble == BY_STUCK &&
	    drill_await_cause(run))
		cohort_sim_faults_clear();
	/* Others close when the ranks have gone. */
	if (run->place != AT_CLOSE || run->trouble == BY_STUCK) {
		join(run);
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
	for (r = 0; r < run->n; r++)
		run->ranks[r].comm = comms[r];
	arm(run);
	conduct(run);
}
