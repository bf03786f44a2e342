/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_HAZARD_H
#define CORE_HAZARD_H

/*
 * Hazard pointers (M. Michael, 2004): the communicator that each thread is
 * using, so that its memory is not freed during the call
 *
 * Every API function announces its communicator before it reads it.  An
 * announcement lasts until the thread's next one, so a call that returns need
 * not withdraw it.
 */

#include <stdbool.h>
#include <stddef.h>

struct cohort_comm;

/* Announce that the calling thread uses @comm from now on. */
void hazard_announce(const struct cohort_comm *comm);

/* Return true if a thread may be using a communicator in the @bytes at @memory.
 * Whatever the caller has stored before is visible to threads that announce one
 * of them later. */
bool hazard_is_announced(const void *memory, size_t bytes);

#endif
