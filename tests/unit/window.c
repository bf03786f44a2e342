/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the launch lock, by which launch windows, memory sections and
 * connections exclude each other
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clique.h"
#include "core/launch_lock.h"
#include "support/bare_clique.h"

TestSuite(window, .timeout = 60);

/* A thread that opens a window, connects, or begins a memory section */
struct visit {
	pthread_t thread;
	struct clique *q;
	bool opens, connects;
	int rc;
	atomic_bool is_in, may_leave;
};

static void connect_alone(struct visit *v)
{
	unsigned taken = launch_lock_begin_connection();

	atomic_store(&v->is_in, true);
	while (!atomic_load(&v->may_leave))
		sched_yield();
	launch_lock_end(taken);
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

/* Start a visit, and wait until @n threads wait for the lock, including the
 * visit's thread. */
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

Test(window, several_launch_windows_can_be_open_at_once)
{
	struct clique *a = make_clique(), *b = make_clique();

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	cr_assert_eq(launch_lock_open(b), COHORT_OK);
	launch_lock_close(b);
	launch_lock_close(a);
	free_clique(a);
	free_clique(b);
}

Test(window, memory_section_waits_until_the_last_window_is_closed)
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

Test(window, launch_window_waits_for_memory_sections)
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

Test(window, waiting_launch_window_opens_before_later_sections_begin)
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
	/* Both newcomers enter without waiting for each other. */
	await_in(&newcomers[0]);
	await_in(&newcomers[1]);
	visit_end(&newcomers[0]);
	visit_end(&newcomers[1]);
	visit_end(&window);
	free_clique(q);
}

Test(window, memory_section_can_be_nested_while_a_window_waits)
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

Test(window, others_enter_after_a_launch_window_gives_up_for_a_cause)
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

Test(window, memory_section_stops_waiting_for_a_window_after_a_cause)
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

Test(window, launch_window_of_a_clique_with_a_cause_is_not_opened)
{
	struct clique *q = make_clique();

	cause_set_aborted(q->end, "enough");
	/* The reaper closes the window, perhaps before the rank's thread opens
	 * it. */
	launch_lock_close(q);
	cr_assert_eq(launch_lock_open(q), COHORT_ABORTED);
	/* No window is open, so a memory section begins immediately. */
	memory_section_begin();
	memory_section_end();
	free_clique(q);
}

Test(window, launch_window_is_closed_only_once)
{
	struct clique *a = make_clique(), *b = make_clique();
	struct visit section = { .q = NULL };

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	cr_assert_eq(launch_lock_open(b), COHORT_OK);
	launch_lock_close(a);
	launch_lock_close(a);
	visit_start(&section);
	/* The section waits for b's window. */
	await_waiting(1);
	launch_lock_close(b);
	visit_end(&section);
	free_clique(a);
	free_clique(b);
}

Test(window, memory_section_waits_for_an_open_window_up_to_the_limit)
{
	struct clique *stuck = make_clique(), *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	struct visit section = { .q = NULL };

	cr_assert_eq(launch_lock_open(stuck), COHORT_OK);
	atomic_store(&launch_lock_limit_ns, 1);
	memory_section_begin();
	atomic_store(&launch_lock_limit_ns, LAUNCH_LOCK_NS);
	/* The late close of the stuck window must not end a section. */
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

Test(window, launch_window_waits_for_a_stuck_section_up_to_the_limit)
{
	struct clique *q = make_clique();
	struct visit stuck = { .q = NULL }, section = { .q = NULL };

	visit_start(&stuck);
	await_in(&stuck);
	atomic_store(&launch_lock_limit_ns, 1);
	cr_assert_eq(launch_lock_open(q), COHORT_OK);
	atomic_store(&launch_lock_limit_ns, LAUNCH_LOCK_NS);
	visit_waits(&section, 1);
	/* The late end of the stuck section must not close the window. */
	visit_end(&stuck);
	launch_lock_close(q);
	await_in(&section);
	visit_end(&section);
	free_clique(q);
}

static void *give(void *arg)
{
	launch_lock_end(*(unsigned *)arg);
	return NULL;
}

Test(window, launch_window_opens_when_another_thread_ends_a_section)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	unsigned taken = launch_lock_begin_section();
	pthread_t thread;

	cr_assert_not(memory_section_is_open());
	visit_waits(&window, 1);
	pthread_create(&thread, NULL, give, &taken);
	pthread_join(thread, NULL);
	visit_end(&window);
	cr_assert_eq(window.rc, COHORT_OK);
	launch_lock_close(q);
	launch_lock_end(0);
	free_clique(q);
}

/* ---- turns ------------------------------------------------------------- */

/* Create a clique on @devices, a set of device numbers. Its turns do not expire
 * during the test. */
static struct clique *make_on(uint64_t devices)
{
	struct clique *q = make_clique();

	atomic_store(&launch_lock_limit_ns, 1000 * LAUNCH_LOCK_NS);
	q->devices = devices;
	return q;
}

Test(window, launch_windows_of_cliques_that_share_a_device_take_turns)
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

