/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_GROUP_H
#define COHORT_GROUP_H

/*
 * Groups: open a group over devices of the machine, create its communicators,
 * run a function on every rank, respawn after a failure, and close
 *
 * Before a group is split, one thread can make the calls of all its ranks,
 * with the group-level calls at the end of this header.
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
 * @devices: @n device numbers, all different; rank r gets devices[r].  NULL for
 *           the first @n devices
 * @n:       number of ranks, 1 to the number of devices; if @devices is NULL, 0
 *           selects all devices
 * @options: NULL for the defaults; borrowed for the call
 * @group:   set to the new group, to be closed by cohort_group_close()
 *
 * Opens the platform and connects all ranks, as options.connect says.  May be
 * called from any thread; blocks until all ranks are connected, or the init
 * deadline has passed.  On error no group is open and @group is untouched.  If
 * NCCL or CUDA finishes its part only after a timeout, the library closes what
 * was opened.
 *
 * With options.bootstrap every process must open the group, each over its own
 * devices (cohort/bootstrap.h).  If one process cannot open the group, no
 * process opens it, and all return that process's error.  See
 * docs/api-rules.md, "Opening a group in several processes".
 *
 * Returns:
 *   COHORT_OK              the group is open
 *   COHORT_INVALID         an argument, an option or a setting of NCCL is
 *                          wrong, or the processes disagree; the error text has
 *                          its value.  NCCL_COMM_BLOCKING=0,
 *                          NCCL_LAUNCH_MODE=GROUP and
 *                          NCCL_COMM_SPLIT_SHARE_RESOURCES=1 are refused, in
 *                          the environment and in NCCL's configuration files
 *   COHORT_INIT_TIMEOUT    the ranks were not connected in time; the error text
 *                          names the devices, or the device and the CUDA call
 *                          that hang, or the processes that have not arrived
 *   COHORT_ABORTED         options.abort was fired
 *   COHORT_STATE           options.abort belongs to a group that was opened
 *                          before, another group of this name is being opened
 *                          with options.bootstrap, or the thread is in a quiet
 *                          section
 *   COHORT_NO_LIBRARY      NCCL or the CUDA runtime is not installed
 *   COHORT_NO_SYMBOL       one of these libraries lacks a function
 *   COHORT_NO_DEVICE       there is no driver or no device
 *   COHORT_UNSUPPORTED     NCCL or CUDA is too old or incompatible, or the
 *                          processes' simulated devices are not shared
 *                          (COHORT_HOST_SHARED=0)
 *   COHORT_CUDA            a call of the CUDA runtime failed
 *   COHORT_NCCL            a call of NCCL failed
 *   COHORT_NO_MEMORY       out of memory
 *   COHORT_SYSTEM          a thread could not be started, or the bootstrap
 *                          failed
 *   COHORT_PROCESS_EXITED  another process ended during the call
 */
COHORT_API int cohort_group_open(const int *devices, int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_group **group);

/*
 * cohort_group_close - close a group and all of its communicators
 * @group: freed; NULL is allowed and does nothing
 *
 * Blocks until all operations in flight are done, up to the close deadline, and
 * then destroys the native communicators, including those of former
 * generations.  If the deadline passes or the group gets a cause, the call
 * aborts the communicators instead.  After an abort it waits up to the abort
 * deadline for a running on_verdict, and then again up to the abort deadline
 * until memory is freed.  If NCCL takes longer to free memory, because another
 * group keeps these devices busy, a thread of the library finishes this after
 * close has returned.
 *
 * No other call may be using the group or its communicators; call
 * cohort_group_abort() first if a rank may hang.  Once the group has a cause,
 * two kinds of threads may still call (rule 2 in cohort/cohort.h): abandoned
 * workers, and threads that a communicator is bound to.  The communicators stay
 * in memory until each of these workers has returned, and each of these threads
 * has unbound or exited.  A communicator that is bound to the calling thread is
 * unbound.
 *
 * Returns:
 *   COHORT_OK       the group is closed
 *   COHORT_ABORTED  the group is closed; operations that were not done in time
 *                   were cut short
 *   COHORT_WEDGED   the group is closed, but something did not end in time.  If
 *                   the error text names an abort, the native communicators are
 *                   leaked, and buffers of unfinished operations must never be
 *                   freed.  If it names on_verdict, the thread that runs the
 *                   callback is abandoned, and buffers may be freed
 *   COHORT_STATE    the group is still open: a run or a respawn is in progress,
 *                   a thread is inside a communicator, or on_verdict has made
 *                   this call
 *   COHORT_INVALID  @group is not an open group, for example because it was
 *                   closed before
 */
COHORT_API int cohort_group_close(struct cohort_group *group);

