/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The launch window
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clique.h"
#include "core/launch_lock.h"

TestSuite(window, .timeout = 60);

/* A clique without ranks, which no watchdog watches. */
static struct clique *make_clique(void)
{
	struct clique *q = aligned_alloc(_Alignof(struct clique), sizeof(*q));

	cr_assert(q);
	memset(q, 0, sizeof(*q));
	q->end = cause_create();
	cr_assert(q->end);
	return q;
}

static void free_clique(struct clique *q)
{
	cause_put(q->end);
	free(q);
}

/* A thread that opens a window, connects, or begins a section for @q or for no
 * clique. */
struct visit {
	pthread_t thread;
	struct clique *q;
	bool opens, connects;
	int rc;
	atomic_bool is_in, may_leave;
};

static void connect_alone(struct visit *v)
{
	unsigned taken = launch_lock_take_alone();

	atomic_store(&v->is_in, true);
	while (!atomic_load(&v->may_leave))
		sched_yield();
	launch_lock_give_alone(taken);
}

static void *visit_main(void *arg)
{
	struct visit *v = arg;

	if (v->connects) {
		connect_alone(v);
		return NULL;
	}
	if (v->opens)
		v->rc = launch_lock_open(v->q);
	else
		v->rc = memory_section_enter(v->q);
	atomic_store(&v->is_in, true);
	while (!v->opens && v->rc == COHORT_OK && !atomic_load(&v->may_leave))
		sched_yield();
	if (!v->opens && v->rc == COHORT_OK)
		memory_section_end();
	return NULL;
}

static void visit_start(struct visit *v)
{
	cr_assert_eq(pthread_create(&v->thread, NULL, visit_main, v), 0);
}

static void await_in(struct visit *v)
{
	while (!atomic_load(&v->is_in))
		sched_yield();
}

static void await_waiting(unsigned n)
{
	while (launch_lock_waiting() != n)
		sched_yield();
}

/* Start it, and see it wait as one of @n. */
static void visit_waits(struct visit *v, unsigned n)
{
	visit_start(v);
	await_waiting(n);
}

static void visit_end(struct visit *v)
{
	atomic_store(&v->may_leave, true);
	pthread_join(v->thread, NULL);
}

Test(window, may_be_open_several_times_at_once)
{
	struct clique *a = make_clique(), *b = make_clique();

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	cr_assert_eq(launch_lock_open(b), COHORT_OK);
	launch_lock_close(b);
	launch_lock_close(a);
	free_clique(a);
	free_clique(b);
}

Test(window, keeps_memory_sections_out_until_the_last_one_is_closed)
{
	struct clique *a = make_clique(), *b = make_clique();
	struct visit section = { .q = NULL };

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	cr_assert_eq(launch_lock_open(b), COHORT_OK);
	visit_waits(&section, 1);
	launch_lock_close(a);
	cr_assert_eq(launch_lock_waiting(), 1);
	cr_assert_not(atomic_load(&section.is_in));
	launch_lock_close(b);
	visit_end(&section);
	cr_assert_eq(section.rc, COHORT_OK);
	free_clique(a);
	free_clique(b);
}

Test(window, waits_for_memory_sections)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };

	memory_section_begin();
	visit_waits(&window, 1);
	cr_assert_not(atomic_load(&window.is_in));
	memory_section_end();
	visit_end(&window);
	cr_assert_eq(window.rc, COHORT_OK);
	launch_lock_close(q);
	free_clique(q);
}

Test(window, that_waits_goes_before_newcomers_and_then_all_of_them_go)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	struct visit newcomers[2] = { { .q = NULL }, { .q = NULL } };

	memory_section_begin();
	visit_waits(&window, 1);
	visit_start(&newcomers[0]);
	visit_waits(&newcomers[1], 3);
	memory_section_end();
	await_in(&window);
	cr_assert_eq(launch_lock_waiting(), 2);
	launch_lock_close(q);
	await_in(&newcomers[0]); /* both at once */
	await_in(&newcomers[1]);
	visit_end(&newcomers[0]);
	visit_end(&newcomers[1]);
	visit_end(&window);
	free_clique(q);
}

Test(window, that_waits_lets_a_thread_in_a_section_begin_another)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };

	memory_section_begin();
	visit_waits(&window, 1);
	memory_section_begin();
	memory_section_end();
	cr_assert(memory_section_is_open());
	cr_assert_eq(launch_lock_waiting(), 1);
	memory_section_end();
	cr_assert_not(memory_section_is_open());
	visit_end(&window);
	launch_lock_close(q);
	free_clique(q);
}

