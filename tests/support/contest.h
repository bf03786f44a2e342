/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEST_H
#define CONTEST_H

/*
 * Several threads that abort one group at the same time
 *
 * At most one cohort_abort_fire() may return COHORT_OK. Its reason must be the
 * group's cause.
 */

#include <stdatomic.h>

#include <cohort/cohort.h>

#define CONTEST_MOST 16

struct contest {
	/* handle that every contestant can use */
	struct cohort_abort *handle;
	atomic_int winners;
	atomic_int winner;
};

/* Start a contest for the group of @comm. */
void contest_begin(struct contest *contest, struct cohort_comm *comm);

/* Return the reason with which contestant @who aborts the group. */
const char *contest_reason(int who);

/* Record the result @rc of contestant @who. Any thread and a signal handler can
 * call this. */
void contest_record(struct contest *contest, int who, int rc);

/* Abort the group as contestant @who, with @contest->handle. */
void contest_fire(struct contest *contest, int who);

/*
 * Check the results and release the handle, after the last abort has returned.
 *
 * Return the status of the group's cause:
 * - COHORT_OK: there is no cause
 * - COHORT_ABORTED: contestant @contest->winner aborted the group
 * - another status: something else ended the group
 */
int contest_end(struct contest *contest);

#endif
