/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_WATCH_H
#define COHORT_WATCH_H

/*
 * Verdicts and causes, which explain hangs and ends, and snapshots of what each
 * rank is doing
 *
 * A *verdict* says why an operation makes no progress, or why a group ended.  A
 * *cause* is the reason that a generation of a group ended: every call and
 * ticket returns its status.  A *report* describes what one rank is doing.  The
 * callback options.on_verdict receives verdicts (cohort/options.h).
 *
 * The rank to blame is a rank that waits for no other rank.  See docs/hangs.md,
 * "Who is blamed".
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_group;
struct cohort_comm;

/* Action of the watchdog when the deadline of a collective has passed. */
enum cohort_policy {
	/* End the group with COHORT_STALLED and the verdict; then call
	 * on_verdict. */
	COHORT_POLICY_ABORT = 0,

	/* Call on_verdict when the deadline has passed, and again after each
	 * further deadline if the collective is still not done. */
	COHORT_POLICY_REPORT = 1,

	/* Call on_verdict.  If it returns 0, continue as with
	 * COHORT_POLICY_REPORT.  If it returns anything else, or does not
	 * return within the abort deadline, end the group, even if the
	 * collective is done by then.  If on_verdict is still running for an
	 * earlier verdict, the rest of that call counts against the abort
	 * deadline. */
	COHORT_POLICY_ASK = 2,
};

/*
 * Kinds of verdicts: constant, value, name
 *
 *  NONE            There is no cause.
 *  NEVER_CALLED    @rank has made no call at all.
 *  DIFFERENT_CALL  @rank is inside another call, or has made a different call
 *                  (COHORT_MISMATCH); or a send and its receive do not match,
 *                  and @rank is -1.
 *  NOT_STARTED     @rank has called, but is still inside the native call, or
 *                  its stream is busy with earlier work.
 *  NOT_FINISHED    The operation is running, on @rank or, if that is -1, on all
 *                  ranks.
 *  OUTSIDE         @rank has not made the call that other ranks wait for: no
 *                  thread is inside a call of @rank, or a thread is between
 *                  cohort_comm_native_enter() and cohort_comm_native_leave().
 *  THREAD_EXITED   The thread that @rank was bound to has exited, or a thread
 *                  has exited inside a call of @rank.
 *  ASYNC_ERROR     ncclCommGetAsyncError() has reported an error of @rank.
 *  NATIVE_ERROR    A call of NCCL by @rank has failed.
 *  CUDA_ERROR      A call of the CUDA runtime by @rank has failed.
 *  DEVICE_LOST     The device of @rank has failed: nothing runs on it.
 *  INIT_STUCK      A split was not done within init_ns, which ends the
 *                  communicator that is split.  If a CUDA call hangs, @rank is
 *                  the rank of its device; if ncclCommSplit() or connecting the
 *                  new ranks hangs, @rank is -1.  An open, a respawn or a join
 *                  that hangs has no verdict, because there is no group yet;
 *                  the error text of COHORT_INIT_TIMEOUT names the cause.
 *  WEDGED          The abort of the group was not complete within the abort
 *                  deadline.  Only on_verdict reports this kind and the next
 *                  two.
 *  CLOSE_STUCK     The close of a group without a cause was not complete within
 *                  the abort deadline.
 *  GRAPH_ALIVE     An abort or a close was not complete within the abort
 *                  deadline, and calls were captured into CUDA graphs, which
 *                  NCCL waits for; @rank is the first rank that has such a
 *                  graph.
 *  WORKER          The worker of @rank returned an error, or could not be
 *                  bound; or the rank gave up (cohort_comm_fail()).
 *  ABORTED         cohort_group_abort() was called, an abort handle was fired,
 *                  or a close timed out.
 *  CYCLE           Ranks wait for each other, in any operations: each for the
 *                  next one, and the last for the first; @rank is -1.
 *  ORDER           Two communicators on the same devices are used in a
 *                  different order on different ranks: some ranks wait in one
 *                  communicator for ranks that wait in the other.  @missing
 *                  has the ranks whose order differs from that of most ranks
 *                  in both communicators, and @rank is the first of them; -1
 *                  if no order has a majority.
 *  REMOTE          The ranks in @missing belong to other processes, and nothing
 *                  more is known about them.  @rank is -1; for a send or
 *                  receive, @rank is the peer.
 *  PROCESS_EXITED  A process of the group has exited without closing it.
 *                  @missing has its ranks, and @rank is the first of them.
 *  LEFT            @rank has closed its communicator, or its worker has
 *                  returned 0, and other ranks wait for it.  The group ends
 *                  immediately if a waiting rank is in the same process,
 *                  otherwise at the deadline.
 *  PROCESS_STOPPED  A process of this machine is stopped, by a signal or a
 *                  debugger.  @missing has its ranks, and @rank is the first of
 *                  them; for a send or receive, @rank is the peer.
 *  PROBER_STUCK    A thread of the library periodically calls
 *                  ncclCommGetAsyncError() of @rank and queries its device; one
 *                  of these calls has not returned within the abort deadline.
 *                  The group continues; only on_verdict reports this.
 */
