/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests a group of several processes, with one or two devices each
 *
 * The processes find each other through environment variables. The program
 * makes sums over all ranks, a split across processes, and a respawn without a
 * rank of one process. Then one process does not call, one makes another call,
 * and one is killed. After each of these, the others continue.
 *
 * The program starts itself again for each process. It has run on one GPU that
 * three processes shared, and on the simulator with both its own NCCL and
 * NVIDIA's.
 */

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/ranks.h"

#define PROCESSES 3
#define VICTIM 1

/* Time in seconds after which the program ends, even if it hangs */
#define MOST_SECONDS 120

static int process, per_process, world;
static struct cohort_process facts[PROCESSES];

/* Number of processes, and later of ranks, that have reached a barrier. It is
 * in shared memory, so that the barriers do not depend on the library. */
static atomic_int *arrived;

static void await_come(int n)
{
	while (atomic_load(arrived) < n)
		sched_yield();
}

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "process %d: %s: %d, %s\n", process, what, failed,
	        cohort_last_error());
	exit(1);
}

/* ---- a process --------------------------------------------------------- */

/* Wait until all ranks have called this and their devices are idle. */
static void meet(struct cohort_comm *all)
{
	must(cohort_barrier(all, cohort_comm_stream(all), NULL), "barrier");
	must(cohort_synchronize(all, RANKS_SOON), "synchronize");
}

/*
 * Sum ones over the ranks of @comm, in @memory. No rank of @all may copy while
 * a kernel waits for another process, so all ranks wait for each other before
 * and after the sum.
 */
static void sum_ones(struct cohort_comm *comm, struct cohort_comm *all,
                     void *memory, int want)
{
	void *stream = cohort_comm_stream(comm);
	int32_t one = 1;

	must(cohort_copy(comm, memory, &one, sizeof(one), stream), "copy");
	must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
	meet(all);
	must(cohort_all_reduce(comm, memory, memory, 1, COHORT_I32, COHORT_SUM,
	                       stream, NULL),
	     "all_reduce");
	must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
	meet(all);
	must(cohort_copy(comm, &one, memory, sizeof(one), stream), "copy");
	must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
	must(one != want, "the sum");
}

/* Sum over all ranks, then over the ranks of the same parity. */
static int sum(struct cohort_comm *comm, void *unused)
{
	const int parity = cohort_comm_rank(comm) % 2;
	struct cohort_comm *half;
	void *memory;

	(void)unused;
	must(cohort_comm_size(comm) != world, "the size");
	must(cohort_alloc(comm, sizeof(int32_t), &memory), "alloc");
	sum_ones(comm, comm, memory, world);
	must(cohort_comm_split(comm, parity, 0, &half), "split");
	sum_ones(half, comm, memory, (world + 1 - parity) / 2);
	meet(comm);
	must(cohort_comm_close(half), "close");
	return cohort_free(comm, memory);
}

static struct cohort_group *open_group(void)
{
	const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_ENV,
	};
	const int devices[2] = { process * per_process,
		                 process * per_process + 1 };
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.bootstrap = &bootstrap;
	must(cohort_group_open(devices, per_process, &o, &group), "open");
	return group;
}

static void await_abort(const struct cohort_group *group)
{
	const uint64_t deadline = clock_deadline(RANKS_SOON);
	struct cohort_cause cause;

	do {
		sched_yield();
		must(cohort_group_cause(group, &cause), "cause");
	} while (cause.status == COHORT_OK && clock_now() < deadline);
	must(cause.status != COHORT_ABORTED, "the other process's abort");
}

static int await_cause(struct cohort_comm *comm)
{
	const uint64_t deadline = clock_deadline(RANKS_SOON);
	struct cohort_cause cause;

	do {
		sched_yield();
		must(cohort_comm_cause(comm, &cause), "cause");
	} while (cause.status == COHORT_OK && clock_now() < deadline);
	return 0;
}

