/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_COMM_H
#define COHORT_COMM_H

/*
 * Communicators: the object with which one rank calls collectives
 *
 * A communicator comes from splitting or running a group (cohort/group.h), from
 * joining with a unique id, or from splitting another communicator.  After some
 * respawns a communicator is *forgotten* (cohort_group_respawn()).
 */

#include <cohort/options.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/* An id that ranks join with: bytes that can be sent to other processes. */
struct cohort_unique_id {
	unsigned char bytes[192];
};

/*
 * cohort_unique_id - create an id for one communicator
 * @platform: enum cohort_platform
 * @id:       set to the new id
 *
 * One rank calls this and sends the id to the others.  COHORT_PLATFORM_AUTO is
 * the platform that cohort_group_open() would choose now without options.  May
 * be called from any thread; may block while the platform starts.
 *
 * Returns:
 *   COHORT_OK           @id is set
 *   COHORT_INVALID      @id is NULL, there is no @platform, or an environment
 *                       variable is wrong
 *   COHORT_NCCL         NCCL cannot create an id
 *   COHORT_NO_LIBRARY   NCCL or the CUDA runtime is not installed
 *   COHORT_NO_SYMBOL    one of these libraries lacks a function
 *   COHORT_NO_DEVICE    there is no driver or no device
 *   COHORT_UNSUPPORTED  NCCL or CUDA is too old or incompatible
 *   COHORT_CUDA         a call of the CUDA runtime failed
 */
COHORT_API int cohort_unique_id(int platform, struct cohort_unique_id *id);

/*
 * cohort_comm_join - join a communicator as one of its ranks, with a shared id
 * @id:      the same for all ranks
 * @nranks:  number of ranks, 1 to COHORT_MAX_RANKS, the same for all ranks
 * @rank:    0 to @nranks - 1, different for each rank
 * @device:  device of this rank, different for each rank of the machine
 * @options: as for cohort_group_open(), the same for all ranks; within a
 *           process, the options of the first rank to join apply.  NULL for the
 *           defaults; borrowed for the call
 * @comm:    set to the new communicator, to be closed by cohort_comm_close()
 *
 * Every rank must join, each on its own thread.  May be called from any
 * thread; blocks until all ranks have joined, or the init deadline has passed.
 *
 * The ranks that join with one id belong together like the ranks of a group: an
 * abort handle of one rank ends all, their calls are compared, and the watchdog
 * sees all of them.  The processes of one machine and user watch each other as
 * if they had opened a group (bootstrap.h): if one exits while others join, the
 * others get COHORT_PROCESS_EXITED.  The watchdog does not see ranks of other
 * machines, and verdicts say so.  Joined ranks cannot be run or respawned.
 * Bind each rank to its thread (cohort_comm_bind()).  After a cause, close all
 * joined ranks and join again with a new id.  When the process closes its last
 * joined rank, the communicator ends as in cohort_group_close(), and no call
 * may use it afterwards.
 *
 * On an error, no rank of this process has joined, and any rank that later
 * joins with @id also gets an error.  Use a new id.
 *
 * Returns: the same as cohort_group_open(), and
 *   COHORT_OK            this rank has joined
 *   COHORT_INVALID       an argument is wrong, or does not match the arguments
 *                        of other ranks of this process, which keep waiting
 *   COHORT_INIT_TIMEOUT  not all ranks joined in time
 *   COHORT_PROCESS_EXITED  a process of this machine exited or failed while its
 *                        ranks were joining; the error names it
 *   COHORT_UNSUPPORTED   @id is from another process, and the simulated devices
 *                        are not shared (COHORT_HOST_SHARED=1 shares them)
 */
COHORT_API int cohort_comm_join(const struct cohort_unique_id *id, int nranks,
                                int rank, int device,
                                const struct cohort_group_options *options,
                                struct cohort_comm **comm);

/*
 * cohort_comm_rank - return the rank of a communicator
 *
 * Returns: 0 to size - 1, or -1 if @comm is NULL, closed or forgotten
 */
COHORT_API int cohort_comm_rank(const struct cohort_comm *comm);

/*
 * cohort_comm_size - return the number of ranks of a communicator
 *
 * Returns: 1 or more, or -1 if @comm is NULL, closed or forgotten
 */
COHORT_API int cohort_comm_size(const struct cohort_comm *comm);

/*
 * cohort_comm_device - return the device of a rank
 *
 * Returns: the device number, or -1 if @comm is NULL, closed or forgotten
 */
COHORT_API int cohort_comm_device(const struct cohort_comm *comm);