Test(window, launch_windows_on_one_device_open_in_order_of_arrival)
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

Test(window, launch_window_stops_waiting_for_its_turn_after_a_cause)
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
	/* the reaper closes the window of an ended clique */
	launch_lock_close(b);
	cr_assert_not(atomic_load(&third.is_in));
	launch_lock_close(a);
	visit_end(&third);
	cr_assert_eq(third.rc, COHORT_OK);
	launch_lock_close(c);
	free_clique(a);
	free_clique(b);
	free_clique(c);
}

Test(window, launch_window_that_stays_open_loses_its_turn_at_the_limit)
{
	struct clique *stuck = make_on(1), *q = make_on(1);

	cr_assert_eq(launch_lock_open(stuck), COHORT_OK);
	atomic_store(&launch_lock_limit_ns, 1);
	cr_assert_eq(launch_lock_open(q), COHORT_OK);
	launch_lock_close(stuck);
	launch_lock_close(q);
	free_clique(stuck);
	free_clique(q);
}

Test(window, launch_window_that_waits_for_a_section_keeps_its_turn)
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

Test(window, launch_window_of_an_ended_clique_loses_its_turn_at_once)
{
	struct clique *a = make_on(1), *b = make_on(1), *c = make_on(1);
	struct visit second = { .q = b, .opens = true };

	cr_assert_eq(launch_lock_open(a), COHORT_OK);
	visit_waits(&second, 1);
	/* The reaper may close a window before the thread that waits to open it
	 * gives up. */
	launch_lock_close(b);
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

Test(window, after_a_connection_a_launch_window_precedes_a_section)
{
	struct clique *q = make_clique();
	struct visit window = { .q = q, .opens = true };
	struct visit section = { .q = NULL };
	unsigned taken = launch_lock_begin_connection();

	visit_waits(&section, 1);
	visit_waits(&window, 2);
	launch_lock_end(taken);
	await_in(&window);
	cr_assert_eq(launch_lock_waiting(), 1);
	cr_assert_not(atomic_load(&section.is_in));
	launch_lock_close(q);
	await_in(&section);
	visit_end(&section);
	visit_end(&window);
	free_clique(q);
}

/* A section that waits enters before a connection that waits. */
Test(window, connection_waits_for_launch_windows_and_memory_sections)
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
	/* The late section must wait until the connection has ended. */
	await_waiting(2);
	visit_end(&section);
	await_in(&connection);
	cr_assert_eq(launch_lock_waiting(), 1);
	visit_end(&connection);
	visit_end(&late);
	free_clique(q);
}

Test(window, connections_of_ranks_are_made_one_at_a_time)
{
	struct visit all[3] = { { .connects = true },
		                { .connects = true },
		                { .connects = true } };
	struct visit section = { .q = NULL };
	unsigned taken = launch_lock_begin_connection();
	int i;

	for (i = 0; i < 3; i++) {
		visit_start(&all[i]);
		await_waiting(1 + (unsigned)i);
	}
	visit_waits(&section, 4);
	launch_lock_end(taken);
	await_in(&section);
	cr_assert_eq(launch_lock_waiting(), 3);
	visit_end(&section);
	for (i = 0; i < 3; i++) {
		await_in(&all[i]);
		cr_assert_eq(launch_lock_waiting(), 2 - (unsigned)i);
		visit_end(&all[i]);
	}
}

/* A window that waits for a section keeps newcomers out until it gives up. If a
 * connection also waits, they must stay out even then. */
Test(window, new_section_waits_for_a_connection_after_a_window_times_out)
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

Test(window, connection_stops_waiting_for_a_stuck_one_at_the_limit)
{
	struct visit next = { .connects = true }, after = { .connects = true };
	unsigned stuck = launch_lock_begin_connection();

	atomic_store(&launch_lock_limit_ns, 1);
	visit_start(&next);
	await_in(&next);
	atomic_store(&launch_lock_limit_ns, LAUNCH_LOCK_NS);
	/* The late end of the stuck connection must not end the next one. */
	launch_lock_end(stuck);
	visit_waits(&after, 1);
	visit_end(&next);
	await_in(&after);
	visit_end(&after);
	launch_lock_end(0);
}

/* ---- threads that exit ------------------------------------------------- */

static void *begin_and_exit(void *unused)
{
	(void)unused;
	memory_section_begin();
	memory_section_begin();
	return NULL;
}

Test(window, memory_section_of_a_thread_that_has_exited_is_ignored)
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

/* Cancel a thread that waits to open a window or to begin a memory section. */
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
	/* The canceled thread has left nothing locked. */
	cr_assert_eq(launch_lock_open(other), COHORT_OK);
	launch_lock_close(other);
	memory_section_begin();
	memory_section_end();
	free_clique(q);
	free_clique(other);
}

Test(window, waiting_launch_window_ends_if_its_thread_is_canceled)
{
	need_cancels();
	cancel_one(true);
}

Test(window, waiting_memory_section_ends_if_its_thread_is_canceled)
{
	need_cancels();
	cancel_one(false);
}
