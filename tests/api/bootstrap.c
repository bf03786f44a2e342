/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of groups of several processes that exchange data by the program's
 * bootstrap table. On the host platform, threads act as the processes.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/ranks.h"
#include "support/stuck.h"

#define MS UINT64_C(1000000)
#define PROCESSES 2
#define MOST 3 /* maximum number of ranks of a process */
#define RECORD 4096

/* Offset of a process's status in the data that it sends */
#define STATUS_AT 4

/* ---- the table of the test ----------------------------------------------- */

/* The data that the processes exchange in one round */
static struct hall {
	pthread_mutex_t lock;
	int came[16];
	char bytes[16][PROCESSES][RECORD];
} hall = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct member {
	int process;
	int round;
	void *recv;
	size_t bytes;
	int fails_at; /* number of the round that fails, or 0 */
	/* status to send in place of the real one, or 0 */
	int32_t says;
	int freed;
};

static int gather(void *send, void *recv, size_t bytes, void *info,
                  void **request)
{
	struct member *m = info;

	cr_assert_leq(bytes, RECORD);
	m->recv = recv;
	m->bytes = bytes;
	m->round++;
	pthread_mutex_lock(&hall.lock);
	memcpy(hall.bytes[m->round][m->process], send, bytes);
	if (m->says)
		memcpy(hall.bytes[m->round][m->process] + STATUS_AT, &m->says,
		       sizeof(m->says));
	hall.came[m->round]++;
	pthread_mutex_unlock(&hall.lock);
	*request = m;
	return m->fails_at == m->round ? -7 : 0;
}

static int test(void *request)
{
	struct member *m = request;
	int i, came;

	pthread_mutex_lock(&hall.lock);
	came = hall.came[m->round];
	pthread_mutex_unlock(&hall.lock);
	if (came < PROCESSES)
		return 1;
	for (i = 0; i < PROCESSES; i++)
		memcpy((char *)m->recv + (size_t)i * m->bytes,
		       hall.bytes[m->round][i], m->bytes);
	return 0;
}

static int release(void *request)
{
	struct member *m = request;

	m->freed++;
	return 0;
}

/* ---- a process --------------------------------------------------------- */

struct process {
	int first_device, n;
	struct cohort_group_options options;
	struct cohort_bootstrap table;
	struct member member;
	struct cohort_group *group;
	int rc;
	char error[512];
	pthread_t thread;
};

/* Process 0 has devices 0 and 1; process 1 has the next three. */
static struct process processes[PROCESSES];

static void set_up(void)
{
	struct process *p = processes;
	int i;

	place_need_one_process("groups of several processes in one");
	place_open(5);
	for (i = 0; i < PROCESSES; i++, p++) {
		p->first_device = i ? 2 : 0;
		p->n = i ? 3 : 2;
		p->member.process = i;
		p->table = (struct cohort_bootstrap){
			.size = sizeof(p->table),
			.kind = COHORT_BOOTSTRAP_TABLE,
			.process = i,
			.processes = PROCESSES,
			.allgather = gather,
			.req_test = test,
			.req_free = release,
			.info = &p->member,
		};
		cohort_group_options_init(&p->options);
		p->options.platform = place_platform();
		p->options.bootstrap = &p->table;
	}
}

TestSuite(bootstrap, .init = set_up, .timeout = 60);

static void *open_main(void *arg)
{
	struct process *p = arg;
	int devices[MOST] = { p->first_device, p->first_device + 1,
		              p->first_device + 2 };

	p->rc = cohort_group_open(devices, p->n, &p->options, &p->group);
	strcpy(p->error, cohort_last_error());
	return NULL;
}

/* Run @fn for each process, each on a new thread. */
static void on_all(void *(*fn)(void *process))
{
	int i;

	for (i = 0; i < PROCESSES; i++)
		cr_assert_eq(pthread_create(&processes[i].thread, NULL, fn,
		                            &processes[i]),
		             0);
	for (i = 0; i < PROCESSES; i++)
		pthread_join(processes[i].thread, NULL);
}

