/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_GAVE_UP_H
#define WATCH_GAVE_UP_H

/*
 * The cause of an end that a rank brings about because it has given up: its
 * worker returns what the library has answered, or its thread exits after that
 */

#include "core/clique.h"

/*
 * If the calling thread gives up @comm because of other ranks, store the cause
 * in @out, with these to blame by their numbers in @comm's clique, and return
 * true.  That is so if @status is what the library last answered to the thread,
 * and either the cause of a communicator of the rank's family, or an answer to
 * a wait for an operation that is not done.  If no rank of this process keeps
 * that operation, asks the other processes, which blocks until they have
 * answered or do not in time.
 *
 * @how: "its worker returned COHORT_TIMED_OUT"
 */
bool gave_up(struct cohort_comm *comm, int status, const char *how,
             struct cohort_cause *out);

/* True if @status is the last answer of the library to the calling thread,
 * which has queued nothing on @comm since. */
bool gave_up_is_answer(const struct cohort_comm *comm, int status);

/* The thread that @comm is bound to exits: end its clique if gave_up(). */
void gave_up_by_exit(struct cohort_comm *comm);

#endif