/* Check that a hang is reported if the ranks of one process do not call. */
static int hang(struct cohort_comm *comm, void *unused)
{
	/* Only the join deadline can expire, because there is no collective
	 * that all ranks have called. */
	const struct cohort_deadlines soon = {
		.join_ns = UINT64_C(1000000000),
		.exec_ns = 2 * RANKS_SOON,
	};
	const int victim = VICTIM * per_process - (per_process > 1);
	void *stream = cohort_comm_stream(comm), *memory;
	struct cohort_cause cause;
	char name[64];

	(void)unused;
	must(cohort_alloc(comm, sizeof(int32_t), &memory), "alloc");
	meet(comm);
	if (process == VICTIM)
		return await_cause(comm);
	must(cohort_deadline_push(comm, &soon), "push");
	must(cohort_all_reduce(comm, memory, memory, 1, COHORT_I32, COHORT_SUM,
	                       stream, NULL),
	     "all_reduce");
	must(cohort_synchronize(comm, RANKS_SOON) != COHORT_STALLED, "a stall");
	cohort_comm_cause(comm, &cause);
	if (cohort_comm_rank(comm) == 0)
		printf("%s\n", cause.text);
	must(cause.rank != victim, "the rank that hangs");
	must(cause.kind != COHORT_VERDICT_OUTSIDE, "the kind");
	snprintf(name, sizeof(name), "rank %d (pid %lld) ", victim,
	         (long long)facts[VICTIM].pid);
	must(!strstr(cause.text, name), "the name of the rank");
	return 0;
}

/* Check that a mismatch is reported if the ranks of one process make another
 * call. */
static int differ(struct cohort_comm *comm, void *unused)
{
	const int victim = VICTIM * per_process - (per_process > 1);
	void *stream = cohort_comm_stream(comm), *memory;
	struct cohort_cause cause;
	int rc;

	(void)unused;
	must(cohort_alloc(comm, sizeof(int32_t), &memory), "alloc");
	meet(comm);
	rc = cohort_all_reduce(comm, memory, memory, 1, COHORT_I32,
	                       process == VICTIM ? COHORT_MAX : COHORT_SUM,
	                       stream, NULL);
	if (rc == COHORT_OK)
		rc = cohort_synchronize(comm, RANKS_SOON);
	must(rc != COHORT_MISMATCH, "a call that differs");
	cohort_comm_cause(comm, &cause);
	if (cohort_comm_rank(comm) == 0)
		printf("%s\n", cause.text);
	must(cause.rank != victim, "the rank that differs");
	must(!strstr(cause.text, "call all_reduce of 1 int32, sum"),
	     "what most have called");
	must(!strstr(cause.text, " all_reduce of 1 int32, max"),
	     "what it has called");
	return 0;
}

/* Check that a killed process is reported while other ranks wait for its
 * ranks. */
static int lose(struct cohort_comm *comm, void *unused)
{
	void *stream = cohort_comm_stream(comm), *memory;
	struct cohort_cause cause;
	uint64_t began;
	int rc;

	(void)unused;
	must(cohort_alloc(comm, sizeof(int32_t), &memory), "alloc");
	meet(comm);
	/* Count the ranks that have passed the barrier. The barrier's kernel
	 * may still be running on other ranks. */
	atomic_fetch_add(arrived, 1);
	if (process == VICTIM) {
		await_come(PROCESSES + world);
		raise(SIGKILL);
	}
	began = clock_now();
	must(cohort_all_reduce(comm, memory, memory, 1, COHORT_I32, COHORT_SUM,
	                       stream, NULL),
	     "all_reduce");
	rc = cohort_synchronize(comm, RANKS_SOON);
	cohort_comm_cause(comm, &cause);
	if (rc != COHORT_PROCESS_EXITED)
		fprintf(stderr, "rank %d, %d: %s\n", cohort_comm_rank(comm), rc,
		        cause.text);
	must(rc != COHORT_PROCESS_EXITED, "the end of a process");
	must(cause.rank != VICTIM * per_process - (per_process > 1),
	     "the rank to blame");
	if (cohort_comm_rank(comm) == 0)
		printf("%.1f ms: %s\n", (double)(clock_now() - began) / 1e6,
		       cause.text);
	return 0;
}

