/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of taking stacks of threads while other threads do not answer, and of
 * the text of a stack
 */

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "support/altstack.h"
#include "support/place.h"
#include "support/silent.h"
#include "watch/stack.h"
#include "watch/symbolizer.h"

TestSuite(stack, .timeout = 60);

#define SIGNAL (SIGRTMIN + 3)

/* Copies of the limits in watch/stack.c */
#define QUESTIONS 64
#define SIGNALS 128
#define SIGNALS_EACH 2

/*
 * Number of threads that do not answer, and number of signals. The signals that
 * are sent to all of these threads reach the limit of pending signals.
 */
#define SILENT 8
#define NUMBERS (SIGNALS / SILENT / SIGNALS_EACH)

static const uint64_t soon_ns = UINT64_C(5000000);
/* may_go ends the threads that do not answer; is_over ends all others */
static atomic_bool may_go, is_over;

/* ---- threads ---------------------------------------------------------- */

struct asked {
	pthread_t thread;
	atomic_int tid; /* thread id, or 0 until the thread runs */
	atomic_bool is_silent;
	atomic_bool is_walking; /* the thread is in backtrace() */
};

static _Thread_local struct asked *self;

static void start(struct asked *a, void *(*go)(void *a))
{
	cr_assert_eq(pthread_create(&a->thread, NULL, go, a), 0);
	while (!atomic_load(&a->tid))
		sched_yield();
}

static void *spin(void *arg)
{
	self = arg;
	atomic_store(&self->tid, thread_id());
	while (!atomic_load(&is_over))
		sched_yield();
	return NULL;
}

static void end(struct asked *a)
{
	atomic_store(&is_over, true);
	pthread_join(a->thread, NULL);
}

static void *be_silent(void *arg)
{
	struct asked *a = arg;

	atomic_store(&a->tid, thread_id());
	silent_until(&a->is_silent, &may_go);
	return NULL;
}

static void start_silent(struct asked *a)
{
	place_skip_in_qemu("vfork() shares no memory");
	start(a, be_silent);
	while (!atomic_load(&a->is_silent))
		sched_yield();
}

static const char *ask_one(struct asked *a, int signo, uint64_t deadline_ns)
{
	struct stack stack = { .tid = atomic_load(&a->tid) };

	stack_take(signo, &stack, 1, deadline_ns);
	return stack.why;
}

/* Check that the thread answers with a stack. */
static void answers(struct asked *a, int signo)
{
	const char *why = ask_one(a, signo, UINT64_MAX);

	cr_assert_null(why, "%s", why);
}

static void says(const char *why, const char *text)
{
	cr_assert_not_null(why, "there is a stack, not \"%s\"", text);
	cr_assert_str_eq(why, text);
}