/*
 * cohort_group_split - create a communicator for each rank
 * @group: an open group that has not been split
 * @comms: room for one pointer per rank
 *
 * After the split, group-level collectives return COHORT_STATE.  One thread at
 * a time per group; does not wait for other ranks.  On error the group is
 * unchanged.
 *
 * Returns:
 *   COHORT_OK     all communicators exist
 *   COHORT_STATE  the group was split or run before, or has a cause
 */
COHORT_API int cohort_group_split(struct cohort_group *group,
                                  struct cohort_comm *comms[]);

/*
 * The worker function that cohort_group_run() calls for each rank, on a thread
 * that is bound to the rank's communicator and whose current device is the
 * rank's
 *
 * If the worker returns anything but 0, the group ends with COHORT_WORKER, and
 * the other ranks' calls return COHORT_WORKER.  The text of the cause contains
 * the worker's result.  If that result is the status of the thread's last
 * failed call, and the rank has queued nothing since, the text also contains
 * cohort_last_error() of that call: "the worker of rank 1 returned -1: root is
 * 9, not 0 to 3".  To report another reason, call cohort_comm_fail() first.
 *
 * After the worker has returned, no thread may make calls of its rank, not
 * even on a communicator that was split from the rank's communicator.  If
 * other ranks wait for a call of this rank, the group ends with
 * COHORT_VERDICT_LEFT.
 *
 * No exception, panic or longjmp() may leave the worker.  pthread_exit() ends
 * the group, like the exit of any bound thread (cohort_comm_bind()).
 */
typedef int (*cohort_worker_fn)(struct cohort_comm *comm, void *user);

/*
 * cohort_group_run - run a function on every rank, each on its own thread
 * @group:  an open group; split first if it has not been.  May be run many
 *          times
 * @worker: called once per rank, on a thread named after the group and the rank
 * @user:   passed to @worker.  Must live until every worker has returned,
 *          including abandoned ones
 * @cause:  set to the group's cause unless the result is COHORT_INVALID or
 *          COHORT_FORKED; its status is COHORT_OK if there is none.  May be
 *          NULL
 *
 * One thread at a time per group.  Blocks until every worker has returned, but
 * after a cause no longer than the abort deadline, counted from the cause (plus
 * a quarter of a second if the abort does not finish).  Workers that have not
 * returned by then are *abandoned* (cohort_group_abandoned()): their threads
 * and communicators continue to exist, and calls that queue something return
 * COHORT_STALE.
 *
 * Returns:
 *   COHORT_OK         every worker returned 0
 *   COHORT_WORKER     a worker returned something else, see @cause->worker and
 *                     @cause->rank
 *   COHORT_STATE      no worker has run: the group has a cause, a run or a
 *                     respawn is running, or a communicator was closed, is
 *                     bound, was entered for native calls or has an open batch
 *   COHORT_SYSTEM     no worker has run: a thread could not be started
 *   COHORT_NO_MEMORY  no worker has run: out of memory
 *   a cause's status  something else ended the group.  If another process ended
 *                     it before the call, no worker has run
 */
COHORT_API int cohort_group_run(struct cohort_group *group,
                                cohort_worker_fn worker, void *user,
                                struct cohort_cause *cause);

/*
 * cohort_group_respawn - start a new generation without the lost ranks
 * @group:      a group that has a cause
 * @lost_ranks: the @n ranks to leave out, numbered as in the ended generation,
 *              of this or other processes; NULL if @n is 0
 * @n:          number of lost ranks; at least one rank of the group must remain
 *
 * Opens new communicators over the remaining devices, with the ranks renumbered
 * in the old order (cohort_comm_origin()).  The group can then be split or run
 * like a new one.  Pushed deadlines and pauses are not carried over.  On error
 * the group is unchanged.
 *
 * Every process of the group must call this; a process whose group has no cause
 * must abort it first.  See docs/api-rules.md, "Respawning", for the ranks that
 * are left out.
 *
 * One thread at a time, while no thread is inside a split or a group-level
 * call.  Blocks until the former generation and the communicators split from it
 * are freed, up to the abort deadline for each.  Then blocks as
 * cohort_group_open() does, and up to the abort deadline for a running
 * on_verdict.
 *
 * Calls on former communicators return COHORT_STALE.  The program can still
 * wait for tickets and free memory of the last 4 former generations; older
 * generations are *forgotten*.  Tickets of group-level calls become invalid,
 * because their numbers are used again.  An abandoned worker may still use its
 * device: if its rank is kept, two threads use that device.
 *
 * At the end of the old generation, ranks may have been one collective or one
 * step apart.  So have one rank broadcast its step and its weights before the
 * new ranks continue.
 *
 * Returns: the same as cohort_group_open(), and
 *   COHORT_OK     the group has a new generation
 *   COHORT_STATE  there is no cause, a run or a respawn is in progress, the
 *                 former generation is not freed yet or is wedged on a device
 *                 that would be used again (leave out its rank), on_verdict has
 *                 made this call, another process missed an earlier respawn, or
 *                 all ranks of this process are lost (close the group and open
 *                 another)
 */
