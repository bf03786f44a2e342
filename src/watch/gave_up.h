/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_GAVE_UP_H
#define WATCH_GAVE_UP_H

/*
 * Finds out whether other ranks are to blame if a rank gives up
 *
 * A rank gives up if its worker returns an error that it got from the library,
 * or if its thread exits after such an error.
 */

#include "core/clique.h"

/*
 * gave_up - find the cause if a rank gives up because of other ranks
 * @comm:   communicator of the rank, whose thread calls this
 * @status: error with which the rank gives up
 * @how:    for the text: "its worker returned COHORT_TIMED_OUT"
 * @out:    set to the cause, which names ranks by their numbers in @comm's
 *          clique
 *
 * Other ranks are to blame if @status is the last error that the library
 * returned to the thread, and if it is either the status of a cause in the
 * rank's group or in a communicator split from it, or the result of a wait for
 * an operation that is not done.  If no rank of this process holds up that
 * operation, this asks the other processes and blocks for a limited time.
 *
 * Returns true if other ranks are to blame; @out is set only then.
 */
bool gave_up(struct cohort_comm *comm, int status, const char *how,
             struct cohort_cause *out);

/* Return true if @status is the last error that the library returned to the
 * calling thread, and the thread has queued no operation on @comm after
 * that. */
bool gave_up_is_answer(const struct cohort_comm *comm, int status);

/* End the clique of @comm if gave_up() finds a cause.  Called when the thread
 * that @comm is bound to exits. */
void gave_up_by_exit(struct cohort_comm *comm);

#endif