/* Run @fn for each process. All of them must succeed. */
static void succeed_on_all(void *(*fn)(void *))
{
	int i;

	on_all(fn);
	for (i = 0; i < PROCESSES; i++)
		cr_assert_eq(processes[i].rc, COHORT_OK, "process %d: %s", i,
		             processes[i].error);
}

static void open_all(void)
{
	succeed_on_all(open_main);
}

static void *close_main(void *arg)
{
	struct process *p = arg;

	p->rc = cohort_group_close(p->group);
	return NULL;
}

static void close_all(void)
{
	int i;

	on_all(close_main);
	for (i = 0; i < PROCESSES; i++)
		cr_assert_eq(processes[i].rc, COHORT_OK);
}

/* Check that process @i's open returned @rc, with an error that contains
 * @in_text. */
static void expect_refused(int i, int rc, const char *in_text)
{
	cr_assert_eq(processes[i].rc, rc, "process %d: %d, %s", i,
	             processes[i].rc, processes[i].error);
	cr_assert_not_null(strstr(processes[i].error, in_text),
	                   "process %d: \"%s\"", i, processes[i].error);
	cr_assert_null(processes[i].group);
}

/* ---- groups that work ---------------------------------------------------- */

static int sum_rank(struct cohort_comm *comm, void *unused)
{
	int32_t value = 1 << cohort_comm_rank(comm);

	(void)unused;
	return cohort_comm_size(comm) != 5 ||
	       ranks_sum_wait(comm, &value) != COHORT_OK || value != 31;
}

static void *run_main(void *arg)
{
	struct process *p = arg;

	p->rc = cohort_group_run(p->group, sum_rank, NULL, NULL);
	strcpy(p->error, cohort_last_error());
	return NULL;
}

static void run_all(void)
{
	succeed_on_all(run_main);
}

Test(bootstrap, ranks_of_several_processes_are_numbered_by_process)
{
	struct cohort_process facts[3] = { { .ranks = 0 } };
	int i;

	open_all();
	run_all();
	for (i = 0; i < PROCESSES; i++) {
		struct cohort_group *group = processes[i].group;

		cr_assert_eq(cohort_group_process(group), i);
		cr_assert_eq(cohort_group_size(group), processes[i].n);
		cr_assert_eq(cohort_group_processes(group, facts, 3),
		             PROCESSES);
		cr_assert_eq(facts[0].first_rank, 0);
		cr_assert_eq(facts[0].ranks, 2);
		cr_assert_eq(facts[1].first_rank, 2);
		cr_assert_eq(facts[1].ranks, 3);
		cr_assert_eq(facts[1].pid, getpid());
		cr_assert_neq(facts[1].host[0], '\0');
		cr_assert_eq(facts[2].ranks, 0);
		cr_assert_not_null(cohort_group_stream(group, i ? 4 : 1));
		cr_assert_null(cohort_group_stream(group, i ? 1 : 2),
		               "it is elsewhere");
	}
	/* Both requests were freed. From now on the processes watch each other
	 * by themselves and do not need the table. */
	cr_assert_eq(processes[0].member.freed, 2);
	cr_assert_eq(facts[0].watched, 1);
	cr_assert_eq(facts[1].watched, 1);
	close_all();
}

static void *sum_group(void *arg)
{
	struct process *p = arg;
	int32_t values[MOST] = { 1, 1, 1 };
	void *of[MOST] = { &values[0], &values[1], &values[2] };
	uint64_t ticket;
	int i;

	p->rc = cohort_group_all_reduce(p->group, (const void *const *)of, of,
	                                1, COHORT_I32, COHORT_SUM, NULL,
	                                &ticket);
	if (p->rc == COHORT_OK)
		p->rc = cohort_group_wait(p->group, ticket, RANKS_SOON);
	for (i = 0; i < p->n; i++)
		if (p->rc == COHORT_OK && values[i] != 5)
			p->rc = COHORT_MISMATCH;
	return NULL;
}

