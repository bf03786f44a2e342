/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of stacks in verdicts, which name the function that the thread of a
 * missing rank is in
 *
 * In each test, rank 1 calls a function in place of its next collective. It
 * reports that it is inside, and returns after the group has ended.
 */

#include <criterion/criterion.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/altstack.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/ranks.h"
#include "support/silent.h"
#include "support/spread.h"

static void in_one_process(void)
{
	spread_not("stacks are of a process's own ranks");
}

TestSuite(stack, .init = in_one_process, .timeout = 60);

#define MS UINT64_C(1000000)
#define SIGNAL (SIGRTMIN + 3)

/* Attributes of functions that must be found by name and must be on the
 * stack */
#define PLACE __attribute__((visibility("default"), noinline))

PLACE int go_there(struct cohort_comm *c, void *user);
PLACE void asleep_in_here(void);
PLACE void spinning_in_here(void);
PLACE void blocking_the_signal(void);

static struct cohort_cause cause;
static int32_t values[3];
static atomic_bool is_there, may_go;
static char reported[1200];
static const char *dumps = ""; /* dump directory */

static int keep_stack(const struct cohort_verdict *v, void *user)
{
	(void)user;
	snprintf(reported, sizeof(reported), "%s", v->ranks[1].stack);
	/* Let rank 1 return before the abort is complete, because the lookup of
	 * names may allocate memory. */
	atomic_store(&may_go, true);
	return 0;
}

static const struct cohort_deadlines patient = { .join_ns = RANKS_SOON,
	                                         .exec_ns = RANKS_SOON };

/* On rank 1, call the function @user. On rank 0, after rank 1 is inside that
 * function, wait for rank 1 in a sum. */
int go_there(struct cohort_comm *c, void *user)
{
	void (*place)(void) = *(void (**)(void))user;
	int rank = cohort_comm_rank(c);

	/* Use a long deadline for the first sum, because a thread can start
	 * late on a busy machine. */
	ranks_must(cohort_deadline_push(c, &patient), "push");
	if (ranks_sum_wait(c, &values[rank]) != COHORT_OK)
		return 1;
	ranks_must(cohort_deadline_pop(c), "pop");
	if (rank == 1) {
		place();
		return 0;
	}
	while (!atomic_load(&is_there))
		continue;
	ranks_sum_wait(c, &values[0]);
	return 0;
}

static cohort_worker_fn worker = go_there;

/*
 * Maximum number of tries of a test. On a busy machine, a thread may not answer
 * in time, or its names may not be found in time.
 */
#define ATTEMPTS 30

static bool is_late(const char *stack)
{
	/* The library names the file of each address before its function. */
	return !strncmp(stack, "api+0x", strlen("api+0x")) ||
	       strstr(stack,
	              "the names of its functions were not found in time") ||
	       strstr(stack, "the thread does not answer") ||
	       strstr(stack, "the library has no idle thread") ||
	       strstr(stack,
	              "names of earlier stacks are still being looked up");
}

static void stall_once(void (*place)(void), int signal)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	atomic_store(&is_there, false);
	atomic_store(&may_go, false);
	*reported = '\0';
	cohort_group_options_init(&o);
	o.deadlines.join_ns = 100 * MS;
	o.stack_signal = signal;
	o.on_verdict = keep_stack;
	o.dump_directory = dumps;
	group = ranks_open(2, &o);
	cause = expect_end_of_run(group, worker, &place, COHORT_STALLED);
	cr_assert_eq(cause.rank, 1, "%s", cause.details);
	expect_close(group);
}

static void stall(void (*place)(void), int signal)
{
	int i;

	stall_once(place, signal);
	for (i = 1; i < ATTEMPTS && is_late(reported); i++)
		stall_once(place, signal);
}

static void says(const char *text)
{
	expect_text(cause.details, text);
}

static void is_default(int signal)
{
	struct sigaction now;

	sigaction(signal, NULL, &now);
	cr_assert(now.sa_handler == SIG_DFL);
}

/* ---- functions -------------------------------------------------------- */

/* Sleep until the test ends. If the signal interrupts the sleep, sleep
 * again. */
void asleep_in_here(void)
{
	struct timespec soon = { .tv_nsec = 70000000 };

	atomic_store(&is_there, true);
	while (!atomic_load(&may_go))
		nanosleep(&soon, NULL);
}

void spinning_in_here(void)
{
	atomic_store(&is_there, true);
	while (!atomic_load(&may_go))
		continue;
}