Test(window, that_waits_gives_up_with_the_cause_and_newcomers_come_in)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	struct visit newcomer = { .q = NULL };

	memory_section_begin();
	visit_waits(&window, 1);
	visit_waits(&newcomer, 2);
	cause_set_aborted(q->end, "enough");
	await_in(&newcomer);
	visit_end(&newcomer);
	visit_end(&window);
	cr_assert_eq(window.rc, COHORT_ABORTED);
	memory_section_end();
	free_clique(q);
}

Test(window, lets_a_call_that_waits_for_it_give_up_with_the_cause)
{
	struct clique *q = make_clique(), *other = make_clique();
	struct visit section = { .q = q };

	cr_assert_eq(launch_lock_open(other), COHORT_OK);
	visit_waits(&section, 1);
	cause_set_aborted(q->end, "enough");
	visit_end(&section);
	cr_assert_eq(section.rc, COHORT_ABORTED);
	cr_assert_eq(launch_lock_waiting(), 0);
	launch_lock_close(other);
	free_clique(other);
	free_clique(q);
}

Test(window, of_a_clique_with_a_cause_is_not_opened)
{
	struct clique *q = make_clique();

	cause_set_aborted(q->end, "enough");
	launch_lock_close(q); /* like the reaper, which may come first */
	cr_assert_eq(launch_lock_open(q), COHORT_ABORTED);
	memory_section_begin(); /* would wait */
	memory_section_end();
	free_clique(q);
}

Test(window, is_closed_once_whichever_thread_comes_first)
{
	struct clique *a = make_clique(), *b = make_clique();
	struct visit section = { .q = NULL };

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	cr_assert_eq(launch_lock_open(b), COHORT_OK);
	launch_lock_close(a);
	launch_lock_close(a);
	visit_start(&section);
	await_waiting(1); /* for the other one */
	launch_lock_close(b);
	visit_end(&section);
	free_clique(a);
	free_clique(b);
}

Test(window, that_is_never_closed_is_awaited_up_to_the_limit)
{
	struct clique *stuck = make_clique(), *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	struct visit section = { .q = NULL };

	cr_assert_eq(launch_lock_open(stuck), COHORT_OK);
	launch_lock_set_limit(1);
	memory_section_begin();
	launch_lock_set_limit(LAUNCH_LOCK_LIMIT_NS);
	/* The late end of that stay must not end another's section. */
	visit_waits(&window, 1);
	memory_section_end();
	await_in(&window);
	launch_lock_close(stuck);
	visit_end(&window);
	visit_waits(&section, 1);
	launch_lock_close(q);
	visit_end(&section);
	free_clique(stuck);
	free_clique(q);
}

Test(window, waits_up_to_the_limit_for_a_section_that_never_ends)
{
	struct clique *q = make_clique();
	struct visit stuck = { .q = NULL }, section = { .q = NULL };

	visit_start(&stuck);
	await_in(&stuck);
	launch_lock_set_limit(1);
	cr_assert_eq(launch_lock_open(q), COHORT_OK);
	launch_lock_set_limit(LAUNCH_LOCK_LIMIT_NS);
	visit_waits(&section, 1);
	visit_end(&stuck); /* its end must not end another's window */
	launch_lock_close(q);
	await_in(&section);
	visit_end(&section);
	free_clique(q);
}

static void *give(void *arg)
{
	launch_lock_give(*(unsigned *)arg);
	return NULL;
}

Test(window, waits_for_a_section_that_another_thread_ends)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	unsigned taken = launch_lock_take();
	pthread_t thread;

	cr_assert_not(memory_section_is_open());
	visit_waits(&window, 1);
	pthread_create(&thread, NULL, give, &taken);
	pthread_join(thread, NULL);
	visit_end(&window);
	cr_assert_eq(window.rc, COHORT_OK);
	launch_lock_close(q);
	launch_lock_give(0);
	free_clique(q);
}

/* ---- turns ------------------------------------------------------------- */

/* A clique on these devices.  Its turns do not run out during the test. */
static struct clique *make_on(uint64_t devices)
{
	struct clique *q = make_clique();

	launch_lock_set_limit(1000 * LAUNCH_LOCK_LIMIT_NS);
	q->devices = devices;
	return q;
}

