/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of cohort watch on made-up shared memory, which a program may fill with
 * any bytes
 */

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "cli/watch/observed.h"
#include "shim/watched.c" /* includes the variable shared */
#include "support/expect.h"

#define RANKS 3

/* ---- the shim's streams, which these tests replace ----------------------- */

void *stream_end_open(int device, struct shared_calls *all)
{
	return device < 0 ? NULL : all;
}

/* Result of stream_end_mark(). No stream sets the mark. */
static enum stream_mark mark_of_stream;

enum stream_mark stream_end_mark(void *context, cudaStream_t stream,
                                 const _Atomic uint32_t *word, uint32_t value)
{
	(void)context, (void)stream, (void)word, (void)value;
	return mark_of_stream;
}

/* ---- made-up memory ------------------------------------------------------ */

static struct started started;
static struct watch watch;

static void set_up(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cr_assert_neq(shared, MAP_FAILED);
	watch = (struct watch){
		.shared = shared,
		.started = &started,
		.deadline_ns = NS_PER_S,
	};
}

TestSuite(watched, .init = set_up);

/* Add a rank of this process to a communicator of RANKS ranks. */
static struct shared_rank *add(int rank)
{
	struct shared_rank *e = &shared->ranks[shared->used++];

	e->pid = getpid();
	e->tid = thread_id();
	e->rank = e->root_rank = rank;
	e->ranks = RANKS;
	e->device = rank;
	e->identity = 5;
	e->state = SHARED_OPEN;
	return e;
}

/* Start a process that ends immediately with @status. */
static pid_t fork_ended(int status)
{
	const pid_t child = fork();

	if (!child)
		_exit(status);
	return child;
}

/* Start a process that waits until it is killed. */
static pid_t fork_paused(void)
{
	const pid_t child = fork();

	while (!child)
		pause();
	return child;
}

/* Add all ranks, and store their entries. */
static void add_all(struct shared_rank *e[RANKS])
{
	int r;

	for (r = 0; r < RANKS; r++)
		e[r] = add(r);
}

/* Add all ranks, each with a thread of its own.  Rank 0's thread is this one. */
static void add_all_on_threads(struct shared_rank *e[RANKS])
{
	int r;

	add_all(e);
	for (r = 0; r < RANKS; r++)
		e[r]->tid = thread_id() + r;
}

static uint64_t record(struct shared_rank *e, const struct op *op,
                       uint64_t ago_ns)
{
	struct recorder recorder = SHARED_RECORDER(e);
	const uint64_t ticket = e->last + 1;

	recorder_begin(&recorder, ticket, op, 0, thread_id(),
	               clock_now() - ago_ns);
	recorder_end(&recorder, ticket, COHORT_OK);
	e->last = ticket;
	return ticket;
}

static void call(struct shared_rank *e, size_t count, uint64_t ago_ns)
{
	const struct cohort_tensor t = { .count = count, .type = COHORT_F32 };
	const struct op op = { .kind = OP_ALL_REDUCE, .tensors = &t, .n = 1 };
	const uint64_t number = e->collectives + 1;

	e->tickets[number & (SHARED_SLOTS - 1)] = record(e, &op, ago_ns);
	e->collectives = number;
}

/* Record the first send to @peer, which was called @ago_ns ago. */
static void send_to(struct shared_rank *e, int peer, uint64_t ago_ns)
{
	const struct cohort_tensor t = { .count = 10, .type = COHORT_F32 };
	const struct op op = {
		.kind = OP_SEND, .root = peer, .tensors = &t, .n = 1
	};

	e->transfers[record(e, &op, ago_ns) & (SHARED_SLOTS - 1)] = 1;
	e->sends[peer] = 1;
}

/* Mark the last call as done. */
static void finish(struct shared_rank *e)
{
	shared->done[e - shared->ranks][e->last & (SHARED_SLOTS - 1)] =
		(uint32_t)e->last;
}

static enum finding judge(void)
{
	observed_update(&watch);
	cr_assert_not_null(watch.all);
	return observed_judge(&watch, watch.all, false);
}

Test(watched, watcher_finds_no_hang_before_the_deadline)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	call(e[0], 10, 0);
	cr_assert_eq(judge(), FOUND_NOTHING);
}

Test(watched, rank_that_has_not_called_is_found_at_the_deadline)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	call(e[0], 10, 2 * NS_PER_S);
	call(e[2], 10, 2 * NS_PER_S);
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_eq(watch.all->verdict.v.rank, 1);
	cr_assert_eq(judge(), FOUND_NOTHING, "it was reported");
}

Test(watched, rank_that_has_finished_a_collective_does_not_wait_in_it)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	call(e[0], 10, 2 * NS_PER_S);
	finish(e[0]);
	call(e[2], 10, 2 * NS_PER_S);
	finish(e[2]);
	cr_assert_eq(judge(), FOUND_NOTHING);
	call(e[0], 10, NS_PER_S / 2);
	cr_assert_eq(judge(), FOUND_NOTHING, "it has just begun to wait");
	watch.deadline_ns = NS_PER_S / 4;
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_eq(watch.all->verdict.v.rank, 1);
}

Test(watched, unmarked_call_waits_for_a_late_rank)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	call(e[0], 10, 2 * NS_PER_S);
	shared->done[0][1] = ~(uint32_t)1;
	cr_assert_eq(judge(), FOUND_HANG);
}

