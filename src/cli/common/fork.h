/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_FORK_H
#define CLI_COMMON_FORK_H

/*
 * A command in several processes, which can open a group by
 * COHORT_BOOTSTRAP_ENV
 */

#include <sys/types.h>

/* The most that a command can have. */
#define MAX_PROCESSES 64

struct processes {
	const char *command; /* its name, for complaints */
	int first;           /* the first that was forked: 0 or 1 */
	int n;
	/* Of those that were forked; 0: it has ended. */
	pid_t pids[MAX_PROCESSES];
};

/*
 * Fork processes @p->first to @p->n - 1.  The caller has set command, first and
 * n. Process 0, if it is not forked, is the caller.  The forked ones end with
 * the caller.  To be called before the library starts threads.
 *
 * Returns in each of them, and in the caller.  @number_out: the process's
 * number, or -1 in a caller that is none of them An enum cli_exit, after a
 * complaint; then there is only the caller.
 */
int processes_fork(struct processes *p, int *number_out);

/* Wait for the ends of those that were forked.  An enum cli_exit, after a
 * complaint if one has failed; process @killed may have been killed. */
int processes_wait(struct processes *p, int killed);

/* End those that were forked at once. */
void processes_end(struct processes *p);

#endif