Test(window, of_cliques_that_share_a_device_are_open_one_after_the_other)
{
	struct clique *a = make_on(3), *b = make_on(6), *other = make_on(8);
	struct visit second = { .q = b, .opens = true };

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	visit_waits(&second, 1);
	cr_assert_eq(launch_lock_open(other), COHORT_OK);
	launch_lock_close(other);
	cr_assert_eq(launch_lock_waiting(), 1);
	launch_lock_close(a);
	visit_end(&second);
	cr_assert_eq(second.rc, COHORT_OK);
	launch_lock_close(b);
	free_clique(a);
	free_clique(b);
	free_clique(other);
}

Test(window, that_waits_for_its_turn_goes_before_those_that_came_later)
{
	struct clique *a = make_on(1), *b = make_on(3), *c = make_on(2);
	struct visit second = { .q = b, .opens = true };
	struct visit third = { .q = c, .opens = true };

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	visit_waits(&second, 1);
	visit_waits(&third, 2);
	launch_lock_close(a);
	await_in(&second);
	cr_assert_eq(launch_lock_waiting(), 1);
	cr_assert_not(atomic_load(&third.is_in));
	launch_lock_close(b);
	visit_end(&third);
	visit_end(&second);
	launch_lock_close(c);
	free_clique(a);
	free_clique(b);
	free_clique(c);
}

Test(window, that_waits_for_its_turn_gives_up_with_the_cause)
{
	struct clique *a = make_on(1), *b = make_on(1), *c = make_on(1);
	struct visit second = { .q = b, .opens = true };
	struct visit third = { .q = c, .opens = true };

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	visit_waits(&second, 1);
	visit_waits(&third, 2);
	cause_set_aborted(b->end, "enough");
	visit_end(&second);
	cr_assert_eq(second.rc, COHORT_ABORTED);
	launch_lock_close(b); /* as the reaper does */
	cr_assert_not(atomic_load(&third.is_in));
	launch_lock_close(a);
	visit_end(&third);
	cr_assert_eq(third.rc, COHORT_OK);
	launch_lock_close(c);
	free_clique(a);
	free_clique(b);
	free_clique(c);
}

Test(window, that_is_never_closed_keeps_its_turn_for_a_while)
{
	struct clique *stuck = make_on(1), *q = make_on(1);

	cr_assert_eq(launch_lock_open(stuck), COHORT_OK);
	launch_lock_set_limit(1);
	cr_assert_eq(launch_lock_open(q), COHORT_OK);
	launch_lock_close(stuck);
	launch_lock_close(q);
	free_clique(stuck);
	free_clique(q);
}

Test(window, that_waits_for_a_section_keeps_its_turn)
{
	struct clique *a = make_on(1), *b = make_on(1);
	struct visit first = { .q = a, .opens = true };
	struct visit second = { .q = b, .opens = true };

	memory_section_begin();
	visit_waits(&first, 1);
	visit_waits(&second, 2);
	memory_section_end();
	await_in(&first);
	cr_assert_eq(launch_lock_waiting(), 1);
	cr_assert_not(atomic_load(&second.is_in));
	launch_lock_close(a);
	visit_end(&second);
	visit_end(&first);
	launch_lock_close(b);
	free_clique(a);
	free_clique(b);
}

Test(window, of_a_clique_that_is_ended_loses_its_turn_at_once)
{
	struct clique *a = make_on(1), *b = make_on(1), *c = make_on(1);
	struct visit second = { .q = b, .opens = true };

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	visit_waits(&second, 1);
	launch_lock_close(b); /* the reaper comes before the thread has left */
	cr_assert_eq(launch_lock_waiting(), 0);
	launch_lock_close(a);
	cr_assert_eq(launch_lock_open(c), COHORT_OK);
	cause_set_aborted(b->end, "enough");
	visit_end(&second);
	cr_assert_eq(second.rc, COHORT_ABORTED);
	launch_lock_close(c);
	free_clique(a);
	free_clique(b);
	free_clique(c);
}

/* ---- connections ------------------------------------------------------- */

Test(window, is_opened_after_a_connection_and_a_section_after_the_window)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	struct visit section = { .q = NULL };
	unsigned taken = launch_lock_take_alone();

	visit_waits(&section, 1);
	visit_waits(&window, 2);
	launch_lock_give_alone(taken);
	await_in(&window);
	cr_assert_eq(launch_lock_waiting(), 1);
	cr_assert_not(atomic_load(&section.is_in));
	launch_lock_close(q);
	await_in(&section);
	visit_end(&section);
	visit_end(&window);
	free_clique(q);
}

