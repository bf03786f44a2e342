/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_DEADLINE_H
#define COHORT_DEADLINE_H

/*
 * Deadlines: how long things may take before the watchdog says that they hang
 *
 * A group has deadlines from its options (cohort/options.h).  A rank can push
 * others for a while, or pause.  Adaptive deadlines follow what collectives
 * have taken.  What the watchdog does once a deadline has passed is in
 * cohort/watch.h.
 *
 * COHORT_DEADLINE in the environment, such as 30s, overrides all of that for
 * join_ns and exec_ns: the options, what is pushed, and adaptive deadlines.  Its
 * units are ms, s, m and h; "off" means no limit.  Open and join refuse any
 * other value (COHORT_INVALID).
 */

#include <stdint.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * How long things may take, in nanoseconds.  0: the default; COHORT_FOREVER: no
 * limit.  Less than 1 ms (1000000) is COHORT_INVALID.  The group's watchdog looks at the clocks of a call, on a thread of
 * its own that makes no native call.
 *
 * Nobody is blamed for time in which the process did not run (SIGSTOP, a
 * debugger, a machine that stood still).  Such time shows when the watchdog
 * wakes up later than it meant to, by more than half the shortest deadline, but
 * at least 100 ms and at the most 1 s.  Time in which, by the kernel, the
 * process ran or the watchdog waited for a core is not such time: on a busy
 * machine deadlines run, and cohort_stats() counts how often the watchdog was
 * starved.  The clocks of join_ns, exec_ns and
 * slow_ns, and those for the answers of on_verdict and NCCL, then stand still for the time missed: what hangs is found at the latest one
 * deadline after the process goes on.  A verdict says how much time that was.
 * The clocks of init_ns, of close_ns and of the end of an abort do not stand
 * still.
 */
struct cohort_deadlines {
	/* To make and connect the ranks, at open, respawn, join and split;
	 * default 120 s. */
	uint64_t init_ns;

	/* From a rank's call of a collective until the last rank has called it;
	 * default 300 s. */
	uint64_t join_ns;

	/* From the last rank's call until the collective is done on every rank;
	 * default 300 s.  While an older collective is not done, neither this
	 * clock nor that of join_ns runs.  A call that connects ranks (see
	 * "Connecting" in cohort/options.h) may take init_ns if that is
	 * longer. */
	uint64_t exec_ns;

	/* How long a close waits for what is in flight before it aborts;
	 * default 60 s. */
	uint64_t close_ns;

	/* How long an abort may take before it is given up as wedged; default
	 * 10 s.  NCCL's own threads look for an abort only twice a second: give
	 * it 2 s at least on GPUs.  Also how long on_verdict has to answer, how
	 * long NCCL and CUDA have to answer whether they have failed, and how
	 * long a run waits for its workers after a cause. */
	uint64_t abort_ns;
	uint64_t reserved[11]; /* 0; room for what later versions add */
};

/*
 * Adaptive deadlines
 *
 * A deadline of minutes finds a hang in minutes.  With options.adaptive_factor
 * the join_ns and exec_ns of a collective are at most
 *
 *	max(adaptive_floor_ns, adaptive_factor x longest)
 *
 * where "longest" is the longest that such a collective has lately taken to be
 * joined, or to be carried out, in this generation of the group.  Such a
 * collective is one of the same kind whose tensors have as many bytes, up to
 * the same power of two.  "Lately" is the last 1,024 of them and at least all
 * of the last 10 minutes, and at the most twice that.
 *
 * The configured deadline stays the hard limit.  It is the only one until
 * adaptive_warmup collectives of the kind have been observed, so also for a
 * collective that was never called before.  The very first collective and the
 * first of each kind are not observed.  One that was late but within its limit
 * widens the limit at once.  A verdict tells where its limit comes from.
 *
 * Nothing is adapted, and nothing observed, while any rank of the process has
 * pushed deadlines, whichever they are: the pushed ones and the group's hold as
 * they are.  The same holds while any rank is paused, for what any rank has
 * called before a pop or a resume, and for what the popping or resuming rank
 * calls first after it.  So if a rank is away for a while, to evaluate or to
 * write a checkpoint, have it do that between push and pop or between pause and
 * resume.  (In a group of several processes have the ranks of each process do
 * so: a process does not see the others' ranks.)  Pushed deadlines that are all
 * 0 say just this: do not adapt now.
 *
 * Sends and receives do not adapt, as their peers come when their own work is
 * done.  Splits do not either, nor calls that are captured, nor batches in
 * which the ranks' parts differ in size.  The watchdog observes, and looks
 * every 25 ms or every quarter of the floor for that: a call does not become
 * slower.  What the watchdog cannot time more closely it takes for longer, so
 * that a limit may be wider by that much times the factor, and run out that
 * much later.
 *
 * Choose a factor that is more than a rank has ever been late compared with
 * what is usual there: 8 or more is a start, with a floor as long as other work
 * may keep the machine busy.
 */

/*
 * cohort_deadline_push - set other deadlines for this rank's calls from now on
 * cohort_deadline_pop  - go back to those before the last push
 * @deadlines: join_ns and exec_ns count; 0: as before.  The other fields are
 *             the group's and must be 0.  Borrowed for the call
 *
 * Each call keeps the deadlines that it was made with.  A collective has as
 * many clocks as ranks have called it; the first that runs out decides.  So to
 * wait longer for one rank, push the longer deadline on the others.  At most 16
 * pushes deep.  At the end of a worker of cohort_group_run(), and by cohort_comm_close(), all
 * are popped.
 *
 * Also possible once the group has a cause.  One submitting thread at a time;
 * neither blocks.
 *
 * COHORT_OK; COHORT_INVALID with the field and its value; COHORT_STATE for a
 * pop without a push, a push too deep, or if closed; COHORT_BUSY; COHORT_OWNER.
 */
COHORT_API int cohort_deadline_push(struct cohort_comm *comm,
                                    const struct cohort_deadlines *deadlines);
COHORT_API int cohort_deadline_pop(struct cohort_comm *comm);

/*
 * cohort_pause  - this rank will be away for a while, with good reason
 * cohort_resume - it is back
 *
 * While any rank is paused, no deadline of a collective runs.  When the last
 * one resumes, the clocks of what is waiting start anew.  Pauses nest.
 * If the processes are on several machines, they do not see each other's
 * pauses: have a rank of each process pause.
 * Everything else goes on: a paused rank may make calls, and the exit of its
 * thread still ends the group.  At the end of a worker of cohort_group_run(),
 * and by cohort_comm_close(), the rank is resumed.
 *
 * One submitting thread at a time; neither blocks.
 *
 * COHORT_OK; COHORT_STATE for a resume without a pause, or if closed;
 * COHORT_BUSY; COHORT_OWNER; COHORT_INVALID.
 */
COHORT_API int cohort_pause(struct cohort_comm *comm);
COHORT_API int cohort_resume(struct cohort_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
