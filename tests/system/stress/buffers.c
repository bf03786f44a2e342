/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Frees buffers as soon as a call or a wait has returned, in every collective,
 * while the group ends in every possible way
 *
 * In every round, the ranks of a group, or one thread that makes the calls of
 * all ranks, make random calls on their own memory, with several in flight,
 * and the group ends at a random moment. Checks that nothing accesses a freed
 * buffer, that every status is COHORT_OK or the cause's (never WEDGED or
 * TIMED_OUT), and that each native communicator was released once.
 */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "api/group.h"
#include "support/buffer.h"
#include "support/contest.h"
#include "support/crew.h"
#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"

#define MOST_RANKS 5
#define CALLS 6
#define IN_FLIGHT 3

enum end {
	END_HANDLE,
	END_GROUP,
	END_SIGNAL,
	END_NATIVE,   /* a native call of the odd rank fails */
	END_ERROR,    /* the odd rank's worker returns an error */
	END_DEADLINE, /* the odd rank does not call */
	END_EXIT,     /* the odd rank's thread exits */
	ENDS,
};

/* The ends before this one are possible if one thread makes the calls of all
 * ranks. */
#define GROUP_ENDS (END_NATIVE + 1)

enum kind {
	ALL_REDUCE,
	BROADCAST,
	REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	BARRIER,
	ALL_REDUCE_MANY,
	KINDS,
};

struct call {
	enum kind kind;
	size_t count; /* number of int32_t elements */
	int root;
	struct buffer *send, *recv; /* NULL once freed */
	uint64_t ticket;
};

struct round {
	struct cohort_group *group;
	int size;
	uint64_t seed; /* seed of the calls, the same on all ranks */
	enum end end;
	int odd_rank, odd_call;
	struct call calls[MOST_RANKS][CALLS];

	/* The aborter acts after this number of calls and a delay. */
	unsigned long calls_before;
	uint32_t delay;
	atomic_ulong called;
	atomic_int running; /* number of ranks that run */
	/* thread that gets the signal, and whether it is ready */
	pthread_t victim;
	atomic_bool has_victim;
	struct contest contest;
};

static struct crew aborter;
static atomic_ulong done, cut;

/* ---- statuses --------------------------------------------------------- */

/* Check that after status @rc the library no longer uses the memory. */
static void check_answer(const struct round *round, int rc)
{
	static const int causes[ENDS] = {
		[END_HANDLE] = COHORT_ABORTED,
		[END_GROUP] = COHORT_ABORTED,
		[END_SIGNAL] = COHORT_ABORTED,
		[END_NATIVE] = COHORT_NCCL,
		[END_ERROR] = COHORT_WORKER,
		[END_DEADLINE] = COHORT_STALLED,
		[END_EXIT] = COHORT_THREAD_EXITED,
	};

	if (rc != COHORT_OK && rc != causes[round->end])
		stress_fail("with end %d a call returned %d: %s",
		            (int)round->end, rc, cohort_last_error());
	atomic_fetch_add(rc == COHORT_OK ? &done : &cut, 1);
}

/* ---- calls ------------------------------------------------------------ */

/* Return a random size, either of a few bytes or of several of the shares into
 * which the platform divides an operation. */
static size_t random_count(uint64_t *seed)
{
	static const size_t most[] = { 4, 1000, 20000, 80000 };

	return 1 + stress_random(seed) % most[stress_random(seed) % 4];
}

static void call_init(struct call *call, int size, uint64_t *seed)
{
	size_t n = (size_t)size, bytes;

	call->kind = stress_random(seed) % KINDS;
	call->root = (int)(stress_random(seed) % n);
	call->count = random_count(seed);
	if (call->kind == ALL_GATHER || call->kind == REDUCE_SCATTER)
		call->count = call->count / n + 1;
	bytes = call->count * sizeof(int32_t);
	call->send =
		buffer_get(call->kind == REDUCE_SCATTER ? n * bytes : bytes);
	call->recv = buffer_get(call->kind == ALL_GATHER ? n * bytes : bytes);
}

static void call_put(struct call *call)
{
	buffer_put(call->send);
	buffer_put(call->recv);
	call->send = call->recv = NULL;
}

/* Make the call with a list of two tensors. */
static int call_many(struct cohort_comm *c, struct call *call)
{
	size_t half = call->count / 2, at = half * sizeof(int32_t);
	const struct cohort_tensor tensors[] = {
		{ call->send->data, call->recv->data, half, COHORT_I32 },
		{ call->send->data + at, call->recv->data + at,
		  call->count - half, COHORT_I32 },
	};

	return cohort_all_reduce_many(c, tensors, 2, COHORT_MAX,
	                              cohort_comm_stream(c), &call->ticket);
}

