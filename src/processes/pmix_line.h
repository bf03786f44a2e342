/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PMIX_LINE_H
#define PROCESSES_PMIX_LINE_H

/*
 * PMIx as a line between the processes of a group (processes/peers.h)
 *
 * A message goes to the launcher as a job control request, and from there to
 * all others, or to one of them, as an event.  The launcher sends an event to
 * all when a process ends.
 */

#include <stdbool.h>

#include "processes/peers.h"
#include "processes/pmix_client.h"

struct pmix_line;

/* Hear the job's events from now on, for all lines.  Once; false: the server
 * has none. */
bool pmix_line_start(const struct pmix_client *client);

/* At exit(): if no line is open, the end of the connection is not yet that of
 * the process, which a shell may have started, and that goes on. */
void pmix_line_stop(void);

/* Whether the launcher has told that process @process of the job has ended. */
bool pmix_line_has_ended(int process);

/* A line that joins the processes that pass the same @key.  NULL: no memory. */
struct pmix_line *pmix_line_create(const struct pmix_client *client,
                                   const char *key);
void pmix_line_free(struct pmix_line *line);

/* What peers_connect() takes.  NULL: the server has no events. */
const struct peer_line *pmix_line_get(const struct pmix_line *line);

#endif