/*
 * cohort_comm_platform - return the platform of a communicator
 *
 * Joined ranks have the platform of the process that created the id.
 *
 * Returns: COHORT_PLATFORM_GPU or COHORT_PLATFORM_HOST, or -1 if @comm is NULL,
 * closed or forgotten
 */
COHORT_API int cohort_comm_platform(const struct cohort_comm *comm);

/*
 * cohort_comm_generation - return the generation of a communicator's group
 *
 * Returns: 1 or more, or -1 if @comm is NULL, closed or forgotten
 */
COHORT_API int cohort_comm_generation(const struct cohort_comm *comm);

/*
 * cohort_comm_origin - return the number that this rank had in generation 1
 *
 * Returns: that rank, or -1 if @comm is NULL, closed or forgotten
 */
COHORT_API int cohort_comm_origin(const struct cohort_comm *comm);

/*
 * cohort_comm_group_rank - convert a rank to its number in the group
 * @rank: a rank of this communicator
 *
 * The group is the one from which this communicator was split.  The number of a
 * rank in another process is known only after the first collective, and only if
 * all processes are on one machine and the split keeps the order of the ranks.
 *
 * Returns: the rank's number in the group, or -1 if @comm is NULL, closed or
 * forgotten, if there is no such rank, or if its number is not known
 */
COHORT_API int cohort_comm_group_rank(const struct cohort_comm *comm, int rank);

/*
 * cohort_comm_stream - return the communicator's own stream
 *
 * The stream does not synchronize with the legacy default stream.  The stream
 * is valid until the group is closed or forgets the generation
 * (cohort_group_respawn()).
 *
 * Returns: the stream, or NULL if @comm is NULL, closed or forgotten
 */
COHORT_API void *cohort_comm_stream(struct cohort_comm *comm);

/*
 * cohort_comm_cause - get the cause that ended a communicator's group
 * @cause: filled; its status is COHORT_OK if there is no cause
 *
 * Returns:
 *   COHORT_OK       @cause is filled
 *   COHORT_INVALID  an argument is NULL
 */
COHORT_API int cohort_comm_cause(struct cohort_comm *comm,
                                 struct cohort_cause *cause);

/*
 * cohort_comm_bind - let only the calling thread call on a communicator
 *
 * Must be called by the thread that will call for this rank; does not block.
 * Workers of cohort_group_run() are bound while they run.  Helpers of a reducer
 * with options.helpers_launch may launch for the bound thread.
 *
 * If the bound thread exits, the rank can never make its next call.  So the
 * group ends immediately with COHORT_THREAD_EXITED, and the cause names the
 * rank.  If the thread exits inside a native call, the calls of the other ranks
 * return COHORT_WEDGED after the abort deadline.
 *
 * Another thread may close the group, even while the bound thread hangs after
 * an abort.  The bound thread may then still use the communicator until it
 * unbinds it: calls that queue something return COHORT_STALE, while tickets and
 * the cause keep their results.
 *
 * Returns:
 *   COHORT_OK       the communicator is bound
 *   COHORT_ALREADY  it is bound to this thread already
 *   COHORT_OWNER    it is bound to another thread
 *   COHORT_BUSY     another thread is inside the communicator
 *   COHORT_STATE    the communicator is closed
 *   COHORT_STALE    the group was respawned or closed
 *   COHORT_SYSTEM   the exit of the thread cannot be watched
 */
COHORT_API int cohort_comm_bind(struct cohort_comm *comm);

/*
 * cohort_comm_unbind - let any thread call on a communicator again
 *
 * Must be called by the bound thread, before that thread exits; otherwise the
 * exit ends the group.  Does not block unless the group was closed.  If it was,
 * this call or the exit of the thread frees the communicator, which may wait
 * for the device.  No call may use @comm after that.
 *
 * Returns:
 *   COHORT_OK       the communicator is no longer bound
 *   COHORT_ALREADY  the communicator was not bound
 *   COHORT_OWNER    it is bound to another thread
 *   COHORT_BUSY     another thread is inside the communicator
 */
COHORT_API int cohort_comm_unbind(struct cohort_comm *comm);

/*
 * cohort_comm_fail - end the group because this rank cannot continue
 * @code: a number that the program chooses, not 0
 * @text: for diagnostics only, copied (up to 200 bytes); NULL for none
 *
 * Ends the group like cohort_group_abort(), but blames this rank.  The cause
 * has the status COHORT_WORKER, the kind COHORT_VERDICT_WORKER, @code in its
 * worker field, and a text like "rank 1 gave up with code -7: shard 12 is
 * unreadable".  The other ranks need not do anything: their calls and waits
 * return the cause.  In cohort_group_run() the result of the worker no longer
 * matters afterwards.
 *
 * May be called from any thread, even if the communicator is bound to another
 * thread, if a thread is inside it, or if it is closed while its group is open.
 * Must not be called from a signal handler; use cohort_abort_fire() there.
 * Does not block.
 *
 * Returns:
 *   COHORT_OK       this call has set the cause
 *   COHORT_ALREADY  there was a cause, or this rank belongs to a former
 *                   generation or was abandoned
 *   COHORT_INVALID  @code is 0, or @comm is NULL
 */
