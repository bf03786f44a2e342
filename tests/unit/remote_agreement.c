/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of how two processes on one machine compare their calls
 *
 * Both processes are simulated in this one. Each has its own cliques.
 */

#include <criterion/criterion.h>
#include <sched.h>

#include "core/agree_words.h"
#include "processes/peers.h"
#include "processes/remote_agreement.h"
#include "unit/peer_clique.h"

#define PROCESSES 2
#define IDENTITY 7

TestSuite(remote_agreement, .timeout = 60);

static struct peers *parts[PROCESSES];
static struct clique *q[PROCESSES];

/* Create a clique of @process with one rank, whose number is @process. The
 * clique is not attached yet. */
static struct clique *make(int process, uint64_t identity, unsigned slots)
{
	struct clique *c = make_peer_clique(identity);

	give_rank(c, process);
	c->world_size = PROCESSES;
	c->slots = slots;
	c->agreed = agree_words(slots);
	return c;
}

static void attach(int process, struct clique *c)
{
	cr_assert_eq(peers_attach(parts[process], c, NULL), COHORT_OK);
}

static void detach(int process, struct clique *c)
{
	peers_detach(parts[process], c);
	free_peer_clique(c);
}

static void open_parts(void)
{
	struct peer_address all[PROCESSES];
	int i;

	for (i = 0; i < PROCESSES; i++)
		cr_assert_eq(peers_create(i, PROCESSES, "g", &all[i],
		                          &parts[i]),
		             COHORT_OK);
	for (i = 0; i < PROCESSES; i++)
		peers_connect(parts[i], all, NULL);
	for (i = 0; i < PROCESSES; i++)
		q[i] = make(i, IDENTITY, SLOTS);
}

static void close_parts(void)
{
	int i;

	for (i = 0; i < PROCESSES; i++) {
		peers_detach(parts[i], q[i]);
		peers_leave(parts[i]);
		free_peer_clique(q[i]);
	}
}

static void attach_both(void)
{
	attach(0, q[0]);
	attach(1, q[1]);
}

/* Return the number of ranks of the other process that have made call @number,
 * or -1 if it is unknown. Set *@last_ns to the time of the last of these
 * calls. */
static int called(const struct clique *c, uint64_t number, uint64_t *last_ns)
{
	const struct remote_state s = c->remote->get_state(c, number);

	*last_ns = s.last_ns;
	return s.called;
}

static bool has_closed(const struct clique *c)
{
	return c->remote->get_state(c, 0).has_closed;
}

static bool has_left(const struct clique *c, uint64_t number)
{
	return c->remote->get_state(c, number).has_left;
}

static bool are_paused(const struct clique *c, uint64_t *resumed_ns)
{
	const struct remote_state s = c->remote->get_state(c, 0);

	if (s.resumed_ns > *resumed_ns)
		*resumed_ns = s.resumed_ns;
	return s.is_paused;
}

/* Make call @number on the rank of @c. Return whether the call differs from
 * another rank's call, in either process. */
static bool call(struct clique *c, uint64_t number, uint32_t digest,
                 uint64_t now_ns)
{
	bool differs;

	c->remote->announce(c, number, now_ns);
	agree_add_rank(&c->comms[0], number, digest, &differs);
	return differs || c->remote->differs(c, number, digest);
}

Test(remote_agreement, calls_of_another_process_are_counted)
{
	uint64_t last_ns;

	open_parts();
	attach_both();
	cr_assert_eq(called(q[1], 1, &last_ns), 0);
	cr_assert_eq(last_ns, 0);
	cr_assert_not(call(q[0], 1, 5, 1000));
	cr_assert_eq(called(q[1], 1, &last_ns), 1);
	cr_assert_eq(last_ns, 1000);
	cr_assert_eq(called(q[0], 1, &last_ns), 0);
	cr_assert_eq(called(q[1], 2, &last_ns), 0);
	close_parts();
}