/* The section has come before the connection does. */
Test(window, keeps_a_connection_out_and_so_does_a_section)
{
	struct clique *q = make_clique();
	struct visit section = { .q = NULL }, connection = { .connects = true };
	struct visit late = { .q = NULL };

	cr_assert_eq(launch_lock_open(q), COHORT_OK);
	visit_waits(&connection, 1);
	visit_waits(&section, 2);
	launch_lock_close(q);
	await_in(&section);
	cr_assert_not(atomic_load(&connection.is_in));
	visit_start(&late);
	await_waiting(2); /* behind the connection */
	visit_end(&section);
	await_in(&connection);
	cr_assert_eq(launch_lock_waiting(), 1);
	visit_end(&connection);
	visit_end(&late);
	free_clique(q);
}

Test(window, lets_connections_in_one_by_one)
{
	struct visit all[3] = { { .connects = true },
		                { .connects = true },
		                { .connects = true } };
	struct visit section = { .q = NULL };
	unsigned taken = launch_lock_take_alone();
	int i;

	for (i = 0; i < 3; i++) {
		visit_start(&all[i]);
		await_waiting(1 + (unsigned)i);
	}
	visit_waits(&section, 4);
	launch_lock_give_alone(taken);
	await_in(&section);
	cr_assert_eq(launch_lock_waiting(), 3);
	visit_end(&section);
	for (i = 0; i < 3; i++) {
		await_in(&all[i]);
		cr_assert_eq(launch_lock_waiting(), 2 - (unsigned)i);
		visit_end(&all[i]);
	}
}

/* A window that waits for a section keeps newcomers out, until it gives up; but not if
 * a connection waits, too. */
Test(window, that_gives_up_leaves_newcomers_behind_a_connection)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	struct visit connection = { .connects = true }, late = { .q = NULL };

	memory_section_begin();
	visit_waits(&window, 1);
	visit_waits(&connection, 2);
	visit_waits(&late, 3);
	cause_set_aborted(q->end, NULL);
	await_waiting(2);
	cr_assert_not(atomic_load(&late.is_in));
	memory_section_end();
	await_in(&connection);
	cr_assert_not(atomic_load(&late.is_in));
	visit_end(&connection);
	visit_end(&late);
	visit_end(&window);
	free_clique(q);
}

Test(window, waits_up_to_the_limit_for_a_connection_that_never_ends)
{
	struct visit next = { .connects = true }, after = { .connects = true };
	unsigned stuck = launch_lock_take_alone();

	launch_lock_set_limit(1);
	visit_start(&next);
	await_in(&next);
	launch_lock_set_limit(LAUNCH_LOCK_LIMIT_NS);
	launch_lock_give_alone(stuck); /* must not end the other one */
	visit_waits(&after, 1);
	visit_end(&next);
	await_in(&after);
	visit_end(&after);
	launch_lock_give_alone(0);
}

/* ---- threads that exit ------------------------------------------------- */

static void *begin_and_exit(void *unused)
{
	(void)unused;
	memory_section_begin();
	memory_section_begin();
	return NULL;
}

Test(window, ignores_the_section_of_a_thread_that_has_exited)
{
	struct clique *q = make_clique();
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, begin_and_exit, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(launch_lock_sections(), 0);
	cr_assert_eq(launch_lock_open(q), COHORT_OK);
	launch_lock_close(q);
	free_clique(q);
}

static void need_cancels(void)
{
#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("the address sanitizer takes a cancelled thread's stack "
	             "for one that is in use");
#endif
}

/* Cancelled while it waits, whether it is let in before that or not. */
static void cancel_one(bool opens)
{
	struct clique *q = make_on(1), *other = make_on(1);
	struct visit v = { .q = q, .opens = opens };

	if (opens)
		memory_section_begin();
	else
		cr_assert_eq(launch_lock_open(other), COHORT_OK);
	cr_assert_eq(pthread_create(&v.thread, NULL, visit_main, &v), 0);
	while (!launch_lock_waiting())
		sched_yield();
	cr_assert_eq(pthread_cancel(v.thread), 0);
	cr_assert_eq(pthread_join(v.thread, NULL), 0);
	cr_assert_not(atomic_load(&v.is_in));
	cr_assert_eq(launch_lock_waiting(), 0);
	if (opens)
		memory_section_end();
	else
		launch_lock_close(other);
	/* No thread is left inside. */
	cr_assert_eq(launch_lock_open(other), COHORT_OK);
	launch_lock_close(other);
	memory_section_begin();
	memory_section_end();
	free_clique(q);
	free_clique(other);
}

Test(window, that_waits_goes_with_its_thread)
{
	need_cancels();
	cancel_one(true);
}

Test(window, a_section_that_waits_goes_with_its_thread)
{
	need_cancels();
	cancel_one(false);
}
