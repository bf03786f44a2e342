/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests whose groups span several processes, for Criterion suites
 *
 * The other processes are forked before the test begins, and are not connected
 * to Criterion's runner. So this file replaces the functions with which a test
 * reports to the runner. In the other processes, these functions print a
 * failure and end the process.
 */

#include "support/spread.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/place.h"

#define MOST 8 /* maximum number of processes */
#define ROOM ((size_t)1 << 30)
#define PAGE ((size_t)4096)

/* Number of this process. Criterion has started process 0. */
static int process;
static pid_t others[MOST];

int spread_processes(void)
{
	const char *value = getenv("TEST_PROCESSES");
	int n = value ? atoi(value) : 1;

	return n < 1 ? 1 : n > MOST ? MOST : n;
}

int spread_first(int n)
{
	return n * process / spread_processes();
}

int spread_end(int n)
{
	return n * (process + 1) / spread_processes();
}

/* ---- memory that the processes share ------------------------------------ */

static char *room, *room_end;

/*
 * Bounds of the shared variables, defined by the linker. The processes also
 * share the rest of the last page, which can contain Criterion's constant
 * descriptions of the tests, but nothing of .bss.
 */
extern char __start_spread_shared[], __stop_spread_shared[], __bss_start[];

/* Creates the section of shared variables in suites that have none */
SPREAD_SHARED static char unused __attribute__((used));

static size_t pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void *must_map(void *at, size_t bytes, int flags)
{
	void *memory =
		mmap(at, bytes, PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static void share(void)
{
	const size_t bytes =
		pages((size_t)(__stop_spread_shared - __start_spread_shared));
	void *copy = malloc(bytes);

	if (!copy || __start_spread_shared + bytes > __bss_start)
		abort();
	memcpy(copy, __start_spread_shared, bytes);
	must_map(__start_spread_shared, bytes, MAP_FIXED);
	memcpy(__start_spread_shared, copy, bytes);
	free(copy);
	room = must_map(NULL, ROOM, 0);
	room_end = room + ROOM;
}

void *spread_alloc(size_t bytes)
{
	char *memory = room ? room : calloc(1, bytes);

	bytes = pages(bytes);
	if (!memory || (room && bytes > (size_t)(room_end - room)))
		abort();
	if (room)
		room += bytes;
	return memory;
}

void spread_free(void *memory)
{
	if (!room)
		free(memory);
}

void spread_wait(struct spread_barrier *barrier, int n)
{
	const unsigned all = (unsigned)n;
	const unsigned end =
		(atomic_fetch_add(&barrier->arrived, 1) / all + 1) * all;

	while ((int)(atomic_load(&barrier->arrived) - end) < 0)
		sched_yield();
}

void spread_not(const char *why)
{
	if (spread_processes() > 1)
		place_skip(why);
}

/* ---- the other processes ---------------------------------------------- */

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void start_others(void)
{
	int i;

	if (spread_processes() == 1)
		return;
	share();
	set_number("COHORT_JOB", (int)getpid());
	set_number("COHORT_PROCESSES", spread_processes());
	setenv("COHORT_HOST_SHARED", "1", 1);
	for (i = 1; i < spread_processes() && process == 0; i++) {
		others[i] = fork();
		if (others[i] < 0)
			abort();
		if (others[i] == 0)
			process = i;
	}
	set_number("COHORT_PROCESS", process);
	if (process > 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void end_others(void)
{
	int i, status;

	for (i = 1; i < spread_processes() && others[i]; i++) {
		cr_assert_eq(waitpid(others[i], &status, 0), others[i]);
		cr_assert_eq(status, 0, "process %d ended with status %#x", i,
		             (unsigned)status);
	}
}

static _Noreturn void end_this(int status)
{
	fflush(NULL);
	_exit(status);
}

/* ---- replacements of Criterion's functions ------------------------------ */

#define CRITERIONS(function)                                                   \
	((__typeof__(&(function)))dlsym(RTLD_NEXT, #function))

typedef void (*fixture_fn)(void);

/* Run the test's own fixture, or its suite's fixture if it has none. */
static void run_fixture(fixture_fn of_test, fixture_fn of_suite)
{
	if (of_test)
		of_test();
	else if (of_suite)
		of_suite();
}

static void (*own_body)(void *param);

/* Criterion passes a parameter only to parameterized tests. */
static void body_and_others(void *param)
{
	own_body(param);
	end_others();
}

void criterion_internal_test_setup(void)
{
	const struct criterion_test_extra_data *suite =
		criterion_current_suite->data;

	start_others();
	if (process == 0)
		CRITERIONS(criterion_internal_test_setup)();
	else
		run_fixture(criterion_current_test->data->init,
		            suite ? suite->init : NULL);
}

void criterion_internal_test_main(void (*body)(void))
{
	if (process > 0) {
		body();
		return;
	}
	own_body = (void (*)(void *))body;
	CRITERIONS(criterion_internal_test_main)
	((void (*)(void))body_and_others);
}

void criterion_internal_test_teardown(void)
{
	const struct criterion_test_extra_data *suite =
		criterion_current_suite->data;

	if (process > 0) {
		run_fixture(criterion_current_test->data->fini,
		            suite ? suite->fini : NULL);
		end_this(0);
	}
	CRITERIONS(criterion_internal_test_teardown)();
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (process > 0 && !stats->passed) {
		fprintf(stderr, "process %d: %s:%u: %s\n", process, stats->file,
		        stats->line, stats->message);
		end_this(1);
	}
	if (process == 0)
		CRITERIONS(criterion_send_assert)(stats);
}

void criterion_skip_test(const char *format, ...)
{
	char why[256];
	va_list args;

	if (process > 0)
		end_this(0);
	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	CRITERIONS(criterion_skip_test)("%s", why);
	__builtin_unreachable();
}
