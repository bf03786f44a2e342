/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_COHORT_H
#define COHORT_COHORT_H

/*
 * cohort - all the GPUs of a machine from one process, one thread per GPU
 *
 * One thread opens a *group* over some devices.  The group is *split* into one
 * *communicator* per rank, each for a worker thread (or cohort_group_run()
 * starts those threads).  A collective called on a communicator is queued on a
 * stream and yields a *ticket*, a number that answers the same for ever: done,
 * or the *cause* that ended the group's communicators.  Threads, or processes,
 * can also *join* a communicator rank by rank, by a unique id; what is said of
 * a group holds for the ranks that a process joins by one id.  Beneath are NCCL
 * and the CUDA runtime (the *gpu* platform), or the same functions on CPU
 * threads and host memory (the *host* platform, built in, needs no GPU).
 *
 * Parts
 *
 * This header includes them all.  What holds for all of them is said here.
 *
 *  status.h         results, and the text of the last error
 *  version.h        the version of the headers and of the library
 *  types.h          element types, reductions, COHORT_FOREVER
 *  platform.h       is there a GPU, is there NCCL, and if not, why
 *  options.h        the options of a group; when ranks launch together
 *  bootstrap.h      groups of several processes: how these find each other
 *  deadline.h       deadlines: of a group, pushed, adaptive; pause and resume
 *  group.h          groups: open, split, run, respawn, abort, close
 *  comm.h           communicators: join, bind, split, fail, tag, close
 *  collective.h     collectives, lists of tensors, the premultiplied sum
 *  p2p.h            send and receive
 *  batch.h          several of these calls as one operation
 *  host_memory.h    the same calls on memory from malloc()
 *  ticket.h         wait for what was queued; CUDA graphs
 *  device_memory.h  allocate, register, copy; quiet sections
 *  abort.h          abort handles, for any thread and signal handlers
 *  watch.h          verdicts, causes, snapshots: what hangs, and why
 *  dump.h           dumps of the flight recorder
 *  stats.h          counters
 *
 * Thirty functions are enough for most programs:
 *
 *  cohort_group_    options_init, open, size, run, cause, lost, respawn, abort,
 *                   close
 *  cohort_comm_     rank, size, stream, split, abort_handle
 *  collectives      cohort_all_reduce, cohort_broadcast, cohort_all_gather,
 *                   cohort_reduce_scatter, cohort_all_to_all, cohort_barrier;
 *                   messages: cohort_send, cohort_recv
 *  what else        cohort_wait, cohort_synchronize, cohort_alloc, cohort_free,
 *                   cohort_copy, cohort_abort_fire, cohort_abort_put,
 *                   cohort_last_error
 *
 * Not included: reducer.h, which averages gradients while the backward pass
 * goes on; sim.h, the knobs of the host platform, for tests.
 *
 * Lifetime, in nine rules
 *
 *  1. What a function stored in its output is yours until the matching close or
 *     free.  If it fails, nothing was stored and nothing is owed.
 *  2. A communicator belongs to its group: cohort_comm_close() leaves early,
 *     cohort_group_close() closes those that are left.  No call may use a
 *     communicator after its group was closed, with two exceptions: a worker
 *     that a run left behind may, and so may a thread that a communicator was
 *     bound to (cohort_comm_bind()), until it unbinds that.  Both may also use
 *     the communicators that were split from theirs, and are told COHORT_STALE.
 *     Joined ranks have no group: when the last of them in the process is
 *     closed, all end.  A stream that still waits for a ticket
 *     (cohort_stream_after()) may go on.
 *  3. Buffers passed to a collective are borrowed until its ticket is answered.
 *  4. A ticket is a number: nothing to release, ask as often as you like.
 *  5. A ticket that answers with a cause leaves its output buffers undefined,
 *     and free for you to release; one that answers COHORT_WEDGED must keep its
 *     buffers.  COHORT_TIMED_OUT says nothing: the operation goes on.
 *  6. An abort handle may be used from any thread, also while its group is
 *     being opened or closed and after, until cohort_abort_put().  It is of one
 *     generation: take a new one after cohort_group_respawn().
 *  7. A text that a function returns is the library's; the one of
 *     cohort_last_error() lasts until the thread's next call.  A text that did
 *     not fit into its room ends in "...".
 *  8. cohort_group_close() waits for what is in flight, up to the close
 *     deadline; call cohort_group_abort() first if you do not want to wait.
 *  9. Libraries that were opened for the gpu platform stay open for the life of
 *     the process.
 *
 * Results
 *
 * A function that can fail returns an int, one of COHORT_STATUS_LIST
 * (status.h): 0 is success; a positive value is no error, but not all that was
 * asked for; a negative value is an error with a text in cohort_last_error().
 * A NULL for what is not said to be optional is COHORT_INVALID, even where a
 * comment does not list that.
 *
 * Enumerations travel as int and streams as void * (a cudaStream_t with CUDA's
 * meaning, NULL included: the legacy default stream), so that every language
 * can bind.  Times are nanoseconds.
 *
 * Structs
 *
 * A program and a library of different versions understand each other: structs
 * keep their size, a later version's fields take the place of reserved words,
 * and such a field changes nothing if it is 0.
 *
 *  - Options have init functions, which set their size, too.  Zero any other
 *    struct, then set its size, if it has one, to sizeof.  A size that is out of
 *    range is COHORT_INVALID.
 *  - In what the library reads, a reserved word that is not 0 asks for what this
 *    version does not have: COHORT_INVALID.  In what it fills, they are 0.
 *  - struct cohort_tensor, cohort_parameter, cohort_fault and cohort_unique_id
 *    have no reserved words.  A later version that needs more of them will have
 *    other calls.
 *
 * Blocking
 *
 * A function blocks only where its comment says so, and on what.
 *
 * Threads
 *
 * Calls on different groups never need synchronizing.  Within one group, X
 * marks pairs of calls that callers must keep apart, - pairs that may overlap,
 * and B pairs that the library keeps apart: the second caller gets COHORT_BUSY
 * (or COHORT_OWNER on a bound communicator) and nothing has happened.
 *
 *	                                 [1] [2] [3] [4] [5] [6]
 *	[1] submit, same rank             B   -   -   -   B   X
 *	[2] submit, other rank            -   -   -   -   -   X
 *	[3] wait, synchronize, cause      -   -   -   -   -   X
 *	[4] cohort_group_abort            -   -   -   -   -   X
 *	    cohort_comm_fail              -   -   -   -   -   X
 *	    cohort_abort_fire, _fired     -   -   -   -   -   -
 *	[5] cohort_comm_close             B   -   -   -   B   X
 *	[6] cohort_group_close            X   X   X   X   X   X
 *
 * What belongs to which row:
 *
 *  - "Submit" is every call on a communicator that takes a stream or host
 *    memory; cohort_batch_begin(), cohort_comm_split(),
 *    cohort_premul_sum_create() and cohort_op_destroy(), cohort_alloc(),
 *    cohort_alloc_registered(), cohort_free(), cohort_register() and
 *    _deregister(), cohort_comm_bind() and _unbind(),
 *    cohort_comm_native_enter() and _leave(), cohort_tag(),
 *    cohort_deadline_push() and _pop(), cohort_pause() and cohort_resume().
 *  - Split, run, respawn and the group-level calls (collectives,
 *    cohort_group_alloc(), _free() and _copy()) are for one thread at a time,
 *    which submits for all ranks.
 *  - [3] is also the facts of a group or a communicator, cohort_group_wait(),
 *    cohort_group_abandoned(), cohort_comm_abort_handle(), cohort_stats(),
 *    cohort_stats_write(), cohort_dump(), cohort_group_snapshot() and
 *    cohort_comm_snapshot().
 *  - The cohort_comm_close() of the last joined rank of a process is [6] for
 *    all of its joined ranks.
 *  - Calls that are about no group (options, texts, probe, cohort_unique_id(),
 *    cohort_comm_join(), cohort_quiet_begin() and _end()) may overlap with
 *    everything.
 *
 * What the library does to the process
 *
 * It starts threads of its own: four while there is a group, however many
 * groups and splits there are (a watchdog, a prober and two idle workers); a
 * worker for each end, callback, dump and look at stacks while it runs, and for
 * each options.dump_fifo; and one for each group of several processes.  They
 * block every signal but those of a fault of their own (SIGSEGV and the like),
 * which the program's handlers get.  While a group is open these threads keep
 * the process alive, as all threads do: if main() ends by pthread_exit(), the
 * process ends once the group is closed and the program's own threads have
 * ended.  If no thread of the program is left to close it, it never ends, and
 * only SIGKILL ends it.  A return from main(), or exit(), ends the process as
 * always.
 *
 * It keeps no file descriptor open but one for each options.dump_fifo (NCCL and
 * CUDA have their own).  Before it reads or closes that descriptor, it looks
 * whether the descriptor is still the FIFO.  If the program has closed it, by
 * close_range() for example, the FIFO is opened again.
 *
 * The caller's current CUDA device is the same before and after every call,
 * unless that device has no context, for example device 0 in a thread that
 * never set one: to go back would make a context of some 500 MiB there.  Such a
 * thread stays on the rank's device.  No thread of the library makes a context
 * on a device that is no rank's.
 *
 * Forks
 *
 * In the child of a fork, once the library was used in the parent, every call
 * that returns a result answers COHORT_FORKED and does nothing: the library's
 * threads are gone and the devices are the parent's.  That holds for fork(),
 * and since Linux 4.14 for _Fork(), clone() and the system calls, too.
 *
 * A child that shares the parent's memory (vfork(), CLONE_VM) is told by its
 * process number, by the calls that open, join, split, bind, unbind, run,
 * respawn, fail, abort or close.  It must make no other call, and none at all
 * before the parent has made one.
 */

#include <cohort/abort.h>
#include <cohort/batch.h>
#include <cohort/bootstrap.h>
#include <cohort/collective.h>
#include <cohort/comm.h>
#include <cohort/deadline.h>
#include <cohort/device_memory.h>
#include <cohort/dump.h>
#include <cohort/group.h>
#include <cohort/host_memory.h>
#include <cohort/options.h>
#include <cohort/p2p.h>
#include <cohort/platform.h>
#include <cohort/stats.h>
#include <cohort/status.h>
#include <cohort/ticket.h>
#include <cohort/types.h>
#include <cohort/version.h>
#include <cohort/watch.h>

#endif
