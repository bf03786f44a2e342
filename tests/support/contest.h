/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEST_H
#define CONTEST_H

/*
 * Who has ended a group: of all that fire at it, one at most is told that it did,
 * and the cause is that one's
 */

#include <stdatomic.h>

#include <cohort/cohort.h>

#define CONTEST_MOST 16

struct contest {
	struct cohort_abort *handle; /* a reference, for any of them */
	atomic_int winners;
	atomic_int winner;
};

void contest_begin(struct contest *contest, struct cohort_comm *comm);

/* The reason that number @who fires with. */
const char *contest_reason(int who);

/* Number @who was told @rc.  Any thread, any signal handler. */
void contest_told(struct contest *contest, int who, int rc);

/* Fire the contest's own handle as number @who. */
void contest_fire(struct contest *contest, int who);

/*
 * Check, when nobody fires any more, and give the handle back.  The status of the
 * cause: COHORT_OK: none; COHORT_ABORTED: one of those that fired, whose number is
 * in @contest->winner; anything else: somebody else.
 */
int contest_end(struct contest *contest);

#endif
