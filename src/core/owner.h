/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OWNER_H
#define CORE_OWNER_H

/*
 * Threads that own ranks
 *
 * A communicator may be bound to a thread.  When that thread exits, the rank's
 * next call can never be made, so the exit ends the clique and names the rank.
 *
 * An exiting thread finds its communicators in a list.  One lock guards the
 * list; it is held for a few instructions, and while ending a clique, which
 * does not block.
 *
 *  A. A communicator is not freed before its owner has unbound it or exited.
 *     A thread that frees a clique first walks the list.  No owner can be added
 *     then, because the clique is stale.  So either the freeing thread finds
 *     the owner in the list and keeps the communicator, or the owner has
 *     already removed itself and holds a reference for the rest of its call.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct clique;
struct cohort_comm;

static inline uintptr_t owner_self(void)
{
	return (uintptr_t)pthread_self();
}

/* Function that is called on an exiting thread for each open communicator that
 * is bound to it, or NULL.  It may end the communicator's clique.  Set before
 * the first bind. */
extern void (*_Atomic owner_exits)(struct cohort_comm *comm);

bool owner_is_self(const struct cohort_comm *comm);

/*
 * Bind @comm to the calling thread.  Call it with the lock held.  On error
 * nothing has changed.
 *
 * Returns:
 *   COHORT_OK       this thread is the owner now
 *   COHORT_ALREADY  this thread is the owner already
 *   COHORT_OWNER    another thread is the owner
 *   COHORT_STALE    the clique was replaced or closed
 *   COHORT_SYSTEM   the thread's exit cannot be watched
 */
int owner_bind(struct cohort_comm *comm);

/*
 * Unbind @comm from the calling thread.  Call it with the lock held, or on a
 * closed communicator.
 *
 * Returns:
 *   COHORT_OK       @comm is unbound.  The caller owns a reference to the
 *                   clique, perhaps the last one, and must release it after it
 *                   has released the lock
 *   COHORT_ALREADY  @comm was not bound
 *   COHORT_OWNER    @comm is bound to another thread
 */
int owner_unbind(struct cohort_comm *comm);

/* Prepare for freeing @clique, which is stale: unbind the calling thread's
 * communicators.  If a communicator is bound to another thread, keep it and the
 * root clique until that thread unbinds it or exits, because the thread may be
 * hanging now and may make its next call at any time. */
void owner_keep(struct clique *clique);

/* Unbind all communicators of @clique from their threads.  No thread may be
 * inside any of them. */
void owner_forget(const struct clique *clique);

#endif
