/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OWNER_H
#define CORE_OWNER_H

/*
 * Threads that own ranks: a bound communicator's thread that exits can never make
 * its rank's next call, so its exit is the end of the clique, with that rank
 * named
 *
 * Each thread has a list of the communicators it is bound to, which its end goes
 * through.  One lock guards all lists; it is held for a few instructions, and
 * for ending a clique, which does not block.
 *
 *  A. What an owner may use is not freed before the owner has unbound it or has ended.
 *     Whoever frees a clique first goes through the list, under the lock under which
 *     an owner leaves it, and none comes any more: so either the owner is found there and its communicator
 *     is kept, or it has left, with a reference of its own for the rest of its call.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct clique;
struct cohort_comm;

/* The calling thread, as an owner. */
static inline uintptr_t owner_self(void)
{
	return (uintptr_t)pthread_self();
}

/* True if @comm is bound to the calling thread. */
bool owner_is_self(const struct cohort_comm *comm);

/* Make the calling thread the owner of @comm, inside the gate.  COHORT_OK;
 * COHORT_ALREADY; COHORT_OWNER; COHORT_STALE; COHORT_SYSTEM if the thread's end cannot be
 * watched (nothing has changed). */
int owner_bind(struct cohort_comm *comm);

/* The reverse, inside the gate, or of a communicator that is closed.  COHORT_OK: the
 * caller now has a reference to the clique, to be put once it is out of the gate, as
 * nothing else may keep the communicator any more; COHORT_ALREADY; COHORT_OWNER. */
int owner_unbind(struct cohort_comm *comm);

/* @clique, which is stale, is about to be freed.  The calling thread's communicators of it
 * are bound no more.  Those of another thread are kept, with the whole family, until it unbinds them
 * or ends: it may hang, and make its next call at any time. */
void owner_keep(struct clique *clique);

#endif