Test(watched, process_that_has_ended_is_not_named_if_no_rank_waits_for_it)
{
	struct shared_rank *e[RANKS];
	const pid_t child = fork_ended(0);

	add_all(e);
	e[1]->pid = child;
	call(e[0], 10, NS_PER_S / 2);
	finish(e[0]);
	waitpid(child, NULL, 0);
	cr_assert_eq(judge(), FOUND_NOTHING);
	cr_assert_eq(watch.all->ended_ns, 0);
	call(e[0], 10, NS_PER_S / 2);
	judge();
	cr_assert_neq(watch.all->ended_ns, 0);
}

Test(watched, number_of_a_refused_call_is_compared_again)
{
	struct shared_rank *e[RANKS];
	int r;

	add_all(e);
	for (r = 0; r < RANKS; r++) {
		call(e[r], 10, 0);
		finish(e[r]);
	}
	cr_assert_eq(judge(), FOUND_NOTHING);
	for (r = 0; r < RANKS; r++)
		e[r]->collectives = 0;
	cr_assert_eq(judge(), FOUND_NOTHING);
	for (r = 0; r < RANKS; r++) {
		call(e[r], r == 2 ? 9 : 10, 0);
		finish(e[r]);
	}
	cr_assert_eq(judge(), FOUND_DIFFERENCE);
}

Test(watched, ranks_of_other_machines_are_named_as_unknown)
{
	call(add(0), 10, 2 * NS_PER_S);
	call(add(1), 10, 2 * NS_PER_S);
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_eq(watch.all->verdict.v.kind, COHORT_VERDICT_REMOTE);
	expect_text(watch.all->verdict.text,
	            "rank 2 of other processes may not have "
	            "called all_reduce 1");
}

/* Judge the calls after @child, the process of a rank that another rank waits
 * for, has ended. The result must be a hang. */
static void expect_hang_after(pid_t child)
{
	waitpid(child, NULL, 0);
	judge();
	watch.all->ended_ns = 1; /* ended long ago */
	cr_assert_eq(judge(), FOUND_HANG);
}

Test(watched, process_that_has_ended_is_named_before_the_deadline)
{
	struct shared_rank *e[RANKS];
	const pid_t child = fork_ended(0);

	add_all(e);
	e[1]->pid = child;
	call(e[0], 10, NS_PER_S / 2);
	expect_hang_after(child);
	cr_assert_eq(watch.all->verdict.v.rank, 1);
	expect_text(watch.all->verdict.text, "(rank 1) ");
}

Test(watched, process_that_has_ended_is_reported_once_per_deadline)
{
	struct shared_rank *e[RANKS];
	const pid_t child = fork_ended(0);

	add_all(e);
	e[1]->pid = child;
	call(e[0], 10, 3 * NS_PER_S / 2);
	expect_hang_after(child);
	cr_assert_eq(judge(), FOUND_NOTHING, "it was reported");
}

/* Rank 1 has called, and the other ranks are done. */
Test(watched, process_that_stopped_in_its_call_is_named_without_waiters)
{
	struct shared_rank *e[RANKS];
	const pid_t child = fork_paused();
	const char *text;
	int r, status;

	add_all(e);
	e[1]->pid = child;
	for (r = 0; r < RANKS; r++) {
		call(e[r], 10, 2 * NS_PER_S);
		if (r != 1)
			finish(e[r]);
	}
	kill(child, SIGSTOP);
	waitpid(child, &status, WUNTRACED);
	cr_assert_eq(judge(), FOUND_HANG);
	text = watch.all->verdict.text;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	expect_text(text, "(rank 1) is stopped\n");
	cr_assert_null(strstr(text, "wait   "), "%s", text);
	expect_text(text, "call   all_reduce of 10");
}

/* The call of the ended process also waits, and began first. */
Test(watched, process_that_has_ended_after_its_send_is_named_at_once)
{
	struct shared_rank *e[RANKS];
	const pid_t child = fork_ended(0);

	add_all(e);
	e[1]->pid = child;
	send_to(e[1], 0, NS_PER_S / 2);
	send_to(e[0], 1, NS_PER_S / 4);
	expect_hang_after(child);
	cr_assert_eq(watch.all->verdict.v.rank, 1, "%s",
	             watch.all->verdict.text);
}

Test(watched, send_without_a_receive_blames_the_receiver)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	send_to(e[0], 2, 2 * NS_PER_S);
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_eq(watch.all->verdict.v.rank, 2);
	expect_text(watch.all->verdict.text,
	            "rank 2 has not called recv 1 from rank 0");
}

Test(watched, rank_that_waits_for_a_message_is_not_blamed)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	send_to(e[0], 2, 3 * NS_PER_S / 2);
	call(e[1], 10, 2 * NS_PER_S);
	cr_assert_eq(judge(), FOUND_HANG);
	expect_text(watch.all->verdict.text, "rank 0 waits in send of");
	cr_assert_eq(watch.all->verdict.v.rank, 2);
}

Test(watched, collective_that_is_done_on_all_ranks_is_no_hang)
{
	struct shared_rank *e;
	int r;

	for (r = 0; r < RANKS; r++) {
		e = add(r);
		call(e, 10, 2 * NS_PER_S);
		finish(e);
	}
	cr_assert_eq(judge(), FOUND_NOTHING);
}

Test(watched, mark_of_a_later_call_completes_earlier_calls)
{
	struct shared_rank *e = add(0);

	call(e, 10, 0);
	call(e, 10, 0);
	cr_assert_eq(shared_undone(shared, e), 1);
	finish(e);
	cr_assert_eq(shared_undone(shared, e), 3);
}