Test(remote_agreement, process_that_calls_later_finds_the_mismatch)
{
	open_parts();
	attach_both();
	cr_assert_not(call(q[0], 1, 5, 1));
	cr_assert_not(call(q[1], 1, 5, 2));
	cr_assert_not(call(q[1], 2, 5, 3));
	cr_assert(call(q[0], 2, 6, 4));
	close_parts();
}

/* If the calls of a process's ranks differ, there is no single digest to
 * publish. */
Test(remote_agreement, mismatch_within_a_process_is_seen_by_the_other_process)
{
	bool differs;

	open_parts();
	attach_both();
	agree_add_rank(&q[0]->comms[0], 1, 5, &differs);
	agree_add_rank(&q[0]->comms[0], 1, 6, &differs);
	cr_assert(differs);
	cr_assert(call(q[1], 1, 5, 1));
	close_parts();
}

Test(remote_agreement, process_several_laps_ahead_counts_as_having_called)
{
	uint64_t number, last_ns;

	open_parts();
	attach_both();
	for (number = 1; number <= 3 * SLOTS; number++)
		cr_assert_not(call(q[0], number, 5, number));
	/* Process 0 starts three laps of the ring ahead of process 1, which
	 * then catches up. */
	for (number = 1; number <= 3 * SLOTS; number++) {
		cr_assert_eq(called(q[1], number, &last_ns), 1);
		cr_assert_not(
			call(q[1], number, number > 2 * SLOTS ? 5 : 6, number));
	}
	cr_assert_eq(called(q[1], 3 * SLOTS + 1, &last_ns), 0);
	close_parts();
}

Test(remote_agreement, calls_are_unknown_until_the_other_process_has_the_clique)
{
	uint64_t last_ns;

	open_parts();
	attach(0, q[0]);
	cr_assert_eq(called(q[0], 1, &last_ns), -1);
	cr_assert_not(call(q[0], 1, 5, 1));
	attach(1, q[1]);
	cr_assert(call(q[1], 1, 6, 1));
	cr_assert_eq(called(q[0], 1, &last_ns), 1);
	close_parts();
}

Test(remote_agreement, closed_rank_of_another_process_makes_no_further_call)
{
	open_parts();
	attach_both();
	cr_assert_not(call(q[0], 1, 5, 1));
	cr_assert_not(call(q[1], 1, 5, 2));
	cr_assert_not(has_closed(q[1]));
	atomic_store(&q[0]->comms[0].lock.closed, true);
	q[0]->remote->publish_event(q[0]->comms, REMOTE_CLOSED);
	cr_assert_not(has_left(q[1], agree_called(q[0]->comms)));
	cr_assert(has_left(q[1], agree_called(q[0]->comms) + 1));
	cr_assert_not(has_closed(q[0]));
	/* Process 0 is open again, because its close failed. */
	atomic_store(&q[0]->comms[0].lock.closed, false);
	q[0]->remote->publish_event(q[0]->comms, REMOTE_CLOSED);
	cr_assert_not(has_closed(q[1]));
	close_parts();
}

static void *look_at_first_call(void *arg)
{
	atomic_bool *is_over = arg;
	uint64_t last_ns;

	while (!atomic_load(is_over))
		called(q[0], 1, &last_ns);
	return NULL;
}

/* A thread that has not found the other process must not overwrite the result
 * of a thread that has. */
Test(remote_agreement, remote_clique_found_by_one_thread_is_found_by_all)
{
	atomic_bool is_over;
	pthread_t thread;
	uint64_t last_ns;
	int i;

	for (i = 0; i < 1000; i++) {
		open_parts();
		attach(0, q[0]);
		atomic_store(&is_over, false);
		cr_assert_eq(pthread_create(&thread, NULL, look_at_first_call,
		                            &is_over),
		             0);
		attach(1, q[1]);
		while (called(q[0], 1, &last_ns) < 0)
			;
		cr_assert_not(call(q[1], 1, 5, 1));
		atomic_store(&is_over, true);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_assert_eq(called(q[0], 1, &last_ns), 1, "round %d", i);
		close_parts();
	}
}

