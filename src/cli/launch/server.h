/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LAUNCH_SERVER_H
#define CLI_LAUNCH_SERVER_H

/*
 * The launcher's PMIx server, whose clients are all processes of the job
 *
 * It answers on threads of libpmix, which inherit the signal mask of the one
 * that starts it.
 */

#include <stdbool.h>

#include "cli/launch/job.h"

/* Start the server of @l, whose processes are known.  @wake: an eventfd, which
 * is written to for an abort, and a lost connection.  Returns CLI_OK, or
 * CLI_FAILED after a complaint: nothing is left then. */
int server_start(const struct launch *l, int wake);

/* The job's name, with 128 random bits. */
const char *server_job(void);

/* What libpmix sets in the environment of @process, NAME=value...: the array
 * and its strings are the caller's to free.  NULL after a complaint. */
char **server_environment(int process);

/* True if @process has no connection: it has lost the last one, or had none. */
bool server_has_lost(int process);

/* True if it has, and the library has used one: the process is ending. */
bool server_has_left(int process);

/* Tell the others that @process has ended.  Once. */
void server_tell_end(int process, bool has_failed);

/* True once after a process has asked to end @process. */
bool server_take_abort(int process);

void server_stop(void);

#endif