Test(watched, calls_that_differ_are_reported_once)
{
	struct shared_rank *e[RANKS];
	int r;

	for (r = 0; r < RANKS; r++) {
		e[r] = add(r);
		call(e[r], r == 2 ? 9 : 10, 0);
		finish(e[r]);
	}
	cr_assert_eq(judge(), FOUND_DIFFERENCE);
	cr_assert_eq(watch.all->verdict.v.rank, 2);
	expect_text(watch.all->verdict.text,
	            "rank 2 calls all_reduce of 9 float32");
	cr_assert_eq(judge(), FOUND_NOTHING);
}

Test(watched, mismatch_in_a_split_names_ranks_of_the_first_comm)
{
	struct shared_rank *e;
	int r;

	for (r = 0; r < RANKS; r++) {
		e = add(r);
		e->root_rank = r + 2;
		call(e, r == 2 ? 9 : 10, 0);
		finish(e);
	}
	cr_assert_eq(judge(), FOUND_DIFFERENCE);
	expect_text(watch.all->verdict.text,
	            "rank 4 (2 in \"comm 0\") calls all_reduce "
	            "of 9 float32");
}

/* Ranks 1 and 2 also have a communicator by another unique id, where they are
 * ranks 0 and 1.  Rank 2 waits there for rank 1, and rank 0 for both. */
Test(watched, rank_has_one_number_in_comms_of_different_ids)
{
	struct shared_rank *e[RANKS], *sub;
	int r;

	add_all(e);
	for (r = 1; r < RANKS; r++) {
		sub = add(r);
		sub->identity = 6;
		sub->ranks = 2;
		sub->rank = sub->root_rank = r - 1;
		if (r == 2)
			call(sub, 10, 2 * NS_PER_S);
	}
	call(e[0], 10, 2 * NS_PER_S);
	cr_assert_eq(judge(), FOUND_HANG);
	expect_text(watch.all->verdict.text,
	            "wait   rank 2 waits in all_reduce 1 of "
	            "\"comm 1\" for rank 1\n");
	cr_assert_eq(observed_judge(&watch, watch.all->next, false),
	             FOUND_HANG);
	expect_text(watch.all->next->verdict.text,
	            "rank 1 (0 in \"comm 1\") has not called");
}

Test(watched, call_that_was_overwritten_counts_as_done)
{
	struct shared_rank *e = add(0);
	int i;

	for (i = 0; i < SHARED_SLOTS + 5; i++)
		call(e, 10, 0);
	cr_assert_eq(shared_ticket(e, 6), 0);
	cr_assert_eq(shared_ticket(e, 7), 7);
	cr_assert_eq(shared_undone(shared, e), 7);
}

Test(watched, ticket_that_a_new_call_is_overwriting_is_not_read)
{
	struct shared_rank *e = add(0);
	int i;

	for (i = 0; i < SHARED_SLOTS; i++)
		call(e, 10, 0);
	cr_assert_eq(shared_ticket(e, 2), 2);
	/* The next call stores its ticket, and then its number. */
	e->tickets[1] = SHARED_SLOTS + 1;
	cr_assert_eq(shared_ticket(e, 1), 0);
}

Test(watched, entry_is_free_once_all_ranks_have_closed)
{
	struct shared_rank *e = add(0);

	e->ranks = 1;
	judge();
	e->state = SHARED_CLOSED;
	judge();
	observed_drop(&watch);
	cr_assert_null(watch.all);
	cr_assert_eq(e->state, SHARED_FREE);
}

/* Write a few of the numbers that a program may leave in an entry. */
static void spoil(struct shared_rank *e, uint64_t *random)
{
	const uint64_t words[] = {
		0, 1, 2, 1023, UINT32_MAX, UINT64_MAX, random_next(random)
	};
	_Atomic uint64_t *at = (_Atomic uint64_t *)(void *)e;
	const size_t n = sizeof(*e) / sizeof(*at);
	int i;

	for (i = 0; i < 200; i++)
		at[random_next(random) % (i % 2 ? 12 : n)] =
			words[random_next(random) %
		              (sizeof(words) / sizeof(*words))];
	shared->done[e - shared->ranks][random_next(random) % SHARED_SLOTS] =
		(uint32_t)words[random_next(random) % 7];
}

Test(watched, random_bytes_in_shared_memory_do_not_crash_the_watcher)
{
	uint64_t random = 1;
	struct observed *o;
	int i, r;

	for (r = 0; r < RANKS; r++)
		add(r);
	watch.deadline_ns = 1;
	for (i = 0; i < 500; i++) {
		for (r = 0; r < RANKS; r++) {
			spoil(&shared->ranks[r], &random);
			if (i % 4)
				shared->ranks[r].identity = 5;
		}
		shared->used = (uint32_t)random_next(&random);
		observed_update(&watch);
		for (o = watch.all; o; o = o->next)
			observed_judge(&watch, o, i % 2);
		observed_drop(&watch);
	}
}

/* ---- the shim ------------------------------------------------------------ */

/* Return the handle of a made-up communicator. */
static ncclComm_t handle(uintptr_t number)
{
	return (ncclComm_t)(number << 12);
}

/* Open a communicator of one rank, as the shim does. */
static struct watched *open_comm(ncclComm_t comm)
{
	struct watched *w = watched_open(5, 0, 0, 1, NULL);

	cr_assert_not_null(w);
	watched_opened(w, comm);
	cr_assert_eq(watched_find(comm), w);
	return w;
}

static void close_comm(ncclComm_t comm)
{
	watched_put(watched_take(comm));
}

