/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_FORK_H
#define CLI_COMMON_FORK_H

/* Runs a command in several forked processes, which can then open a group with
 * COHORT_BOOTSTRAP_ENV */

#include <sys/types.h>

#define MAX_PROCESSES 64

struct processes {
	/* number of the first process to fork: 1 if the caller is process 0,
	 * else 0 */
	int first;
	int n;
	/* pid of each forked process, or 0 once it has ended */
	pid_t pids[MAX_PROCESSES];
};

/*
 * Fork processes @p->first to @p->n - 1, which are killed when the caller ends.
 * The caller sets first and n, and calls this before the library starts
 * threads.
 *
 * Return in the caller and in each new process. *@number_out is the number of
 * the process, or -1 in a caller that has none. Return an enum cli_exit. If it
 * is not CLI_OK, an error was printed and all new processes have ended.
 */
int processes_fork(struct processes *p, int *number_out);

/* Wait until the forked processes have ended. SIGKILL may end process @killed.
 * Return an enum cli_exit. If a process failed, an error was printed. */
int processes_wait(struct processes *p, int killed);
void processes_end(struct processes *p);

#endif
