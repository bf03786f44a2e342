/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_COMM_H
#define COHORT_COMM_H

/*
 * Communicators: a rank's end of its group
 *
 * A communicator comes from the split or run of a group (cohort/group.h), from
 * joining by a unique id, or from the split of another communicator.  Its
 * collectives are in cohort/collective.h, sends and receives in cohort/p2p.h.
 */

#include <cohort/options.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/* What ranks that join have in common: bytes that can be sent to other
 * processes. */
struct cohort_unique_id {
	unsigned char bytes[192];
};

/*
 * cohort_unique_id - a new id, for one communicator
 * @id: filled
 *
 * One rank makes it and gives it to the others.  The id is for the platform
 * that a group gets which is opened now and whose options do not choose.  Any
 * thread; may block on the platform's start.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_NCCL; what cohort_group_open() answers
 * about the platform.
 */
COHORT_API int cohort_unique_id(struct cohort_unique_id *id);

/*
 * cohort_comm_join - be one rank of a communicator, a thread or a process per
 *                    rank
 * @id:      the same for all ranks
 * @nranks:  1 to COHORT_MAX_RANKS, the same for all ranks
 * @rank:    0 to @nranks - 1, another one for each rank
 * @device:  of this rank, another one for each rank of the machine
 * @options: as for cohort_group_open(), the same for all ranks; within a
 *           process those of the first rank to join count.  NULL for the
 *           defaults; borrowed for the call
 * @comm:    the new communicator, to be closed by cohort_comm_close().  Once
 *           the last rank of this process has been closed, the communicator
 *           ends as a group does in cohort_group_close(); after that no call
 *           may use it
 *
 * The ranks that a process joins by one id belong together as those of a group
 * do: an abort handle of any ends all, each is compared with the others, and
 * the watchdog sees all of them.  It does not see those of other processes; a
 * verdict says so.  They cannot be run or respawned: bind each to its thread
 * yourself (cohort_comm_bind()), and after a cause close all and join anew, by
 * a new id.
 *
 * Every rank must join, each from a thread of its own: blocks until all have,
 * or the init deadline has passed.  On an error no rank of this process has
 * joined; what connects after all is taken back; and @id should not be used
 * again.  Any thread.
 *
 * COHORT_OK; COHORT_INVALID, with the argument and its value, also for a rank,
 * a device or a number of ranks that does not go with those of others in this
 * process (which go on waiting); COHORT_UNSUPPORTED for an id of another
 * process on the host platform, unless COHORT_HOST_SHARED=1;
 * COHORT_INIT_TIMEOUT; otherwise as cohort_group_open().
 */
COHORT_API int cohort_comm_join(const struct cohort_unique_id *id, int nranks,
                                int rank, int device,
                                const struct cohort_group_options *options,
                                struct cohort_comm **comm);

/*
 * cohort_comm_rank       - this rank, 0 to size - 1
 * cohort_comm_size       - number of ranks
 * cohort_comm_device     - its device
 * cohort_comm_platform   - COHORT_PLATFORM_GPU or _HOST; a rank that joins has that
 *                          of the id's process
 * cohort_comm_launch     - COHORT_LAUNCH_TOGETHER or _AHEAD, whichever is in
 *                          force
 * cohort_comm_generation - the group's generation that it belongs to, from 1
 * cohort_comm_origin     - the number that its rank had in generation 1
 * cohort_comm_group_rank - the number that rank @rank of this communicator has in
 *                          the group that it was split from; -1 if there is no
 *                          such rank, or if it is not known.  That of a
 *                          split's rank in another process is known once a
 *                          collective is done, if all processes are on one
 *                          machine and the split keeps the order of the ranks
 * cohort_comm_stream     - its own stream, which does not synchronize with the
 *                          legacy default stream; valid until the group is
 *                          closed, or forgets the generation
 *                          (cohort_group_respawn())
 *
 * Facts of a communicator.  For a communicator that is NULL, closed or
 * forgotten: -1, and a NULL stream.  Any thread; none blocks.
 */
COHORT_API int cohort_comm_rank(const struct cohort_comm *comm);
COHORT_API int cohort_comm_size(const struct cohort_comm *comm);
COHORT_API int cohort_comm_device(const struct cohort_comm *comm);
COHORT_API int cohort_comm_platform(const struct cohort_comm *comm);
COHORT_API int cohort_comm_launch(const struct cohort_comm *comm);
COHORT_API int cohort_comm_generation(const struct cohort_comm *comm);
COHORT_API int cohort_comm_origin(const struct cohort_comm *comm);
COHORT_API int cohort_comm_group_rank(const struct cohort_comm *comm, int rank);
COHORT_API void *cohort_comm_stream(struct cohort_comm *comm);