Test(watched, entry_of_an_aborted_comm_stays_until_its_call_returns)
{
	struct watched *w = open_comm(handle(1));
	const struct shared_rank *e = w->shared;

	watched_hold(w);
	close_comm(handle(1));
	cr_assert_null(watched_find(handle(1)));
	cr_assert_eq(e->state, SHARED_OPEN);
	watched_put(w);
	cr_assert_eq(e->state, SHARED_CLOSED);
}

static int aborted;

void watched_abort(ncclComm_t comm)
{
	cr_assert_eq(comm, handle(2));
	aborted++;
}

Test(watched, abort_skips_communicators_that_the_program_has_closed)
{
	struct watched *w;

	open_comm(handle(1));
	w = open_comm(handle(2));
	close_comm(handle(1));
	abort_all();
	abort_all();
	cr_assert_eq(aborted, 1);
	cr_assert(w->is_aborted);
	cr_assert_eq(shared_state_of(w->shared), SHARED_CLOSED);
	observed_update(&watch);
	observed_drop(&watch);
	cr_assert_eq(w->shared->state, SHARED_ABORTED, "it is not free");
	close_comm(handle(2));
	cr_assert_null(watched_find(handle(2)));
	observed_update(&watch);
	observed_drop(&watch);
	cr_assert_null(watch.all);
}

/* Record @n all-reduces, as the shim does. */
static struct watched_calls begin_calls(struct watched *w, int n)
{
	const struct cohort_tensor t = { .count = 10, .type = COHORT_F32 };
	const struct op op = { .kind = OP_ALL_REDUCE, .tensors = &t, .n = 1 };
	struct watched_calls c = { .first = w->last + 1 };

	while (n--)
		c.last = watched_begin(w, &op);
	c.collectives = c.last - c.first + 1;
	return c;
}

Test(watched, call_without_a_mark_is_done_only_after_older_calls)
{
	struct watched *w = open_comm(handle(1));
	struct watched_calls c[3];
	int i;

	shared->marks = 1;
	watched_describe(w, 0, 1, 0);
	for (i = 0; i < 3; i++)
		c[i] = begin_calls(w, 2);
	watched_end(w, &c[0], ncclSuccess);
	watched_end(w, &c[1], ncclInProgress);
	watched_end(w, &c[2], ncclSuccess);
	cr_assert_eq(shared_last_done(shared, w->shared), 0);
	shared->done[w->number][c[0].last] = (uint32_t)c[0].last;
	cr_assert_eq(shared_last_done(shared, w->shared), c[1].last);
	shared->done[w->number][c[2].last] = (uint32_t)c[2].last;
	cr_assert_eq(shared_last_done(shared, w->shared), c[2].last);
}

Test(watched, calls_of_a_group_are_done_at_once_without_marks)
{
	struct watched *w = open_comm(handle(1));
	struct watched_calls c;
	int i;

	for (i = 0; i < 2; i++) {
		c = begin_calls(w, SHARED_SLOTS + 5);
		watched_end(w, &c, ncclSuccess);
		cr_assert_eq(shared_last_done(shared, w->shared), c.last);
	}
}

Test(watched, failed_calls_are_not_counted)
{
	struct watched *w = open_comm(handle(1));
	const struct op send = { .kind = OP_SEND, .root = 3 };
	const struct op receive = { .kind = OP_RECV, .root = 4 };
	struct watched_calls c = begin_calls(w, 2);

	watched_begin(w, &send);
	watched_begin(w, &receive);
	c.last = watched_begin(w, &send);
	cr_assert_eq(shared_called(w->shared), 2);
	cr_assert_eq(shared_transfers(w->shared, true, 3), 2);
	watched_end(w, &c, ncclSystemError);
	cr_assert_eq(shared_called(w->shared), 0);
	cr_assert_eq(shared_transfers(w->shared, true, 3), 0);
	cr_assert_eq(shared_transfers(w->shared, false, 4), 0);
}

Test(watched, captured_calls_are_not_counted)
{
	struct watched *w = open_comm(handle(1));
	struct watched_calls c = begin_calls(w, 1);

	shared->marks = 1;
	watched_describe(w, 0, 1, 0);
	watched_end(w, &c, ncclSuccess);
	mark_of_stream = STREAM_CAPTURED;
	c = begin_calls(w, 2);
	watched_end(w, &c, ncclSuccess);
	cr_assert_eq(shared_called(w->shared), 1);
	cr_assert(shared_record(w->shared, c.last).captured);
	cr_assert_eq(shared_undone(shared, w->shared), 1);
	shared->done[w->number][1] = 1;
	cr_assert_eq(shared_undone(shared, w->shared), 2);
	cr_assert_eq(shared_last_done(shared, w->shared), c.last);
}

Test(watched, closed_communicators_free_their_table_entries)
{
	const int n = SHARED_RANKS / 2;
	int i, k;

	for (i = 0; i < n; i++)
		open_comm(handle((uintptr_t)i + 1));
	for (i = 0; i < n; i++) {
		close_comm(handle((uintptr_t)i + 1));
		for (k = 0; k < n; k++)
			cr_assert_eq(!!watched_find(handle((uintptr_t)k + 1)),
			             k > i);
	}
	for (i = 0; i < COMM_PLACES; i++)
		cr_assert_null(places[i].of);
	for (i = 0; i < 2 * COMM_PLACES; i++) {
		open_comm(handle((uintptr_t)i + 1));
		cr_assert_not_null(watched_find(handle((uintptr_t)i + 1)));
		close_comm(handle((uintptr_t)i + 1));
		observed_update(&watch);
		observed_drop(&watch);
	}
	cr_assert_null(watched_find(handle((uintptr_t)i + 1)));
}