Test(bootstrap, one_thread_of_each_process_may_call_for_its_ranks)
{
	int i;

	open_all();
	on_all(sum_group);
	for (i = 0; i < PROCESSES; i++)
		cr_assert_eq(processes[i].rc, COHORT_OK);
	close_all();
}

/* Barrier of the ranks of both processes. */
static pthread_barrier_t all_ranks;

/*
 * Split the group. Both processes of the test are simulated in one process, so
 * a memory operation of one waits for the other's kernels. Therefore no rank
 * launches before all have split, and no rank closes before all sums are done.
 */
static int split_rank(struct cohort_comm *comm, void *unused)
{
	struct cohort_comm *child;
	int32_t value = 1, want = cohort_comm_rank(comm) % 2 ? 2 : 3;
	int rc;

	(void)unused;
	/* Make one child of the even ranks, and one of the odd ranks. */
	rc = cohort_comm_split(comm, cohort_comm_rank(comm) % 2, 0, &child);
	pthread_barrier_wait(&all_ranks);
	if (rc == COHORT_OK)
		rc = ranks_sum_wait(child, &value);
	pthread_barrier_wait(&all_ranks);
	if (rc == COHORT_OK && value != want)
		rc = COHORT_MISMATCH;
	return rc == COHORT_OK ? cohort_comm_close(child) : rc;
}

static void *run_split(void *arg)
{
	struct process *p = arg;

	p->rc = cohort_group_run(p->group, split_rank, NULL, NULL);
	strcpy(p->error, cohort_last_error());
	return NULL;
}

Test(bootstrap, communicators_can_be_split_across_processes)
{
	pthread_barrier_init(&all_ranks, NULL, 5);
	open_all();
	succeed_on_all(run_split);
	close_all();
}

Test(bootstrap, bootstrap_of_one_process_waits_for_no_other)
{
	struct cohort_group *group = ranks_open(2, NULL);
	struct cohort_process facts;

	cr_assert_eq(cohort_group_process(group), 0);
	cr_assert_eq(cohort_group_processes(group, &facts, 1), 1);
	cr_assert_eq(facts.first_rank, 0);
	cr_assert_eq(facts.ranks, 2);
	cr_assert_eq(facts.pid, getpid());
	cr_assert_eq(cohort_group_processes(group, NULL, 7), 1);
	cr_assert_eq(cohort_group_process(NULL), -1);
	cr_assert_eq(cohort_group_processes(NULL, &facts, 1), -1);
	expect_close(group);
}

/* ---- causes of other processes ----------------------------------------- */

/* Have process 1 wait in a collective that process 0 never calls. */
static void *wait_for_other(void *arg)
{
	int32_t values[MOST] = { 1, 1, 1 };
	void *of[MOST] = { &values[0], &values[1], &values[2] };
	struct process *p = arg;
	uint64_t ticket;

	if (p->member.process == 0) {
		ranks_must(cohort_group_abort(p->group, "because"), "abort");
		return NULL;
	}
	p->rc = cohort_group_all_reduce(p->group, (const void *const *)of, of,
	                                1, COHORT_I32, COHORT_SUM, NULL,
	                                &ticket);
	if (p->rc == COHORT_OK)
		p->rc = cohort_group_wait(p->group, ticket, RANKS_SOON);
	return NULL;
}

static void expect_cause(int process, const char *begin)
{
	struct cohort_cause cause;

	cohort_group_cause(processes[process].group, &cause);
	cr_assert_eq(strncmp(cause.text, begin, strlen(begin)), 0, "%s",
	             cause.text);
}

Test(bootstrap, abort_in_one_process_ends_the_group_in_all)
{
	char text[64];

	open_all();
	on_all(wait_for_other);
	/* Process 0 may abort before process 1 calls. */
	cr_assert_eq(processes[1].rc, COHORT_ABORTED);
	snprintf(text, sizeof(text), "process 0 (pid %d): aborted: because",
	         (int)getpid());
	expect_cause(1, text);
	/* Process 1 must not send process 0's abort back. */
	expect_cause(0, "aborted: because");
	close_all();
}

