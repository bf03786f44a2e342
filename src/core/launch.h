/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LAUNCH_H
#define CORE_LAUNCH_H

/*
 * Launching: the native calls of an operation, made after its record is begun
 * and before its ticket is given out
 *
 * Once the native calls have begun, other ranks may be waiting for this one, so
 * a failure ends the clique.
 */

#include "core/clique.h"
#include "core/native.h"
#include "core/op.h"

enum plan {
	PLAN_CALLS,  /* one native call, or one group of them */
	PLAN_LIST,   /* a list of tensors, in several groups or packed */
	PLAN_STAGED, /* host memory, chunk by chunk */
	PLAN_COPY,   /* copies, for which no other rank waits */
	PLAN_SPLIT,  /* a split: the ranks rendezvous, and nothing is queued */
};

/* State of one submit(): an operation on one or several ranks. */
struct submission {
	uint32_t digest; /* 0 if the other ranks need not make the same call */
	uint64_t ticket;
	enum plan plan;
	bool captured; /* the streams are being captured, so nothing runs now */

	/* True if the ranks of the process wait for each other before the
	 * launch, so that either all of them launch the operation or none
	 * does. */
	bool meets;
	bool arrives_last; /* this rank was the last to call */

	/* The caller has timed out, and a library thread launches the
	 * operation. */
	bool left;

	/* The native call that failed, if any. */
	struct native_result r;
	bool queued; /* something may have been queued, on any rank */
	bool ended;  /* the operation has failed and ended the clique */
};

/* Choose how to launch @ops, one operation for each of the @n consecutive ranks
 * that start at @comms. */
enum plan launch_plan(const struct cohort_comm *comms, int n,
                      const struct op *ops, bool captured);

/*
 * Wait until all ranks of the process have called.  A caller with host memory
 * waits until its deadline at most; after that, a library thread is started to
 * launch the call, and @s->left is set.  Call this with all locks held.
 *
 * Returns:
 *   COHORT_OK         if @s->left is not set, launch the call, then call
 *                     launch_barrier_leave()
 *   a cause's status  no rank launches the call
 */
int launch_await(struct cohort_comm *comms, int n, const struct op *ops,
                 struct submission *s);

/*
 * Launch @ops on @n ranks.  Call this with all locks held and the first rank's
 * device current.  Return COHORT_OK or the status of a failure.  After a
 * failure it is unknown which parts of the operation were queued.
 */
int launch(struct cohort_comm *comms, int n, const struct op *ops,
           struct submission *s);

/* End the clique because the rank of @comm, for which other ranks wait, could
 * not make its device current.  The text of the cause is this thread's error
 * text. */
void launch_end_for_device(struct cohort_comm *comm, int status,
                           cudaError_t error, struct submission *s);

#endif
