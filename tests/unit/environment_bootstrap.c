/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of processes that find each other through a launcher's environment: the
 * variables, the exchange of data, and processes that are missing or end
 */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "processes/launcher.h"
#include "processes/own_bootstrap.h"
#include "support/expect.h"

#define SOON UINT64_C(20000000000)

/* Memory that the processes of a test share */
static struct shared {
	atomic_int step;
} * shared;

static char job[32];

static void be(int process, int processes)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", process);
	setenv("COHORT_PROCESS", text, 1);
	snprintf(text, sizeof(text), "%d", processes);
	setenv("COHORT_PROCESSES", text, 1);
}

static struct cohort_bootstrap table;
static const struct own_bootstrap *own;

static struct patience patience = { .timeout_ns = SOON };

/* Create the bootstrap table of a process, and return its info. */
static void *enter(int process, int processes)
{
	be(process, processes);
	cr_assert_eq(environment_bootstrap_create("g", sizeof(int), &patience,
	                                          &table, &own),
	             COHORT_OK, "%s", cohort_last_error());
	return table.info;
}

static void refused(int rc, const char *in_text)
{
	cr_assert_eq(environment_bootstrap_create("g", sizeof(int), &patience,
	                                          &table, &own),
	             rc, "%s", cohort_last_error());
	expect_text(cohort_last_error(), in_text);
}

static void await_step(int step)
{
	const uint64_t deadline = clock_deadline(SOON);
	struct backoff b = BACKOFF;

	while (atomic_load(&shared->step) < step && clock_now() < deadline)
		backoff_wait(&b, deadline);
	cr_assert_geq(atomic_load(&shared->step), step);
}

/* Gather one number from each process. Return the last result of req_test(). */
static int gather(int number, int *all)
{
	const uint64_t deadline = clock_deadline(SOON);
	struct backoff b = BACKOFF;
	void *request;
	int answer;

	cr_assert_eq(table.allgather(&number, all, sizeof(number), table.info,
	                             &request),
	             0);
	while ((answer = table.req_test(request)) == 1 &&
	       clock_now() < deadline)
		backoff_wait(&b, deadline);
	table.req_free(request);
	return answer;
}

/* Path of the file through which the processes find each other */
static char file[64];

static void find_file(void)
{
	void *e = enter(0, 1);
	char link[64];
	ssize_t n;
	int fd;

	for (fd = 3; fd < 64 && !strstr(file, "/dev/shm/cohort-"); fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, file, sizeof(file) - 1);
		file[n > 0 ? n : 0] = '\0';
	}
	expect_text(file, "/dev/shm/cohort-");
	own->free(e);
}

static bool is_there(void)
{
	return access(file, F_OK) == 0;
}

static void set_up(void)
{
	static const char *const others[] = {
		"OMPI_COMM_WORLD_RANK", "SLURM_PROCID",   "PMI_RANK", "RANK",
		"JAX_PROCESS_ID",       "COHORT_PROCESS",
	};
	size_t i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		unsetenv(others[i]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(job, sizeof(job), "%d", (int)getpid());
	setenv("COHORT_JOB", job, 1);
	find_file();
}

TestSuite(environment_bootstrap, .init = set_up, .timeout = 60);

/* ---- gathering --------------------------------------------------------- */

/* Gather three times as @process. Return 0 if all numbers are correct. */
static int gather_three_times(int process)
{
	void *e = enter(process, 3);
	int all[3], round, i, wrong = 0;

	for (round = 0; round < 3; round++) {
		wrong |= gather(10 * round + process, all) != 0;
		for (i = 0; i < 3; i++)
			wrong |= all[i] != 10 * round + i;
	}
	own->free(e);
	return wrong;
}

static pid_t start(int (*fn)(int process), int process)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(fn(process));
	}
	return child;
}

static void must_end_well(pid_t child)
{
	int status;

	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "status %x", (unsigned)status);
}

Test(environment_bootstrap, bootstrap_gathers_a_number_from_every_process)
{
	pid_t one = start(gather_three_times, 1);
	pid_t two = start(gather_three_times, 2);

	cr_assert_eq(gather_three_times(0), 0);
	must_end_well(one);
	must_end_well(two);
	cr_assert(!is_there(), "a file is left");
}