/*
 * Make NCCL report to process 1 that a rank of another process has failed. If
 * @has_reason, process 0 aborts with a reason after the prober has seen the
 * error twice.
 */
static void fail_elsewhere(bool has_reason, int status, const char *begin)
{
	const uint64_t deadline = test_deadline(RANKS_SOON);
	pthread_t thread;

	stuck_install();
	open_all();
	stuck_async_error(4, ncclRemoteError);
	cr_assert_eq(pthread_create(&thread, NULL, wait_for_other,
	                            &processes[1]),
	             0);
	while (has_reason && stuck_async_reported() < 2 &&
	       test_now() < deadline)
		sched_yield();
	if (has_reason)
		wait_for_other(&processes[0]);
	pthread_join(thread, NULL);
	cr_assert_eq(processes[1].rc, status);
	expect_cause(1, begin);
	close_all();
}

Test(bootstrap, reason_of_another_process_replaces_an_nccl_error)
{
	char text[64];

	snprintf(text, sizeof(text), "process 0 (pid %d): aborted: because",
	         (int)getpid());
	fail_elsewhere(true, COHORT_ABORTED, text);
}

Test(bootstrap, nccl_error_is_reported_if_no_process_gives_a_reason)
{
	fail_elsewhere(false, COHORT_NCCL,
	               "rank 4: the native communicator has failed: remote");
}

static int await_cause(struct cohort_comm *comm)
{
	const uint64_t deadline = test_deadline(RANKS_SOON);
	struct cohort_cause cause;

	do
		cohort_comm_cause(comm, &cause);
	while (cause.status == COHORT_OK && test_now() < deadline);
	return cause.status;
}

/* Fail rank 0 in the communicator of the even ranks. The communicator of the
 * odd ranks must be unaffected. */
static int give_up(struct cohort_comm *comm, void *unused)
{
	const int rank = cohort_comm_rank(comm);
	struct cohort_comm *child;
	int32_t value = 1;
	int rc = cohort_comm_split(comm, rank % 2, 0, &child);

	(void)unused;
	if (rc != COHORT_OK)
		return rc;
	if (rank == 0)
		cohort_comm_fail(child, 5, "no more data");
	if (rank % 2 == 0)
		rc = await_cause(child) == COHORT_WORKER ? COHORT_OK : 1;
	pthread_barrier_wait(&all_ranks);
	if (rank % 2)
		rc = ranks_sum_wait(child, &value);
	pthread_barrier_wait(&all_ranks);
	cohort_comm_close(child);
	return rc;
}

static void *run_give_up(void *arg)
{
	struct process *p = arg;

	p->rc = cohort_group_run(p->group, give_up, NULL, NULL);
	strcpy(p->error, cohort_last_error());
	return NULL;
}

Test(bootstrap, comm_fail_in_a_child_ends_it_in_all_processes)
{
	pthread_barrier_init(&all_ranks, NULL, 5);
	open_all();
	succeed_on_all(run_give_up);
	close_all();
}

/* ---- verdicts on ranks of other processes ------------------------------ */

/* Number of the process that calls alone until its call ends as a stall */
static int caller;

static void *stall_alone(void *arg)
{
	struct process *p = arg;

	if (p->member.process == caller)
		sum_group(p);
	return NULL;
}

/* Let only process 1, which has most of the ranks, call. Process 0 must be
 * blamed. */
static void expect_blame(int kind, const char *what)
{
	struct cohort_cause cause;

	caller = 1;
	on_all(stall_alone);
	cr_assert_eq(processes[1].rc, COHORT_STALLED);
	cohort_group_cause(processes[1].group, &cause);
	cr_assert_eq(cause.kind, kind, "%s", cause.text);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	cr_assert_eq(cause.joined[0], 0x1c);
	cr_assert_eq(cause.missing[0], 0x3);
	expect_text(cause.details, what);
}

static void open_impatient(void)
{
	struct process *p;

	for (p = processes; p < processes + PROCESSES; p++)
		p->options.deadlines.join_ns = 2000 * MS;
	open_all();
}

