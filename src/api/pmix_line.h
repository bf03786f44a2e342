/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_PMIX_LINE_H
#define API_PMIX_LINE_H

/*
 * PMIx events as a line between the processes of a group (watch/peers.h)
 *
 * A message is an event of a code of Cohort's own, for the whole job or for one process.
 * All processes are told the end of one as an event.
 */

#include <stdbool.h>

#include "api/pmix_client.h"
#include "watch/peers.h"

struct pmix_line;

/* Hear the job's events from now on, for all lines.  Once; false: the server has none. */
bool pmix_line_start(const struct pmix_client *client);

/* Whether the launcher has told that process @process of the job has ended. */
bool pmix_line_has_ended(int process);

/* A line among the processes that have given the same @key.  NULL: no memory. */
struct pmix_line *pmix_line_create(const struct pmix_client *client,
                                   const char *key);
void pmix_line_free(struct pmix_line *line);

/* What peers_connect() takes.  NULL: the server has no events. */
const struct peer_line *pmix_line_get(const struct pmix_line *line);

#endif