static int open_two_groups(int process)
{
	void *first = enter(process, 2), *second;
	struct cohort_bootstrap table_of_first = table;
	int all[2], wrong;

	wrong = gather(process, all) != 0;
	second = enter(process, 2);
	wrong |= gather(7 + process, all) != 0 || all[0] != 7 || all[1] != 8;
	table = table_of_first;
	wrong |= gather(process, all) != 0 || all[0] != 0 || all[1] != 1;
	own->free(first);
	own->free(second);
	return wrong;
}

Test(environment_bootstrap, groups_with_one_name_are_matched_in_opening_order)
{
	pid_t one = start(open_two_groups, 1);

	cr_assert_eq(open_two_groups(0), 0);
	must_end_well(one);
}

/* ---- missing processes ------------------------------------------------- */

static void expect_reason(const void *e, const char *reason)
{
	char text[256] = "";

	own->explain(e, &(struct text){ text, sizeof(text) });
	cr_assert_str_eq(text, reason);
}

Test(environment_bootstrap, bootstrap_names_missing_processes)
{
	void *e = enter(2, 4);
	int number = 1, all[4];
	void *request;

	cr_assert_eq(table.allgather(&number, all, sizeof(number), table.info,
	                             &request),
	             0);
	cr_assert_eq(table.req_test(request), 1);
	expect_reason(e, "; processes 0-1, 3 have not arrived");
	own->free(e);
	cr_assert(!is_there(), "a file is left");
}

static void end(pid_t child)
{
	int status;

	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	unlink(file);
}

static int come_and_wait(int process)
{
	enter(process, 2);
	atomic_fetch_add(&shared->step, 1);
	pause();
	return 1;
}

Test(environment_bootstrap, bootstrap_names_a_process_that_is_stopped)
{
	pid_t child = start(come_and_wait, 1);
	void *e = enter(0, 2), *request;
	int number = 1, all[2];
	char reason[96];

	await_step(1);
	kill(child, SIGSTOP);
	cr_assert_eq(waitpid(child, NULL, WUNTRACED), child);
	cr_assert_eq(table.allgather(&number, all, sizeof(number), table.info,
	                             &request),
	             0);
	cr_assert_eq(table.req_test(request), 1);
	snprintf(reason, sizeof(reason), "; process 1 (pid %d) is stopped",
	         (int)child);
	expect_reason(e, reason);
	own->free(e);
	end(child);
}

Test(environment_bootstrap, bootstrap_gather_names_a_process_that_has_ended)
{
	pid_t child = start(come_and_wait, 1);
	void *e = enter(0, 2);
	char reason[64];
	int all[2];

	await_step(1);
	kill(child, SIGKILL);
	cr_assert_eq(gather(0, all), -1);
	snprintf(reason, sizeof(reason),
	         "; process 1 (pid %d) has ended or left", (int)child);
	expect_reason(e, reason);
	own->free(e);
	cr_assert(!is_there(), "a file is left");
}

Test(environment_bootstrap,
     bootstrap_file_of_killed_processes_is_reused_and_removed)
{
	pid_t child = start(come_and_wait, 1);
	pid_t again;
	int status;

	await_step(1);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	cr_assert(is_there(), "no process was left to remove the file");
	again = start(open_two_groups, 1);
	cr_assert_eq(open_two_groups(0), 0);
	must_end_well(again);
	cr_assert(!is_there(), "a file is left");
}

static void expect_damaged(const void *e)
{
	char reason[160];

	snprintf(reason, sizeof(reason),
	         "; %s, by which processes find each other, was truncated or "
	         "overwritten",
	         file);
	expect_reason(e, reason);
}

Test(environment_bootstrap, bootstrap_gather_names_a_truncated_file)
{
	pid_t child = start(come_and_wait, 1);
	void *e = enter(0, 2);
	int all[2], status;

	await_step(1);
	cr_assert_eq(truncate(file, 0), 0);
	cr_assert_eq(gather(0, all), -1);
	expect_damaged(e);
	own->free(e);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	own->free(enter(0, 1));
	cr_assert(!is_there(), "a file is left");
}

Test(environment_bootstrap,
     bootstrap_gather_names_a_file_truncated_during_its_wait)
{
	pid_t child = start(come_and_wait, 1);
	void *e = enter(0, 2), *request;
	int number = 1, all[2], status;

	await_step(1);
	cr_assert_eq(table.allgather(&number, all, sizeof(number), table.info,
	                             &request),
	             0);
	cr_assert_eq(table.req_test(request), 1);
	cr_assert_eq(truncate(file, 20), 0);
	cr_assert_eq(table.req_test(request), -1);
	expect_damaged(e);
	cr_assert_eq(table.req_test(request), -1);
	own->free(e);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	own->free(enter(0, 1));
}

