/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_HAZARD_H
#define CORE_HAZARD_H

/*
 * Hazard pointers (M. Michael, 2004): the communicator that each thread is
 * using, so that its memory is not freed during the call
 *
 * Every API function announces its communicator before reading it.  An
 * announcement lasts until the thread announces another communicator, so API
 * functions need not withdraw it.
 */

#include <stdbool.h>
#include <stddef.h>

struct cohort_comm;

/* Announce that the calling thread uses @comm from now on. */
void hazard_announce(const struct cohort_comm *comm);

/* Return true if a thread may be using a communicator within the @bytes at
 * @memory.  If this returns false, a thread that later announces a communicator
 * there sees all earlier stores of the caller. */
bool hazard_is_announced(const void *memory, size_t bytes);

#endif
