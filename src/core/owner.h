/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OWNER_H
#define CORE_OWNER_H

/*
 * Threads that own ranks: when the thread of a bound communicator exits, its
 * rank's next call can never be made, so that the exit ends the clique, with
 * that rank named
 *
 * Each thread has a list of the communicators that are bound to it, which its
 * exit goes through.  One lock guards all lists; it is held for a few
 * instructions, and for ending a clique, which does not block.
 *
 *  A. What an owner may use is not freed before the owner has unbound it or has
 *     exited.  Whoever frees a clique first goes through the list, under the
 *     lock under which an owner leaves it; no owner can be added any more, as
 *     the clique is stale.  So either the owner is found there and its
 *     communicator is kept, or the owner has left, with a reference of its own
 *     for the rest of its call.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct clique;
struct cohort_comm;

/* The calling thread's identity as an owner. */
static inline uintptr_t owner_self(void)
{
	return (uintptr_t)pthread_self();
}

/* Called on a thread that exits, for each communicator that is bound to it and
 * not closed: may end its clique.  Set before the first bind; NULL if there is
 * no such function. */
extern void (*_Atomic owner_exits)(struct cohort_comm *comm);

/* True if @comm is bound to the calling thread. */
bool owner_is_self(const struct cohort_comm *comm);

/* Make the calling thread the owner of @comm, with the lock held: COHORT_OK;
 * COHORT_ALREADY; COHORT_OWNER; COHORT_STALE; or COHORT_SYSTEM if the thread's
 * exit cannot be watched.  On an error nothing has changed. */
int owner_bind(struct cohort_comm *comm);

/* Unbind @comm, with the lock held or if it is closed: COHORT_ALREADY;
 * COHORT_OWNER; or COHORT_OK, and the caller has a reference to the clique, to
 * be put once it is out of the lock: nothing else may keep the communicator
 * then. */
int owner_unbind(struct cohort_comm *comm);

/* Prepare for freeing @clique, which is stale.  Unbinds the calling thread's
 * communicators of it.  A communicator that is bound to another thread is kept,
 * with its whole family, until that thread unbinds it or exits: the thread may
 * hang, and make its next call at any time. */
void owner_keep(struct clique *clique);

/* Unbind all communicators of @clique from their threads.  No thread may be
 * inside one. */
void owner_forget(const struct clique *clique);

#endif
