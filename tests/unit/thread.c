/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the states, names, delays and signals of threads, and of how a
 * process ended
 */

#include <criterion/criterion.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"
#include "support/place.h"

TestSuite(thread, .timeout = 60);

static char name[THREAD_NAME_SIZE];

Test(thread, name_of_a_live_thread_is_found)
{
	pthread_setname_np(pthread_self(), "some name");
	cr_assert(thread_lives(thread_id(), name));
	cr_assert_str_eq(name, "some name");
}

static void *tell_id(void *id)
{
	*(int *)id = thread_id();
	return NULL;
}

Test(thread, thread_that_has_exited_is_not_alive)
{
	pthread_t thread;
	int id = 0;

	pthread_create(&thread, NULL, tell_id, &id);
	pthread_join(thread, NULL);
	cr_assert_gt(id, 0);
	while (thread_lives(id, name))
		sched_yield(); /* /proc may list the thread a little longer */
	cr_assert_str_eq(name, "");
}

/* ---- waiting for a core ------------------------------------------------ */

static atomic_bool is_over;

static void *spin(void *unused)
{
	(void)unused;
	while (!atomic_load(&is_over))
		;
	return NULL;
}

Test(thread, thread_that_shares_its_core_is_delayed)
{
	const uint64_t before = thread_delayed_ns();
	pthread_t other;
	cpu_set_t first;

	if (access("/proc/self/schedstat", R_OK) || !before)
		cr_skip_test("the kernel does not count delays");
	CPU_ZERO(&first);
	CPU_SET(sched_getcpu(), &first);
	cr_assert_eq(sched_setaffinity(0, sizeof(first), &first), 0);
	/* both threads spin on one core */
	pthread_create(&other, NULL, spin, NULL);
	while (thread_delayed_ns() < before + 20 * 1000 * 1000)
		;
	atomic_store(&is_over, true);
	pthread_join(other, NULL);
}

/* ---- signals ---------------------------------------------------------- */

static char *page;

static void open_page(int signal)
{
	(void)signal;
	mprotect(page, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
}

static void *write_to_page(void *blocked)
{
	*(bool *)blocked = thread_blocks(thread_id(), SIGTERM) &&
	                   thread_blocks(thread_id(), SIGUSR1);
	*(volatile char *)page = 1;
	return NULL;
}

/* A library thread can call functions of the program. A fault in such a
 * function must reach the program's handler. */
Test(thread, library_thread_receives_only_signals_of_its_own_faults)
{
	const struct sigaction action = { .sa_handler = open_page };
	pthread_t thread;
	bool blocked;

	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE,
	            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(page, MAP_FAILED);
	cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);
	cr_assert_eq(thread_start(&thread, write_to_page, &blocked, "faults"),
	             0);
	pthread_join(thread, NULL);
	cr_assert_eq(*page, 1);
	cr_assert(blocked);
}

/* In /proc/.../status, the user's groups precede the signal masks, and the list
 * of groups can have any length. */
Test(thread, blocked_signal_is_found_if_the_user_has_many_groups)
{
	gid_t groups[700];
	sigset_t one;
	int i;

	for (i = 0; i < 700; i++)
		groups[i] = 1000000 + (gid_t)i;
	if (setgroups(700, groups))
		cr_skip_test("only root has many groups");
	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &one, NULL);
	cr_assert(thread_blocks(thread_id(), SIGUSR2));
	cr_assert_not(thread_blocks(thread_id(), SIGUSR1));
}

Test(thread, thread_is_alive_even_if_no_file_can_be_opened)
{
	struct rlimit none, some;
	bool lives;

	getrlimit(RLIMIT_NOFILE, &some);
	none = (struct rlimit){ 0, some.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	lives = thread_lives(thread_id(), name);
	setrlimit(RLIMIT_NOFILE, &some);
	cr_assert(lives);
	cr_assert_str_eq(name, "");
}

/* Return whether /proc shows the process's first thread as a zombie. */
static bool first_is_zombie(void)
{
	char line[256] = "";
	const char *end;
	FILE *f = fopen("/proc/self/stat", "re");

	if (!f)
		return false;
	end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return end && end[2] == 'Z';
}

static void *look_at_first(void *arg)
{
	char state[THREAD_STATE_SIZE];

	(void)arg;
	while (!first_is_zombie())
		sched_yield();
	if (thread_lives(getpid(), name))
		_exit(1);
	thread_state(getpid(), state);
	_exit(*state ? 2 : thread_lives(thread_id(), name) ? 0 : 3);
}

/*
 * The kernel keeps the first thread as a zombie, and delivers signals to it,
 * until the last thread of the process has ended.
 */
Test(thread, main_thread_that_has_ended_is_not_alive)
{
	pthread_t thread;
	int status = -1;
	pid_t child;

	place_skip_in_qemu("/proc/self/stat has no state");
	child = fork();
	if (!child) {
		pthread_create(&thread, NULL, look_at_first, NULL);
		pthread_exit(NULL);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
}

/* ---- how another process has ended ------------------------------------- */

static void expect_end(int status, const char *text)
{
	char got[64] = "";

	thread_add_end(&(struct text){ got, sizeof(got) }, status);
	cr_assert_str_eq(got, text);
}

/* Start a child that waits for a signal. Return its pid, and store its pidfd in
 * @pidfd. */
static pid_t start_process(int *pidfd)
{
	pid_t child = fork();

	if (!child)
		for (;;)
			pause();
	*pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	if (*pidfd < 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		cr_skip_test("no pidfd_open() (Linux 5.3)");
	}
	return child;
}

Test(thread, end_of_a_killed_process_is_known_until_it_is_reaped)
{
	siginfo_t info;
	int pidfd, end;
	pid_t child = start_process(&pidfd);

	cr_assert_eq(thread_process_end(child, pidfd), -1, "it runs");
	kill(child, SIGSTOP);
	waitid(P_PID, (id_t)child, &info, WSTOPPED);
	cr_assert_eq(thread_process_end(child, pidfd), -1, "it is stopped");
	kill(child, SIGKILL);
	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	cr_assert_eq(thread_process_end(child, pidfd), SIGKILL);
	cr_assert_eq(thread_process_end(child, -1), -1);
	waitpid(child, NULL, 0);
	/* Before 6.15, Linux cannot report how a process ended once it was
	 * waited for. */
	end = thread_process_end(child, pidfd);
	cr_assert(end == SIGKILL || end == -1, "%d", end);
	close(pidfd);
}

Test(thread, end_of_a_process_is_described_in_words)
{
	expect_end(9, "was killed by signal 9");
	expect_end(3 << 8, "has exited with status 3");
	expect_end(0, "has exited with status 0");
	expect_end(-1, "is gone");
}