/*
 * cohort_comm_cause - why the communicators ended
 *
 * As cohort_group_cause(), for the group of this communicator.
 */
COHORT_API int cohort_comm_cause(struct cohort_comm *comm,
                                 struct cohort_cause *cause);

/*
 * cohort_comm_bind   - only the calling thread may submit from now on
 * cohort_comm_unbind - any thread may again, one at a time
 *
 * Helpers of a reducer with options.helpers_launch may launch for the bound
 * thread (cohort/reducer.h).
 *
 * If a thread exits while a communicator is bound to it, the group ends at
 * once, with COHORT_THREAD_EXITED and that rank as the cause: the rank could
 * never make its next call.  Unbind first to leave in peace.  If the thread
 * exits inside a native call, the others are told COHORT_WEDGED when the abort
 * deadline has passed.  Workers of cohort_group_run() are bound already, and
 * unbound when they return.
 *
 * Another thread may close the group of a bound communicator; after an abort it
 * may do so while the communicator's thread hangs.  That thread may then still
 * use the communicator: calls that queue something answer COHORT_STALE, and
 * tickets and the cause answer as before.  Its cohort_comm_unbind(), or its
 * exit, gives the memory back, and may wait for the device to do so.  After
 * that no call may use the communicator.  Otherwise neither blocks.
 *
 * COHORT_OK; COHORT_ALREADY if it is bound to this thread already, or not bound
 * at all; COHORT_OWNER if it is bound to another thread; COHORT_BUSY if another
 * thread is inside; COHORT_INVALID.  Bind only: COHORT_STATE if it was closed,
 * COHORT_STALE if its group was respawned or closed, COHORT_SYSTEM if the
 * thread's end cannot be watched.
 */
COHORT_API int cohort_comm_bind(struct cohort_comm *comm);
COHORT_API int cohort_comm_unbind(struct cohort_comm *comm);

/*
 * cohort_comm_fail - this rank gives up, for a reason of its own
 * @code: the program's, not 0
 * @text: for people, copied (up to 200 bytes); NULL: none
 *
 * Ends the group, as cohort_group_abort() does, with this rank to blame: the
 * cause's status is COHORT_WORKER, its kind COHORT_VERDICT_WORKER, its @rank
 * this one, its @worker @code, and its text like "rank 1 gave up with -7: shard
 * 12 is unreadable".  The other ranks need not do anything: their calls and
 * waits answer with the cause.  In cohort_group_run(), what the worker returns
 * afterwards changes nothing: the first cause counts.
 *
 * Any thread may call it, also if the communicator is bound to another thread,
 * if another thread is inside, or if it was closed while its group is open.  A
 * signal handler may not: it has cohort_abort_fire().  Does not block.
 *
 * COHORT_OK for the call that set the cause; COHORT_ALREADY if there was one,
 * so also for a former generation and a rank that was abandoned; COHORT_INVALID
 * for a @code of 0.
 */
COHORT_API int cohort_comm_fail(struct cohort_comm *comm, int code,
                                const char *text);

/*
 * cohort_tag - a label for this rank's calls from now on
 * @text: for people: where in the program, "step 12, gradients"; copied, up to
 *        47 bytes, with "?" for control characters; NULL or "": none
 *
 * Kept with every call until the next tag, and shown with the call in verdicts:
 * those show a rank's last call, and not a tag that no call has had yet.
 * Each rank has its own tag; those of different ranks may differ.  The last 64
 * different texts are kept, so that a tag that is used again and again costs no
 * more than a comparison.  A reducer's calls have a label of their own besides.
 * One submitting thread at a time; does not block.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_BUSY; COHORT_OWNER; COHORT_STATE if closed.
 */
COHORT_API int cohort_tag(struct cohort_comm *comm, const char *text);

/* The color of a rank that is to be in none of the new communicators. */
#define COHORT_NO_COLOR (-1)