Test(bootstrap, rank_of_another_process_that_never_called_is_named)
{
	char what[96];

	open_impatient();
	snprintf(what, sizeof(what),
	         "\nnote   rank 0 (pid %d, device 0) has never called "
	         "anything",
	         (int)getpid());
	expect_blame(COHORT_VERDICT_NEVER_CALLED, what);
	close_all();
}

Test(bootstrap, rank_of_another_process_is_named_with_its_last_call)
{
	open_impatient();
	on_all(sum_group);
	cr_assert_eq(processes[0].rc, COHORT_OK);
	cr_assert_eq(processes[1].rc, COHORT_OK);
	expect_blame(COHORT_VERDICT_OUTSIDE,
	             "is busy in the program; its last call, all_reduce of 1 "
	             "int32, sum (ticket 1), was ");
	close_all();
}

Test(bootstrap, no_remote_rank_is_blamed_if_only_a_minority_has_called)
{
	struct cohort_cause cause;

	open_impatient();
	caller = 0;
	on_all(stall_alone);
	cr_assert_eq(processes[0].rc, COHORT_STALLED);
	cohort_group_cause(processes[0].group, &cause);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_eq(cause.joined[0], 0x3);
	cr_assert_eq(cause.missing[0], 0);
	expect_text(cause.text, "ranks 0-1 alone wait in ");
	close_all();
}

/* ---- respawn ----------------------------------------------------------- */

/* Start a collective that only process 1 calls. */
static void *begin_group(void *arg)
{
	static int32_t values[MOST];
	void *of[MOST] = { &values[0], &values[1], &values[2] };
	struct process *p = arg;

	if (p->member.process == 1)
		ranks_must(cohort_group_all_reduce(
				   p->group, (const void *const *)of, of, 1,
				   COHORT_I32, COHORT_SUM, NULL, NULL),
		           "all_reduce");
	return NULL;
}

/* The ranks that each process declares lost */
static int lost[PROCESSES][3], n_lost[PROCESSES];

static void *respawn_main(void *arg)
{
	struct process *p = arg;
	int i = p->member.process;

	cohort_group_abort(p->group, "again");
	p->rc = cohort_group_respawn(p->group, lost[i], n_lost[i]);
	strcpy(p->error, cohort_last_error());
	return NULL;
}

static int origin_of(struct cohort_comm *comm, void *origins)
{
	int *of = origins;

	of[cohort_comm_rank(comm)] = cohort_comm_origin(comm);
	return 0;
}

Test(bootstrap, respawn_drops_the_ranks_that_any_process_names_as_lost)
{
	struct cohort_process facts[PROCESSES];
	int origins[5] = { -1, -1, -1, -1, -1 };
	int i;

	open_all();
	lost[0][n_lost[0]++] = 3;
	lost[1][n_lost[1]++] = 0;
	lost[1][n_lost[1]++] = 3;
	on_all(respawn_main);
	for (i = 0; i < PROCESSES; i++) {
		cr_assert_eq(processes[i].rc, COHORT_OK, "process %d: %s", i,
		             processes[i].error);
		cr_assert_eq(cohort_group_generation(processes[i].group), 2);
		ranks_must(cohort_group_run(processes[i].group, origin_of,
		                            origins, NULL),
		           "run");
	}
	cr_assert_eq(cohort_group_processes(processes[0].group, facts, 2), 2);
	cr_assert_eq(facts[0].ranks, 1);
	cr_assert_eq(facts[1].first_rank, 1);
	cr_assert_eq(facts[1].ranks, 2);
	cr_assert_eq(origins[0], 1);
	cr_assert_eq(origins[1], 2);
	cr_assert_eq(origins[2], 4);
	cr_assert_eq(origins[3], -1);
	close_all();
}

