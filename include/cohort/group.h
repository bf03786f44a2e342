/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_GROUP_H
#define COHORT_GROUP_H

/*
 * Groups: open one over some of the machine's devices, hand out its
 * communicators, run a function on every rank, begin anew after a failure,
 * close
 *
 * Before a group is split, one thread can call for all of its ranks at once:
 * the group-level calls at the end of this file.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/options.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_group;
struct cohort_comm;

/*
 * cohort_group_open - open a group over some of the machine's devices
 * @devices: @n device numbers, rank r on devices[r], each at most once; NULL
 *           for the first @n
 * @n:       number of ranks, 1 to the number of devices; with @devices NULL, 0
 *           for all of them
 * @options: NULL for the defaults; borrowed for the call
 * @group:   the new group, to be closed by cohort_group_close()
 *
 * Opens the platform.  Then a thread of the library connects all ranks in one
 * ncclCommInitAll(), makes what each needs on its device, and has NCCL make the
 * connections that options.connect asks for.  Any thread; blocks until that is
 * done, or the init deadline has passed.
 *
 * With options.bootstrap the group has ranks in other processes, too, and each
 * process opens it over its own devices (cohort/bootstrap.h).  It meets the
 * others, connects, and meets them again: if one process cannot open it, none
 * has it, and each answers with that one's error.  (Only if the last exchange
 * fails in some processes may others have the group; its calls end as when that
 * process exits later, or stall.  And on_abort and on_verdict may be told of
 * the end of a generation that open does not return.) The meeting and the
 * connecting take up to the init deadline each, and the second meeting up to
 * twice that, as others may still be connecting.
 *
 * COHORT_OK; COHORT_INVALID, also for an environment that changes what NCCL's
 * calls mean (NCCL_COMM_BLOCKING=0, NCCL_LAUNCH_MODE=GROUP,
 * NCCL_COMM_SPLIT_SHARE_RESOURCES=1), or for such a line in one of NCCL's files
 * of settings (NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf);
 * COHORT_NO_MEMORY; COHORT_SYSTEM (a thread could not be started);
 * COHORT_INIT_TIMEOUT, which names the devices, or the one that hangs and the
 * CUDA call that it is in; from the gpu platform COHORT_NO_LIBRARY,
 * COHORT_NO_SYMBOL, COHORT_NO_DEVICE, COHORT_UNSUPPORTED, COHORT_CUDA,
 * COHORT_NCCL.  With options.bootstrap also the error of another process, which
 * the text names; COHORT_INIT_TIMEOUT if not all have come; COHORT_INVALID if
 * they ask for different things (options.launch, connect and many, platform,
 * NCCL's version); COHORT_PROCESS_EXITED if one of them ends meanwhile, as far as
 * that is seen; COHORT_SYSTEM if the bootstrap fails; COHORT_UNSUPPORTED for
 * several processes on the host platform with COHORT_HOST_SHARED=0.
 *
 * On error nothing is open and @group is untouched; if a call that timed out
 * opens something after all, that is taken back.
 */
COHORT_API int cohort_group_open(const int *devices, int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_group **group);

/*
 * cohort_group_close - close the group and every communicator of it
 * @group: freed; NULL is allowed and does nothing
 *
 * Waits up to the close deadline for what is in flight, then destroys the
 * native communicators, all in one group of calls.  If the wait expires or the
 * group gets a cause, it aborts them instead.  Former generations go, too.
 * After an abort it waits, up to the abort deadline each, for an on_verdict
 * that is running and for the device to give memory back.  If NCCL's frees wait
 * longer than the abort deadline, and another group has work in flight on these
 * devices, a thread of the library waits on, and close answers as if it was
 * done: the buffers are free, only NCCL's own memory is not yet.
 *
 * No other call may be using the group or its communicators: COHORT_STATE where
 * that is seen.  The threads of rule 2 (cohort/cohort.h) are excepted, as they
 * may hang: once the group has a cause, they may make a call at any time, also
 * during the close.  So abort first if a rank hangs.
 *
 * A communicator that is bound to the calling thread is unbound.  The group's
 * communicators stay in memory until each worker that a run left behind has
 * returned, and until each other thread that has bound one of them has unbound
 * it or exited.
 *
 * COHORT_OK; COHORT_STATE while cohort_group_run() is running or a call is
 * inside a communicator (but for one whose abort was given up), or if called by
 * on_verdict, or during a respawn (nothing happened, the group is still open);
 * COHORT_ABORTED if work in flight did not finish in time and was cut short:
 * closed all the same; COHORT_WEDGED, closed as well, if something else did not
 * end in its time, which the text names.  If that is the abort, of this
 * generation or of a former one, the native communicators are leaked, and
 * buffers of unfinished operations must not be freed.  If it is on_verdict, its
 * thread is left behind, and buffers are free.
 */
