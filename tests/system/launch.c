/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks that each process of cohort launch is notified, once, of every other
 * process that ends
 *
 *  launch ends    process 0 is killed, process 1 exits without finalizing,
 *                 process 2 finalizes, and process 3 exits without having been
 *                 a client; all other processes are notified of each end
 *  launch abort   the last process ends process 1 by PMIx_Abort(), and
 *                 continues to run
 *  launch lives F no process is notified while these two continue to run:
 *                 process 0, two of whose children are clients that end, and
 *                 process 1, which finalizes; the processes create files in
 *                 directory F
 *
 * The program prints one line for each event. It uses nothing of the library
 * but the table of libpmix's functions.
 */

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "processes/pmix_abi.h"

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "launch.c:%d: %s; process %d\n",       \
			        __LINE__, #condition, number);                 \
			exit(1);                                               \
		}                                                              \
	} while (0)

enum { MOST = 16, SECONDS = 60 };

static int number, count;

/*
 * Atomic. Number of events about each process, and number of events about no
 * process or another job.
 */
static atomic_int events[MOST];
static atomic_int wrong;

static atomic_bool is_registered;

static void *find(const char *name)
{
	static void *library;
	void *function;

	if (!library)
		library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	function = dlsym(library, name);
	CHECK(function);
	return function;
}

#define CALL(name, type) ((type)find(#name))

static struct pmix_proc own;

static bool any_code; /* any exit code is accepted */

/* Return the exit code of process @i. */
static int code_of(int i)
{
	return i == 2 || i == 3 ? PMIX_ABI_EVENT_PROC_TERMINATED
	                        : PMIX_ABI_ERR_PROC_TERM_WO_SYNC;
}

static void on_event(size_t id, int code, const struct pmix_proc *source,
                     struct pmix_info *info, size_t n,
                     struct pmix_info *results, size_t n_results,
                     pmix_event_done done, void *arg)
{
	const struct pmix_proc *affected = NULL;
	size_t i;

	(void)id, (void)source, (void)results, (void)n_results;
	for (i = 0; i < n; i++)
		if (strcmp(info[i].key, PMIX_ABI_EVENT_AFFECTED_PROC) == 0 &&
		    info[i].value.type == PMIX_ABI_PROC)
			affected = info[i].value.data.proc;
	if (affected && affected->rank < (uint32_t)count &&
	    strcmp(affected->nspace, own.nspace) == 0 &&
	    (any_code || code == code_of((int)affected->rank))) {
		if (atomic_fetch_add(&events[affected->rank], 1) == 0)
			printf("process %d: %u, event %d\n", number,
			       affected->rank, code);
		fflush(stdout);
	} else {
		fprintf(stderr, "process %d: event %d\n", number, code);
		atomic_fetch_add(&wrong, 1);
	}
	done(0, NULL, 0, NULL, NULL, arg);
}

