/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what the processes of a group learn about a process on another host. A
 * launcher starts this several times. Each process has two ranks.
 *
 *  far none FILE     nothing happens
 *  far abort FILE    process 1 aborts the group
 *  far exit FILE     process 1 exits; the others continue without it
 *  far kill FILE     process 1 is killed; the others continue without it
 *  far twice FILE    as with kill; then the last process is killed as well
 *  far stall FILE    the ranks of the last process do not call
 *  far agent FILE    the test kills process 1 from outside; the others continue
 *  far link FILE     the test cuts the network of the last process and creates
 *                    FILE.cut; no process can continue
 *
 * The time of the event is written to FILE. Each process that gets an error
 * prints a line, and exits with 0 if everything is correct.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>

#define MOST 16
#define RANKS 2 /* ranks per process */
#define LIMIT_NS UINT64_C(3000000000)

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "far.c:%d: %s; process %d: %s; %s\n",  \
			        __LINE__, #condition, process, cause.text,     \
			        cohort_last_error());                          \
			_exit(1);                                              \
		}                                                              \
	} while (0)

static const char *mode, *file;
static struct cohort_group *group;
static struct cohort_process all[MOST];
static struct cohort_cause cause;
static int process, count;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Write the current time to the file, as the time of the event. */
static void mark_time(void)
{
	const int64_t now = now_ns();
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, &now, sizeof(now)) != sizeof(now))
		_exit(2);
	close(fd);
}

/* Return the time since the event, in milliseconds. */
static double elapsed_ms(void)
{
	const int64_t now = now_ns();
	int64_t then = 0;
	int fd = open(file, O_RDONLY);

	CHECK(fd >= 0 && read(fd, &then, sizeof(then)) == sizeof(then));
	close(fd);
	return (double)(now - then) / 1e6;
}

/* Run an all-reduce. @value must be new each time, so that the result of an
 * earlier all-reduce is detected. */
static int sum(struct cohort_comm *comm, int32_t value)
{
	int32_t sum = value;
	int rc = cohort_all_reduce_host(comm, &sum, 1, COHORT_I32, COHORT_SUM,
	                                COHORT_FOREVER);

	CHECK(rc != COHORT_OK || sum == value * cohort_comm_size(comm));
	return rc;
}

static int is_mode(const char *what)
{
	return strcmp(mode, what) == 0;
}

/* Wait until the test has cut the network, which is the event. */
static void await_cut(void)
{
	char name[4096];

	mark_time(); /* the test waits for this file */
	snprintf(name, sizeof(name), "%s.cut", file);
	while (access(name, F_OK))
		usleep(1000);
	mark_time();
}

/* Act as process 1. */
static void act(void)
{
	mark_time();
	if (is_mode("abort"))
		cohort_group_abort(group, "enough");
	else if (is_mode("exit"))
		exit(0);
	else if (is_mode("kill") || is_mode("twice"))
		raise(SIGKILL);
	else if (is_mode("agent"))
		pause();
	else if (is_mode("link"))
		await_cut();
}

static int first_generation(struct cohort_comm *comm)
{
	const int rank = cohort_comm_rank(comm);
	struct cohort_cause end;

	if (is_mode("stall") && process == count - 1) {
		if (rank == cohort_comm_size(comm) - 1)
			mark_time();
		do {
			usleep(1000);
			cohort_comm_cause(comm, &end);
		} while (end.status == COHORT_OK);
		return end.status;
	}
	if (!is_mode("stall") && process == 1 && rank == RANKS)
		act();
	return sum(comm, 3);
}

static int train(struct cohort_comm *comm, void *unused)
{
	const int rank = cohort_comm_rank(comm);
	int rc = sum(comm, 1);

	(void)unused;
	if (rc != COHORT_OK)
		return rc;
	if (cohort_comm_generation(comm) == 1)
		return first_generation(comm);
	if (cohort_comm_generation(comm) == 2 && is_mode("twice") &&
	    rank == cohort_comm_size(comm) - 1) {
		mark_time();
		raise(SIGKILL);
	}
	return sum(comm, 3);
}