static int tell_and_wait(int process)
{
	int number = 111, all[2];
	void *request;

	enter(process, 2);
	table.allgather(&number, all, sizeof(number), table.info, &request);
	atomic_fetch_add(&shared->step, 1);
	pause();
	return 1;
}

/* Gather as process 1 after a restart of the process. Return 0 on success. */
static int tell_later(int process)
{
	void *e;
	int all[2], wrong;

	await_step(2);
	e = enter(process, 2);
	atomic_fetch_add(&shared->step, 1);
	wrong = gather(222, all) != 0 || all[0] != 0;
	own->free(e);
	return wrong;
}

Test(environment_bootstrap,
     bootstrap_gather_ignores_the_number_of_a_killed_process)
{
	pid_t child = start(tell_and_wait, 1), later = start(tell_later, 1);
	void *e;
	int all[2], status;

	await_step(1);
	e = enter(0, 2); /* keeps the file from being removed */
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	atomic_fetch_add(&shared->step, 1);
	await_step(3);
	cr_assert_eq(gather(0, all), 0);
	cr_assert_eq(all[1], 222);
	own->free(e);
	must_end_well(later);
}

Test(environment_bootstrap, open_refuses_a_group_name_that_another_open_uses)
{
	void *e = enter(0, 2);

	be(0, 2);
	refused(COHORT_STATE, "is opening another group of the same name");
	own->free(e);
	own->free(enter(0, 2));
}

/* ---- a file that cannot be locked --------------------------------------- */

#define PATIENCE_NS UINT64_C(300000000)

/* Lock the byte that a process locks while it creates or leaves the file, and
 * never unlock it. */
static int hold_the_door(int process)
{
	struct flock door = { .l_type = F_WRLCK, .l_len = 1 };
	int fd = open(file, O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);

	(void)process;
	if (fd < 0 || fcntl(fd, F_SETLK, &door))
		return 1;
	atomic_fetch_add(&shared->step, 1);
	pause();
	return 1;
}

Test(environment_bootstrap,
     wait_for_the_bootstrap_file_lock_ends_at_the_deadline)
{
	pid_t child = start(hold_the_door, 1);
	uint64_t began, waited;
	char text[64];

	await_step(1);
	kill(child, SIGSTOP);
	be(0, 2);
	patience.timeout_ns = PATIENCE_NS;
	snprintf(text, sizeof(text),
	         " has been locked by pid %d for 300 ms: is that process "
	         "stopped?",
	         (int)child);
	began = clock_now();
	refused(COHORT_INIT_TIMEOUT, text);
	waited = clock_now() - began;
	cr_assert_geq(waited, PATIENCE_NS);
	cr_assert_lt(waited, 10 * PATIENCE_NS);
	end(child);
}

Test(environment_bootstrap, wait_for_the_bootstrap_file_lock_can_be_aborted)
{
	pid_t child = start(hold_the_door, 1);
	struct cohort_abort *abort = cohort_abort_create();

	await_step(1);
	be(0, 2);
	patience.abort = abort;
	cr_assert_eq(cohort_abort_fire(abort, "enough"), COHORT_OK);
	refused(COHORT_ABORTED, "aborted: enough");
	patience.abort = NULL;
	cohort_abort_put(abort);
	end(child);
}

/* Make fcntl(F_SETLK) fail with EPERM in this process from now on. Return false
 * if the kernel cannot do that. */