#define COHORT_VERDICT_LIST(X)                                                 \
	X(COHORT_VERDICT_NONE, 0, "none")                                      \
	X(COHORT_VERDICT_NEVER_CALLED, 1, "never called")                      \
	X(COHORT_VERDICT_DIFFERENT_CALL, 2, "different call")                  \
	X(COHORT_VERDICT_NOT_STARTED, 3, "joined but not started")             \
	X(COHORT_VERDICT_NOT_FINISHED, 4, "started but not finished")          \
	X(COHORT_VERDICT_OUTSIDE, 5, "busy in the program")                    \
	X(COHORT_VERDICT_THREAD_EXITED, 6, "thread exited")                    \
	X(COHORT_VERDICT_ASYNC_ERROR, 7, "asynchronous error")                 \
	X(COHORT_VERDICT_NATIVE_ERROR, 8, "native error")                      \
	X(COHORT_VERDICT_INIT_STUCK, 9, "init stuck")                          \
	X(COHORT_VERDICT_WEDGED, 10, "wedged")                                 \
	X(COHORT_VERDICT_WORKER, 11, "worker returned an error")               \
	X(COHORT_VERDICT_ABORTED, 12, "abort requested")                       \
	X(COHORT_VERDICT_PROBER_STUCK, 13, "prober does not answer")           \
	X(COHORT_VERDICT_CYCLE, 14, "waiting in a cycle")                      \
	X(COHORT_VERDICT_ORDER, 15, "communicators in a different order")      \
	X(COHORT_VERDICT_CUDA_ERROR, 16, "CUDA error")                         \
	X(COHORT_VERDICT_DEVICE_LOST, 17, "device lost")                       \
	X(COHORT_VERDICT_GRAPH_ALIVE, 18, "graph alive at close")              \
	X(COHORT_VERDICT_CLOSE_STUCK, 19, "close stuck")                       \
	X(COHORT_VERDICT_REMOTE, 20, "remote stall")                           \
	X(COHORT_VERDICT_PROCESS_EXITED, 21, "process exited")                 \
	X(COHORT_VERDICT_LEFT, 22, "rank has left")                            \
	X(COHORT_VERDICT_PROCESS_STOPPED, 23, "process stopped")

enum cohort_verdict_kind {
#define COHORT_VERDICT_ENUM(name, value, text) name = value,
	COHORT_VERDICT_LIST(COHORT_VERDICT_ENUM)
#undef COHORT_VERDICT_ENUM
};

/*
 * cohort_verdict_text - return the name of a kind of verdict
 * @kind: enum cohort_verdict_kind
 *
 * Returns: a text such as "never called"; for an unknown value, a text that
 * says so; never NULL
 */
COHORT_API const char *cohort_verdict_text(int kind);

/* Report on one rank, in a verdict or a snapshot. */
struct cohort_rank_report {
	int rank;
	int device; /* device of the rank */
	int joined; /* 1 if the rank has called the collective */

	/* 1 if the collective is running on the rank's device; 0 if not, or if
	 * not known. */
	int started;
	int done;  /* 1 if the collective is done on the rank */
	int alive; /* 1 if the thread is alive, 0 if not, -1 if not known */

	/* 1 if a thread is inside a call on the communicator, which includes
	 * waiting in a call on host memory. */
	int inside;

	/* Thread that the rank is bound to, or that made its last call; 0 if
	 * there is none. */
	int tid;
	char thread[16]; /* name of that thread */