Test(bootstrap, respawn_refuses_to_drop_all_ranks_of_all_processes)
{
	struct cohort_process facts[PROCESSES];
	int i;

	open_all();
	memcpy(lost, (int[PROCESSES][3]){ { 0, 1 }, { 2, 3, 4 } },
	       sizeof(lost));
	n_lost[0] = 2;
	n_lost[1] = 3;
	on_all(respawn_main);
	for (i = 0; i < PROCESSES; i++) {
		cr_assert_eq(processes[i].rc, COHORT_INVALID);
		expect_text(processes[i].error, "process 0 (host ");
		cr_assert_eq(cohort_group_generation(processes[i].group), 1);
		cr_assert_eq(cohort_group_processes(processes[i].group, facts,
		                                    2),
		             2);
		cr_assert_eq(facts[0].ranks, 2, "as before");
	}
	/* Respawn again, with one rank in process 0. */
	n_lost[0] = 1;
	n_lost[1] = 2;
	succeed_on_all(respawn_main);
	close_all();
}

Test(bootstrap, respawn_continues_without_a_process_that_has_no_rank_left)
{
	struct cohort_process facts[PROCESSES];
	struct process *p = processes;

	open_all();
	lost[0][n_lost[0]++] = 0;
	lost[1][n_lost[1]++] = 1;
	on_all(respawn_main);
	cr_assert_eq(p[0].rc, COHORT_STATE);
	expect_text(p[0].error, "all ranks of this process are ");
	cr_assert_eq(cohort_group_generation(p[0].group), 1);
	cr_assert_eq(cohort_group_respawn(p[0].group, NULL, 0), COHORT_STATE);
	cr_assert_eq(p[1].rc, COHORT_OK, "%s", p[1].error);
	cr_assert_eq(cohort_group_generation(p[1].group), 2);
	cr_assert_eq(cohort_group_processes(p[1].group, facts, 2), 2);
	cr_assert_eq(facts[0].ranks, 0);
	cr_assert_eq(facts[1].ranks, 3);
	close_all();
}

/* Respawn in all processes while @function does not return for rank 4, the
 * third rank of process 1. If @is_named, process 1 declares rank 4 lost. */
static void respawn_while_stuck(const char *function, bool is_named)
{
	struct process *p;

	stuck_install();
	for (p = processes; p < processes + PROCESSES; p++) {
		p->options.deadlines.abort_ns = 200 * MS;
		p->options.deadlines.init_ns = 5000 * MS;
		p->options.launch = COHORT_LAUNCH_AHEAD;
	}
	open_all();
	stuck_at(function, 4);
	if (strcmp(function, "ncclCommAbort") == 0)
		cohort_group_abort(processes[1].group, "again");
	else
		on_all(begin_group);
	stuck_await();
	lost[1][0] = 4;
	n_lost[1] = is_named;
	on_all(respawn_main);
	stuck_release();
}

Test(bootstrap, respawn_can_drop_a_rank_whose_prober_is_stuck)
{
	respawn_while_stuck("ncclCommGetAsyncError", true);
	cr_assert_eq(processes[1].rc, COHORT_OK, "%s", processes[1].error);
	cr_assert_eq(processes[0].rc, COHORT_OK, "%s", processes[0].error);
}

Test(bootstrap, respawn_cannot_keep_a_rank_whose_prober_is_stuck)
{
	respawn_while_stuck("ncclCommGetAsyncError", false);
	cr_assert_eq(processes[1].rc, COHORT_STATE, "%s", processes[1].error);
	expect_text(processes[1].error, "of rank 4");
	cr_assert_eq(processes[0].rc, COHORT_STATE);
	expect_text(processes[0].error, "process 1 (host ");
}

Test(bootstrap, respawn_names_the_rank_whose_abort_is_stuck)
{
	respawn_while_stuck("ncclCommAbort", false);
	cr_assert_eq(processes[1].rc, COHORT_STATE, "%s", processes[1].error);
	expect_text(processes[1].error, "ncclCommAbort of rank 4");
}

/* The second attempt has the generation number of the first one, but must not
 * read the first one's results. */
