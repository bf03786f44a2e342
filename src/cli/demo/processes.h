/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_PROCESSES_H
#define CLI_DEMO_PROCESSES_H

/*
 * The demo's processes: process 0, which the user has started and which reports, and
 * those that it forks
 */

#include <sys/types.h>

/* The most that a demo can have. */
#define MAX_PROCESSES 64

struct processes {
	int n;
	pid_t pids[MAX_PROCESSES]; /* in process 0; 0: it has ended */
};

/*
 * Be @n processes, which can open a group by COHORT_BOOTSTRAP_ENV.  The forked ones end
 * with process 0.  To be called before the library starts threads.
 *
 * Returns in each of them.  @number_out: the process's number
 * An enum cli_exit, after a complaint; then there is only process 0.
 */
int processes_fork(struct processes *p, int n, int *number_out);

/* In process 0: wait for the ends of the others.  An enum cli_exit, after a complaint if
 * one has failed; process @killed may have been killed. */
int processes_wait(struct processes *p, int killed);

/* In process 0: end the others at once. */
void processes_end(struct processes *p);

#endif