void blocking_the_signal(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	asleep_in_here();
}

/* ---- tests ------------------------------------------------------------ */

Test(stack, verdict_names_the_function_in_which_a_thread_sleeps)
{
	stall(asleep_in_here, SIGNAL);
	/* With AddressSanitizer, the innermost function belongs to the
	 * sanitizer. */
#ifndef __SANITIZE_ADDRESS__
	says("\nwhere  asleep_in_here+0x");
	cr_assert_eq(reported, strstr(reported, "asleep_in_here+0x"), "%s",
	             reported);
#endif
	expect_text(reported, "asleep_in_here+0x");
	expect_text(reported, " < go_there");
	is_default(SIGNAL);
}

Test(stack, verdict_names_the_function_in_which_a_thread_spins)
{
	stall(spinning_in_here, SIGNAL);
	says("\nwhere  spinning_in_here+0x");
	says(" is running\n");
}

Test(stack, verdict_has_no_stack_without_a_stack_signal)
{
	stall(asleep_in_here, 0);
	cr_assert_null(strstr(cause.details, "where"), "%s", cause.details);
	cr_assert_str_eq(reported, "");
	says("\" is "); /* the thread sleeps or is about to */
}

Test(stack, verdict_says_that_a_thread_blocks_the_stack_signal)
{
	stall(blocking_the_signal, SIGNAL);
	says("\nwhere  stack unavailable: the thread blocks the signal");
	cr_assert_str_eq(reported,
	                 "stack unavailable: the thread blocks the signal");
	says("\" is "); /* the thread sleeps or is about to */
}

static atomic_int handled;

static void users_own(int signo)
{
	(void)signo;
	handled++;
}

Test(stack, stack_signal_never_replaces_a_handler_of_the_program)
{
	struct sigaction action = { .sa_handler = users_own }, now;

	sigaction(SIGNAL, &action, NULL);
	stall(asleep_in_here, SIGNAL);
	says("\nwhere  stack unavailable: the program handles the signal");
	cr_assert_eq(handled, 0);
	sigaction(SIGNAL, NULL, &now);
	cr_assert(now.sa_handler == users_own);
}

static void keep(char to[1200], const char *stack)
{
	if (!*to)
		snprintf(to, 1200, "%s", *stack ? stack : "none");
}

/* Sleep, and return when the signal interrupts the sleep. */
static void napping_in_here(void)
{
	const struct timespec long_after = { .tv_sec = 60 };

	atomic_store(&is_there, true);
	nanosleep(&long_after, NULL);
}

Test(stack, stack_is_taken_even_if_its_signal_wakes_the_thread)
{
	int i;

	for (i = 0; i < ATTEMPTS; i++) {
		stall_once(napping_in_here, SIGNAL);
		says("rank 1 has ");
		cr_assert_null(strstr(cause.details, "last seen"), "%s",
		               cause.details);
	}
}

/* A function whose name is only in the symbol table of its file */
static __attribute__((noinline)) void hidden_in_here(void)
{
	spinning_in_here();
}

Test(stack, stack_names_functions_that_are_not_exported)
{
	int i;

	/* On a busy machine, the table may not be read in time. */
	for (i = 0; i < ATTEMPTS && !strstr(reported, "_in_here+0x"); i++)
		stall(hidden_in_here, SIGNAL);
	expect_text(reported, "spinning_in_here+0x");
	/* hidden_in_here() would not be on the stack if the compiler turned its
	 * call of spinning_in_here() into a jump. */
	expect_text(reported, " < hidden_in_here+0x");
}

/* ---- other threads ---------------------------------------------------- */

static atomic_bool holder_is_there, holder_may_go;

/* Spin like a thread that holds a lock. The thread belongs to no rank. */
static __attribute__((noinline)) void holding_in_here(void)
{
	atomic_store(&holder_is_there, true);
	while (!atomic_load(&holder_may_go))
		sched_yield();
}

static void *hold(void *arg)
{
	(void)arg;
	holding_in_here();
	return NULL;
}

static void *hold_silently(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	return hold(arg);
}

/* Start @thread, which enters holding_in_here(), and let a rank stall. Return
 * the text of the merged dump. */