static void open_group(void)
{
	const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_AUTO,
	};
	const int first = RANKS * atoi(getenv("COHORT_LOCAL_PROCESS"));
	const int devices[RANKS] = { first, first + 1 };
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.bootstrap = &bootstrap;
	if (is_mode("none") || is_mode("stall") || is_mode("link"))
		o.deadlines.join_ns = o.deadlines.exec_ns = LIMIT_NS;
	CHECK(cohort_group_open(devices, RANKS, &o, &group) == COHORT_OK);
	process = cohort_group_process(group);
	count = cohort_group_processes(group, all, MOST);
}

/*
 * Check that the cause says @what about process @i. Any process may report it.
 */
static void expect(int i, const char *what)
{
	char text[256];

	snprintf(text, sizeof(text), "process %d (host %s, pid %lld)%s", i,
	         all[i].host, (long long)all[i].pid, what);
	CHECK(strstr(cause.text, text));
}

/* Check that rank @rank, in process @where, is blamed, and that this process
 * knows which ranks wait. */
static void expect_stall(int rank, const struct cohort_process *where)
{
	char name[128];

	snprintf(name, sizeof(name), "rank %d (host %s, pid %lld) ", rank,
	         where->host, (long long)where->pid);
	CHECK(cause.rank == rank);
	CHECK(cause.missing[0] == UINT64_C(3) << rank);
	CHECK(strstr(cause.text, name));
}

static void expect_no_answer(int i)
{
	char name[128];

	snprintf(name, sizeof(name), "process %d (host %s, pid %lld)", i,
	         all[i].host, (long long)all[i].pid);
	CHECK(strstr(cause.details, "no answer from process "));
	CHECK(strstr(cause.details, name));
}

static void run_on(int status)
{
	const int rc = cohort_group_run(group, train, NULL, &cause);

	if (rc != status)
		fprintf(stderr, "process %d: %s\n", process,
		        cohort_status_text(rc));
	CHECK(rc == status);
	printf("process %d on %s: %s, after %.0f ms: %s\n", process,
	       all[process].host, cohort_status_text(status), elapsed_ms(),
	       cause.text);
}

static void respawn(int ranks)
{
	struct cohort_process now[MOST];
	int i, there = 0;

	cause.text[0] = '\0';
	CHECK(cohort_group_respawn(group, NULL, 0) == COHORT_OK);
	CHECK(cohort_group_processes(group, now, MOST) == count);
	for (i = 0; i < count; i++)
		there += now[i].ranks;
	CHECK(there == ranks);
}

/* Continue without the process that has ended, until another one ends. */
static void go_on(int ranks)
{
	respawn(ranks);
	CHECK(cohort_group_run(group, train, NULL, &cause) == COHORT_OK);
	printf("process %d: %d ranks go on, after %.0f ms\n", process, ranks,
	       elapsed_ms());
}

static void be_told(void)
{
	const int ended = count - 1;
	int i;

	if (is_mode("none")) {
		run_on(COHORT_OK);
	} else if (is_mode("abort")) {
		run_on(COHORT_ABORTED);
		if (process != 1)
			expect(1, ": aborted: enough");
	} else if (is_mode("stall")) {
		run_on(COHORT_STALLED);
		expect_stall((count - 1) * RANKS, &all[count - 1]);
	} else if (is_mode("link")) {
		run_on(COHORT_STALLED);
		/* The launcher runs on the first host. */
		expect_no_answer(process < count / 2 ? count - 1 : 0);
	} else {
		for (i = 0; i < count; i++)
			CHECK(all[i].watched);
		run_on(COHORT_PROCESS_EXITED);
		expect(1, ", which drove ranks 2-3, is gone");
		if (!is_mode("twice")) {
			go_on((count - 1) * RANKS);
			return;
		}
		respawn((count - 1) * RANKS);
		run_on(COHORT_PROCESS_EXITED);
		expect(ended, ", which drove rank");
		go_on((count - 2) * RANKS);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3 || !getenv("COHORT_LOCAL_PROCESS")) {
		fprintf(stderr, "usage: cohort launch ... far MODE FILE\n");
		return 2;
	}
	mode = argv[1];
	file = argv[2];
	open_group();
	be_told();
	cause.text[0] = '\0';
	CHECK(cohort_group_close(group) == COHORT_OK);
	return 0;
}