Test(watched, orphan_of_a_program_still_counts_as_its_child)
{
	const pid_t child = fork_paused();

	cr_assert(started_reap(&started), "there is no program");
	cr_assert(started.has_children);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	cr_assert(started_reap(&started));
	cr_assert_not(started.has_children);
}

Test(watched, program_that_was_reaped_elsewhere_has_ended)
{
	const pid_t other = fork();

	if (!other)
		for (;;)
			pause();
	started.program = fork();
	if (!started.program)
		_exit(0);
	waitpid(started.program, NULL, 0);
	cr_assert(started_reap(&started));
	cr_assert_eq(WEXITSTATUS(started.status), 1);
	kill(other, SIGKILL);
}

/* Announce a rank whose communicator has been in creation for @ago_ns. */
static struct shared_rank *announce(int rank, uint64_t ago_ns)
{
	struct shared_rank *e = add(rank);

	e->opened_ns = clock_now() - ago_ns;
	e->state = SHARED_OPENING;
	return e;
}

/* Announce @rank of another communicator, whose rank 1 is missing. */
static struct shared_rank *announce_other(int rank)
{
	struct shared_rank *e = announce(rank, 0);

	e->identity = 6;
	e->device = -1;
	return e;
}

Test(watched, rank_that_is_creating_a_communicator_is_not_blamed)
{
	struct shared_rank *e[RANKS];
	struct shared_rank *sub;

	add_all_on_threads(e);
	call(e[0], 10, 2 * NS_PER_S);
	sub = announce_other(0);
	sub->tid = e[2]->tid;
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_eq(watch.all->verdict.v.rank, 1, "%s",
	             watch.all->verdict.text);
	expect_text(watch.all->verdict.text,
	            "wait   rank 2 waits in ncclCommInitRank of "
	            "\"comm 1\" for an unknown rank\n");
}

Test(watched, rank_that_has_not_created_a_communicator_is_unknown)
{
	struct shared_rank *e[RANKS];

	add_all_on_threads(e);
	call(e[0], 10, 2 * NS_PER_S);
	call(e[1], 10, 2 * NS_PER_S);
	announce_other(0)->tid = e[2]->tid;
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_eq(watch.all->verdict.v.rank, -1);
	expect_text(watch.all->verdict.text,
	            "HANG   an unknown rank has not called "
	            "ncclCommInitRank of \"comm 1\", where");
}

Test(watched, time_while_the_watcher_was_stopped_does_not_count)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	call(e[0], 10, 2 * NS_PER_S);
	send_to(e[1], 2, 2 * NS_PER_S);
	watch.resumed_ns = clock_now();
	cr_assert_eq(judge(), FOUND_NOTHING);
	watch.resumed_ns -= 3 * NS_PER_S / 2;
	cr_assert_eq(judge(), FOUND_HANG);
}

Test(watched, creation_is_not_overdue_right_after_the_watcher_resumes)
{
	announce(0, 2 * NS_PER_S);
	watch.resumed_ns = clock_now();
	cr_assert_eq(judge(), FOUND_NOTHING);
	watch.resumed_ns = 0;
	cr_assert_eq(judge(), FOUND_HANG);
}

/* Record an all-reduce as called by another thread of the process. */
static void call_in_other_thread(struct shared_rank *e, uint64_t ago_ns)
{
	struct recorder recorder = SHARED_RECORDER(e);
	const struct cohort_tensor t = { .count = 10, .type = COHORT_F32 };
	const struct op op = { .kind = OP_ALL_REDUCE, .tensors = &t, .n = 1 };
	const uint64_t ticket = e->last + 1, number = e->collectives + 1;

	recorder_begin(&recorder, ticket, &op, 0, thread_id() + 1,
	               clock_now() - ago_ns);
	recorder_end(&recorder, ticket, COHORT_OK);
	e->tickets[number & (SHARED_SLOTS - 1)] = ticket;
	e->last = ticket;
	e->collectives = number;
}

/* Judge the wait of rank 0 for ranks 1 and 2, which are also ranks @first and
 * @first + 1 of another communicator.  @waiter, one of the two, waits there for
 * the other one, in a call of another thread if @in_thread. */
static const char *judge_with_pair(int first, int waiter, bool in_thread)
{
	struct shared_rank *e[RANKS], *other;
	int r;

	add_all(e);
	for (r = 1; r < RANKS; r++) {
		other = add(r);
		other->identity = 7;
		other->rank = first + r - 1;
		if (r == waiter && in_thread)
			call_in_other_thread(other, 2 * NS_PER_S);
		else if (r == waiter)
			call(other, 10, 2 * NS_PER_S);
	}
	call(e[0], 10, 2 * NS_PER_S);
	cr_assert_eq(judge(), FOUND_HANG);
	return watch.all->verdict.text;
}

static void expect_in(const char *text, const char *part)
{
	expect_text(text, part);
}

Test(watched, rank_that_waits_in_another_thread_is_not_blamed)
{
	expect_in(judge_with_pair(1, 1, true),
	          "rank 2 has not called all_reduce 1 of \"comm 1\"");
}

Test(watched, rank_that_waits_for_another_missing_rank_is_not_blamed)
{
	expect_in(judge_with_pair(0, 2, false),
	          "rank 2 waits in all_reduce 1 of \"comm 1\" for rank 1");
	cr_assert_eq(watch.all->verdict.v.rank, 1);
	cr_assert_eq(watch.all->verdict.v.missing[0], 2);
}