COHORT_API int cohort_group_close(struct cohort_group *group);

/*
 * cohort_group_split - hand out one communicator per rank
 * @group: an open group that has not been split
 * @comms: room for as many pointers as the group has ranks
 *
 * All or nothing.  Afterwards the group-level collectives are refused: each
 * rank speaks for itself.  Does not block on other ranks.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_STATE if the group was split before (also
 * by cohort_group_run()) or has a cause.  On error the group is as before.
 */
COHORT_API int cohort_group_split(struct cohort_group *group,
                                  struct cohort_comm *comms[]);

/*
 * What a rank's thread runs.  Its communicator is bound to the thread, whose
 * current device is the rank's.
 *
 * Any result but 0 ends the group: the other ranks are unblocked with
 * COHORT_WORKER as the cause, whose text has the result.  If the result is that
 * of the thread's last call that failed, and the rank has queued nothing since,
 * the text also has its cohort_last_error(): "the worker of rank 1 returned -1:
 * root is 9, not 0 to 3".  A worker with a reason of its own calls
 * cohort_comm_fail() first.
 *
 * No other thread may make a call for the rank after its worker has returned,
 * not even on a communicator that was split from its own: the ranks that wait
 * for one are told that the rank has left (COHORT_VERDICT_LEFT).
 *
 * No exception, panic or longjmp() may leave the worker; pthread_exit() is the
 * exit of a thread that is bound (see cohort_comm_bind()).
 */
typedef int (*cohort_worker_fn)(struct cohort_comm *comm, void *user);

/*
 * cohort_group_run - run one function on every rank, a thread per rank
 * @group:  an open group; split first if it has not been.  May be run again and
 *          again
 * @worker: called once per rank, on a thread named after the group and the rank
 * @user:   passed on
 * @cause:  the group's cause, unless the result is COHORT_INVALID or
 *          COHORT_FORKED; its status is COHORT_OK while there is none.  May be
 *          NULL
 *
 * Blocks until every worker has returned.  Once the group has a cause, it
 * blocks no longer than the abort deadline from that, and a quarter of a second
 * more if the abort is wedged.  Workers that have not returned then, stuck or
 * only slow, are *abandoned* (cohort_group_abandoned()): their threads go on.
 * What @user points to must live until they return, which only @worker itself
 * can tell you.  Their communicators live as long; calls on those that queue
 * something answer COHORT_STALE.
 *
 * COHORT_OK if every worker of this process returned 0 before the group ended;
 * COHORT_WORKER if one returned anything else (@cause->worker, @cause->rank);
 * the cause's status if something else ended the group, also if another process
 * did so before the call (no worker has run); COHORT_INVALID; COHORT_STATE if a
 * group of one process has a cause already, a run or a respawn is under way, or
 * a communicator was closed, is bound, was entered for native calls, or has an
 * open batch; COHORT_SYSTEM or COHORT_NO_MEMORY if the threads could not be
 * started (no worker has run, the group is as before).
 */
COHORT_API int cohort_group_run(struct cohort_group *group,
                                cohort_worker_fn worker, void *user,
                                struct cohort_cause *cause);