static char *dump_beside(void *(*thread)(void *), int signal)
{
	static char text[1 << 20];
	char folder[] = "/tmp/cohort-stack-XXXXXX", path[256], rest[256];
	pthread_t holder;
	glob_t found;
	size_t n;
	FILE *f;

	atomic_store(&holder_is_there, false);
	atomic_store(&holder_may_go, false);
	pthread_create(&holder, NULL, thread, NULL);
	while (!atomic_load(&holder_is_there))
		sched_yield();
	cr_assert_not_null(mkdtemp(folder));
	dumps = folder;
	stall_once(spinning_in_here, signal);
	atomic_store(&holder_may_go, true);
	pthread_join(holder, NULL);
	snprintf(path, sizeof(path), "%s/*_merged.json", folder);
	cr_assert_eq(glob(path, 0, NULL, &found), 0);
	f = fopen(found.gl_pathv[0], "re");
	cr_assert_not_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	globfree(&found);
	snprintf(rest, sizeof(rest), "rm -r %s", folder);
	cr_assert_eq(system(rest), 0);
	return text;
}

/* Return whether the dump has the stack of the holder thread, and the verdict's
 * text in the dump has a row with that stack. */
static bool has_holder(const char *dump)
{
	static const char row[] = "\\u000athread ";
	const char *at = dump, *found;
	bool is_told = false;

	while ((at = strstr(at, row))) {
		at += strlen(row);
		found = strstr(at, "holding_in_here+0x");
		is_told |= found && found - at < 200; /* this row only */
	}
	return is_told && strstr(dump, "{\"rank\":null,\"tid\":");
}

Test(stack, dump_has_the_stacks_of_all_threads_on_request)
{
	const char *dump = dump_beside(hold, SIGNAL | COHORT_STACK_ALL);
	int i;

	for (i = 1; i < ATTEMPTS && !has_holder(dump); i++)
		dump = dump_beside(hold, SIGNAL | COHORT_STACK_ALL);
	cr_assert(has_holder(dump), "%s", dump);
	cr_assert_null(strstr(dump, "/watch\""));
	cr_assert_null(strstr(dump, "/names\""));
	is_default(SIGNAL);
}

Test(stack, dump_has_no_stacks_of_other_threads_by_default)
{
	const char *dump = dump_beside(hold, SIGNAL);

	expect_text(dump, "\"stacks\":[{\"rank\":1,");
	cr_assert_null(strstr(dump, "{\"rank\":null,\"tid\":"), "%s", dump);
}

Test(stack, dump_omits_threads_that_block_the_stack_signal)
{
	const char *dump =
		dump_beside(hold_silently, SIGNAL | COHORT_STACK_ALL);

	expect_text(dump, "\"stacks\":[{\"rank\":1,");
	cr_assert_null(strstr(dump, "holding_in_here"), "%s", dump);
}

Test(stack, stacks_of_all_threads_need_a_stack_signal)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.stack_signal = COHORT_STACK_ALL;
	cr_assert_eq(cohort_group_open(NULL, 0, &o, &group), COHORT_INVALID);
	expect_text(cohort_last_error(), "with or without COHORT_STACK_ALL");
	o.stack_signal = SIGUSR1 | COHORT_STACK_ALL;
	cr_assert_eq(cohort_group_open(NULL, 0, &o, &group), COHORT_INVALID);
}

/* ---- threads that do not answer --------------------------------------- */

static atomic_int times_told;
static int signals_of_others;
static char of_second_rank[1200];

/* Store the stacks of two reports. Between them, send the stack signal to this
 * process, as a program might. */
static int keep_two(const struct cohort_verdict *v, void *user)
{
	int i;

	(void)user;
	if (v->stage != COHORT_STAGE_EXPIRED)
		return 0;
	keep(reported, v->ranks[1].stack);
	keep(of_second_rank, v->ranks[2].stack);
	for (i = 0; !times_told && i < signals_of_others; i++)
		kill(getpid(), SIGNAL);
	if (++times_told == 2)
		atomic_store(&may_go, true);
	return 0;
}

static int go_two(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);

	(void)user;
	if (ranks_sum_wait(c, &values[rank]) != COHORT_OK)
		return 1;
	if (rank == 1)
		silent_until(&is_there, &may_go);
	else if (rank == 2)
		asleep_in_here();
	return ranks_sum_wait(c, &values[rank]);
}