/* The process that has ended has rank 1 in the first communicator, and rank 0
 * in the one that hangs. */
Test(watched, ended_process_is_named_by_its_rank_in_its_first_comm)
{
	struct shared_rank *e = add(1), *other = add(2);
	const pid_t child = fork_ended(0);

	e->rank = 0;
	other->rank = 1;
	e->ranks = other->ranks = 2;
	e->pid = child;
	call(other, 10, NS_PER_S / 2);
	expect_hang_after(child);
	expect_text(watch.all->verdict.text, "(rank 1, 0 in \"comm 0\") ");
}

Test(watched, dump_of_random_bytes_in_shared_memory_terminates)
{
	char directory[] = "/tmp/cohort-watched-XXXXXX", command[100];
	uint64_t random = 2;
	int i, r;

	cr_assert_not_null(mkdtemp(directory));
	for (r = 0; r < RANKS; r++)
		add(r);
	watch.deadline_ns = 1;
	for (i = 0; i < 20; i++) {
		judge();
		cr_assert(observed_dump(&watch, watch.all, directory));
		for (r = 0; r < RANKS; r++) {
			spoil(&shared->ranks[r], &random);
			shared->ranks[r].identity = 5;
			if (i % 2)
				shared->ranks[r].last = UINT64_MAX;
		}
	}
	snprintf(command, sizeof(command), "rm -r %s", directory);
	cr_assert_eq(system(command), 0);
}

/* Record the first receive from @peer, which was called @ago_ns ago. */
static void receive_from(struct shared_rank *e, int peer, uint64_t ago_ns)
{
	const struct cohort_tensor t = { .count = 10, .type = COHORT_F32 };
	const struct op op = {
		.kind = OP_RECV, .root = peer, .tensors = &t, .n = 1
	};

	e->transfers[record(e, &op, ago_ns) & (SHARED_SLOTS - 1)] = 1;
	e->receives[peer] = 1;
}

Test(watched, clock_of_a_send_restarts_when_the_receiver_calls)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	send_to(e[0], 2, 3 * NS_PER_S);
	receive_from(e[2], 0, NS_PER_S / 2);
	cr_assert_eq(judge(), FOUND_NOTHING);
	watch.deadline_ns = NS_PER_S / 4;
	cr_assert_eq(judge(), FOUND_HANG);
}

Test(watched, clock_of_a_send_restarts_when_an_earlier_call_is_done)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	send_to(e[0], 1, 2 * NS_PER_S);
	finish(e[0]);
	send_to(e[0], 2, 2 * NS_PER_S);
	receive_from(e[2], 0, 2 * NS_PER_S);
	cr_assert_eq(judge(), FOUND_NOTHING);
	watch.all->progress[0].since_ns = 0;
	cr_assert_eq(judge(), FOUND_HANG);
}

Test(watched, clock_of_a_creation_restarts_when_the_last_rank_arrives)
{
	announce(0, 2 * NS_PER_S);
	announce(1, 2 * NS_PER_S);
	cr_assert_eq(judge(), FOUND_HANG);
	announce(2, 0);
	cr_assert_eq(judge(), FOUND_NOTHING);
	watch.deadline_ns = 1;
	cr_assert_eq(judge(), FOUND_HANG);
}

Test(watched, program_closes_the_ranks_of_a_program_that_executed_it)
{
	struct shared_rank *e[RANKS];
	int r;

	add_all(e);
	e[1]->pid = getppid();
	for (r = 0; r < 2; r++)
		call(e[r], 10, 2 * NS_PER_S);
	close_former();
	cr_assert_eq(e[0]->state, SHARED_CLOSED);
	cr_assert_eq(e[1]->state, SHARED_OPEN);
	cr_assert_eq(e[2]->state, SHARED_CLOSED);
}

Test(watched, rank_that_does_not_destroy_its_communicator_is_named)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	e[0]->closing_ns = clock_now() - 2 * NS_PER_S;
	e[2]->closing_ns = clock_now();
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_eq(watch.all->verdict.v.rank, 1);
	expect_text(watch.all->verdict.text,
	            "ranks 0, 2 have not returned from the call "
	            "that ends \"comm 0\"; rank 1 has not");
	cr_assert_eq(judge(), FOUND_NOTHING, "it was reported");
	e[1]->closing_ns = clock_now();
	cr_assert_eq(judge(), FOUND_NOTHING, "all ranks have called");
}

Test(watched, hung_collective_explains_a_hung_destruction)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	call(e[0], 10, 2 * NS_PER_S);
	call(e[2], 10, 2 * NS_PER_S);
	e[0]->closing_ns = clock_now() - 2 * NS_PER_S;
	cr_assert_eq(judge(), FOUND_HANG);
	expect_text(watch.all->verdict.text,
	            "rank 1 has not called all_reduce 1");
}

Test(watched, hung_split_is_reported_only_as_a_call_of_the_parent)
{
	int r;

	for (r = 0; r < RANKS; r++)
		announce(r, 2 * NS_PER_S)->parent = 9;
	cr_assert_eq(judge(), FOUND_NOTHING);
}

Test(watched, clock_of_a_call_keeps_running_if_its_record_is_overwritten)
{
	struct shared_rank *e[RANKS];
	uint64_t arrived_ns;
	int i;

	add_all(e);
	for (i = 0; i < SHARED_SLOTS + 5; i++)
		call(e[0], 10, 0);
	judge();
	cr_assert_eq(watch.all->now.front, 1);
	arrived_ns = watch.all->now.ranks[0].arrived_ns;
	usleep(1000);
	judge();
	cr_assert_eq(watch.all->now.ranks[0].arrived_ns, arrived_ns);
}

