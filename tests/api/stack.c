/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stacks in verdicts: the function that the thread of a missing rank is in
 *
 * In each test rank 1 goes somewhere else instead of making its next
 * collective, says so, and comes back when the group has ended.
 */

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/thread.h"
#include "support/ranks.h"
#include "support/silent.h"
#include "support/spread.h"
#include "watch/stack.h"

static void in_one_process(void)
{
	spread_not("stacks are of a process's own ranks");
}

TestSuite(stack, .init = in_one_process, .timeout = 60);

#define MS UINT64_C(1000000)
#define SIGNAL (SIGRTMIN + 3)

/* Must be found by its name, and on the stack. */
#define PLACE __attribute__((visibility("default"), noinline))

PLACE int go_there(struct cohort_comm *c, void *user);
PLACE void asleep_in_here(void);
PLACE void spinning_in_here(void);
PLACE void blocking_the_signal(void);

static struct cohort_cause cause;
static int32_t values[3];
static atomic_bool is_there, may_go;
static char told[1200];
static const char *dumps = ""; /* directory for dumps */

static int keep_stack(const struct cohort_verdict *v, void *user)
{
	(void)user;
	snprintf(told, sizeof(told), "%s", v->ranks[1].stack);
	/* Before the abort is complete, because that may take memory. */
	atomic_store(&may_go, true);
	return 0;
}

static const struct cohort_deadlines patient = { .join_ns = RANKS_SOON,
	                                         .exec_ns = RANKS_SOON };

/* Rank 0 waits up to the cause, once rank 1 is in @user. */
int go_there(struct cohort_comm *c, void *user)
{
	void (*place)(void) = *(void (**)(void))user;
	int rank = cohort_comm_rank(c);

	/* On a busy machine a thread may start late. */
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
 * On a busy machine a thread may not answer in time, or its names may not be
 * found in time: try again, but not for ever.
 */
#define ATTEMPTS 30

static bool is_late(const char *stack)
{
	return strstr(stack, "no names in time") ||
	       strstr(stack, "it does not answer") ||
	       strstr(stack, "no thread of the library is free") ||
	       strstr(stack, "names are still being looked up");
}

static void stall_once(void (*place)(void), int signal)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	atomic_store(&is_there, false);
	atomic_store(&may_go, false);
	*told = '\0';
	cohort_group_options_init(&o);
	o.deadlines.join_ns = 100 * MS;
	o.warn_percent = 100;
	o.stack_signal = signal;
	o.on_verdict = keep_stack;
	o.dump_directory = dumps;
	group = ranks_open(2, &o);
	cr_assert_eq(cohort_group_run(group, worker, &place, &cause),
	             COHORT_STALLED, "%s", cohort_last_error());
	cr_assert_eq(cause.rank, 1, "%s", cause.details);
	cr_assert_eq(cohort_group_close(group), COHORT_OK, "%s",
	             cohort_last_error());
}

static void stall(void (*place)(void), int signal)
{
	int i;

	stall_once(place, signal);
	for (i = 1; i < ATTEMPTS && is_late(told); i++)
		stall_once(place, signal);
}

static void says(const char *text)
{
	cr_assert_not_null(strstr(cause.details, text), "\"%s\" is not in %s",
	                   text, cause.details);
}

static void is_default(int signal)
{
	struct sigaction now;

	sigaction(signal, NULL, &now);
	cr_assert(now.sa_handler == SIG_DFL);
}

/* ---- places ----------------------------------------------------------- */

/* Woken by the signal, and then asleep again. */
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

Test(stack, of_a_thread_that_sleeps_names_its_function)
{
	stall(asleep_in_here, SIGNAL);
	/* AddressSanitizer has a function of its own in between. */
#ifndef __SANITIZE_ADDRESS__
	says("\nwhere  asleep_in_here+0x");
	cr_assert_eq(told, strstr(told, "asleep_in_here+0x"), "%s", told);
#endif
	cr_assert_not_null(strstr(told, "asleep_in_here+0x"), "%s", told);
	cr_assert_not_null(strstr(told, " < go_there"), "%s", told);
	is_default(SIGNAL);
}

