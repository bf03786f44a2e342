/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LAUNCH_H
#define CORE_LAUNCH_H

/*
 * Launching: the native part of a call, between its record and its ticket
 *
 * Once the native calls have begun, the other ranks may be waiting for this
 * one, so that a failure is the end of the clique.
 */

#include "core/clique.h"
#include "core/native.h"
#include "core/op.h"

/* How an operation is launched. */
enum plan {
	PLAN_CALLS,  /* one native call, or one group of them */
	PLAN_LIST,   /* several groups, or packed into buffers */
	PLAN_STAGED, /* with host memory, chunk by chunk */
	PLAN_COPY,   /* copies, for which no other rank waits */
	PLAN_SPLIT,  /* the ranks meet, and nothing is queued */
};

/* One operation on its way. */
struct submission {
	uint32_t digest; /* 0: the other ranks need not call the same */
	uint64_t ticket;
	enum plan plan;
	bool captured;   /* the streams are being captured: nothing runs now */
	bool meets;      /* all ranks of the process launch it, or none does */
	bool comes_last; /* this is the last rank to call it */
	bool left;       /* a thread of the library's launches it */

	struct native_result r; /* what failed in the native part */
	bool queued; /* something may have been queued, on any of the ranks */
	bool ended;  /* it has failed, and that was the end of the clique */
};

/* How @ops, one operation for each of @n neighbouring ranks, is launched. */
enum plan launch_plan(const struct cohort_comm *comms, int n,
                      const struct op *ops, bool captured);

/*
 * Wait until all ranks of the process have called, but no longer than a caller
 * with host memory wants to wait: after that a thread of the library's launches
 * its call (@s->left).  With every lock held.  COHORT_OK: launch it, unless it
 * was left, then call launch_barrier_leave(); else the status of a cause.
 */
int launch_await(struct cohort_comm *comms, int n, const struct op *ops,
                 struct submission *s);

/*
 * Launch @ops on all @n ranks, now that all ranks have called it or that is not
 * waited for.  With every lock held and the first rank's device current.
 * COHORT_OK, or the status of a failure, after which nothing tells what a
 * collective has queued, on any of the ranks.
 */
int launch(struct cohort_comm *comms, int n, const struct op *ops,
           struct submission *s);

/* End the clique, as the rank of @comm could not go to its device, for which
 * there is this thread's error, and the other ranks wait. */
void launch_end_for_device(struct cohort_comm *comm, int status,
                           cudaError_t error, struct submission *s);

#endif