static void stall_two(void)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	place_skip_in_qemu("vfork() shares no memory");
	atomic_store(&is_there, false);
	atomic_store(&may_go, false);
	times_told = 0;
	*reported = *of_second_rank = '\0';
	cohort_group_options_init(&o);
	o.policy = COHORT_POLICY_REPORT;
	o.deadlines.join_ns = 200 * MS;
	o.stack_signal = SIGNAL;
	o.on_verdict = keep_two;
	group = ranks_open(3, &o);
	expect_run_in(group, go_two, NULL);
	expect_close(group);
}

Test(stack, stacks_are_reported_even_if_one_thread_does_not_respond)
{
	int i;

	stall_two();
	for (i = 1; i < ATTEMPTS && is_late(of_second_rank); i++)
		stall_two();
	cr_assert_str_eq(reported,
	                 "stack unavailable: the thread does not answer");
	expect_text(of_second_rank, "asleep_in_here+0x");
}

Test(stack, stack_handler_is_removed_even_after_a_late_response)
{
	stall_two();
	is_default(SIGNAL);
}

Test(stack, stack_signals_from_other_senders_are_ignored)
{
	signals_of_others = 2;
	stall_two();
	is_default(SIGNAL);
}

/* ---- alternate stacks ------------------------------------------------- */

/* Call go_there() on a thread with a small alternate stack, which some runtimes
 * use. */
static int go_guarded(struct cohort_comm *c, void *user)
{
	void *memory = altstack_guarded(altstack_least());
	int rc = go_there(c, user);

	altstack_remove(memory);
	return rc;
}

Test(stack, verdict_says_that_an_alternate_stack_is_too_small)
{
	worker = go_guarded;
	stall(spinning_in_here, SIGNAL);
	says("\nwhere  stack unavailable: " ALTSTACK_TOO_SMALL);
	cr_assert_str_eq(reported, "stack unavailable: " ALTSTACK_TOO_SMALL);
}

/* ---- several verdicts ------------------------------------------------- */

static atomic_int round_number;
static char of_first[1200], of_second[2][1200], of_slow[1200];

/* Store the stacks of two verdicts. Rank 1 is missing in the first, and rank 0
 * in the second. */
static int keep_both(const struct cohort_verdict *v, void *user)
{
	int i;

	(void)user;
	if (v->stage == COHORT_STAGE_SLOW && atomic_load(&round_number))
		keep(of_slow, v->ranks[1].stack);
	if (v->stage != COHORT_STAGE_EXPIRED ||
	    v->rank != !atomic_load(&round_number))
		return 0;
	if (v->rank)
		keep(of_first, v->ranks[1].stack);
	for (i = 0; !v->rank && i < 2; i++)
		keep(of_second[i], v->ranks[i].stack);
	atomic_store(&may_go, true);
	return 0;
}

static int go_in_turn(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);

	(void)user;
	if (ranks_sum_wait(c, &values[rank]) != COHORT_OK)
		return 1;
	if (rank == 1)
		asleep_in_here();
	if (ranks_sum_wait(c, &values[rank]) != COHORT_OK)
		return 1;
	if (rank == 0) {
		atomic_store(&may_go, false);
		atomic_store(&round_number, 1);
		spinning_in_here();
	}
	return ranks_sum_wait(c, &values[rank]);
}

static void stall_in_turn(void)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	atomic_store(&round_number, 0);
	atomic_store(&may_go, false);
	*of_first = *of_second[0] = *of_second[1] = *of_slow = '\0';
	cohort_group_options_init(&o);
	o.policy = COHORT_POLICY_REPORT;
	o.deadlines.join_ns = 200 * MS;
	o.stack_signal = SIGNAL;
	o.on_verdict = keep_both;
	o.slow_ns = 100 * MS;
	group = ranks_open(2, &o);
	expect_run_in(group, go_in_turn, NULL);
	expect_close(group);
}

Test(stack, verdict_does_not_repeat_stacks_of_the_last_one)
{
	int i;

	stall_in_turn();
	for (i = 1; i < ATTEMPTS && (is_late(of_first) || is_late(*of_second));
	     i++)
		stall_in_turn();
	expect_text(of_first, "asleep_in_here");
	expect_text(of_second[0], "spinning_in_here");
	cr_assert_str_eq(of_second[1], "none");
	if (*of_slow)
		cr_assert_str_eq(of_slow, "none");
}

Test(stack, stack_signal_must_be_a_real_time_signal)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.stack_signal = SIGUSR1;
	cr_assert_eq(cohort_group_open(NULL, 2, &o, &group), COHORT_INVALID);
	expect_text(cohort_last_error(), "options->stack_signal is 10");
}
