/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_DEADLINE_H
#define COHORT_DEADLINE_H

/*
 * Deadlines: how long an operation may take before the watchdog reports a hang
 *
 * A group has deadlines from its options (cohort/options.h).  A rank can
 * temporarily replace them (push), or stop all clocks (pause).  Adaptive
 * deadlines follow the time that recent collectives took.  enum cohort_policy
 * (cohort/watch.h) selects what happens when a deadline passes.
 *
 * The environment variable COHORT_DEADLINE, such as 30s, overrides join_ns and
 * exec_ns from all of these sources.  The units are ms, s, m and h; "off" means
 * no limit.  Open and join refuse any other value (COHORT_INVALID).
 */

#include <stdint.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * Deadlines of a group, in nanoseconds
 *
 * 0 selects the default, and COHORT_FOREVER means no limit.  Values below 1 ms
 * (1000000) are COHORT_INVALID.
 *
 * While the process is stopped (SIGSTOP, a debugger, a suspended machine), the
 * clocks of join_ns, exec_ns and slow_ns stand still.  So do the clocks of
 * callbacks and native queries, which abort_ns limits.  The clocks of init_ns,
 * close_ns and of an abort always run.  On a busy machine all clocks run.  See
 * docs/api-rules.md, "Which time counts".
 */
struct cohort_deadlines {
	/* Time to create and connect the ranks, in an open, respawn, join or
	 * split; default 120 s. */
	uint64_t init_ns;

	/* Time from a rank's call of a collective until the last rank has
	 * called it; default 300 s. */
	uint64_t join_ns;

	/* Time from the last rank's call until the collective is done on every
	 * rank; default 300 s.  The clocks of join_ns and exec_ns start only
	 * after all older collectives are done.  A call that connects ranks
	 * may take init_ns if that is longer (docs/gpu.md, "Connections"). */
	uint64_t exec_ns;

	/* Time that a close waits for operations in flight before it aborts
	 * them; default 60 s. */
	uint64_t close_ns;

	/* Time that an abort may take before it counts as wedged; default 10 s.
	 * Use 2 s or more on GPUs, because NCCL's threads check for an abort
	 * only twice a second.  Also limits on_verdict, native queries of the
	 * watchdog, and how long a run waits for its workers after a cause. */
	uint64_t abort_ns;
	uint64_t reserved[11]; /* must be 0 */
};

/*
 * Adaptive deadlines
 *
 * With options.adaptive_factor, join_ns and exec_ns of a collective are at most
 *
 *	max(adaptive_floor_ns, adaptive_factor x longest)
 *
 * where "longest" is the longest time that a collective of the same kind and
 * size class recently took.  The configured deadline is the upper limit, and
 * the only limit for the first adaptive_warmup collectives of a kind and size
 * class.  While any rank of the process has pushed deadlines or is paused,
 * adaptive deadlines are off.  Sends, receives, splits and captured calls never
 * have adaptive deadlines.
 *
 * Start with a factor of 8, and with a floor of the longest time that other
 * work can keep the machine busy.  See docs/api-rules.md, "Adaptive deadlines".
 */

/*
 * cohort_deadline_push - set other deadlines for this rank's next calls
 * @deadlines: join_ns and exec_ns, in nanoseconds; 0 leaves one unchanged.  All
 *             other fields must be 0.  Borrowed for the call
 *
 * Each call keeps the deadlines that it was made with.  The deadline of a
 * collective passes when the first rank that has called it runs out of time.
 * So to wait longer for one rank, push a longer deadline on the others.  Up to
 * 16 pushes can be open.  A close of the communicator and the return of a
 * worker of cohort_group_run() pop all of them.
 *
 * Allowed even if the group has a cause.  One thread at a time per
 * communicator; does not block.
 *
 * Returns: the same as cohort_pause(), and
 *   COHORT_OK       the deadlines are in force
 *   COHORT_INVALID  a field is wrong; the error text has its value
 *   COHORT_STATE    16 pushes are open, or the communicator is closed
 */
COHORT_API int cohort_deadline_push(struct cohort_comm *comm,
                                    const struct cohort_deadlines *deadlines);

/*
 * cohort_deadline_pop - undo the last push of deadlines
 *
 * Allowed even if the group has a cause.  One thread at a time per
 * communicator; does not block.
 *
 * Returns: the same as cohort_pause(), and
 *   COHORT_OK     the deadlines before the last push are in force
 *   COHORT_STATE  no push is open, or the communicator is closed
 */
COHORT_API int cohort_deadline_pop(struct cohort_comm *comm);

/*
 * cohort_pause - stop the clocks of all collectives while this rank pauses
 *
 * While any rank is paused, no deadline of a collective runs.  When the last
 * paused rank resumes, the clocks start again from zero.  Pauses nest.
 * Processes on different machines do not see each other's pauses; in a group on
 * several machines, a rank of each process must pause.  A paused rank may make
 * calls, and the exit of its bound thread still ends the group.  A close of the
 * communicator and the return of a worker of cohort_group_run() resume the
 * rank.  One thread at a time per communicator; does not block.
 *
 * Returns:
 *   COHORT_OK     the rank is paused
 *   COHORT_STATE  the communicator is closed
 *   COHORT_BUSY   another thread is inside the communicator
 *   COHORT_OWNER  the communicator is bound to another thread
 */
COHORT_API int cohort_pause(struct cohort_comm *comm);

/*
 * cohort_resume - undo the last pause of this rank
 *
 * One thread at a time per communicator; does not block.
 *
 * Returns: the same as cohort_pause(), and
 *   COHORT_OK     the pause is undone
 *   COHORT_STATE  the rank is not paused, or the communicator is closed
 */
COHORT_API int cohort_resume(struct cohort_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