COHORT_API int cohort_group_respawn(struct cohort_group *group,
                                    const int *lost_ranks, int n);

/*
 * cohort_group_abort - end all operations and communicators of a group
 * @group:  an open group
 * @reason: for diagnostics only, copied (up to 200 bytes); NULL for none
 *
 * Sets the cause (COHORT_ABORTED).  Tickets return the status of the cause as
 * soon as no operation can access a buffer.  An operation that is queued after
 * other work on its stream ends only after that work; if this takes longer than
 * the abort deadline, its ticket returns COHORT_WEDGED.  May be called from any
 * thread, any number of times; does not block.
 *
 * Returns:
 *   COHORT_OK       this call has set the cause
 *   COHORT_ALREADY  there was a cause
 */
COHORT_API int cohort_group_abort(struct cohort_group *group,
                                  const char *reason);

/*
 * cohort_group_size - return the number of a group's ranks in this process
 *
 * Group-level calls take one pointer for each of these ranks.  With
 * options.bootstrap other processes have further ranks (cohort_comm_size()).
 *
 * Returns: 1 or more, or -1 if @group is NULL
 */
COHORT_API int cohort_group_size(const struct cohort_group *group);

/*
 * cohort_group_platform - return the platform of a group
 *
 * Returns: COHORT_PLATFORM_GPU or COHORT_PLATFORM_HOST, or -1 if @group is NULL
 */
COHORT_API int cohort_group_platform(const struct cohort_group *group);

/*
 * cohort_group_devices - get the devices of a group's ranks in this process
 * @devices: filled in the order of the ranks; room for cohort_group_size()
 *           numbers
 *
 * Returns:
 *   COHORT_OK       @devices is filled
 *   COHORT_INVALID  an argument is NULL
 */
COHORT_API int cohort_group_devices(const struct cohort_group *group,
                                    int *devices);

/*
 * cohort_group_cause - get the cause that ended a group's latest generation
 * @cause: filled; its status is COHORT_OK if there is no cause
 *
 * Returns:
 *   COHORT_OK       @cause is filled
 *   COHORT_INVALID  an argument is NULL
 */
COHORT_API int cohort_group_cause(const struct cohort_group *group,
                                  struct cohort_cause *cause);

/*
 * cohort_group_generation - return the number of a group's latest generation
 *
 * Returns: 1, plus 1 for each respawn; -1 if @group is NULL
 */
COHORT_API int cohort_group_generation(const struct cohort_group *group);

/*
 * cohort_group_abandoned - get the ranks whose workers were abandoned
 * @ranks: set to the first @room of these ranks; may be NULL
 * @room:  number of elements of @ranks
 *
 * Covers the last run of the latest generation, and includes workers that have
 * returned since.  May be called from any thread; does not block.
 *
 * Returns: the number of these ranks, or -1 if @group is NULL
 */
COHORT_API int cohort_group_abandoned(const struct cohort_group *group,
                                      int *ranks, int room);

/*
 * cohort_group_lost - get the ranks to leave out of a respawn
 * @ranks: set to the first @room of these ranks, in ascending order; may be
 *         NULL
 * @room:  number of elements of @ranks
 *
 * Pass these ranks to cohort_group_respawn():
 *
 *  - the rank that the cause blames;
 *  - the ranks that the cause lists as missing, unless they are more than half
 *    of all ranks;
 *  - the ranks whose workers were abandoned.  But these are kept if another
 *    rank is to blame, the abort has finished, and they are more than half of
 *    all ranks.
 *
 * If these rules select every rank, the function returns none.  May be called
 * from any thread; does not block.
 *
 * Returns: the number of these ranks, 0 if none is to blame or there is no
 * cause, or -1 if @group is NULL
 */
COHORT_API int cohort_group_lost(const struct cohort_group *group, int *ranks,
                                 int room);

