/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LAUNCH_JOB_H
#define CLI_LAUNCH_JOB_H

/*
 * cohort launch: starts the processes of a program, and tells each which have
 * ended
 *
 * The files, each of which uses those below it:
 *
 * 	job.c     the command: its options, and which process is on which host
 * 	wait.c    passing signals on, and waiting until all have ended
 * 	start.c   finding the program, and starting a process, here or elsewhere
 * 	server.c  the PMIx server, whose clients they are, by libpmix
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* How far a process has been brought to its end. */
enum ending {
	ENDING_NOT,
	ENDING_ASKED,    /* by a signal */
	ENDING_KILLED,   /* with SIGKILL */
	ENDING_GIVEN_UP, /* its agent was killed, too */
};

struct process {
	int number;
	const char *host; /* NULL: no hosts were given */
	bool is_remote;
	int local_number, local_count; /* among those of its host */

	pid_t pid; /* of itself or its agent; 0: it does not run */
	/* What an agent reads, -1 without one: a line for each signal.  The
	 * process is ended when the other end is closed. */
	int lifeline;
	enum ending ending;
	uint64_t ending_ns; /* when to go on with that */
	bool has_failed;
	/* When the others are told of its end, at the latest; 0: it runs. */
	uint64_t tell_ns;
	bool is_told;
};

struct launch {
	int n;
	struct process *processes;
	const char *agent; /* with its arguments, separated by spaces */
	char **words; /* of the agent, and room for the host and the command */
	size_t n_words;
	const char *interface;
	char **program; /* with its arguments */
	char *path;     /* of the program, for processes that have no agent */
	char *folder;   /* the current one */
	sigset_t mask;  /* of the processes */
	struct rlimit files; /* that they may have open */
	bool was_signalled;
};

/* True if there are processes on other hosts, or here. */
bool launch_has(const struct launch *l, bool is_remote);

/* Find the program if any process is local, and the agent if any is remote.
 * Returns an enum cli_exit, after a complaint. */
int launch_find_programs(struct launch *l);

/* Start @p.  CLI_OK, or CLI_FAILED after a complaint. */
int launch_start(const struct launch *l, struct process *p);

/* Wait until every process that has a pid has ended.  @signals: a signalfd;
 * @wake: the server's.  Returns the exit status of the first that has failed,
 *        or 0. */
int launch_wait(struct launch *l, int signals, int wake);

/* Ask all processes to end, with @signal. */
void launch_end_all(struct launch *l, int signal);

#endif