static bool has_handler(int signo)
{
	struct sigaction now;

	cr_assert_eq(sigaction(signo, NULL, &now), 0);
	return (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL;
}

/* ---- alternate stacks ------------------------------------------------- */

#define STEP 512

/* Spin in a function that is found by name at the top of a stack. */
__attribute__((visibility("default"), noinline)) void spinning_in_here(void);

static atomic_bool is_there;

/* libc's backtrace(), or NULL */
static int (*_Atomic walk)(void **frames, int size);

void spinning_in_here(void)
{
	atomic_store(&is_there, true);
	while (!atomic_load(&is_over))
		continue;
}

static bool is_in_there(void *place)
{
	Dl_info info;

	return dladdr(place, &info) && info.dli_sname &&
	       strcmp(info.dli_sname, "spinning_in_here") == 0;
}

struct guarded {
	pthread_t thread;
	size_t size; /* size of the thread's alternate stack */
	/* thread id, or 0 until the thread has its alternate stack */
	atomic_int tid;
};

static void *spin_on_guarded(void *arg)
{
	struct guarded *g = arg;
	void *memory = altstack_guarded(g->size);

	atomic_store(&g->tid, thread_id());
	spinning_in_here();
	altstack_remove(memory);
	return NULL;
}

static void ask_guarded(size_t size, struct stack *stack)
{
	struct guarded g = { .size = size };

	atomic_store(&is_there, false);
	atomic_store(&is_over, false);
	cr_assert_eq(pthread_create(&g.thread, NULL, spin_on_guarded, &g), 0);
	while (!atomic_load(&is_there))
		sched_yield();
	stack->tid = atomic_load(&g.tid);
	stack_take(SIGNAL, stack, 1, UINT64_MAX);
	atomic_store(&is_over, true);
	pthread_join(g.thread, NULL);
}

Test(stack, stack_handler_never_overruns_an_alternate_stack)
{
	int walked = dlsym(RTLD_DEFAULT, "_dl_find_object") ? 2 : 1;
	/* Enough for the kernel's signal frame and a handler that does
	 * nothing */
	const size_t sufficient = altstack_frame() + 1024;
	struct stack stack;
	size_t size;

	if (!altstack_frame())
		cr_skip_test("the kernel does not tell the size of signal "
		             "frames");
	walk = (int (*)(void **, int))dlsym(RTLD_NEXT, "backtrace");
	stack_prepare();
	for (size = altstack_least(); size <= ALTSTACK_LARGEST; size += STEP) {
		ask_guarded(size, &stack);
		if (size < sufficient) {
			cr_assert_str_eq(stack.why, ALTSTACK_TOO_SMALL, "%zu",
			                 size);
			continue;
		}
		cr_assert_null(stack.why, "%zu: %s", size, stack.why);
		/* On a small alternate stack, the unwinder has no room, so only
		 * the frame of the interrupted function is found. */
		cr_assert_geq(stack.count,
		              size < ALTSTACK_LARGEST - 8192 ? 1 : walked,
		              "%zu", size);
		cr_assert(is_in_there(stack.frames[0]), "%zu", size);
	}
}

/* ---- threads that take stacks ------------------------------------------ */

static void *ask_the_silent(void *arg)
{
	answers(arg, SIGNAL);
	return NULL;
}

Test(stack, stack_is_refused_while_another_stack_is_being_taken)
{
	struct asked silent = { 0 }, spinning = { 0 };
	pthread_t asker;

	start_silent(&silent);
	start(&spinning, spin);
	pthread_create(&asker, NULL, ask_the_silent, &silent);
	/* The requesting thread holds the lock until the silent thread has
	 * answered. */
	while (!has_handler(SIGNAL))
		sched_yield();
	says(ask_one(&spinning, SIGNAL, clock_now() + soon_ns),
	     "another request is taking stacks");
	atomic_store(&may_go, true);
	pthread_join(asker, NULL);
	pthread_join(silent.thread, NULL);
	answers(&spinning, SIGNAL);
	end(&spinning);
	cr_assert_not(has_handler(SIGNAL));
}

/* ---- limit of pending signals ----------------------------------------- */

static void send_to_all(struct asked silent[SILENT], int signo)
{
	struct stack stacks[SILENT];
	int i;

	for (i = 0; i < SILENT; i++)
		stacks[i].tid = atomic_load(&silent[i].tid);
	stack_take(signo, stacks, SILENT, 0);
	for (i = 0; i < SILENT; i++)
		says(stacks[i].why, "the thread does not answer");
}

Test(stack, stack_is_refused_if_too_many_signals_are_pending)
{
	struct asked silent[SILENT] = { 0 }, spinning = { 0 };
	int i, k;

	start(&spinning, spin);
	for (i = 0; i < SILENT; i++)
		start_silent(&silent[i]);
	for (k = 0; k < NUMBERS * SIGNALS_EACH; k++)
		send_to_all(silent, SIGNAL + k / SIGNALS_EACH);
	says(ask_one(&spinning, SIGNAL, UINT64_MAX),
	     "too many threads have not answered");
	/* A signal that is pending for a thread can be sent to it again. */
	says(ask_one(&silent[0], SIGNAL, 0), "the thread does not answer");
	atomic_store(&may_go, true);
	for (i = 0; i < SILENT; i++)
		pthread_join(silent[i].thread, NULL);
	answers(&spinning, SIGNAL);
	end(&spinning);
}

/* ---- limit of answering threads --------------------------------------- */

static atomic_bool holds;

/* Replaces libc's backtrace(), which is called only if a test has set walk. */
int backtrace(void **frames, int size)
{
	if (!atomic_load(&holds) || !self)
		return walk ? walk(frames, size) : 0;
	atomic_store(&self->is_walking, true);
	while (atomic_load(&holds))
		sched_yield();
	atomic_store(&self->is_walking, false);
	return 0;
}

/* Wait until the thread blocks inside backtrace(). */
static void hold(struct asked *a)
{
	while (!atomic_load(&a->is_walking))
		cr_assert_not_null(ask_one(a, SIGNAL, clock_now() + soon_ns));
}

Test(stack, stack_is_refused_if_too_many_handlers_are_running)
{
	struct asked walking[QUESTIONS] = { 0 }, spinning = { 0 };
	const char *why;
	int i;

	if (!dlsym(RTLD_DEFAULT, "_dl_find_object"))
		cr_skip_test("the unwinder of this machine is not used");
	stack_prepare();
	start(&spinning, spin);
	for (i = 0; i < QUESTIONS; i++)
		start(&walking[i], spin);
	atomic_store(&holds, true);
	for (i = 0; i < QUESTIONS; i++)
		hold(&walking[i]);
	says(ask_one(&spinning, SIGNAL, UINT64_MAX),
	     "too many threads have not answered");
	atomic_store(&holds, false);
	/* A stack can be requested again once the first of these threads has
	 * answered. */
	while ((why = ask_one(&spinning, SIGNAL, UINT64_MAX)))
		says(why, "too many threads have not answered");
	end(&spinning);
	for (i = 0; i < QUESTIONS; i++)
		end(&walking[i]);
}

/* ---- the text --------------------------------------------------------- */

/* Functions of the program that must be found by name */
#define FUNCTION_NAMED(name, n)                                                \
	__attribute__((visibility("default"), noinline)) int name(void);       \
	int name(void)                                                         \
	{                                                                      \
		static volatile int number = n;                                \
                                                                               \
		return number;                                                 \
	}
#define FUNCTION(n) FUNCTION_NAMED(f##n, n)

FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
FUNCTION(5)
FUNCTION(6)
FUNCTION(7)
FUNCTION(8)
FUNCTION(9)

/* Parts of a function name of 100 bytes */
#define REST_A "_of_a_name_that_is_as_long_as_those_that_compiler"
#define REST_B "s_make_of_templates_and_of_namespaces_in_cplusplu"
#define LONG(n)                                                                \
	f##n##_of_a_name_that_is_as_long_as_those_that_compiler##s_make_of_templates_and_of_namespaces_in_cplusplu
#define FUNCTION_LONG(n) FUNCTION_NAMED(LONG(n), 100 + n)

FUNCTION_LONG(1)
FUNCTION_LONG(2)
FUNCTION_LONG(3)
FUNCTION_LONG(4)
FUNCTION_LONG(5)
FUNCTION_LONG(6)
FUNCTION_LONG(7)
FUNCTION_LONG(8)

/* Add a frame four bytes into @function. The first frame is an exact address.
 * All others are return addresses, which are one byte higher. */
static void call_from(struct stack *stack, void *function)
{
	cr_assert_not_null(function);
	stack->frames[stack->count] = (char *)function + 4 + !!stack->count;
	stack->count++;
}

/* Find the names of all frames that a symbol table has. */
static void name(const struct stack *stack, struct stack_report *reported)
{
	static struct places places;

	symbolizer_map(&places, stack, 1);
	places_name(&places);
	symbolizer_name(&places, stack, reported, SYMBOLIZER_FUNCTIONS);
}

static void call_from_libc(struct stack *stack, const char *name)
{
	/* Use libc's function, not the sanitizer's. */
	call_from(stack,
	          dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), name));
}

