/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PMIX_LINE_H
#define PROCESSES_PMIX_LINE_H

/*
 * PMIx as a message channel (a line) between the processes of a group; see
 * processes/peers.h
 *
 * A process sends a message to the launcher as a job control request.  The
 * launcher forwards it as an event to one process or to all others.  When a
 * process ends, the launcher sends an event to all.
 */

#include <stdbool.h>

#include "processes/peers.h"
#include "processes/pmix_client.h"

struct pmix_line;

/* Start to receive the job's events, for all lines.  Called once.  Return false
 * if the server has no events. */
bool pmix_line_start(const struct pmix_client *client);

/* Called at exit().  If no line is open, report to the launcher that the end of
 * this connection is not the end of the process that the launcher has started.
 * That process may be a shell that continues after this process. */
void pmix_line_stop(void);

/* Return true if the launcher has reported that @process of the job has
 * ended. */
bool pmix_line_has_ended(int process);

/* Create a message channel between the processes that pass the same @key.
 * Return NULL if there is no memory. */
struct pmix_line *pmix_line_create(const struct pmix_client *client,
                                   const char *key);

void pmix_line_free(struct pmix_line *line);

/* Return the line for peers_connect(); NULL if the server has no events. */
const struct peer_line *pmix_line_get(const struct pmix_line *line);

#endif
