/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LAUNCH_SERVER_H
#define CLI_LAUNCH_SERVER_H

/*
 * The launcher's PMIx server, whose clients are all processes of the job
 *
 * It answers on threads of libpmix, which inherit the signal mask of the one that starts
 * it.
 */

#include <stdbool.h>

struct server_options {
	int processes;
	const char *interface; /* to listen at, NULL: the first that suits */
	bool is_remote;        /* some processes are on other hosts */
	int wake;              /* an eventfd, which an abort is written to */
};

/* Returns CLI_OK, or CLI_FAILED after a complaint: nothing is left then. */
int server_start(const struct server_options *options);

/* The name of the job, which nobody can guess. */
const char *server_job(void);

/* What libpmix sets in the environment of @process, NAME=value...: the array and its
 * strings are the caller's to free.  NULL after a complaint. */
char **server_environment(int process);

/* Tell the others that @process has ended, unless they know. */
void server_tell_end(int process, bool has_failed);

/* True once after a process has asked to end @process. */
bool server_take_abort(int process);

void server_stop(void);

#endif