static int call_make(struct cohort_comm *c, struct call *call)
{
	const void *send = call->send->data;
	void *recv = call->recv->data, *stream = cohort_comm_stream(c);
	size_t count = call->count;

	switch (call->kind) {
	case BROADCAST:
		return cohort_broadcast(c, send, recv, count, COHORT_I32,
		                        call->root, stream, &call->ticket);
	case REDUCE:
		return cohort_reduce(c, send, recv, count, COHORT_I32,
		                     COHORT_SUM, call->root, stream,
		                     &call->ticket);
	case ALL_GATHER:
		return cohort_all_gather(c, send, recv, count, COHORT_I32,
		                         stream, &call->ticket);
	case REDUCE_SCATTER:
		return cohort_reduce_scatter(c, send, recv, count, COHORT_I32,
		                             COHORT_SUM, stream, &call->ticket);
	case BARRIER:
		return cohort_barrier(c, stream, &call->ticket);
	case ALL_REDUCE_MANY:
		return call_many(c, call);
	case ALL_REDUCE:
	case KINDS:
		break;
	}
	return cohort_all_reduce(c, send, recv, count, COHORT_I32, COHORT_SUM,
	                         stream, &call->ticket);
}

/* Wait for a call unless it was not made or the wait was already done. */
static void call_end(const struct round *round, struct cohort_comm *c,
                     struct call *call)
{
	int rc;

	if (!call->send)
		return;
	rc = cohort_wait(c, call->ticket, RANKS_SOON);
	call_put(call);
	check_answer(round, rc);
}

/* ---- the ranks -------------------------------------------------------- */

/* Make the next call. Return false if the group has ended. */
static bool call_next(struct round *round, struct cohort_comm *c,
                      struct call *call, uint64_t *seed)
{
	int rc;

	call_init(call, round->size, seed);
	rc = call_make(c, call);
	atomic_fetch_add(&round->called, 1);
	if (rc == COHORT_OK)
		return true;
	call_put(call);
	check_answer(round, rc);
	return false;
}

/*
 * Act as the odd rank instead of making a call. If this ends its worker, return
 * the worker's result, with calls still in flight.
 */
static int act_as_odd_rank(struct round *round)
{
	if (round->end == END_EXIT) {
		atomic_fetch_sub(&round->running, 1);
		pthread_exit(NULL);
	}
	return round->end == END_ERROR;
}

/* Let this thread get the signal. */
static void victim_begin(struct round *round)
{
	round->victim = pthread_self();
	atomic_store(&round->has_victim, true);
}

static void victim_end(struct round *round)
{
	while (atomic_load(&round->has_victim))
		sched_yield();
}

static int rank_calls(struct cohort_comm *c, struct round *round)
{
	struct call *calls = round->calls[cohort_comm_rank(c)];
	bool is_odd = cohort_comm_rank(c) == round->odd_rank &&
	              round->end > END_NATIVE;
	uint64_t seed = round->seed;
	int i;

	for (i = 0; i < CALLS; i++) {
		if (is_odd && i == round->odd_call)
			return act_as_odd_rank(round);
		if (i >= IN_FLIGHT)
			call_end(round, c, &calls[i - IN_FLIGHT]);
		if (!call_next(round, c, &calls[i], &seed))
			break;
	}
	for (i = 0; i < CALLS; i++)
		call_end(round, c, &calls[i]);
	return 0;
}

static int worker(struct cohort_comm *c, void *user)
{
	struct round *round = user;
	bool is_victim = cohort_comm_rank(c) == round->odd_rank &&
	                 round->end == END_SIGNAL;
	int rc;

	if (is_victim)
		victim_begin(round);
	rc = rank_calls(c, round);
	atomic_fetch_sub(&round->running, 1);
	if (is_victim)
		victim_end(round);
	return rc;
}

static void run_ranks(struct round *round)
{
	struct cohort_comm *comms = group_clique(round->group)->comms;
	int r, i, rc;

	rc = cohort_group_run(round->group, worker, round, NULL);
	if (rc != COHORT_STATE) /* the group had not ended before */
		check_answer(round, rc);
	/* Wait for the calls that the odd rank left in flight. */
	for (r = 0; r < round->size; r++)
		for (i = 0; i < CALLS; i++)
			call_end(round, &comms[r], &round->calls[r][i]);
}

/* ---- one thread for all ranks ----------------------------------------- */