Test(remote_agreement, ranks_of_another_process_have_their_group_numbers)
{
	open_parts();
	q[0]->comms[0].world_rank = 5;
	q[1]->comms[0].world_rank = 9;
	attach(0, q[0]);
	cr_assert_eq(q[0]->remote->world(q[0], 1), -1);
	attach(1, q[1]);
	cr_assert_eq(q[0]->remote->world(q[0], 1), 9);
	cr_assert_eq(q[1]->remote->world(q[1], 0), 5);
	cr_assert_eq(q[0]->remote->world(q[0], 0), -1);
	cr_assert_eq(q[0]->remote->world(q[0], 2), -1);
	cr_assert_eq(q[0]->remote->world(q[0], -1), -1);
	close_parts();
}

Test(remote_agreement, ranks_of_another_process_are_paused_until_they_resume)
{
	uint64_t resumed_ns = 5;

	open_parts();
	attach_both();
	call(q[0], 1, 5, 1);
	call(q[1], 1, 5, 2);
	cr_assert_not(are_paused(q[1], &resumed_ns));
	cr_assert_eq(resumed_ns, 5);
	q[0]->remote->publish_event(q[0]->comms, REMOTE_PAUSED);
	q[0]->remote->publish_event(q[0]->comms, REMOTE_PAUSED);
	cr_assert(are_paused(q[1], &resumed_ns));
	cr_assert_not(are_paused(q[0], &resumed_ns));
	atomic_store(&q[0]->resumed_ns, 7);
	q[0]->remote->publish_event(q[0]->comms, REMOTE_RESUMED);
	cr_assert(are_paused(q[1], &resumed_ns));
	q[0]->remote->publish_event(q[0]->comms, REMOTE_RESUMED);
	cr_assert_not(are_paused(q[1], &resumed_ns));
	cr_assert_eq(resumed_ns, 7);
	/* A time in the future is ignored. */
	atomic_store(&parts[0]->page->calls[0].resumed_ns, UINT64_MAX);
	cr_assert_not(are_paused(q[1], &resumed_ns));
	cr_assert_eq(resumed_ns, 7);
	close_parts();
}

static void close_the_other(void)
{
	peers_detach(parts[1], q[1]);
	peers_leave(parts[1]);
	free_peer_clique(q[0]);
	free_peer_clique(q[1]);
}

/* A thread may still use the clique of a group that was closed while the rank
 * was paused. */
Test(remote_agreement, process_that_has_left_is_not_paused_and_keeps_its_calls)
{
	uint64_t resumed_ns = 0;

	open_parts();
	attach_both();
	call(q[0], 1, 5, 1);
	call(q[1], 1, 5, 2);
	q[0]->remote->publish_event(q[0]->comms, REMOTE_PAUSED);
	cr_assert(are_paused(q[1], &resumed_ns));
	peers_detach(parts[0], q[0]);
	peers_leave(parts[0]);
	while (!has_closed(q[1]))
		sched_yield();
	cr_assert_not(are_paused(q[1], &resumed_ns));
	cr_assert_not(has_left(q[1], 1));
	cr_assert(has_left(q[1], 2));
	close_the_other();
}

/* Wait, without a look at its calls, until process 0 has left. */
static void await_leave(void)
{
	while (atomic_load(&parts[1]->peers[0].state) != PEER_LEFT)
		sched_yield();
	/* The state is set under lock, before the clique learns of it. */
	pthread_mutex_lock(&parts[1]->lock);
	pthread_mutex_unlock(&parts[1]->lock);
}