COHORT_API int cohort_comm_fail(struct cohort_comm *comm, int code,
                                const char *text);

/*
 * cohort_tag - label this rank's calls from now on
 * @text: for diagnostics only, such as "step 12, gradients"; copied, up to 47
 *        bytes, with "?" for control characters; NULL or "" for none
 *
 * The tag applies to each call that is made while it is set.  Verdicts show the
 * tag of a rank's last call.  Ranks need not use the same tags.  The library
 * caches the last 64 different texts, so that setting one of them again is
 * cheap.  A reducer also labels its own calls.  One thread at a time per
 * communicator; does not block.
 *
 * Returns:
 *   COHORT_OK     the tag is set
 *   COHORT_BUSY   another thread is inside the communicator
 *   COHORT_OWNER  the communicator is bound to another thread
 *   COHORT_STATE  the communicator is closed
 */
COHORT_API int cohort_tag(struct cohort_comm *comm, const char *text);

/* The color of a rank that joins none of the new communicators. */
#define COHORT_NO_COLOR (-1)

/*
 * cohort_comm_split - split a communicator into new ones
 * @color: 0 or more; ranks with the same color share a new communicator.
 *         COHORT_NO_COLOR for none
 * @key:   ranks are numbered by ascending key, and in the old order if their
 *         keys are equal
 * @child: set to this rank's new communicator, or NULL for COHORT_NO_COLOR
 *
 * Every rank must call this, each on its own thread, at the same place in its
 * sequence of collectives; colors and keys may differ.  Blocks until all ranks
 * have called and all earlier operations are done, under the deadlines of a
 * collective, and then until the platform has created the new communicators, up
 * to the init deadline.  Works across processes wherever ncclCommSplit() does.
 *
 * A new communicator has the deadlines and on_verdict of this one, but its own
 * cause and abort handles, and is watched separately.  on_verdict is called for
 * it on another thread, perhaps at the same time as for this communicator.  The
 * new name is the name of this communicator, a dot and the color.  The
 * number that a rank had in generation 1 stays available
 * (cohort_comm_origin()).  A new communicator can be split again.
 *
 * If the new communicator (the child) ends, this one (the parent) continues.
 * If the parent ends, by a close or by a cause, the child ends; after
 * cohort_group_respawn() calls on the child return COHORT_STALE.  Close the
 * child by cohort_comm_close() on each of its ranks: the last close in this
 * process ends it, and no call may use it afterwards.  A child that is not
 * closed is closed with the parent's group, or with the parent if the parent's
 * ranks have joined with an id.
 *
 * COHORT_MISMATCH, COHORT_STALLED, COHORT_INIT_TIMEOUT, COHORT_NCCL,
 * COHORT_CUDA, COHORT_NO_MEMORY and COHORT_SYSTEM end this communicator,
 * because the other ranks wait for this one.  After any other error the call
 * had no effect.
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK            @child is set
 *   COHORT_STATE         the communicator is closed, or a batch is open
 *   COHORT_MISMATCH      another rank made a different call
 *   COHORT_STALLED       a rank did not call in time
 *   COHORT_INIT_TIMEOUT  the new communicators were not made in time
 *   COHORT_NO_MEMORY     out of memory
 *   COHORT_SYSTEM        a thread could not be started
 */
COHORT_API int cohort_comm_split(struct cohort_comm *comm, int color, int key,
                                 struct cohort_comm **child);