Test(stack, of_a_thread_that_spins_names_its_function)
{
	stall(spinning_in_here, SIGNAL);
	says("\nwhere  spinning_in_here+0x");
	says(" is running\n");
}

Test(stack, is_absent_if_it_is_not_wanted)
{
	stall(asleep_in_here, 0);
	cr_assert_null(strstr(cause.details, "where"), "%s", cause.details);
	cr_assert_str_eq(told, "");
	says("\" is "); /* asleep, or about to be */
}

Test(stack, of_a_thread_that_blocks_the_signal_is_unavailable)
{
	stall(blocking_the_signal, SIGNAL);
	says("\nwhere  stack unavailable: it blocks the signal");
	cr_assert_str_eq(told, "stack unavailable: it blocks the signal");
	says("\" is "); /* asleep, or about to be */
}

static atomic_int handled;

static void users_own(int signo)
{
	(void)signo;
	handled++;
}

Test(stack, never_replaces_a_handler)
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

/* The signal wakes this thread, and the worker returns. */
static void napping_in_here(void)
{
	const struct timespec long_after = { .tv_sec = 60 };

	atomic_store(&is_there, true);
	nanosleep(&long_after, NULL);
}

Test(stack, of_a_woken_thread_is_that_of_the_bound_thread)
{
	int i;

	for (i = 0; i < ATTEMPTS; i++) {
		stall_once(napping_in_here, SIGNAL);
		says("rank 1 has ");
		cr_assert_null(strstr(cause.details, "last seen"), "%s",
		               cause.details);
	}
}

/* A function that only the file's symbol table has. */
static __attribute__((noinline)) void hidden_in_here(void)
{
	spinning_in_here();
}

Test(stack, functions_that_are_not_exported_are_named)
{
	stall(hidden_in_here, SIGNAL);
	cr_assert_not_null(strstr(told, "spinning_in_here+0x"), "%s", told);
	/* A compiler that makes a jump of the call leaves no frame. */
	cr_assert_not_null(strstr(told, " < hidden_in_here+0x"), "%s", told);
}

/* ---- other threads ---------------------------------------------------- */

static atomic_bool holder_is_there, holder_may_go;

/* Hold a lock, as it were: this thread is of no rank. */
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

/* The merged dump of a stall beside a thread that is in holding_in_here(). */
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

/* True if the dump has the stack of the thread, and the verdict in it a row with that. */
static bool has_holder(const char *dump)
{
	static const char row[] = "\\u000athread ";
	const char *at = dump, *found;
	bool is_told = false;

	while ((at = strstr(at, row))) {
		at += strlen(row);
		found = strstr(at, "holding_in_here+0x");
		is_told |= found && found - at < 200; /* in this row */
	}
	return is_told && strstr(dump, "{\"rank\":null,\"tid\":");
}

Test(stack, of_other_threads_is_in_the_dump_if_all_are_asked)
{
	const char *dump = dump_beside(hold, SIGNAL | COHORT_STACK_ALL);
	int i;

	for (i = 1; i < ATTEMPTS && !has_holder(dump); i++)
		dump = dump_beside(hold, SIGNAL | COHORT_STACK_ALL);
	cr_assert(has_holder(dump), "%s", dump);
	/* Of the library's own threads there is none. */
	cr_assert_null(strstr(dump, "/watch\""));
	cr_assert_null(strstr(dump, "/names\""));
	is_default(SIGNAL);
}

Test(stack, of_other_threads_is_not_taken_unless_it_is_wanted)
{
	const char *dump = dump_beside(hold, SIGNAL);

	cr_assert_not_null(strstr(dump, "\"stacks\":[{\"rank\":1,"), "%s",
	                   dump);
	cr_assert_null(strstr(dump, "{\"rank\":null,\"tid\":"), "%s", dump);
}

