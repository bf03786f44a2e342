/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What two processes of a machine see of each other's calls: two parts of a group in one
 * process, each with a clique of one or two ranks
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

/* A clique of the process, not attached yet: rank @process of the two. */
static struct clique *make(int process, uint64_t identity, unsigned slots)
{
	struct clique *c = make_clique(identity);

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
	free_clique(c);
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
		free_clique(q[i]);
	}
}

static void attach_both(void)
{
	attach(0, q[0]);
	attach(1, q[1]);
}

/* How many ranks of the other process have called @number, and when the last of them did. */
static int called(const struct clique *c, uint64_t number, uint64_t *last_ns)
{
	const struct remote_state s = c->remote->look(c, number);

	*last_ns = s.last_ns;
	return s.called;
}

static bool has_closed(const struct clique *c)
{
	return c->remote->look(c, 0).has_closed;
}

static bool has_left(const struct clique *c, uint64_t number)
{
	return c->remote->look(c, number).has_left;
}

static bool are_paused(const struct clique *c, uint64_t *resumed_ns)
{
	const struct remote_state s = c->remote->look(c, 0);

	if (s.resumed_ns > *resumed_ns)
		*resumed_ns = s.resumed_ns;
	return s.is_paused;
}

/* The rank of @c calls @number.  True if that differs from what its own process has
 * called, or the other one. */
static bool call(struct clique *c, uint64_t number, uint32_t digest,
                 uint64_t now_ns)
{
	bool differs;

	c->remote->announce(c, number, now_ns);
	agree_add_rank(&c->comms[0], number, digest, &differs);
	return differs || c->remote->differs(c, number, digest);
}

Test(remote_agreement, are_counted)
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

Test(remote_agreement, are_compared_by_whoever_comes_later)
{
	open_parts();
	attach_both();
	cr_assert_not(call(q[0], 1, 5, 1));
	cr_assert_not(call(q[1], 1, 5, 2));
	cr_assert_not(call(q[1], 2, 5, 3));
	cr_assert(call(q[0], 2, 6, 4));
	close_parts();
}

/* A process whose ranks call differently has no digest that others could compare. */
Test(remote_agreement, differ_if_they_do_among_themselves)
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

Test(remote_agreement, that_are_ahead_have_called)
{
	uint64_t number, last_ns;

	open_parts();
	attach_both();
	for (number = 1; number <= 3 * SLOTS; number++)
		cr_assert_not(call(q[0], number, 5, number));
	/* One and two laps ahead, and none. */
	for (number = 1; number <= 3 * SLOTS; number++) {
		cr_assert_eq(called(q[1], number, &last_ns), 1);
		cr_assert_not(
			call(q[1], number, number > 2 * SLOTS ? 5 : 6, number));
	}
	cr_assert_eq(called(q[1], 3 * SLOTS + 1, &last_ns), 0);
	close_parts();
}

Test(remote_agreement, are_not_known_before_they_have_the_clique)
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

Test(remote_agreement, make_no_further_call_once_they_are_closed)
{
	open_parts();
	attach_both();
	cr_assert_not(call(q[0], 1, 5, 1));
	cr_assert_not(call(q[1], 1, 5, 2));
	cr_assert_not(has_closed(q[1]));
	atomic_store(&q[0]->comms[0].lock.closed, true);
	q[0]->remote->show(q[0], REMOTE_CLOSED);
	cr_assert_not(has_left(q[1], agree_called(q[0]->comms)));
	cr_assert(has_left(q[1], agree_called(q[0]->comms) + 1));
	cr_assert_not(has_closed(q[0]));
	/* It could not be closed. */
	atomic_store(&q[0]->comms[0].lock.closed, false);
	q[0]->remote->show(q[0], REMOTE_CLOSED);
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

/* A thread that has not found a process yet does not undo what another one finds. */
Test(remote_agreement, that_are_found_stay_found)
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

Test(remote_agreement, have_their_numbers_in_the_group)
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

Test(remote_agreement, are_paused_until_they_resume)
{
	uint64_t resumed_ns = 5;

	open_parts();
	attach_both();
	call(q[0], 1, 5, 1);
	call(q[1], 1, 5, 2);
	cr_assert_not(are_paused(q[1], &resumed_ns));
	cr_assert_eq(resumed_ns, 5);
	q[0]->remote->show(q[0], REMOTE_PAUSED);
	q[0]->remote->show(q[0], REMOTE_PAUSED);
	cr_assert(are_paused(q[1], &resumed_ns));
	cr_assert_not(are_paused(q[0], &resumed_ns));
	atomic_store(&q[0]->resumed_ns, 7);
	q[0]->remote->show(q[0], REMOTE_RESUMED);
	cr_assert(are_paused(q[1], &resumed_ns));
	q[0]->remote->show(q[0], REMOTE_RESUMED);
	cr_assert_not(are_paused(q[1], &resumed_ns));
	cr_assert_eq(resumed_ns, 7);
	/* A time that is still to come is none. */
	atomic_store(&parts[0]->page->calls[0].resumed_ns, UINT64_MAX);
	cr_assert_not(are_paused(q[1], &resumed_ns));
	cr_assert_eq(resumed_ns, 7);
	close_parts();
}

/* A thread may keep the clique of a group that was closed while its rank was paused. */
Test(remote_agreement,
     that_have_left_are_not_paused_and_have_called_what_they_have)
{
	uint64_t resumed_ns = 0;

	open_parts();
	attach_both();
	call(q[0], 1, 5, 1);
	call(q[1], 1, 5, 2);
	q[0]->remote->show(q[0], REMOTE_PAUSED);
	cr_assert(are_paused(q[1], &resumed_ns));
	peers_detach(parts[0], q[0]);
	peers_leave(parts[0]);
	while (!has_closed(q[1]))
		sched_yield();
	cr_assert_not(are_paused(q[1], &resumed_ns));
	cr_assert_not(has_left(q[1], 1));
	cr_assert(has_left(q[1], 2));
	peers_detach(parts[1], q[1]);
	peers_leave(parts[1]);
	free_clique(q[0]);
	free_clique(q[1]);
}

/* A process that has closed its group may have called what others still finish. */
Test(remote_agreement,
     show_a_clique_that_is_freed_until_another_one_takes_its_place)
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

/* A thread that was left behind in a clique may write to its words until it is freed. */
Test(remote_agreement, keep_the_place_of_a_clique_that_is_not_freed)
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

Test(remote_agreement, see_as_many_cliques_as_there_are_places)
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
	/* And go on when some are freed. */
	detach(0, all[3]);
	all[3] = make(0, IDENTITY + 100, SLOTS);
	attach(0, all[3]);
	cr_assert(all[3]->others);
	for (i = 0; i < 40; i++)
		detach(0, all[i]);
	close_parts();
}

Test(remote_agreement, do_not_see_a_clique_with_more_slots_or_as_many_others)
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
