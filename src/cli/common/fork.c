/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/common/fork.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/common/cli.h"

/* Set a variable that COHORT_BOOTSTRAP_ENV reads. */
static bool set_number(const char *name, int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", number);
	return setenv(name, text, 1) == 0;
}

int processes_fork(struct processes *p, int *number_out)
{
	const pid_t parent = getpid();
	int i;

	memset(p->pids, 0, sizeof(p->pids));
	*number_out = p->first - 1;
	if (p->first == p->n)
		return CLI_OK;
	fflush(stdout);
	for (i = p->first; i < p->n; i++) {
		p->pids[i] = fork();
		if (p->pids[i] <= 0)
			break;
	}
	if (i < p->n && p->pids[i] < 0) {
		p->pids[i] = 0;
		cli_error("cannot start process %d: %s", i, strerror(errno));
		processes_end(p);
		return CLI_FAILED;
	}
	if (i < p->n) {
		*number_out = i;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(CLI_FAILED);
	}
	if (*number_out < 0 || (set_number("COHORT_PROCESS", *number_out) &&
	                        set_number("COHORT_PROCESSES", p->n) &&
	                        set_number("COHORT_JOB", (int)parent)))
		return CLI_OK;
	cli_error("out of memory");
	if (*number_out >= p->first)
		exit(CLI_FAILED);
	processes_end(p);
	return CLI_FAILED;
}

/* Wait for process @i. Return true if it exited with 0, or if SIGKILL ended it
 * and @may_be_killed is true. */
static bool await(struct processes *p, int i, bool may_be_killed)
{
	int status = 0;

	while (waitpid(p->pids[i], &status, 0) < 0 && errno == EINTR)
		;
	p->pids[i] = 0;
	if (may_be_killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return true;
	if (WIFSIGNALED(status))
		cli_error("process %d was ended by signal %d (%s)", i,
		          WTERMSIG(status), strsignal(WTERMSIG(status)));
	return WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK;
}

int processes_wait(struct processes *p, int killed)
{
	int status = CLI_OK;

	for (int i = p->first; i < p->n; i++)
		if (!await(p, i, i == killed))
			status = CLI_FAILED;
	return status;
}

void processes_end(struct processes *p)
{
	for (int i = p->first; i < p->n; i++)
		if (p->pids[i])
			kill(p->pids[i], SIGKILL);
	for (int i = p->first; i < p->n; i++)
		if (p->pids[i])
			await(p, i, true);
}