Test(stack, of_a_thread_that_blocks_the_signal_is_left_out)
{
	const char *dump =
		dump_beside(hold_silently, SIGNAL | COHORT_STACK_ALL);

	cr_assert_not_null(strstr(dump, "\"stacks\":[{\"rank\":1,"), "%s",
	                   dump);
	cr_assert_null(strstr(dump, "holding_in_here"), "%s", dump);
}

Test(stack, of_all_threads_needs_a_signal)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.stack_signal = COHORT_STACK_ALL;
	cr_assert_eq(cohort_group_open(NULL, 0, &o, &group), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(),
	                          "with or without COHORT_STACK_ALL"));
	o.stack_signal = SIGUSR1 | COHORT_STACK_ALL;
	cr_assert_eq(cohort_group_open(NULL, 0, &o, &group), COHORT_INVALID);
}

/* ---- threads that do not answer --------------------------------------- */

static atomic_int times_told;
static int signals_of_others;
static char of_second_rank[1200];

/* Told twice; the program sends that signal to itself in between. */
static int keep_two(const struct cohort_verdict *v, void *user)
{
	int i;

	(void)user;
	if (v->stage != COHORT_STAGE_EXPIRED)
		return 0;
	keep(told, v->ranks[1].stack);
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

	atomic_store(&is_there, false);
	atomic_store(&may_go, false);
	times_told = 0;
	*told = *of_second_rank = '\0';
	cohort_group_options_init(&o);
	o.policy = COHORT_POLICY_REPORT;
	o.deadlines.join_ns = 200 * MS;
	o.stack_signal = SIGNAL;
	o.on_verdict = keep_two;
	group = ranks_open(3, &o);
	cr_assert_eq(cohort_group_run(group, go_two, NULL, &cause), COHORT_OK,
	             "%s", cause.text);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(stack, of_others_is_reported_if_one_does_not_answer)
{
	int i;

	stall_two();
	for (i = 1; i < ATTEMPTS && is_late(of_second_rank); i++)
		stall_two();
	cr_assert_str_eq(told, "stack unavailable: it does not answer");
	cr_assert_not_null(strstr(of_second_rank, "asleep_in_here+0x"), "%s",
	                   of_second_rank);
}

Test(stack, handler_is_removed_even_after_a_late_answer)
{
	stall_two();
	is_default(SIGNAL);
}

Test(stack, ignores_signals_that_others_send)
{
	signals_of_others = 2;
	stall_two();
	is_default(SIGNAL);
}

/* ---- alternate stacks ------------------------------------------------- */

#define LARGEST 32768
#define STEP 512
#define PAGE 4096
#define TOO_SMALL "its alternate signal stack is too small"

/* The least that the kernel needs, and may write. */
static size_t least_stack_size(void)
{
	size_t frame = (size_t)getauxval(51 /* AT_MINSIGSTKSZ */);

	return frame > 2048 ? frame : 2048;
}

/* The kernel's part, and what a handler that does nothing needs. */
static size_t sufficient_stack_size(void)
{
	return (size_t)getauxval(51) + 1024;
}

/* A stack whose memory below cannot be written. */
static void *guarded_stack(size_t size)
{
	char *memory = mmap(NULL, PAGE + LARGEST, PROT_NONE,
	                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_sp = memory + PAGE, .ss_size = size };

	cr_assert_neq((void *)memory, MAP_FAILED);
	mprotect(memory + PAGE, LARGEST, PROT_READ | PROT_WRITE);
	cr_assert_eq(sigaltstack(&stack, NULL), 0);
	return memory;
}

static void no_stack(void *memory)
{
	sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
	munmap(memory, PAGE + LARGEST);
}

struct guarded {
	size_t size;
	atomic_int tid; /* 0: not there yet */
};

static bool is_in_there(void *place)
{
	Dl_info info;

	return dladdr(place, &info) && info.dli_sname &&
	       strcmp(info.dli_sname, "spinning_in_here") == 0;
}

static void *spin_on_guarded(void *arg)
{
	struct guarded *g = arg;
	void *memory = guarded_stack(g->size);

	atomic_store(&g->tid, thread_id());
	spinning_in_here();
	no_stack(memory);
	return NULL;
}

static void ask_guarded(size_t size, struct stack *stack)
{
	struct guarded g = { .size = size };
	pthread_t thread;

	atomic_store(&is_there, false);
	atomic_store(&may_go, false);
	cr_assert_eq(pthread_create(&thread, NULL, spin_on_guarded, &g), 0);
	while (!atomic_load(&is_there))
		sched_yield();
	stack->tid = atomic_load(&g.tid);
	stack_take(SIGNAL, stack, 1, UINT64_MAX);
	atomic_store(&may_go, true);
	pthread_join(thread, NULL);
}

Test(stack, handler_never_overruns_an_alternate_stack)
{
	int walked = dlsym(RTLD_DEFAULT, "_dl_find_object") ? 2 : 1;
	struct stack stack;
	size_t size;

	stack_prepare();
	for (size = least_stack_size(); size <= LARGEST; size += STEP) {
		ask_guarded(size, &stack);
		if (size < sufficient_stack_size()) {
			cr_assert_str_eq(stack.why, TOO_SMALL, "%zu", size);
			continue;
		}
		cr_assert_null(stack.why, "%zu: %s", size, stack.why);
		/* Only the place itself, where the unwinder has no room. */
		cr_assert_geq(stack.count, size < LARGEST - 8192 ? 1 : walked,
		              "%zu", size);
		cr_assert(is_in_there(stack.frames[0]), "%zu", size);
	}
}

/* Like a runtime that starts threads of its own: before any call. */
static int go_guarded(struct cohort_comm *c, void *user)
{
	void *memory = guarded_stack(least_stack_size());
	int rc = go_there(c, user);

	no_stack(memory);
	return rc;
}

Test(stack, of_a_thread_with_a_small_alternate_stack_is_unavailable)
{
	worker = go_guarded;
	stall(spinning_in_here, SIGNAL);
	says("\nwhere  stack unavailable: " TOO_SMALL);
	cr_assert_str_eq(told, "stack unavailable: " TOO_SMALL);
}

/* ---- several verdicts ------------------------------------------------- */

static atomic_int round_number;
static char of_first[1200], of_second[2][1200], warned[1200];

/* First rank 1 is missing, then rank 0. */
static int keep_both(const struct cohort_verdict *v, void *user)
{
	int i;

	(void)user;
	if (v->stage == COHORT_STAGE_WARNING && atomic_load(&round_number))
		keep(warned, v->ranks[1].stack);
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
	*of_first = *of_second[0] = *of_second[1] = *warned = '\0';
	cohort_group_options_init(&o);
	o.policy = COHORT_POLICY_REPORT;
	o.deadlines.join_ns = 200 * MS;
	o.stack_signal = SIGNAL;
	o.on_verdict = keep_both;
	group = ranks_open(2, &o);
	cr_assert_eq(cohort_group_run(group, go_in_turn, NULL, &cause),
	             COHORT_OK, "%s", cause.text);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(stack, of_one_verdict_is_not_repeated_in_the_next)
{
	int i;

	stall_in_turn();
	for (i = 1; i < ATTEMPTS && (is_late(of_first) || is_late(*of_second));
	     i++)
		stall_in_turn();
	cr_assert_not_null(strstr(of_first, "asleep_in_here"), "%s", of_first);
	cr_assert_not_null(strstr(of_second[0], "spinning_in_here"), "%s",
	                   of_second[0]);
	cr_assert_str_eq(of_second[1], "none");
	if (*warned)
		cr_assert_str_eq(warned, "none");
}

Test(stack, takes_only_a_real_time_signal)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.stack_signal = SIGUSR1;
	cr_assert_eq(cohort_group_open(NULL, 2, &o, &group), COHORT_INVALID);
	cr_assert_not_null(
		strstr(cohort_last_error(), "options->stack_signal is 10"));
}