/*
 * cohort_comm_subset - create a communicator from a subset of the ranks
 * @id:    from cohort_unique_id(), the same for all members, used only once.
 *         One member calls it, and sends the id to the others
 * @ranks: ranks of the members in @comm, in the order of their new ranks, the
 *         same for all members; borrowed for the call
 * @n:     number of members
 * @name:  name of the new communicator in texts, of which 63 bytes are used; or
 *         NULL for the name of @comm and ".subset"; borrowed for the call
 * @child: set to this rank's new communicator
 *
 * Every member must call this, each on its own thread; other ranks need not do
 * anything.  Blocks until all members have called, one has left, or the init
 * deadline has passed.  A member has left if its worker has returned in this
 * process, or if it was closed in a process of this machine.  While the call
 * blocks, other threads may make calls on @comm, but may not close it
 * (COHORT_BUSY) or its group (COHORT_STATE).  On an error @comm continues, and
 * @id should not be used again.
 *
 * The new communicator is like one from cohort_comm_split(): it ends with
 * @comm, and verdicts show which rank of @comm each member is.
 *
 * Returns:
 *   COHORT_OK            @child is set
 *   COHORT_INVALID       an argument is wrong, or does not match the arguments
 *                        of other members in this process, which keep waiting
 *   COHORT_INIT_TIMEOUT  a member has not called in time, or has left
 *   COHORT_BUSY          another thread is closing @comm
 *   COHORT_OWNER         @comm is bound to another thread
 *   COHORT_STATE         @comm is closed, or this thread is in a quiet section
 *   COHORT_STALE         the generation was replaced or closed
 *   COHORT_NCCL, COHORT_CUDA, COHORT_NO_MEMORY, COHORT_SYSTEM  a call failed
 *   a cause's status     @comm has ended
 */
COHORT_API int cohort_comm_subset(struct cohort_comm *comm,
                                  const struct cohort_unique_id *id,
                                  const int *ranks, int n, const char *name,
                                  struct cohort_comm **child);

/*
 * cohort_comm_close - close a rank's communicator before its group is closed
 * @comm: accepts no more operations or allocations (COHORT_STATE); its tickets
 *        can still be waited for until the group is closed
 *
 * Blocks until this rank's tickets have results, up to the close deadline.
 * Other ranks need not do anything.  The native communicator lives until the
 * group is closed, because NCCL frees all ranks of a process together.
 *
 * The last close of joined ranks in a process ends all of them, and waits as
 * cohort_group_close() does; no call may use them afterwards, except as rule 2
 * in cohort/cohort.h permits.  If a thread is stuck inside one of these ranks
 * (COHORT_BUSY), all of them stay open.
 *
 * May be called from any thread.  A bound communicator must be closed by the
 * bound thread, and is then unbound.  Once there is a cause, any thread may
 * close a bound communicator, because the bound thread may hang.
 *
 * Returns:
 *   COHORT_OK         the communicator is closed
 *   COHORT_TIMED_OUT  a ticket had no result in time; nothing has changed
 *   COHORT_OWNER      it is bound to another thread, and there is no cause
 *   COHORT_BUSY       another thread is inside the communicator
 *   COHORT_STATE      it is already closed, or on_verdict tries to close a
 *                     joined rank
 *   COHORT_WEDGED     the communicator is closed; an abort did not finish in
 *                     time, so never free the buffers of its operations
 *   a cause's status  the communicator is closed; the group has ended
 *   other codes       results of cohort_group_close(), for the last joined rank
 */
COHORT_API int cohort_comm_close(struct cohort_comm *comm);

/*
 * cohort_comm_native_enter - get the ncclComm_t, for calls that Cohort lacks
 * @nccl_comm: set to the native communicator, which is valid until
 *             cohort_comm_native_leave() by the same thread.  The program must
 *             not abort, destroy, finalize, split or keep it
 *
 * From here to cohort_comm_native_leave() the thread is inside the
 * communicator: this rank's other calls return COHORT_BUSY, and an abort waits
 * for the thread to leave, up to the abort deadline.  An abort ends the native
 * calls as it ends the library's own.  Until the thread leaves, it must not
 * wait for tickets of the group or make calls of other ranks: if the group
 * ends, such calls wait until the thread has left.
 *
 * Native calls are not recorded, not compared with the calls of other ranks,
 * and not covered by tickets.  After the first enter, this rank's sends and
 * receives are no longer compared.  One thread at a time per communicator;
 * does not block.
 *
 * Returns:
 *   COHORT_OK         @nccl_comm is set
 *   COHORT_BUSY       another thread is inside, or a call with host memory that
 *                     has timed out is not launched yet
 *   COHORT_OWNER      the communicator is bound to another thread
 *   COHORT_STATE      the communicator is closed
 *   COHORT_STALE      the group was respawned or has abandoned this rank
 *   a cause's status  the group has ended
 */
COHORT_API int cohort_comm_native_enter(struct cohort_comm *comm,
                                        void **nccl_comm);

/*
 * cohort_comm_native_leave - leave a communicator after native calls
 *
 * Must be called by the thread that has entered; does not block.
 *
 * Returns:
 *   COHORT_OK     the thread has left
 *   COHORT_OWNER  another thread has entered
 *   COHORT_STATE  no thread has entered
 */
COHORT_API int cohort_comm_native_leave(struct cohort_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