/*
 * cohort_group_respawn - a new generation without the ranks that were lost
 * @group:      a group that has a cause
 * @lost_ranks: @n rank numbers of the generation that has ended, to go on
 *              without, of this process or of others; NULL with @n 0: with all
 *              of them
 * @n:          0 to the number of all ranks - 1
 *
 * Opens new communicators over the devices that are left, with the ranks
 * renumbered in the old order; cohort_comm_origin() tells a rank's first
 * number.  The group can then be split, or run, as a new one.
 *
 * Tickets and memory of the last 4 former generations can still be waited for
 * and freed.  Calls that queue work on their communicators return COHORT_STALE
 * with the old cause; other calls have no effect on the new communicators.
 * Older generations are forgotten: their streams are destroyed, and every call
 * on their communicators returns COHORT_STALE.  A generation is not forgotten
 * while a thread is inside one of its communicators, a worker of it was
 * abandoned, or memory, a registration or a reducer of it has not been freed.
 * Tickets of group-level calls must no longer be asked about: the same numbers
 * are given out anew.  Abort handles of former generations do nothing any more.
 * Threads of a split group stop using its communicators by themselves; one that
 * is lost, or late, is in nobody's way: its next call answers COHORT_STALE, and
 * the exit of a thread that is bound to a former communicator ends nothing.
 * Deadlines that were pushed, and pauses, are not taken over.
 *
 * When a group ends, some ranks may have finished one collective more than
 * others, or one step: have one rank broadcast its step and its weights before
 * the new ranks go on.
 *
 * A supervisor is a loop: run; while that fails, respawn without the ranks that
 * cohort_group_lost() returns, and run again.  A worker that was abandoned may
 * still be on its device: if its rank is kept, two threads work for that device.
 *
 * With options.bootstrap every process respawns its group, and aborts it before
 * if it has no cause there.  They go on without all the ranks that any of them
 * names, and, if all watch all (cohort/bootstrap.h), without the processes that
 * have ended or closed the group; each of the others must keep a rank.  They
 * meet before and after, as in cohort_group_open(), with the same errors, and
 * wait for each other up to the init deadline and two abort deadlines.  A
 * process that ends meanwhile ends the respawn in all (COHORT_PROCESS_EXITED),
 * which can then be tried again, without it.  A meeting to which a process does
 * not come is the last one of the group (COHORT_STATE): close it, and open
 * another.
 *
 * One thread at a time; no thread may be inside a split or group-level call.
 * Blocks until the former generation is reclaimed, up to the abort deadline,
 * and again for what was split from it; then as cohort_group_open() does; then
 * for an on_verdict that is running, up to the abort deadline.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_STATE while there is no cause, while a run
 * or another respawn is under way, while the former generation or what was
 * split from it is not reclaimed, or is wedged on a device that would be used
 * again (drop those ranks), or if called by on_verdict; COHORT_NO_MEMORY,
 * COHORT_SYSTEM, COHORT_INIT_TIMEOUT, COHORT_CUDA, COHORT_NCCL,
 * COHORT_PROCESS_EXITED.  On error the group is as before.
 */
COHORT_API int cohort_group_respawn(struct cohort_group *group,
                                    const int *lost_ranks, int n);

/*
 * cohort_group_abort - end every operation and communicator of the group
 * @group:  an open group
 * @reason: for people, copied (up to 200 bytes); NULL: none
 *
 * Sets the cause (COHORT_ABORTED) and returns.  Tickets answer with the cause
 * as soon as no buffer can be touched any more.  An operation that is queued
 * behind other work of its stream, yours or another group's, is over only when
 * that work is; if that takes longer than the abort deadline, the answer is
 * COHORT_WEDGED.  Any thread, any number of times; does not block.
 *
 * COHORT_OK for the call that set the cause; COHORT_ALREADY if there was one;
 * COHORT_INVALID.
 */
COHORT_API int cohort_group_abort(struct cohort_group *group,
                                  const char *reason);

/*
 * cohort_group_size       - number of ranks in this process, for which the calls
 *                           of the group take one pointer each.  With
 *                           options.bootstrap there are more elsewhere: see
 *                           cohort_comm_size() and cohort_group_processes()
 * cohort_group_platform   - COHORT_PLATFORM_GPU or _HOST
 * cohort_group_devices    - fills @devices (room for cohort_group_size()
 *                           numbers) in the order of the ranks
 * cohort_group_cause      - fills @cause, whose status is COHORT_OK if there is
 *                           none
 * cohort_group_launch     - COHORT_LAUNCH_TOGETHER or _AHEAD, whichever is in
 *                           force
 * cohort_group_generation - 1, and 1 more with each cohort_group_respawn()
 * cohort_group_abandoned  - how many ranks the last run of this generation has
 *                           left behind, also if they have returned since;
 *                           stores the first @room of them in @ranks, which may
 *                           be NULL
 *
 * Facts of a group's latest generation.  Any thread; none blocks.
 *
 * cohort_group_devices() and cohort_group_cause(): COHORT_OK; COHORT_INVALID
 * for a NULL group.  The others answer -1 for a NULL group.
 */
COHORT_API int cohort_group_size(const struct cohort_group *group);
COHORT_API int cohort_group_platform(const struct cohort_group *group);
COHORT_API int cohort_group_devices(const struct cohort_group *group,
                                    int *devices);
COHORT_API int cohort_group_cause(const struct cohort_group *group,
                                  struct cohort_cause *cause);
COHORT_API int cohort_group_launch(const struct cohort_group *group);
COHORT_API int cohort_group_generation(const struct cohort_group *group);
COHORT_API int cohort_group_abandoned(const struct cohort_group *group,
                                      int *ranks, int room);

