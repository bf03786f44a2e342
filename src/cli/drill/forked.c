/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs a cell in several forked processes, and injects the faults of a process
 *
 * The calling process has no ranks. It must not have used a device, because
 * CUDA's state does not survive a fork. It resumes a process that was stopped,
 * and judges the cell after all processes have ended.
 */

#include "cli/drill/drill.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "cli/common/cli.h"
#include "cli/common/fork.h"

/* Longest time that a process may run */
#define LIMIT_S 90

/* Limit of descriptors before take_descriptors(), or 0. Only one thread uses it
 * at a time. */
static struct rlimit limit_before;

/* Lower the limit of descriptors so that none is free. */
static void take_descriptors(struct drill_run *run)
{
	const int lowest_free = dup(STDERR_FILENO);
	struct rlimit limit;

	close(lowest_free);
	getrlimit(RLIMIT_NOFILE, &limit_before);
	limit = limit_before;
	limit.rlim_cur = (rlim_t)lowest_free;
	if (lowest_free < 0 || setrlimit(RLIMIT_NOFILE, &limit))
		drill_record_error(run,
		                   "the limit of file descriptors cannot be "
		                   "lowered");
}

static void remove_file(struct drill_run *run)
{
	glob_t files;

	drill_find_files(&files);
	for (size_t i = 0; i < files.gl_pathc; i++)
		if (unlink(files.gl_pathv[i]) == 0)
			atomic_store(&run->shared->is_removed, 1);
	globfree(&files);
}

void drill_strike_process(struct drill_run *run)
{
	switch (run->trouble) {
	case BY_KILL:
		raise(SIGKILL);
		break;
	case BY_PAUSE:
	case BY_STOP:
		/* Use raise(), because after kill() this thread would continue
		 * briefly. */
		raise(SIGSTOP);
		break;
	case BY_DESCRIPTORS:
		take_descriptors(run);
		break;
	case BY_UNLINK:
		remove_file(run);
		break;
	default:
		break;
	}
}

void drill_strike(struct drill_run *run)
{
	drill_mark_fault(run);
	drill_strike_process(run);
}

static void become(struct drill_run *run, int process)
{
	run->process = process;
	run->own_n = run->n / run->options->processes;
	run->first = process * run->own_n;
	run->own = &run->shared->outcomes[process];
}

static _Noreturn void play_process(struct drill_run *run,
                                   struct drill_run *warm_up, int process)
{
	struct drill_memory memory;
	struct drill_census before;
	char left[80];

	alarm(LIMIT_S);
	become(run, process);
	become(warm_up, process);
	if (drill_memory_open(&memory, run->options, run->first, run->own_n)) {
		drill_run_here(warm_up, &memory);
		if (*warm_up->own->complaint)
			drill_record_error(run,
			                   "a run without any fault failed: %s",
			                   warm_up->own->complaint);
		before = drill_census();
		drill_run_here(run, &memory);
		if (limit_before.rlim_cur)
			setrlimit(RLIMIT_NOFILE, &limit_before);
		/* NCCL's init continues and keeps its threads and
		 * descriptors. */
		if (run->cell->leaves)
			before.threads = before.descriptors = SIZE_MAX;
		if (drill_is_left(&before, left, sizeof(left)))
			drill_record_error(run, "%s", left);
	} else {
		drill_record_error(run, "memory: %s", cohort_last_error());
	}
	drill_memory_close(&memory);
	exit(CLI_OK);
}

static void check_end(struct drill_run *run, int i, int status)
{
	bool is_killed =
		run->trouble == BY_KILL && i == run->options->processes - 1;

	run->own = &run->shared->outcomes[i];
	if (is_killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return;
	if (WIFSIGNALED(status))
		drill_record_error(run, "%s",
		                   WTERMSIG(status) == SIGALRM
		                           ? "did not exit in time"
		                           : strsignal(WTERMSIG(status)));
	else if (is_killed || WEXITSTATUS(status) != CLI_OK)
		drill_record_error(run, "exit status %d", WEXITSTATUS(status));
}

static int number_of(const struct processes *p, pid_t pid)
{
	int i = 0;

	while (i < p->n && p->pids[i] != pid)
		i++;
	return i;
}

static void await_children(struct drill_run *run, struct processes *p)
{
	uint64_t deadline = clock_deadline((LIMIT_S + 10) * NS_PER_S);
	struct backoff b = BACKOFF;
	int status, left = p->n;
	pid_t pid, stopped = 0;

	while (left && clock_now() < deadline) {
		pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
		if (pid > 0 && WIFSTOPPED(status)) {
			stopped = pid;
		} else if (pid > 0) {
			check_end(run, number_of(p, pid), status);
			p->pids[number_of(p, pid)] = 0;
			left--;
		} else {
			backoff_wait(&b, deadline);
		}
		if (!stopped || (run->trouble == BY_STOP && left > 1))
			continue;
		if (run->trouble == BY_PAUSE)
			drill_delay(run);
		kill(stopped, SIGCONT);
		stopped = 0;
	}
	if (left)
		drill_record_error(run, "%d processes did not exit in time",
		                   left);
	processes_end(p);
}

void drill_run_forked(struct drill_run *run, struct drill_run *warm_up)
{
	struct processes p = {
		.n = run->options->processes,
	};
	int number;

	if (processes_fork(&p, &number) != CLI_OK)
		drill_record_error(run, "the processes could not be started");
	else if (number >= 0)
		play_process(run, warm_up, number);
	else
		await_children(run, &p);
}