/*
 * cohort_comm_split - communicators of some of this one's ranks
 * @color: the ranks that give the same color, 0 or more, are together in a new
 *         communicator; COHORT_NO_COLOR: in none
 * @key:   the order of the ranks there; ranks with the same key keep the order
 *         that they have here
 * @child: this rank's new communicator; NULL for COHORT_NO_COLOR
 *
 * Every rank must call, in the sequence of calls that all ranks make, with what
 * color and key it likes, each from a thread of its own: blocks until all have
 * called and all that they had called before is done, then until the platform
 * has made the new communicators, up to the init deadline.  Until then its
 * clocks are those of a collective.  It works for ranks of several processes,
 * where NCCL does.
 *
 * A new communicator has deadlines equal to this one's, but a watchdog, a cause
 * and abort handles of its own.  It calls the functions that this one calls,
 * with the same @user, on a thread of its own and maybe at the same time.  Its
 * name is this one's with a dot and the color.  cohort_comm_origin() of a rank
 * is that of the rank which it was split from.  It can be split, too.
 *
 * When a new communicator ends, this one goes on.  When this one ends, by a
 * close or with a cause, the new one ends; after cohort_group_respawn() its
 * calls answer COHORT_STALE.  cohort_comm_close() of the new one's last rank in
 * this process ends it, in peace or not, and no call may use it after that; it
 * gives back what it has when the device comes to it.  Otherwise it goes when
 * this one's group is closed, or when this one is if its ranks have joined by
 * id.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value; COHORT_STATE if
 * closed, or a batch is open; COHORT_BUSY; COHORT_OWNER; COHORT_STALE; the
 * cause.  On these errors but the cause nothing has happened.  COHORT_MISMATCH
 * if others call something else, COHORT_STALLED if one does not come in time,
 * COHORT_INIT_TIMEOUT, COHORT_NCCL, COHORT_CUDA, COHORT_NO_MEMORY and
 * COHORT_SYSTEM if it fails: as the others wait for this rank, each of these
 * ends this communicator as its cause.
 */
COHORT_API int cohort_comm_split(struct cohort_comm *comm, int color, int key,
                                 struct cohort_comm **child);

/*
 * cohort_comm_close - this rank leaves early
 * @comm: from now on it takes no operations and no memory (COHORT_STATE); it
 *        may be asked about its tickets until the group is closed
 *
 * Waits for this rank's tickets, up to the close deadline.  The native
 * communicator lives until the group is closed, as NCCL frees all of a
 * process's ranks together.
 *
 * If the ranks have joined by id, closing the process's last one ends them all,
 * and waits for that as cohort_group_close() does.  After that no call may use any
 * of them, with the exceptions of rule 2 (cohort/cohort.h).  A rank that a
 * thread is stuck inside (COHORT_BUSY) keeps them open.
 *
 * Once there is a cause, any thread may close a rank that is bound to another
 * thread, which may hang.  A rank that is closed by the thread it is bound to
 * is unbound.
 *
 * COHORT_OK; COHORT_TIMED_OUT if a ticket was not answered in time (nothing
 * changed); the cause, or COHORT_WEDGED, if that is what its tickets answered
 * (closed all the same); COHORT_OWNER if it is bound to another thread and
 * there is no cause; COHORT_BUSY; COHORT_STATE if closed already;
 * COHORT_INVALID.  The last joined rank: also what cohort_group_close()
 * answers; a joined rank: COHORT_STATE if called by on_verdict.
 */
COHORT_API int cohort_comm_close(struct cohort_comm *comm);

/*
 * cohort_comm_native_enter - the ncclComm_t, for calls that this library does
 *                            not have
 * cohort_comm_native_leave - the end of that
 * @nccl_comm: the native communicator; valid until cohort_comm_native_leave(),
 *             by the same thread
 *
 * In between this thread is inside the communicator: all its other calls that
 * submit answer COHORT_BUSY, and an abort waits for it to leave, up to the
 * abort deadline.  An abort unblocks these native calls as it does the
 * library's own.  The communicator must not be aborted, destroyed, finalized,
 * split or kept.  What is called is not recorded, not compared with other
 * ranks, and not waited for by tickets; nor are the rank's later sends and
 * receives compared.  Before it has left, the thread must not wait for tickets
 * of the group or submit for other ranks: if the group ends meanwhile, they
 * wait for it.  Neither call blocks.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_BUSY (enter: also while a call with host
 * memory that has timed out is not launched); COHORT_OWNER (also for a leave by
 * a thread that has not entered); COHORT_STATE if closed, or for a leave
 * without an enter; enter: the cause, or COHORT_STALE, as the collectives do.
 */
COHORT_API int cohort_comm_native_enter(struct cohort_comm *comm,
                                        void **nccl_comm);
COHORT_API int cohort_comm_native_leave(struct cohort_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