/*
 * cohort_group_lost - the ranks that a supervisor goes on without after the group
 *                     has ended
 * @ranks: the first @room of them are stored here, in ascending order; may be NULL
 * @room:  number of elements of @ranks
 *
 * These are the rank to blame, the ranks that are missing unless they are more than
 * half of all, and those that the last run has left behind.  If that were all
 * ranks, there are none.  Pass them to cohort_group_respawn().
 *
 * Any thread; does not block.
 *
 * Returns:
 *   the number of these ranks  0 if none is to blame, or there is no cause
 *   -1                         @group is NULL
 */
COHORT_API int cohort_group_lost(const struct cohort_group *group, int *ranks,
                                 int room);

/*
 * cohort_group_all_reduce - all ranks' all-reduce from one thread
 * cohort_group_broadcast  - all ranks' broadcast from one thread
 * @send, @recv: one pointer per rank, each @count elements of @type on that
 *               rank's device; of a broadcast only send[@root] is read and the
 *               others may be NULL.  send[r] may equal recv[r]
 * @op:          enum cohort_op
 * @streams:     one per rank, of that rank's device; NULL: the ranks' own
 * @ticket:      one for all ranks, for cohort_group_wait(); may be NULL
 *
 * Before the split only.  Queued and recorded on every rank in one native
 * group: all or nothing.  As all ranks call at once, it never waits for other
 * calls.  Results and blocking are otherwise those of cohort_all_reduce().
 *
 * Besides, with nothing queued: COHORT_STATE after a split; COHORT_NO_MEMORY;
 * COHORT_UNSUPPORTED if a stream is being captured, or if CUDA_LAUNCH_BLOCKING
 * was set in the environment when a group of several ranks was opened: each
 * launch would wait for the next.
 */
COHORT_API int cohort_group_all_reduce(struct cohort_group *group,
                                       const void *const send[],
                                       void *const recv[], size_t count,
                                       int type, int op, void *const streams[],
                                       uint64_t *ticket);
COHORT_API int cohort_group_broadcast(struct cohort_group *group,
                                      const void *const send[],
                                      void *const recv[], size_t count,
                                      int type, int root, void *const streams[],
                                      uint64_t *ticket);

/*
 * cohort_group_alloc - memory on the device of every rank
 * cohort_group_free  - give it back
 * @bytes:  at least 1, on each rank
 * @memory: room for one pointer per rank; of free: one per rank, NULL allowed,
 *          and each is set to NULL once it is given back
 *
 * As cohort_alloc() and cohort_free() on each rank, before the split and after
 * it.  Alloc is all or nothing: on error @memory is untouched.  After an error
 * of free, what is not NULL is still there: call it again.
 *
 * The memory is the program's until it is given back: a split, a run, an abort
 * and a respawn leave it as it is, and cohort_group_close() does not free it.
 * cohort_free() of a rank's communicator takes it, too.  After a respawn
 * @memory has one pointer for each rank of the new generation; the memory of a
 * rank that was lost may be given back in the place of any rank's.
 *
 * Results and blocking as for cohort_alloc() and cohort_free().
 */
COHORT_API int cohort_group_alloc(struct cohort_group *group, size_t bytes,
                                  void *memory[]);
COHORT_API int cohort_group_free(struct cohort_group *group, void *memory[]);

/*
 * cohort_group_copy - copy bytes on every rank, in stream order
 * @dst, @src: one pointer per rank, each @bytes of host memory or of that
 *             rank's device; borrowed until the copies are done
 * @streams:   one per rank, of that rank's device; NULL: the ranks' own
 * @ticket:    one for all ranks, for cohort_group_wait(); may be NULL
 *
 * As cohort_copy() on each rank, before the split only (COHORT_STATE).  If the
 * first rank's copy fails, nothing was copied and the group goes on.  If a
 * later rank's copy fails, the group ends, as when a collective fails.
 */
COHORT_API int cohort_group_copy(struct cohort_group *group, void *const dst[],
                                 const void *const src[], size_t bytes,
                                 void *const streams[], uint64_t *ticket);

/*
 * cohort_group_stream - the own stream of rank @rank, as cohort_comm_stream()
 *                       tells it
 *
 * Group-level calls without @streams go to these streams.  Valid until the
 * group is respawned or closed.  NULL without a group or such a rank.  Any
 * thread; does not block.
 */
COHORT_API void *cohort_group_stream(const struct cohort_group *group,
                                     int rank);

/*
 * cohort_group_wait - wait for a group-level call on every rank
 *
 * As cohort_wait(), for the ticket of a group-level call.
 */
COHORT_API int cohort_group_wait(struct cohort_group *group, uint64_t ticket,
                                 uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