static bool deny_locks(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		         offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fcntl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		         offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

Test(environment_bootstrap, denied_bootstrap_file_lock_is_an_error_at_once)
{
	uint64_t began;

	if (!deny_locks())
		cr_skip_test("the kernel has no seccomp");
	be(0, 2);
	began = clock_now();
	refused(COHORT_SYSTEM, ": fcntl(F_SETLK): Operation not permitted; "
	                       "allow locks, or pass a bootstrap table of your "
	                       "own");
	cr_assert_lt(clock_now() - began, SOON / 2);
	cr_assert(!is_there(), "a file is left");
}

/* ---- errors ------------------------------------------------------------ */

Test(environment_bootstrap, bootstrap_refuses_a_process_number_that_is_taken)
{
	pid_t child = start(come_and_wait, 1);
	char text[64];
	int status;

	await_step(1);
	be(1, 2);
	snprintf(text, sizeof(text), "is already running (pid %d)", (int)child);
	refused(COHORT_INVALID, text);
	be(0, 3);
	refused(COHORT_INVALID,
	        "this process expects 3 processes, but another");
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	own->free(enter(0, 1));
}

Test(environment_bootstrap, incomplete_launcher_variables_are_refused)
{
	unsetenv("COHORT_PROCESS");
	refused(COHORT_INVALID, "COHORT_PROCESSES is set in the environment, "
	                        "but COHORT_PROCESS is not");
	unsetenv("COHORT_PROCESSES");
	refused(COHORT_INVALID, "no launcher has set");
	setenv("RANK", "0", 1);
	refused(COHORT_INVALID,
	        "RANK is set in the environment, but WORLD_SIZE is not");
	setenv("WORLD_SIZE", "2", 1);
	refused(COHORT_INVALID,
	        "RANK is set in the environment, but MASTER_PORT is not");
	setenv("MASTER_PORT", "1", 1);
	setenv("LOCAL_WORLD_SIZE", "1", 1);
	refused(COHORT_UNSUPPORTED,
	        "LOCAL_WORLD_SIZE is 1 in the environment, not 2: some "
	        "processes are on other machines");
	setenv("LOCAL_WORLD_SIZE", "2", 1);
	setenv("RANK", "2", 1);
	refused(COHORT_INVALID, "RANK is \"2\" in the environment, not 0 to 1");
	setenv("WORLD_SIZE", "two", 1);
	refused(COHORT_INVALID,
	        "WORLD_SIZE is \"two\" in the environment, not 1 to 1024");
}

Test(environment_bootstrap, jax_launcher_variables_are_read)
{
	unsetenv("COHORT_PROCESS");
	unsetenv("COHORT_PROCESSES");
	setenv("JAX_PROCESS_ID", "2", 1);
	setenv("JAX_NUM_PROCESSES", "2", 1);
	refused(COHORT_INVALID, "JAX_PROCESS_ID is set in the environment, but "
	                        "JAX_COORDINATOR_ADDRESS is not");
	setenv("JAX_COORDINATOR_ADDRESS", "127.0.0.1:1234", 1);
	refused(COHORT_INVALID,
	        "JAX_PROCESS_ID is \"2\" in the environment, not 0 to 1");
}

Test(environment_bootstrap, slurm_batch_script_is_not_taken_for_a_launcher)
{
	unsetenv("COHORT_PROCESS");
	unsetenv("COHORT_PROCESSES");
	setenv("SLURM_JOB_ID", "1", 1);
	setenv("SLURM_PROCID", "0", 1);
	cr_assert_eq(launcher_check(), COHORT_OK);
	refused(COHORT_INVALID, "no launcher has set");
}

/* torchrun passes on the PMIx variables of the srun that started it. */
Test(environment_bootstrap, job_on_several_machines_needs_its_launchers_pmix)
{
	setenv("COHORT_PROCESSES", "2", 1);
	setenv("COHORT_PROCESS", "0", 1);
	cr_assert(!launcher_wants_pmix());
	unsetenv("COHORT_PROCESS");
	cr_assert(launcher_wants_pmix());
	setenv("PMIX_NAMESPACE", "1", 1);
	setenv("SLURM_PROCID", "0", 1);
	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	setenv("SLURM_JOB_ID", "1", 1);
	setenv("SLURM_STEP_NUM_NODES", "1", 1);
	cr_assert(!launcher_wants_pmix());
	setenv("SLURM_STEP_NUM_NODES", "2", 1);
	cr_assert(launcher_wants_pmix());
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_PORT", "1", 1);
	setenv("LOCAL_WORLD_SIZE", "1", 1);
	cr_assert(!launcher_wants_pmix());
	unsetenv("MASTER_PORT");
	setenv("OMPI_COMM_WORLD_RANK", "0", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
	cr_assert(!launcher_wants_pmix());
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
	cr_assert(launcher_wants_pmix());
}

Test(environment_bootstrap,
     bootstrap_refuses_a_file_that_other_users_can_write_to)
{
	pid_t child = start(come_and_wait, 1);
	int status;

	await_step(1);
	cr_assert_eq(chmod(file, 0666), 0);
	be(0, 2);
	refused(COHORT_SYSTEM,
	        "is not a file that only this user can write to");
	cr_assert_eq(chmod(file, 0600), 0);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	own->free(enter(0, 1));
}
