/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_WATCH_H
#define COHORT_WATCH_H

/*
 * Verdicts on hangs and ends, causes, and reports on what each rank is doing
 *
 * A *verdict* is what the watchdog finds out about something that makes no
 * progress, or has ended.  A *cause* is what ended a generation of a group:
 * every call and ticket returns its status.  A *report* describes what one rank
 * is doing.  The callbacks are options (cohort/options.h).
 *
 * The rank to blame waits for nobody: waits are followed across communicators,
 * and across processes that watch each other.  A worker that returns what the
 * library has returned to it, or a thread that exits after that, is a witness:
 * the rank that it waited for is to blame.  If less than half of the ranks have
 * called and the others wait for nothing, no rank is.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_group;
struct cohort_comm;

/* What the watchdog does about a collective whose deadline has passed. */
enum cohort_policy {
	/* End the group with COHORT_STALLED and the verdict; then tell
	 * on_verdict. */
	COHORT_POLICY_ABORT = 0,

	/* Tell on_verdict, again each time that the deadline passes once
	 * more. */
	COHORT_POLICY_REPORT = 1,

	/* Ask on_verdict.  If it returns 0, ask again as for _REPORT.  If it
	 * returns anything else, or does not return within the abort deadline,
	 * end the group, even if the collective is done by then.  If on_verdict
	 * is being called for a warning at the time, that call counts in the
	 * abort deadline, too. */
	COHORT_POLICY_ASK = 2,
};

/*
 * Why something makes no progress or has ended: name, value, spelling
 *
 *  NONE            There is no cause.
 *  NEVER_CALLED    @rank has made no call at all.
 *  DIFFERENT_CALL  @rank is inside another call, or has made another one
 *                  (COHORT_MISMATCH); or a send and its receive do not fit,
 *                  where @rank is -1.
 *  NOT_STARTED     @rank has called, but is inside the native call, or its
 *                  stream is busy with what was queued before.
 *  NOT_FINISHED    The operation runs; @rank is -1 if it runs on all ranks.
 *  OUTSIDE         No thread is inside a call of @rank, or one is between
 *                  cohort_comm_native_enter() and _leave().
 *  THREAD_EXITED   The thread that @rank was bound to has exited, or one that
 *                  was inside a call of @rank.
 *  ASYNC_ERROR     ncclCommGetAsyncError() has told of an error of @rank.
 *  NATIVE_ERROR    A call of NCCL by @rank has failed.
 *  CUDA_ERROR      A call of the CUDA runtime by @rank has failed.
 *  DEVICE_LOST     The device of @rank has failed: nothing runs on it any more.
 *  INIT_STUCK      Within init_ns ncclCommSplit() has not returned (@rank is
 *                  -1), or a CUDA call after it, on the device of @rank, or
 *                  what connects the new ranks (@rank is -1).  That
 *                  ends the communicator that is split.  Open, respawn and join
 *                  have no group that could have a verdict: there only the text
 *                  of COHORT_INIT_TIMEOUT tells.
 *  WEDGED          The abort of the group was not complete within the abort
 *                  deadline.  Only on_verdict is told, here and for the next
 *                  two.
 *  CLOSE_STUCK     The close of a group without a cause was not complete within
 *                  the abort deadline.
 *  GRAPH_ALIVE     An abort or a close was not complete within the abort
 *                  deadline, and calls were captured into CUDA graphs, which
 *                  NCCL waits for; @rank is the first one that has such a
 *                  graph.
 *  WORKER          The worker of @rank returned an error, or could not be
 *                  bound; or the rank gave up (cohort_comm_fail()).
 *  ABORTED         cohort_group_abort(), an abort handle, or a close whose time
 *                  was up.
 *  CYCLE           Ranks wait for each other in sends and receives: each for
 *                  the next one, and the last for the first; @rank is -1.
 *  ORDER           Two communicators on the same devices are used in a
 *                  different order on different ranks: some ranks wait in the
 *                  one for ranks that wait in the other; @rank is -1 where no
 *                  majority tells.
 *  REMOTE          No rank of this process is missing: those in @missing are of
 *                  other processes, of which nothing more is known.  @rank is -1;
 *                  for a send or receive it is the peer.
 *  PROCESS_EXITED  A process of the group has ended without closing it; @missing
 *                  are its ranks, and @rank is the first of them.
 *  LEFT            @rank has closed its communicator, or its worker has returned
 *                  0, and others wait for it.  The group ends at once if some of
 *                  these are of the same process, otherwise at their deadline.
 *  PROCESS_STOPPED  A process of this machine is stopped, by a signal or a debugger;
 *                  @missing has its ranks, and @rank is the first of them; for a
 *                  send or receive it is the peer.
 *  PROBER_STUCK    Within the abort deadline ncclCommGetAsyncError() of @rank
 *                  has not returned, or a question about its device, both of
 *                  which a thread of the library asks now and then.  Only
 *                  on_verdict is told: nothing has ended.
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
	X(COHORT_VERDICT_ABORTED, 12, "abort asked for")                       \
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
 * cohort_verdict_text - the spelling of a kind of verdict: "never called"
 *
 * Never NULL.  For a value that this version does not know, the text says so.
 * Any thread; does not block.
 */