static void call_from_nine(struct stack *stack)
{
	int (*const functions[])(void) = { f1, f2, f3, f4, f5, f6, f7, f8, f9 };
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		call_from(stack, (void *)functions[i]);
}

Test(stack, stack_text_starts_at_the_programs_first_function)
{
	struct stack stack = { 0 };
	struct stack_report reported;
	int i;

	/* Add more frames of libc than any real stack has. */
	for (i = 0; i < STACK_FRAMES - 12; i++)
		call_from_libc(&stack, i % 2 ? "nanosleep" : "syscall");
	call_from_nine(&stack);
	call_from_libc(&stack, "qsort");
	name(&stack, &reported);
	cr_assert_str_eq(reported.brief, "f1+0x4 < f2+0x4 < f3+0x4 < f4+0x4 < "
	                                 "f5+0x4 < f6+0x4 < f7+0x4 < f8+0x4");
	cr_assert_str_eq(reported.text, "f1+0x4 < f2+0x4 < f3+0x4 < f4+0x4 < "
	                                "f5+0x4 < f6+0x4 < f7+0x4 < f8+0x4 < "
	                                "f9+0x4 < qsort+0x4");
}

Test(stack, stack_text_keeps_library_functions_that_call_back)
{
	struct stack stack = { 0 };
	struct stack_report reported;

	call_from(&stack, (void *)f1);
	call_from_libc(&stack, "qsort");
	call_from(&stack, (void *)f2);
	name(&stack, &reported);
	cr_assert_str_eq(reported.text, "f1+0x4 < qsort+0x4 < f2+0x4");
}