Test(bootstrap, failed_respawn_of_several_processes_can_be_repeated)
{
	struct cohort_cause cause;
	struct process *p;

	stuck_install();
	for (p = processes; p < processes + PROCESSES; p++) {
		p->options.deadlines.abort_ns = 2000 * MS;
		p->options.deadlines.init_ns = place_patience_ns(2000 * MS);
	}
	open_all();
	stuck_at("cudaStreamCreateWithFlags", 4);
	on_all(respawn_main);
	for (p = processes; p < processes + PROCESSES; p++)
		cr_assert_eq(p->rc, COHORT_INIT_TIMEOUT, "%s", p->error);
	stuck_release();
	on_all(respawn_main);
	for (p = processes; p < processes + PROCESSES; p++) {
		cr_assert_eq(p->rc, COHORT_OK, "%s", p->error);
		cohort_group_cause(p->group, &cause);
		cr_assert_eq(cause.status, COHORT_OK, "%s", cause.text);
	}
	on_all(sum_group);
	for (p = processes; p < processes + PROCESSES; p++)
		cr_assert_eq(p->rc, COHORT_OK);
	close_all();
}

/* ---- groups that fail ---------------------------------------------------- */

Test(bootstrap, process_that_cannot_open_is_named_in_all_processes)
{
	processes[1].first_device = 77;
	on_all(open_main);
	expect_refused(1, COHORT_INVALID, "devices[0] is 77");
	expect_refused(0, COHORT_INVALID, "process 1 (host ");
	expect_refused(0, COHORT_INVALID,
	               ") cannot continue: devices[0] is 77, not 0 to 4");
}

/* A later version may send an unknown status, or the data may be damaged. */
Test(bootstrap, unknown_status_of_another_process_is_a_system_error)
{
	processes[0].options.deadlines.init_ns = place_patience_ns(2000 * MS);
	processes[1].options.deadlines.init_ns = place_patience_ns(2000 * MS);
	processes[1].member.says = -777;
	on_all(open_main);
	expect_refused(0, COHORT_SYSTEM, "process 1 (host ");
}

Test(bootstrap, process_that_cannot_connect_is_named_in_all_processes)
{
	processes[0].options.deadlines.init_ns = place_patience_ns(2000 * MS);
	processes[1].options.deadlines.init_ns = place_patience_ns(2000 * MS);
	ranks_fault(3, 0, COHORT_FAULT_INIT_ERROR, ncclSystemError);
	on_all(open_main);
	expect_refused(1, COHORT_NCCL, "unhandled system error");
	expect_refused(0, COHORT_NCCL, "process 1 (host ");
}

Test(bootstrap, open_refuses_processes_with_different_options)
{
	processes[1].options.connect = COHORT_CONNECT_ALL;
	processes[0].options.connect = COHORT_CONNECT_NONE;
	on_all(open_main);
	expect_refused(
		0, COHORT_INVALID,
		"options->connect is 3 in process 0, but 2 in process 1");
	expect_refused(
		1, COHORT_INVALID,
		"options->connect is 3 in process 0, but 2 in process 1");
}

Test(bootstrap, open_times_out_and_names_the_process_that_is_missing)
{
	struct process *p = &processes[0];

	p->options.deadlines.init_ns = 50 * MS;
	open_main(p);
	expect_refused(
		0, COHORT_INIT_TIMEOUT,
		"process 0 of 2 has waited for the other processes for 50 ms");
	cr_assert_eq(p->member.freed, 0, "it may still be written to");
}

Test(bootstrap, open_reports_an_error_of_the_bootstrap_table)
{
	processes[0].member.fails_at = 1;
	open_main(&processes[0]);
	expect_refused(0, COHORT_SYSTEM,
	               "process 0 of 2 cannot reach the other processes: "
	               "bootstrap->allgather returned -7");
}

Test(bootstrap, respawn_is_refused_after_another_process_missed_a_respawn)
{
	struct process *p = &processes[0];

	p->options.deadlines.init_ns = 2000 * MS;
	p->options.deadlines.abort_ns = 200 * MS;
	open_all();
	cohort_group_abort(p->group, "again");
	expect(cohort_group_respawn(p->group, NULL, 0), COHORT_INIT_TIMEOUT,
	       "process 0 of 2 has waited for the other processes for 2400 ms; "
	       "process 1 has not arrived");
	expect(cohort_group_respawn(p->group, NULL, 0), COHORT_STATE,
	       "close the group and open another");
	cr_assert_eq(cohort_group_abort(processes[1].group, "end"),
	             COHORT_ALREADY, "process 0's abort has ended it");
	close_all();
}