COHORT_API const char *cohort_verdict_text(int kind);

/* Report on one rank, of a verdict or a snapshot. */
struct cohort_rank_report {
	int rank;
	int device;
	int joined; /* 1: the rank has called the collective */

	/* 1: the collective is running on the rank's device; 0 also where the
	 * platform does not tell. */
	int started;
	int done;  /* 1: it is done there */
	int alive; /* 1: the thread lives; 0: it does not; -1: not known */

	/* 1: a thread is inside a call of the communicator, also while it only
	 * waits in a call with host memory. */
	int inside;

	/* The thread that the rank is bound to, else the last that made a call;
	 * 0: none has.  And the thread's name. */
	int tid;
	char thread[16];

	uint64_t ticket; /* of the rank's last call; 0: none */
	uint64_t age_ns; /* since that call */
	char call[96];   /* that call: "all_reduce of 1000 float32, sum" */
	char tag[48];    /* the call's tag (cohort_tag()), or "" */

	/* What the thread is doing, as the system tells: "asleep in futex",
	 * "running"; or "". */
	char state[64];

	/* Where the thread was when the deadline passed, the program's
	 * innermost function first, without what that called in the C library
	 * and in this one: "f (a.c:12) < g+0x2a < main+0x51"; or "stack
	 * unavailable: " and why; "" if the thread was not asked
	 * (options.stack_signal). */
	const char *stack;

	/* 1: the rank is bound to that thread.  0: any thread may make the
	 * rank's next call, and whether this thread lives says nothing about
	 * the rank. */
	int bound;

	/* What the library made that call for: "bucket 2/5: fc.weight and 1
	 * more" of a reducer; or "". */
	char label[48];

	/* Description of the rank, for diagnostics only: "rank 2 (thread 4711 "dp/2",
	 * device 2) is alive, busy in the program; its last call, ..." */
	char text[512];
	uint64_t reserved[3]; /* room for what later versions add */
};

/* How far a verdict has come. */
enum cohort_stage {
	COHORT_STAGE_SLOW = 0,    /* on_slow only: slow_ns have passed */
	COHORT_STAGE_WARNING = 1, /* some of the deadline has passed */
	COHORT_STAGE_EXPIRED = 2, /* all of it has passed; nothing has ended */
	COHORT_STAGE_ENDED = 3,   /* the group has ended */
};

/* Verdict on an operation that makes no progress, or on an end. */
struct cohort_verdict {
	int kind;  /* enum cohort_verdict_kind */
	int stage; /* enum cohort_stage */

	/* The rank to blame, the first of several; -1: not known, or none
	 * is.  It may be of another process, and so not among @ranks. */
	int rank;
	int generation;      /* of the group, from 1 */
	const char *group;   /* its name */
	uint64_t collective; /* number of the collective, from 1; 0: none */
	uint64_t time_ns;    /* when, on CLOCK_MONOTONIC */
	uint64_t since_ns;   /* since when the clock was running; 0: none was */
	uint64_t deadline_ns; /* what was allowed */

	/* Sets of ranks: those that have called, and those that are waited for,
	 * which are all if the collective runs on all, and none if nobody is to
	 * blame, as in a cycle. */
	uint64_t joined[COHORT_RANK_WORDS];
	uint64_t missing[COHORT_RANK_WORDS];
	int size; /* ranks in this process */

	/* @size reports, by rank, as of now: after the end, what was cut short
	 * may seem done. */
	const struct cohort_rank_report *ranks;

	/* All of this in a block of rows, one fact each, for diagnostics only:
	 *
	 *	HANG   rank 2 has not called all_reduce 7 of "dp" (generation 1)
	 *	why    it is busy in the program: thread 9 "dp/2" is asleep in futex
	 *	where  train_worker (train.c:372)
	 *	since  10.0 s (limit 10.0 s)
	 *	wait   ranks 0-1, 3, in all_reduce of 1000 float32, sum
	 *
	 * The text of an end without a hang may be one line. */
	const char *text;

	/* sizeof(struct cohort_rank_report) */
	uint64_t rank_size;

	/* The same in one line of at most 200 bytes, for errors and logs. */
	const char *line;

	/* @rank by its number in the group from which this communicator was
	 * split; -1 if none is to blame or the number is not known.  The rank
	 * to blame may be in none but that group: then @rank is -1. */
	int world_rank;
	uint64_t reserved[5]; /* room for what later versions add */
};