Test(watched, exit_status_is_kept_until_the_last_communicator_is_freed)
{
	const pid_t child = fork_ended(3);
	struct shared_rank *e;
	int r;

	for (r = 0; r < RANKS; r++)
		e = add(r);
	e->pid = child;
	e = add(0);
	e->ranks = 1;
	e->identity = 7;
	e->pid = child;
	observed_update(&watch);
	while (!started_find(&started, child)->has_ended)
		started_reap(&started);
	observed_update(&watch);
	observed_drop(&watch);
	cr_assert_null(watch.all->next, "the one of 1 rank is over");
	cr_assert_eq(WEXITSTATUS(started_find(&started, child)->status), 3);
	for (r = 0; r < RANKS; r++)
		shared->ranks[r].state = SHARED_CLOSED;
	observed_update(&watch);
	observed_drop(&watch);
	cr_assert_eq(started.n, 1, "only this process is known");
	cr_assert_eq(started.processes[0].pid, getpid());
}

Test(watched, process_that_ends_during_an_init_is_named_at_once)
{
	const pid_t child = fork_ended(0);

	announce(0, 0);
	announce(1, 0)->pid = child;
	announce(2, 0);
	waitpid(child, NULL, 0);
	cr_assert_eq(judge(), FOUND_NOTHING);
	watch.all->ended_ns = 1; /* ended long ago */
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_eq(watch.all->verdict.v.rank, 1);
	expect_text(watch.all->verdict.text, "(rank 1) is gone");
	cr_assert_eq(judge(), FOUND_NOTHING, "it was reported");
}

/* Judge @watch.all, which must hang, and check that the verdict has @text. */
static void hangs_with(const char *text)
{
	cr_assert_eq(judge(), FOUND_HANG);
	expect_text(watch.all->verdict.text, text);
}

/* Announce a rank of a nonblocking communicator whose call has returned. */
static struct shared_rank *announce_nonblocking(int rank)
{
	struct shared_rank *e = announce(rank, 2 * NS_PER_S);

	e->state = SHARED_OPEN;
	e->device = -1;
	return e;
}

Test(watched, nonblocking_creation_waits_only_for_missing_ranks)
{
	announce_nonblocking(0);
	announce_nonblocking(2);
	hangs_with("rank 1 has not called ncclCommInitRank on this machine for "
	           "\"comm 0\"; ranks 0, 2 wait");
	announce_nonblocking(1);
	watch.deadline_ns = 1;
	cr_assert_eq(judge(), FOUND_NOTHING);
}

Test(watched, rank_of_an_ended_process_is_not_shown_as_waiting_in_init)
{
	const pid_t child = fork_ended(0);

	add(0);
	announce(1, 2 * NS_PER_S)->pid = child;
	add(2);
	waitpid(child, NULL, 0);
	judge();
	watch.all->ended_ns = 1; /* ended long ago */
	cr_assert_eq(judge(), FOUND_NOTHING);
}

Test(watched, rank_that_has_failed_to_create_a_communicator_is_named)
{
	announce(0, 2 * NS_PER_S);
	announce_nonblocking(1)->state = SHARED_CLOSED;
	announce(2, 2 * NS_PER_S);
	hangs_with("(rank 1) has failed to create it\nsince");
	cr_assert_eq(watch.all->verdict.v.rank, 1);
}

Test(watched, rank_that_expects_another_number_of_ranks_is_named)
{
	announce(0, 2 * NS_PER_S);
	announce(1, 2 * NS_PER_S)->ranks = RANKS + 1;
	announce(2, 2 * NS_PER_S);
	hangs_with("ncclCommInitRank of \"comm 0\" differs: rank 1 calls it "
	           "with nranks 4; ranks 0, 2 call it with nranks 3\n"
	           "since");
	cr_assert_eq(watch.all->verdict.v.rank, 1);
}

Test(watched, rank_that_expects_another_number_of_ranks_may_call_first)
{
	announce(0, 2 * NS_PER_S)->ranks = RANKS + 1;
	announce(1, 2 * NS_PER_S);
	announce(2, 2 * NS_PER_S);
	hangs_with("differs: rank 0 calls it with nranks 4; ranks 1-2 call it "
	           "with nranks 3\nsince");
	cr_assert_eq(watch.all->verdict.v.rank, 0);
}

Test(watched, rank_that_expects_another_number_of_ranks_may_have_failed)
{
	struct shared_rank *first = announce(0, 2 * NS_PER_S);

	first->ranks = RANKS + 1;
	first->state = SHARED_CLOSED;
	announce(1, 2 * NS_PER_S);
	hangs_with("differs: rank 1 calls it with nranks 3; rank 0 calls it "
	           "with nranks 4\nsince");
	cr_assert_eq(watch.all->verdict.v.rank, -1);
	observed_drop(&watch);
	cr_assert_eq(shared->ranks[0].state, SHARED_CLOSED);
}

Test(watched, entry_of_a_failed_split_is_freed)
{
	watched_opened(watched_open(5, 3, -1, -1, NULL), NULL);
	observed_update(&watch);
	cr_assert_eq(shared->ranks[0].state, SHARED_CLOSED);
	observed_drop(&watch);
	cr_assert_eq(shared->ranks[0].state, SHARED_FREE);
}