	uint64_t ticket; /* of the rank's last call; 0 if there is none */
	uint64_t age_ns; /* time since that call */
	char call[96];   /* that call: "all_reduce of 1000 float32, sum" */
	char tag[48];    /* tag of that call (cohort_tag()), or "" */

	/* State of the thread in the operating system, such as "running" or
	 * "asleep in futex", or "". */
	char state[64];

	/* Stack of the thread when the deadline passed, innermost function
	 * first, without functions of the C library and of this library:
	 * "f (a.c:12) < g+0x2a < main+0x51".  If there is no stack, "stack
	 * unavailable: " and the reason; "" if no stack was taken
	 * (options.stack_signal). */
	const char *stack;

	/* 1 if the rank is bound to thread @tid; 0 if any thread may make the
	 * rank's next call, so that @alive says nothing about the rank. */
	int bound;

	/* Purpose of the last call if the library made it, such as "bucket 2/5:
	 * fc.weight and 1 more" of a reducer, or "". */
	char label[48];

	/* Description of the rank, for diagnostics only: "rank 2 (thread 4711
	 * "dp/2", device 2) is alive, busy in the program; its last call,
	 * ..." */
	char text[512];
	uint64_t reserved[3];
};

/* How far the problem that a verdict reports has gone. */
enum cohort_stage {
	COHORT_STAGE_SLOW = 0,    /* options.slow_ns have passed */
	COHORT_STAGE_WARNING = 1, /* for PROBER_STUCK only */
	COHORT_STAGE_EXPIRED = 2, /* the deadline has passed; nothing ended */
	COHORT_STAGE_ENDED = 3,   /* the group has ended */
};

/* Verdict on an operation that makes no progress, or on the end of a group. */
struct cohort_verdict {
	int kind;  /* enum cohort_verdict_kind */
	int stage; /* enum cohort_stage */

	/* Rank to blame, or the first of several; -1 if it is not known or
	 * there is none.  A rank of another process is not in @ranks. */
	int rank;
	int generation;       /* generation of the group, from 1 */
	const char *group;    /* name of the group */
	uint64_t collective;  /* number of the collective, from 1; 0 if none */
	uint64_t time_ns;     /* time of the verdict, on CLOCK_MONOTONIC */
	uint64_t since_ns;    /* start of the clock; 0 if none was running */
	uint64_t deadline_ns; /* time that was allowed */

	/* Set of ranks that have called the collective. */
	uint64_t joined[COHORT_RANK_WORDS];

	/* Set of ranks that the others wait for.  All ranks if the collective
	 * is running on all ranks; empty if no rank is to blame, as in a
	 * cycle. */
	uint64_t missing[COHORT_RANK_WORDS];
	int size; /* number of ranks in this process */

	/* One report for each of the @size ranks, at the time of the verdict.
	 * After the end, an operation that was cut short may seem done. */
	const struct cohort_rank_report *ranks;

	/* Text of the verdict, one fact per line, for diagnostics only:
	 *
	 *	HANG   rank 2 has not called all_reduce 7 of "dp" (generation 1)
	 *	why    it is busy in the program: thread 9 "dp/2" is asleep in futex
	 *	where  train_worker (train.c:372)
	 *	since  10.0 s (limit 10.0 s)
	 *	wait   ranks 0-1, 3, in all_reduce of 1000 float32, sum
	 *
	 * If nothing hangs, the text may be one line. */
	const char *text;

	/* sizeof(struct cohort_rank_report) */
	uint64_t rank_size;

	/* Text of the verdict in one line of at most 200 bytes. */
	const char *line;

	/* Number of the rank to blame in the group from which this communicator
	 * was split; -1 if there is no such rank or its number is not known.
	 * If the rank to blame is not in this communicator, @rank is -1 and
	 * this is not. */
	int world_rank;

	/* The operation that makes no progress: "all_reduce 7 of "dp"" or "send
	 * 1 to rank 0 of "dp"", or "" if there is none. */
	const char *call;
	uint64_t reserved[4];
};

