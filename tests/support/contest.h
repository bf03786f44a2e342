/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEST_H
#define CONTEST_H

/*
 * Several threads fire the abort of one group: at most one may be told that its
 * fire ended the group, and the group's cause must be that thread's
 */

#include <stdatomic.h>

#include <cohort/cohort.h>

#define CONTEST_MOST 16

struct contest {
	struct cohort_abort *handle; /* a reference that any of them may use */
	atomic_int winners;
	atomic_int winner;
};

void contest_begin(struct contest *contest, struct cohort_comm *comm);

/* The reason that number @who fires with. */
const char *contest_reason(int who);

/* Record that contestant number @who got the result @rc.  Any thread, any signal
 * handler. */
void contest_told(struct contest *contest, int who, int rc);

/* Fire the contest's own handle as number @who. */
void contest_fire(struct contest *contest, int who);

/*
 * Check the answers once no thread fires any more, and give the handle back.
 * Returns the status of the cause: COHORT_OK if there is none; COHORT_ABORTED
 * if it is of one that fired, whose number is then in @contest->winner; any
 * other status if something else ended the group.
 */
int contest_end(struct contest *contest);

#endif