Test(watched, stopped_process_is_named_while_a_communicator_is_created)
{
	const pid_t child = fork_paused();

	kill(child, SIGSTOP);
	waitpid(child, NULL, WUNTRACED);
	announce(0, 2 * NS_PER_S);
	announce(1, 2 * NS_PER_S)->pid = child;
	announce(2, 2 * NS_PER_S);
	hangs_with("(rank 1) is stopped\nsince");
	cr_assert_eq(watch.all->verdict.v.rank, 1);
	kill(child, SIGKILL);
}

Test(watched, process_is_alive_if_no_descriptor_is_left_for_its_pidfd)
{
	struct rlimit former, none;
	bool own, other;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &former), 0);
	none = former;
	none.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	own = started_find(&started, getpid())->has_ended;
	other = started_find(&started, 0)->has_ended;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &former), 0);
	cr_assert_not(own);
	cr_assert(other);
}

Test(watched, zombie_has_ended_without_a_pidfd)
{
	const pid_t child = fork_ended(0);
	siginfo_t info;

	cr_assert_not(started_find(&started, getpid())->has_ended);
	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	started.processes[0].pid = child;
	close(started.processes[0].fd);
	started.processes[0].fd = -1;
	cr_assert(started_find(&started, child)->has_ended);
	waitpid(child, NULL, 0);
}

Test(watched, communicator_is_dropped_once_its_entries_are_reused)
{
	struct shared_rank *e = add(0);
	int i;

	for (i = 0; i < 100; i++) {
		e->identity++;
		observed_update(&watch);
		observed_drop(&watch);
		cr_assert_eq(watch.all->identity, e->identity);
		cr_assert_null(watch.all->next);
	}
	cr_assert_eq(e->state, SHARED_OPEN, "it was not freed");
}

Test(watched, stopped_peer_is_named_even_if_it_finished_the_collective)
{
	struct shared_rank *e[RANKS];
	pid_t child;
	int r;

	child = fork_paused();
	for (r = 0; r < RANKS; r++) {
		e[r] = add(r);
		call(e[r], 10, NS_PER_S / 2);
	}
	finish(e[0]);
	finish(e[2]);
	e[2]->pid = child;
	kill(child, SIGSTOP);
	waitpid(child, NULL, WUNTRACED);
	send_to(e[0], 2, 2 * NS_PER_S);
	judge();
	watch.all->progress[0].since_ns = 0;
	cr_assert_eq(judge(), FOUND_HANG);
	expect_text(watch.all->verdict.text, "(rank 2) is stopped");
	kill(child, SIGKILL);
}

Test(watched, control_characters_of_a_threads_name_are_not_printed)
{
	prctl(PR_SET_NAME, "a\033[2Jb");
	call(add(0), 10, 2 * NS_PER_S);
	add(1);
	add(2);
	cr_assert_eq(judge(), FOUND_HANG);
	cr_assert_null(strchr(watch.all->verdict.text, '\033'));
	expect_text(watch.all->verdict.text, "a?[2Jb");
}

Test(watched, rank_missing_in_another_communicator_is_blamed)
{
	struct shared_rank *e[RANKS], *other;
	int r;

	add_all(e);
	call(e[0], 10, 2 * NS_PER_S);
	call(e[2], 10, 2 * NS_PER_S);
	for (r = 0; r < 2; r++) {
		other = add(r);
		other->identity++;
		other->ranks = 2;
		other->device = 2 * r;
		call(other, 10, 2 * NS_PER_S);
	}
	judge();
	cr_assert_eq(observed_judge(&watch, watch.all->next, false),
	             FOUND_HANG);
	expect_text(watch.all->next->verdict.text,
	            "rank 1 has not called all_reduce 1 of "
	            "\"comm 0\"");
}

Test(watched, communicators_with_the_same_name_get_distinct_names)
{
	struct shared_rank *e[2] = { add(0), add(0) };

	e[1]->identity++;
	e[0]->name[0] = e[1]->name[0] = 'a';
	observed_update(&watch);
	cr_assert_str_eq(watch.all->name, "a");
	cr_assert_str_eq(watch.all->next->name, "a (comm 1)");
}

Test(watched, report_on_a_closed_communicator_names_it)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	call(e[0], 10, 2 * NS_PER_S);
	call(e[2], 10, 2 * NS_PER_S);
	e[1]->state = SHARED_CLOSED;
	hangs_with("\ncomm   \"comm 0\"");
}

Test(watched, rank_that_has_closed_after_its_call_is_named)
{
	struct shared_rank *e[RANKS];
	int r;

	add_all(e);
	for (r = 0; r < RANKS; r++)
		call(e[r], 10, 2 * NS_PER_S);
	e[1]->state = SHARED_CLOSED;
	hangs_with("\nnote   rank 1 has closed \"comm 0\"");
}

Test(watched, verdict_says_that_a_rank_is_ending_its_communicator)
{
	struct shared_rank *e[RANKS];

	add_all(e);
	call(e[0], 10, 2 * NS_PER_S);
	call(e[2], 10, 2 * NS_PER_S);
	e[1]->closing_ns = clock_now();
	hangs_with(
		"rank 1 has not called all_reduce 1 of \"comm 0\"\nwhy    it "
		"is inside the call that ends its communicator");
}

Test(watched, only_child_processes_count_as_started)
{
	const pid_t child = fork_paused();

	cr_assert(started_has(child));
	cr_assert_not(started_has(getpid()));
	cr_assert_not(started_has(getppid()));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	cr_assert_not(started_has(child), "it is gone");
}