static void on_registered(int status, size_t id, void *arg)
{
	(void)id, (void)arg;
	if (status == PMIX_ABI_SUCCESS)
		atomic_store(&is_registered, true);
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

static void await(atomic_int *value, int least)
{
	const time_t until = time(NULL) + SECONDS;

	while (atomic_load(value) < least && time(NULL) < until)
		nap();
	CHECK(atomic_load(value) >= least);
}

static void fence(const struct pmix_proc *procs, size_t n)
{
	CHECK(CALL(PMIx_Fence, int (*)(const struct pmix_proc *, size_t,
	                               const struct pmix_info *,
	                               size_t))(procs, n, NULL, 0) == 0);
}

static void finalize(void)
{
	CHECK(CALL(PMIx_Finalize,
	           int (*)(const struct pmix_info *, size_t))(NULL, 0) == 0);
}

static void init(void)
{
	CHECK(CALL(PMIx_Init, int (*)(struct pmix_proc *, struct pmix_info *,
	                              size_t))(&own, NULL, 0) == 0);
}

/* Exit with status 0, by _exit() because exit() flushes stdout without a lock:
 * output that on_event() is writing at that moment would appear twice. */
static void leave(const char *test)
{
	printf("process %d of %d: %s\n", number, count, test);
	fflush(stdout);
	_exit(0);
}

static void begin(void)
{
	const time_t until = time(NULL) + SECONDS;
	int codes[] = { PMIX_ABI_ERR_PROC_TERM_WO_SYNC,
		        PMIX_ABI_EVENT_PROC_TERMINATED };

	init();
	CHECK(own.rank == (uint32_t)number);
	CHECK(strcmp(own.nspace, getenv("COHORT_JOB")) == 0);
	CALL(PMIx_Register_event_handler,
	     void (*)(int *, size_t, struct pmix_info *, size_t,
	              pmix_event_handler, void (*)(int, size_t, void *),
	              void *))
	(codes, 2, NULL, 0, on_event, on_registered, NULL);
	while (!atomic_load(&is_registered) && time(NULL) < until)
		nap();
	CHECK(atomic_load(&is_registered));
}

/* ---- ends -------------------------------------------------------------- */

/* Fence with the processes from @first on, except process 3. */
static void meet(int first)
{
	struct pmix_proc others[MOST];
	size_t n = 0;
	int i;

	for (i = first; i < count; i++)
		if (i != 3) {
			others[n] = own;
			others[n++].rank = (uint32_t)i;
		}
	fence(others, n);
}

/*
 * End processes 0 to 2 one after another, so that each way of ending is tested
 * alone. Process 3 ends immediately.
 */
static void test_ends(void)
{
	int i;

	CHECK(count > 4);
	if (number == 3)
		exit(0);
	begin();
	meet(0);
	for (i = 0; i < 3; i++) {
		if (number == i && i == 0)
			raise(SIGKILL);
		if (number == i && i == 1)
			_exit(0);
		if (number == i && i == 2) {
			finalize();
			exit(0);
		}
		await(&events[i], 1);
	}
	await(&events[3], 1);
	/* A duplicate event would arrive before the end of this fence. */
	meet(4);
	/*
	 * Do not count events about process 3: libpmix may deliver an event
	 * twice to a process that registers for events while it arrives.
	 */
	for (i = 0; i < 3; i++)
		CHECK(atomic_load(&events[i]) == 1);
	CHECK(atomic_load(&wrong) == 0);
	leave("ends");
}

/* ---- abort ------------------------------------------------------------- */

static void test_abort(void)
{
	struct pmix_proc target;

	begin();
	fence(NULL, 0);
	target = own;
	target.rank = 1;
	if (number == count - 1)
		CHECK(CALL(PMIx_Abort,
		           int (*)(int, const char *, struct pmix_proc *,
		                   size_t))(7, "why", &target, 1) == 0);
	for (; number == 1;)
		pause();
	await(&events[1], 1);
	leave("abort");
}

/* ---- lives: processes that continue to run ----------------------------- */

static const char *folder;

static void name_file(const char *name, char path[4096])
{
	snprintf(path, 4096, "%s/%s", folder, name);
}

static void make_file(const char *name)
{
	char path[4096];
	FILE *f;

	name_file(name, path);
	f = fopen(path, "w");
	CHECK(f);
	fclose(f);
}

static void await_file(const char *name)
{
	const time_t until = time(NULL) + SECONDS;
	char path[4096];

	name_file(name, path);
	while (access(path, F_OK) && time(NULL) < until)
		nap();
	CHECK(access(path, F_OK) == 0);
}

/* Fork a child that acts as the same client for a while. */
static void be_client(bool finalizes)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		init();
		if (!finalizes)
			raise(SIGKILL);
		finalize();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(finalizes ? status == 0 : WIFSIGNALED(status));
}

/*
 * Create a file, and wait for the files of the processes from @first on. A
 * fence of libpmix does not wait for a process whose child has been a client.
 */
static void meet_by_files(const char *what, int first)
{
	char name[32];
	int i;

	if (number >= first) {
		snprintf(name, sizeof(name), "%s.%d", what, number);
		make_file(name);
	}
	for (i = first; i < count; i++) {
		snprintf(name, sizeof(name), "%s.%d", what, i);
		await_file(name);
	}
}

static void test_lives(void)
{
	CHECK(count > 2);
	any_code = true;
	if (number == 0) {
		be_client(true);
		be_client(false);
	}
	begin();
	meet_by_files("begun", 0);
	if (number == 1) {
		finalize();
		make_file("finalized");
	}
	if (number >= 2) {
		await_file("finalized");
		/* When the server replies, events that were sent earlier have
		 * arrived. */
		fence(&own, 1);
		CHECK(atomic_load(&events[0]) == 0);
		CHECK(atomic_load(&events[1]) == 0);
	}
	meet_by_files("seen", 2);
	if (number < 2)
		exit(0);
	await(&events[0], 1);
	await(&events[1], 1);
	leave("lives");
}

int main(int argc, char **argv)
{
	CHECK(getenv("COHORT_PROCESS") && getenv("COHORT_PROCESSES"));
	CHECK(getenv("COHORT_LOCAL_PROCESS"));
	CHECK(getenv("COHORT_LOCAL_PROCESSES"));
	number = atoi(getenv("COHORT_PROCESS"));
	count = atoi(getenv("COHORT_PROCESSES"));
	CHECK(count > 0 && count <= MOST);
	if (argc > 1 && strcmp(argv[1], "ends") == 0)
		test_ends();
	if (argc > 1 && strcmp(argv[1], "abort") == 0)
		test_abort();
	folder = argv[argc - 1];
	if (argc > 2 && strcmp(argv[1], "lives") == 0)
		test_lives();
	fprintf(stderr, "usage: launch ends|abort|lives FOLDER\n");
	return 2;
}