/* Make a call for all ranks. Return false if the group has ended. */
static bool group_call(struct round *round, uint64_t *seed)
{
	struct call calls[MOST_RANKS];
	const void *send[MOST_RANKS];
	void *recv[MOST_RANKS];
	uint64_t ticket, same = *seed;
	int r, rc;

	for (r = 0; r < round->size; r++) {
		*seed = same;
		call_init(&calls[r], round->size, seed);
		send[r] = calls[r].send->data;
		recv[r] = calls[r].recv->data;
	}
	if (calls[0].kind == BROADCAST)
		rc = cohort_group_broadcast(round->group, send, recv,
		                            calls[0].count, COHORT_I32,
		                            calls[0].root, NULL, &ticket);
	else
		rc = cohort_group_all_reduce(round->group, send, recv,
		                             calls[0].count, COHORT_I32,
		                             COHORT_SUM, NULL, &ticket);
	atomic_fetch_add(&round->called, 1);
	if (rc == COHORT_OK)
		rc = cohort_group_wait(round->group, ticket, RANKS_SOON);
	for (r = 0; r < round->size; r++)
		call_put(&calls[r]);
	check_answer(round, rc);
	return rc == COHORT_OK;
}

static void run_group(struct round *round)
{
	uint64_t seed = round->seed;
	int i;

	victim_begin(round);
	for (i = 0; i < CALLS; i++)
		if (!group_call(round, &seed))
			break;
	atomic_store(&round->running, 0);
	if (round->end == END_SIGNAL)
		victim_end(round);
}

/* ---- ends of the group ------------------------------------------------ */

/* The round that the signal handler acts on. */
static struct round *_Atomic signalled;

static void on_signal(int number)
{
	struct round *round = atomic_load(&signalled);

	(void)number;
	contest_fire(&round->contest, 1);
	atomic_store(&round->has_victim, false);
}

static void send_signal(struct round *round)
{
	while (!atomic_load(&round->has_victim))
		sched_yield();
	pthread_kill(round->victim, SIGUSR1);
}

static void aborter_main(void *arg, int i)
{
	struct round *round = arg;

	while (atomic_load(&round->called) < round->calls_before &&
	       atomic_load(&round->running))
		sched_yield();
	stress_spin(round->delay);
	if (round->end == END_HANDLE)
		contest_fire(&round->contest, i);
	else if (round->end == END_GROUP)
		contest_record(&round->contest, i,
		               cohort_group_abort(round->group,
		                                  contest_reason(i)));
	else if (round->end == END_SIGNAL)
		send_signal(round);
}

/* ---- rounds ----------------------------------------------------------- */

static void plan(struct round *round, bool is_group, uint64_t *seed)
{
	unsigned power = stress_random(seed) % 18;

	memset(round, 0, sizeof(*round));
	round->size = 2 + (int)(stress_random(seed) % (MOST_RANKS - 1));
	round->seed = *seed;
	round->end = stress_random(seed) % (is_group ? GROUP_ENDS : ENDS);
	round->odd_rank = (int)(stress_random(seed) % (unsigned)round->size);
	round->odd_call = (int)(stress_random(seed) % CALLS);
	round->calls_before = stress_random(seed) % CALLS;
	if (!is_group)
		round->calls_before *= (unsigned)round->size;
	round->delay = stress_random(seed) % (2u << power);
	atomic_store(&round->running, round->size);
}

static void open_round(struct round *round, uint64_t *seed)
{
	struct cohort_group_options o;
	uint64_t ns = 1000000 + stress_random(seed) % 2000000;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	if (round->end == END_DEADLINE)
		o.deadlines.join_ns = o.deadlines.exec_ns = ns;
	if (round->end == END_NATIVE)
		ranks_fault(round->odd_rank, (uint64_t)round->odd_call,
		            COHORT_FAULT_ERROR, ncclInternalError);
	round->group = ranks_open(round->size, &o);
}

static void one_round(struct round *round, bool is_group, uint64_t *seed)
{
	plan(round, is_group, seed);
	open_round(round, seed);
	contest_begin(&round->contest, group_clique(round->group)->comms);
	atomic_store(&signalled, round);
	crew_begin(&aborter, round);
	if (is_group)
		run_group(round);
	else
		run_ranks(round);
	crew_end(&aborter);
	ranks_must(cohort_group_close(round->group), "close");
	cohort_sim_faults_clear();
	contest_end(&round->contest);
	ledger_check();
	buffers_check();
}

int main(int argc, char **argv)
{
	static struct round round;
	struct sigaction action = { .sa_handler = on_signal };
	uint64_t seed = 13;
	unsigned long n;

	sigaction(SIGUSR1, &action, NULL);
	ledger_open();
	crew_start(&aborter, 1, aborter_main);
	for (n = 0; stress_continue(argc, argv); n++)
		one_round(&round, n % 4 == 0, &seed);
	printf("%lu rounds, %lu answers OK, %lu a cause\n", n,
	       (unsigned long)done, (unsigned long)cut);
	return 0;
}