Test(remote_agreement, process_that_leaves_before_any_call_is_seen_to_have_left)
{
	open_parts();
	attach_both();
	peers_detach(parts[0], q[0]);
	peers_leave(parts[0]);
	await_leave();
	cr_assert(has_closed(q[1]));
	cr_assert(has_left(q[1], 1));
	close_the_other();
}

Test(remote_agreement, process_that_leaves_before_a_split_ends_is_seen_there)
{
	open_parts();
	cr_assert_eq(peers_attach(parts[0], q[0], NULL), COHORT_OK);
	peers_detach(parts[0], q[0]);
	peers_leave(parts[0]);
	await_leave();
	cr_assert_eq(peers_attach(parts[1], q[1], NULL), COHORT_OK);
	cr_assert(has_closed(q[1]));
	close_the_other();
}

/* A process that has closed its group may have made calls that other processes
 * have not finished. */
Test(remote_agreement,
     calls_of_a_freed_clique_are_kept_until_its_words_are_reused)
{
	uint64_t last_ns;

	open_parts();
	attach_both();
	cr_assert_not(call(q[0], 1, 5, 1));
	cr_assert_eq(called(q[1], 1, &last_ns), 1);
	detach(0, q[0]);
	cr_assert_eq(called(q[1], 1, &last_ns), 1);
	q[0] = make(0, IDENTITY + 1, SLOTS);
	attach(0, q[0]);
	cr_assert_eq(called(q[1], 1, &last_ns), 0);
	cr_assert_not(call(q[1], 1, 6, 1));
	cr_assert_not(call(q[0], 2, 5, 1));
	cr_assert_eq(called(q[1], 2, &last_ns), 0);
	cr_assert_not(call(q[1], 2, 6, 1));
	close_parts();
}

/* Until the clique is freed, a thread that never returned from a call may write
 * to the clique's words. */
Test(remote_agreement, words_of_a_clique_are_not_reused_before_it_is_freed)
{
	struct clique *next;
	uint64_t last_ns;

	open_parts();
	attach_both();
	peers_detach(parts[0], q[0]);
	next = make(0, IDENTITY + 1, SLOTS);
	attach(0, next);
	cr_assert_not(call(q[0], 1, 5, 1));
	cr_assert_eq(atomic_load(&next->agreed[agree_shared_slot(SLOTS, 1)]),
	             0);
	cr_assert_eq(called(q[1], 1, &last_ns), 1);
	detach(0, next);
	close_parts();
}

Test(remote_agreement, process_compares_at_most_16_cliques_at_a_time)
{
	struct clique *all[40];
	int i, shown = 0;

	open_parts();
	attach_both();
	for (i = 0; i < 40; i++) {
		all[i] = make(0, IDENTITY + 1 + (uint64_t)i, SLOTS);
		attach(0, all[i]);
		shown += all[i]->others != NULL;
	}
	cr_assert_eq(shown, 15);
	cr_assert_null(all[15]->others);
	/* A place can be reused after its clique was detached and freed. */
	detach(0, all[3]);
	all[3] = make(0, IDENTITY + 100, SLOTS);
	attach(0, all[3]);
	cr_assert(all[3]->others);
	for (i = 0; i < 40; i++)
		detach(0, all[i]);
	close_parts();
}

Test(remote_agreement, clique_with_too_many_or_different_slots_is_not_compared)
{
	struct clique *large, *other;
	uint64_t last_ns;

	open_parts();
	attach_both();
	large = make(0, IDENTITY + 1, 2 * CALL_WORDS);
	attach(0, large);
	cr_assert_null(large->others);
	other = make(0, IDENTITY + 2, 2 * SLOTS);
	attach(0, other);
	detach(1, q[1]);
	q[1] = make(1, IDENTITY + 2, SLOTS);
	attach(1, q[1]);
	cr_assert_not(call(other, 1, 5, 1));
	cr_assert_eq(called(q[1], 1, &last_ns), -1);
	cr_assert_not(call(q[1], 1, 6, 1));
	detach(0, large);
	detach(0, other);
	close_parts();
}
