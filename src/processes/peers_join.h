/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PEERS_JOIN_H
#define PROCESSES_PEERS_JOIN_H

/*
 * Lets the processes of one machine whose ranks join by the same ID find and
 * watch each other, without a bootstrap
 *
 * Before a process's ranks connect, it writes its address to a file that is
 * named after the ID.  NCCL connects no rank before all ranks have begun to
 * connect.  So a process whose ranks are connected finds all addresses in the
 * file, and can remove it: the other processes have already opened it.
 *
 * Ranks of other machines, pid namespaces and users are not in the file, and
 * are not watched.
 */

#include "processes/peers.h"

struct peers_join;

/* Begin to join.  Return NULL if the processes cannot find each other.
 * @id:   the same @bytes bytes in all processes, and different for each join
 * @size: number of ranks in all processes
 * @name: name of the group, for the name of the thread */
struct peers_join *peers_join_begin(const void *id, size_t bytes, int size,
                                    const char *name);

/* Add @rank of this process, which has not begun to connect. */
void peers_join_add(const struct peers_join *join, int rank);

/* Add the ranks in all processes that have been added. */
void peers_join_list(const struct peers_join *join, uint64_t *ranks);

/* If the ranks can never connect, because a process with some of them has ended
 * or failed, append the reason and return true. */
bool peers_join_is_futile(const struct peers_join *join, struct text *why);

/* Watch the other processes after this process's ranks have connected.  Return
 * NULL if there are none.  Frees @join. */
struct peers *peers_join_connect(struct peers_join *join);

/* Give up, because this process's ranks have not connected within their timeout
 * (@status is COHORT_INIT_TIMEOUT), or because of an error, which ends the join
 * in the other processes. */
void peers_join_abandon(struct peers_join *join, int status);

/*
 * Wait until every other process has attached its clique, or has failed.
 * @status: COHORT_OK if this process has attached its clique
 *
 * Return @status if it is an error, otherwise the error of a process that has
 * failed, COHORT_INIT_TIMEOUT, the status of patience->abort, or COHORT_OK.
 */
int peers_join_agree(struct peers *peers, int status,
                     const struct patience *patience);

#endif