/*
 * cohort_group_all_reduce - all-reduce for all ranks of a group from one thread
 * @group:   an open group that has not been split
 * @send:    input of each rank: @count elements of @type on the rank's device
 * @recv:    output of each rank, of the same size on the same device; recv[r]
 *           may equal send[r]
 * @op:      enum cohort_op
 * @streams: one stream per rank, on the rank's device; NULL for the ranks' own
 *           streams
 * @ticket:  set to one ticket for all ranks, for cohort_group_wait(); may be
 *           NULL
 *
 * Queues the operation on every rank in one native group, or on no rank.  Never
 * waits for other calls, because this call is for all ranks.  After
 * COHORT_STATE, COHORT_NO_MEMORY and COHORT_UNSUPPORTED nothing is queued.  One
 * thread at a time per group.  Otherwise the same as cohort_all_reduce().
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_STATE        the group was split or run
 *   COHORT_NO_MEMORY    out of memory
 *   COHORT_UNSUPPORTED  a stream is being captured; or the group has several
 *                       ranks and CUDA_LAUNCH_BLOCKING was set when it was
 *                       opened, so that each launch would wait for the next
 */
COHORT_API int cohort_group_all_reduce(struct cohort_group *group,
                                       const void *const send[],
                                       void *const recv[], size_t count,
                                       int type, int op, void *const streams[],
                                       uint64_t *ticket);

/*
 * cohort_group_broadcast - broadcast for all ranks of a group from one thread
 * @send: only send[@root] is read, @count elements of @type; others may be NULL
 * @recv: output of each rank: @count elements of @type on the rank's device;
 *        recv[@root] may equal send[@root]
 * @root: rank that sends
 *
 * Otherwise the same as cohort_group_all_reduce().
 */
COHORT_API int cohort_group_broadcast(struct cohort_group *group,
                                      const void *const send[],
                                      void *const recv[], size_t count,
                                      int type, int root, void *const streams[],
                                      uint64_t *ticket);

/*
 * cohort_group_alloc - allocate memory on the device of every rank
 * @bytes:  size on each rank, 1 or more
 * @memory: room for one pointer per rank
 *
 * Works before and after the split.  Allocates on every rank or on none: on
 * error @memory is untouched.  The memory belongs to the program: a split, a
 * run, an abort, a respawn and a close do not affect it.  Free it by
 * cohort_group_free(), or for one rank by cohort_free().  One thread at a time
 * per group; blocks as cohort_alloc() does.
 *
 * Returns: the same as cohort_alloc()
 */
COHORT_API int cohort_group_alloc(struct cohort_group *group, size_t bytes,
                                  void *memory[]);

/*
 * cohort_group_free - free memory on the device of every rank
 * @memory: one pointer per rank; NULL is allowed.  Each pointer is set to NULL
 *          once its memory is free
 *
 * Works before and after the split.  After an error, the memory of each pointer
 * that is not NULL remains allocated; call again.  After a respawn @memory must
 * have one pointer for each rank of the new generation.  To free the memory of
 * a lost rank, make one more call, with its pointer in any one element of
 * @memory and NULL in all others.  One thread at a time per group; blocks as
 * cohort_free() does.
 *
 * Returns: the same as cohort_free()
 */
COHORT_API int cohort_group_free(struct cohort_group *group, void *memory[]);

/*
 * cohort_group_copy - copy bytes on every rank, in stream order
 * @dst:     output of each rank: @bytes bytes, in host memory or on its device
 * @src:     input of each rank: @bytes bytes, in host memory or on its device;
 *           borrowed until the copies are done
 * @streams: one stream per rank, on the rank's device; NULL for the ranks' own
 *           streams
 * @ticket:  set to one ticket for all ranks, for cohort_group_wait(); may be
 *           NULL
 *
 * If the copy of the first rank fails, nothing is copied and the group
 * continues.  If the copy of a later rank fails, the group ends, as it does
 * when a collective fails.  One thread at a time per group; blocks as
 * cohort_copy() does.
 *
 * Returns: the same as cohort_copy(), and
 *   COHORT_STATE  the group was split or run
 */
COHORT_API int cohort_group_copy(struct cohort_group *group, void *const dst[],
                                 const void *const src[], size_t bytes,
                                 void *const streams[], uint64_t *ticket);

/*
 * cohort_group_stream - return a rank's own stream
 * @rank: 0 to cohort_group_size() - 1
 *
 * Returns the same stream as cohort_comm_stream() of that rank.  Group-level
 * calls use it if their @streams is NULL.  Valid until the group is respawned
 * or closed.
 *
 * Returns: the stream, or NULL if @group is NULL or has no such rank
 */
COHORT_API void *cohort_group_stream(const struct cohort_group *group,
                                     int rank);

/*
 * cohort_group_wait - wait until a group-level call is done on every rank
 * @ticket:     from that call
 * @timeout_ns: how long to wait, in nanoseconds; 0 only checks, COHORT_FOREVER
 *              waits without limit
 *
 * Otherwise the same as cohort_wait().
 */
COHORT_API int cohort_group_wait(struct cohort_group *group, uint64_t ticket,
                                 uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