/*
 * Receive verdicts, one at a time, on a thread of the library that holds no
 * lock; not always on the same thread.  @verdict is borrowed for the call.  The
 * returned value counts for COHORT_POLICY_ASK with COHORT_STAGE_EXPIRED only.
 *
 * The function may call what any thread may call, also cohort_group_abort(),
 * but not what waits for the end of the group: cohort_group_close(),
 * cohort_group_respawn(), and for ranks that have joined by id
 * cohort_comm_close() (COHORT_STATE).  The watchdog continues while the
 * function is running, and keeps one further verdict for it: the most severe
 * one, and of equally severe ones the last.
 *
 * It has to return: no exception, panic or longjmp() may leave it.
 *
 * A function that hangs delays no other group, and no later generation.  If it
 * has not returned within the abort deadline when the group is respawned or
 * closed, its thread and @user are left behind: it may then run at the same time
 * as a call for the next generation, and after the close.
 */
typedef int (*cohort_verdict_fn)(const struct cohort_verdict *verdict,
                                 void *user);

/* Why a group's communicators ended.  Written once: the first cause wins. */
struct cohort_cause {
	/* What every call and ticket answers: COHORT_STALLED, COHORT_NCCL,
	 * COHORT_CUDA, COHORT_WORKER, COHORT_ABORTED, ...; COHORT_OK: there is
	 * no cause. */
	int status;
	int kind; /* enum cohort_verdict_kind */

	/* The rank to blame, or that the cause came from, the first of several;
	 * -1: none. */
	int rank;
	int nccl; /* ncclResult_t where one was involved, else 0 */
	int cuda; /* cudaError_t where one was involved, else 0 */

	/* What the rank's worker returned, or gave to cohort_comm_fail(); else
	 * 0. */
	int worker;
	uint64_t ticket;     /* of the operation it came from; 0: none */
	uint64_t collective; /* its number among the rank's, from 1; 0: none */
	uint64_t time_ns;    /* when the cause was set, on CLOCK_MONOTONIC */

	/* If a deadline has passed: when its clock began to run, and what it
	 * allowed; else 0. */
	uint64_t since_ns;
	uint64_t deadline_ns;

	/* A set of ranks: those that had called a collective that was not done
	 * in time, or that differs; or both ends of a message that differs. */
	uint64_t joined[COHORT_RANK_WORDS];

	/* A set of ranks: those that a collective was waiting for when its time
	 * was up; all of them if it was running on all; none if all of them wait
	 * for a rank that is not in this communicator, or if nobody is to blame,
	 * as in a cycle, or where a minority waits. */
	uint64_t missing[COHORT_RANK_WORDS];

	/* All of this in one line, for diagnostics only; of a verdict, its
	 * line.  If the cause comes from no operation, the text ends with the
	 * calls that the ranks were in and had not finished. */
	char text[1024];

	/* @rank by its number in the group from which this communicator was
	 * split; -1 if none is to blame or the number is not known.  The rank
	 * to blame may be in none but that group: then @rank is -1. */
	int world_rank;

	/* All that is known: the block of rows (cohort_verdict.text) if a
	 * verdict has ended the group, otherwise @text. */
	char details[2048];
	uint64_t reserved[15]; /* room for what later versions add */
};

/*
 * Receive the cause that ended a generation of a group, on a thread that calls
 * cohort_verdict_fn, and before that.  @cause is borrowed for the call.  What
 * may be called, and that it has to return, is as for cohort_verdict_fn.
 */
typedef void (*cohort_cause_fn)(const struct cohort_cause *cause, void *user);

/*
 * cohort_group_snapshot - what each rank of the group's generation is doing now
 * cohort_comm_snapshot  - what @comm and the other ranks of its group or split
 *                         are doing, as far as they are of this process
 * @ranks:     filled in the order of the ranks, as in a verdict; a report that
 *             is left over has the rank -1
 * @room:      how many reports there are: at least the ranks of this process;
 *             cohort_group_size() or cohort_comm_size() is always enough
 * @rank_size: sizeof(struct cohort_rank_report)
 *
 * For a supervisor that does not wait for a verdict.  The fields joined,
 * started and done are about the oldest collective that is not done on every
 * rank; if none is in flight, joined is 0 on every rank.  No thread is asked
 * for its stack.  The ranks are looked at one after the other, also in a hang,
 * during an abort and after a cause.  Once there is a cause, what was cut short
 * may seem done.
 *
 * Any thread; takes no lock, makes no native call, and does not block.  Other
 * ranks need not do anything.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value, and nothing is
 * stored.
 */
COHORT_API int cohort_group_snapshot(struct cohort_group *group,
                                     struct cohort_rank_report *ranks, int room,
                                     size_t rank_size);
COHORT_API int cohort_comm_snapshot(struct cohort_comm *comm,
                                    struct cohort_rank_report *ranks, int room,
                                    size_t rank_size);

#ifdef __cplusplus
}
#endif

#endif
