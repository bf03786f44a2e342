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
 */

#include <pthread.h>
#include <stdint.h>

struct clique;
struct cohort_comm;

/* The calling thread, as an owner. */
static inline uintptr_t owner_self(void)
{
	return (uintptr_t)pthread_self();
}

/* Make the calling thread the owner of @comm, or nobody; inside the gate.
 * COHORT_OK; COHORT_ALREADY; COHORT_SYSTEM if the thread's end cannot be watched
 * (nothing has changed). */
int owner_bind(struct cohort_comm *comm);
int owner_unbind(struct cohort_comm *comm);

/* No rank of @clique has an owner any more. */
void owner_forget(struct clique *clique);

#endif
