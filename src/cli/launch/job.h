/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LAUNCH_JOB_H
#define CLI_LAUNCH_JOB_H

/*
 * cohort launch: starts the processes of a program, and notifies each process
 * when another one ends
 *
 * Each file uses only the files below it, except for launch_has() in job.c:
 *
 *	job.c     the command: its options, and the host of each process
 *	wait.c    forwards signals, and waits until all processes have ended
 *	start.c   finds the program, and starts a process on any host
 *	server.c  the PMIx server of the processes, which uses libpmix
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The last step that was taken to end a process */
enum ending {
	ENDING_NOT,
	ENDING_ASKED,    /* a signal was sent */
	ENDING_KILLED,   /* SIGKILL was sent */
	ENDING_GIVEN_UP, /* the agent was killed as well */
};

struct process {
	int number;
	const char *host; /* name of the host, or NULL if no hosts were given */
	bool is_remote;
	/* number of the process and number of processes, on its host */
	int local_number, local_count;

	/* pid of the process or its agent, or 0 if neither is running */
	pid_t pid;
	/* Write end of the pipe to the agent, or -1 without an agent. Each line
	 * is the name of a signal to send. Closing the pipe ends the
	 * process. */
	int lifeline;
	enum ending ending;
	uint64_t ending_ns; /* time of the next step to end the process */
	bool has_failed;
	/* Time by which the other processes must be notified that this process
	 * has ended, or 0 if it is running */
	uint64_t notify_ns;
	bool is_notified;
};

struct launch {
	int n;
	struct process *processes;
	const char *agent; /* command with its arguments, separated by spaces */
	/* words of @agent, with room for the host and the command */
	char **words;
	size_t n_words;
	const char *interface;
	char **program;
	char *path;    /* path of the program, if there is no agent */
	char *folder;  /* the current folder */
	sigset_t mask; /* signal mask that the processes start with */
	/* limit of open files that the processes start with */
	struct rlimit files;
	bool was_signalled;
};

/* Return whether there are processes on other hosts if @is_remote is true, or
 * on this host otherwise. */
bool launch_has(const struct launch *l, bool is_remote);

/* Find the program if a process is local, and the agent if a process is remote.
 * Return an enum cli_exit. If it is not CLI_OK, an error was printed. */
int launch_find_programs(struct launch *l);

/* Start @p. Return CLI_OK, or CLI_FAILED after printing an error. */
int launch_start(const struct launch *l, struct process *p);

/* Wait until every process that has a pid has ended. @signals is a signalfd,
 * and @wake is the server's eventfd. Return the exit status of the first
 * process that failed, or 0. */
int launch_wait(struct launch *l, int signals, int wake);

void launch_end_all(struct launch *l, int signal);

/* ---- server.c --------------------------------------------------------- */

/* All processes of the job are clients of the launcher's PMIx server, which
 * runs on threads of libpmix. */

/* Start the server of @l, whose processes must already have hosts. The server
 * writes to the eventfd @wake after an abort or a lost connection. Its files
 * are removed when the launcher exits. Return CLI_OK, or CLI_FAILED after
 * printing an error. */
int server_start(const struct launch *l, int wake);

/* Return the job's name, which has 128 random bits. */
const char *server_job(void);

/* Return the variables, as NAME=value, that libpmix sets in the environment of
 * @process. The caller frees the array and its strings. Return NULL after
 * printing an error. */
char **server_environment(int process);

/* Return whether @process has no connection: it lost the last one or never had
 * one. */
bool server_has_lost(int process);

/* Return whether @process is ending: it has lost the connection that the
 * library used. */
bool server_has_left(int process);

/* Notify the other processes that @process has ended. Call this once. */
void server_notify_end(int process, bool has_failed);

/* Return whether a process has requested the end of @process since the last
 * call. */
bool server_take_abort(int process);

void server_stop(void);

#endif