/*
 * Callback that receives verdicts
 *
 * The library calls it for one verdict at a time, from a thread of its own that
 * holds no lock.  @verdict is borrowed for the call.  The result counts only
 * for COHORT_POLICY_ASK with COHORT_STAGE_EXPIRED.  While the callback runs,
 * the watchdog continues and saves one more verdict for it: the most severe,
 * and the latest of equally severe ones.
 *
 * The callback may make any call that any thread may make, including
 * cohort_group_abort(), but must not wait for the end of the group:
 * cohort_group_close(), cohort_group_respawn() and, for joined ranks,
 * cohort_comm_close() return COHORT_STATE.
 *
 * The callback must return: no exception, panic or longjmp() may leave it.  A
 * callback that hangs delays no other group and no later generation.  If a
 * respawn or a close has waited for it up to the abort deadline, its thread is
 * abandoned: the callback can then run at the same time as a call for the next
 * generation, or after the close, so @user must stay valid.
 */
typedef int (*cohort_verdict_fn)(const struct cohort_verdict *verdict,
                                 void *user);

/* Reason that a group's communicators ended.  The first cause is kept and never
 * changes. */
struct cohort_cause {
	/* Status that every call and ticket returns, such as COHORT_STALLED,
	 * COHORT_NCCL or COHORT_ABORTED; COHORT_OK if there is no cause. */
	int status;
	int kind; /* enum cohort_verdict_kind */

	/* Rank to blame, or the rank where the cause arose, or the first of
	 * several; -1 if there is none. */
	int rank;
	int nccl; /* ncclResult_t if NCCL reported an error, else 0 */
	int cuda; /* cudaError_t if CUDA reported an error, else 0 */

	/* Result of the rank's worker, or the code of cohort_comm_fail(); else
	 * 0. */
	int worker;
	uint64_t ticket;     /* of the operation that failed; 0 if none */
	uint64_t collective; /* number of the collective, from 1; 0 if none */
	uint64_t time_ns;    /* time of the cause, on CLOCK_MONOTONIC */
	/* time from which the expired deadline counts, or 0 */
	uint64_t since_ns;
	uint64_t deadline_ns; /* time that this deadline allowed, or 0 */

	/* Set of ranks that had called the collective that was late or did not
	 * match; for a send and a receive that did not match, both ranks. */
	uint64_t joined[COHORT_RANK_WORDS];

	/* Set of ranks that a late collective was waiting for.  All ranks if
	 * the collective was running on all ranks; empty if all ranks wait for
	 * a rank outside of this communicator, or if no rank is to blame. */
	uint64_t missing[COHORT_RANK_WORDS];

	/* Text of the cause in one line, for diagnostics only.  If the cause
	 * was not an operation, the text ends with the ranks' unfinished
	 * calls. */
	char text[1024];

	/* As in struct cohort_verdict. */
	int world_rank;

	/* cohort_verdict.text of the verdict that ended the group, or @text if
	 * no verdict did. */
	char details[2048];
	uint64_t reserved[15];
};

/*
 * cohort_group_snapshot - report what each rank of a group is doing now
 * @ranks:     filled with a report for each rank of this process, in their
 *             order; the rank of each unused report is set to -1
 * @room:      number of elements of @ranks, at least cohort_group_size()
 * @rank_size: sizeof(struct cohort_rank_report)
 *
 * A supervisor can call this without waiting for a verdict.  The fields joined,
 * started and done describe the oldest collective that is not done on every
 * rank; joined is 0 on every rank if no collective is in flight.  The ranks are
 * sampled one after the other.  Also works in a hang, during an abort and after
 * a cause; after a cause, an operation that was cut short may seem done.  Takes
 * no stacks.  May be called from any thread; takes no lock, makes no native
 * call and does not block.  Other ranks need not do anything.
 *
 * Returns:
 *   COHORT_OK       @ranks is filled
 *   COHORT_INVALID  an argument is wrong; nothing is stored
 */
COHORT_API int cohort_group_snapshot(struct cohort_group *group,
                                     struct cohort_rank_report *ranks, int room,
                                     size_t rank_size);

/*
 * cohort_comm_snapshot - report what each rank of a communicator is doing now
 * @ranks:     filled as by cohort_group_snapshot(), for the ranks of this
 *             process in the group or split of @comm
 * @room:      number of elements of @ranks; cohort_comm_size() is always enough
 * @rank_size: sizeof(struct cohort_rank_report)
 *
 * Otherwise the same as cohort_group_snapshot().
 */
COHORT_API int cohort_comm_snapshot(struct cohort_comm *comm,
                                    struct cohort_rank_report *ranks, int room,
                                    size_t rank_size);

#ifdef __cplusplus
}
#endif

#endif