Test(stack, stack_text_without_program_functions_is_complete)
{
	struct stack stack = { 0 };
	struct stack_report reported;

	call_from_libc(&stack, "syscall");
	call_from_libc(&stack, "qsort");
	name(&stack, &reported);
	cr_assert_str_eq(reported.text, "syscall+0x4 < qsort+0x4");
}

Test(stack, stack_text_has_eight_program_frames_and_all_between_them)
{
	struct stack stack = { 0 };
	struct stack_report reported;

	call_from(&stack, (void *)f1);
	call_from_libc(&stack, "qsort");
	call_from(&stack, (void *)f2);
	call_from_libc(&stack, "qsort");
	call_from_libc(&stack, "syscall");
	call_from_nine(&stack);
	name(&stack, &reported);
	cr_assert_str_eq(reported.brief,
	                 "f1+0x4 < qsort+0x4 < f2+0x4 < qsort+0x4 < "
	                 "syscall+0x4 < f1+0x4 < "
	                 "f2+0x4 < f3+0x4 < f4+0x4 < f5+0x4 < f6+0x4");
}

Test(stack, stack_text_has_room_for_eight_long_names)
{
	int (*const functions[])(void) = { LONG(1), LONG(2), LONG(3), LONG(4),
		                           LONG(5), LONG(6), LONG(7), LONG(8) };
	struct stack stack = { 0 };
	struct stack_report reported;
	char wanted[1000] = "";
	struct text t = { wanted, sizeof(wanted) };
	int i;

	for (i = 0; i < 8; i++) {
		call_from(&stack, (void *)functions[i]);
		text_add(&t, "%sf%d" REST_A REST_B "+0x4", i ? " < " : "",
		         i + 1);
	}
	name(&stack, &reported);
	cr_assert_str_eq(reported.brief, wanted);
}

Test(stack, stack_text_cuts_its_longest_names_if_room_is_short)
{
	char text[100] = "";
	struct text t = { text, sizeof(text) };

	symbolizer_add(&t,
	               "f1 < f2_is_longer_than_its_share < f3_is_not < "
	               "f4_is_too_long_as_well",
	               54);
	text_add(&t, ".");
	cr_assert_str_eq(
		text,
		"f1 < f2_is_longer_t... < f3_is_not < f4_is_too_long....");
}