static int refused(const struct cohort_bootstrap *table)
{
	struct cohort_group_options o = processes[0].options;
	struct cohort_group *group = NULL;
	int rc;

	o.bootstrap = table;
	rc = cohort_group_open(NULL, 2, &o, &group);
	cr_assert_null(group);
	return rc;
}

Test(bootstrap, open_refuses_invalid_bootstrap_tables)
{
	const struct cohort_bootstrap good = processes[0].table;
	struct cohort_bootstrap t = good;

	t.size = 3;
	expect(refused(&t), COHORT_INVALID, "bootstrap->size is 3");
	t = good;
	t.reserved[8] = 1;
	expect(refused(&t), COHORT_INVALID,
	       "bootstrap->reserved[8] is 1, not 0");
	t = good;
	t.kind = 9;
	expect(refused(&t), COHORT_INVALID, "bootstrap->kind is 9");
	t = good;
	t.processes = 0;
	expect(refused(&t), COHORT_INVALID, "bootstrap->processes is 0");
	t = good;
	t.process = 2;
	expect(refused(&t), COHORT_INVALID,
	       "bootstrap->process is 2, not 0 to 1");
	t = good;
	t.req_test = NULL;
	expect(refused(&t), COHORT_INVALID, "bootstrap->req_test is NULL");
	t = good;
	t.kind = COHORT_BOOTSTRAP_ENV;
	expect(refused(&t), COHORT_INVALID, "no launcher has set");
	t.kind = COHORT_BOOTSTRAP_PMIX;
	expect(refused(&t), COHORT_INVALID,
	       "PMIX_NAMESPACE and PMIX_RANK are not set");
}

static void forget_launchers(void)
{
	static const char *const set[] = {
		"COHORT_PROCESS",
		"COHORT_PROCESSES",
		"OMPI_COMM_WORLD_RANK",
		"OMPI_COMM_WORLD_SIZE",
		"SLURM_PROCID",
		"PMI_RANK",
		"PMI_SIZE",
		"RANK",
		"WORLD_SIZE",
		"JAX_PROCESS_ID",
		"JAX_NUM_PROCESSES",
		"PMIX_NAMESPACE",
	};
	size_t i;

	for (i = 0; i < sizeof(set) / sizeof(set[0]); i++)
		unsetenv(set[i]);
}

Test(bootstrap, bootstrap_auto_without_a_launcher_is_one_process)
{
	struct process *p = &processes[0];
	struct cohort_process only;

	forget_launchers();
	p->table.kind = COHORT_BOOTSTRAP_AUTO;
	ranks_must(cohort_group_open(NULL, 0, &p->options, &p->group), "open");
	cr_assert_eq(cohort_group_processes(p->group, &only, 1), 1);
	cr_assert_eq(only.pid, getpid());
	cr_assert_eq(only.ranks, cohort_group_size(p->group));
	ranks_must(cohort_group_abort(p->group, "again"), "abort");
	ranks_must(cohort_group_respawn(p->group, (int[]){ 1 }, 1), "respawn");
	cr_assert_eq(cohort_group_size(p->group), only.ranks - 1);
	ranks_must(cohort_group_close(p->group), "close");
	setenv("WORLD_SIZE", "2", 1);
	expect(refused(&p->table), COHORT_INVALID,
	       "WORLD_SIZE is set in the environment, but RANK is not");
}

Test(bootstrap, comm_join_refuses_a_bootstrap)
{
	struct cohort_unique_id id;
	struct cohort_comm *comm;

	ranks_must(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), "id");
	expect(cohort_comm_join(&id, 1, 0, 0, &processes[0].options, &comm),
	       COHORT_INVALID,
	       "options->bootstrap is set, but ranks that join");
}