/* Kill process VICTIM, and respawn the group with the other processes. */
static void go_on_without(struct cohort_group *group)
{
	must(cohort_group_run(group, lose, NULL, NULL) != COHORT_PROCESS_EXITED,
	     "run to lose");
	world -= per_process;
	must(cohort_group_respawn(group, NULL, 0), "respawn without");
	cohort_group_processes(group, facts, PROCESSES);
	must(facts[VICTIM].ranks != 0, "its ranks");
	must(facts[VICTIM + 1].first_rank != world - per_process,
	     "the next process's");
	must(cohort_group_run(group, sum, NULL, NULL), "run without");
}

static int play_process(void)
{
	struct cohort_group *group = open_group();
	const int lost = 1;

	world = PROCESSES * per_process;
	must(cohort_group_process(group) != process, "the number");
	must(cohort_group_processes(group, facts, PROCESSES) != PROCESSES,
	     "the count");
	must(facts[process].pid != getpid(), "the pid");
	must(facts[1].first_rank != per_process, "the first rank");
	must(cohort_group_run(group, sum, NULL, NULL), "run");
	/* An abort in one process ends the group in all processes. */
	atomic_fetch_add(arrived, 1);
	await_come(PROCESSES);
	if (process == VICTIM)
		must(cohort_group_abort(group, "again"), "abort");
	await_abort(group);
	/* If process 0 has two ranks, it drops one. */
	world -= per_process > 1;
	must(cohort_group_respawn(group, process ? NULL : &lost,
	                          !process && per_process > 1),
	     "respawn");
	must(cohort_group_run(group, sum, NULL, NULL), "run again");
	must(cohort_group_run(group, hang, NULL, NULL) != COHORT_STALLED,
	     "run to hang");
	must(cohort_group_respawn(group, NULL, 0), "respawn with all");
	must(cohort_group_run(group, differ, NULL, NULL) != COHORT_MISMATCH,
	     "run to differ");
	must(cohort_group_respawn(group, NULL, 0), "respawn once more");
	go_on_without(group);
	return cohort_group_close(group);
}

/* ---- all processes ----------------------------------------------------- */

static pid_t start(const char *self, int number)
{
	char text[16];
	pid_t child = fork();

	if (child)
		return child;
	snprintf(text, sizeof(text), "%d", number);
	setenv("COHORT_PROCESS", text, 1);
	execl("/proc/self/exe", self, "process", text, (char *)NULL);
	_exit(127);
}

static int start_all(const char *self)
{
	pid_t children[PROCESSES];
	char text[16];
	int i, status, failed = 0;
	const int file = memfd_create("arrived", 0);

	must(file < 0 || ftruncate(file, sizeof(*arrived)), "memfd");
	snprintf(text, sizeof(text), "%d", file);
	setenv("TEST_COME", text, 1);
	snprintf(text, sizeof(text), "%d", PROCESSES);
	setenv("COHORT_PROCESSES", text, 1);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv("COHORT_JOB", text, 1);
	for (i = 0; i < PROCESSES; i++)
		children[i] = start(self, i);
	for (i = 0; i < PROCESSES; i++)
		failed |= waitpid(children[i], &status, 0) != children[i] ||
		          status != (i == VICTIM ? SIGKILL : 0);
	return failed;
}

int main(int argc, char **argv)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	alarm(MOST_SECONDS);
	must(cohort_platform_probe(place_platform(), &info), "probe");
	place_need(PROCESSES);
	per_process = place_devices() >= 2 * PROCESSES ? 2 : 1;
	if (argc < 3)
		return start_all(argv[0]);
	process = atoi(argv[2]);
	arrived = mmap(NULL, sizeof(*arrived), PROT_READ | PROT_WRITE,
	               MAP_SHARED, atoi(getenv("TEST_COME")), 0);
	must(arrived == MAP_FAILED, "mmap");
	return play_process();
}
