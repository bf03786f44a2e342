/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_COHORT_H
#define COHORT_COHORT_H

/*
 * cohort - drive all GPUs of a machine from one process, one thread per GPU
 *
 * One thread opens a *group* over some devices.  Splitting or running the group
 * creates one *communicator* per rank, each for a worker thread.  A call of a
 * collective queues an operation on a stream and returns a *ticket*.  With the
 * ticket, any thread can find out whether the operation is done, or which
 * *cause* ended the group.
 *
 * Instead of opening a group, each thread or process can *join* a communicator
 * as one rank, with a unique id.  The ranks that a process joins with one id
 * follow the same rules as a group.
 *
 * The *gpu* platform uses NCCL and the CUDA runtime.  The *host* platform has
 * the same functions on CPU threads and host memory, and needs no GPU.
 *
 * Parts
 *
 * This header states the rules that apply to all functions, and includes these
 * headers:
 *
 *  status.h         results, and the text of the last error
 *  version.h        versions of the headers and of the library
 *  types.h          element types, reductions, COHORT_FOREVER
 *  platform.h       whether a GPU and NCCL are usable, and if not, why
 *  options.h        options of a group
 *  bootstrap.h      groups of several processes
 *  deadline.h       deadlines of groups and of calls, and pauses
 *  group.h          groups: open, split, run, respawn, abort, close
 *  comm.h           communicators: join, bind, split, fail, tag, close
 *  collective.h     collectives, lists of tensors, premultiplied sums
 *  p2p.h            sends and receives
 *  batch.h          several calls as one operation
 *  host_memory.h    collectives, sends and receives on memory from malloc()
 *  ticket.h         wait for operations; CUDA graphs
 *  device_memory.h  allocate, register and copy memory; quiet sections
 *  abort.h          abort handles, for any thread and for signal handlers
 *  watch.h          verdicts, causes and snapshots, which explain hangs
 *  dump.h           dumps of the flight recorder
 *  stats.h          counters
 *
 * Not included are reducer.h, which averages gradients during the backward
 * pass, and sim.h, the settings of the host platform for tests.
 *
 * The first thirty functions
 *
 * Most programs need only these, listed in the order in which a program uses
 * them:
 *
 *  - cohort_group_options_init(), cohort_group_open(), cohort_group_size(),
 *    cohort_group_run();
 *  - in a worker: cohort_comm_rank(), cohort_comm_size(), cohort_comm_stream(),
 *    cohort_comm_split();
 *  - memory: cohort_alloc(), cohort_copy(), cohort_free();
 *  - collectives: cohort_all_reduce(), cohort_broadcast(), cohort_all_gather(),
 *    cohort_reduce_scatter(), cohort_all_to_all(), cohort_barrier();
 *  - sends and receives: cohort_send(), cohort_recv();
 *  - waits: cohort_wait(), cohort_synchronize();
 *  - errors and teardown: cohort_last_error(), cohort_group_cause(),
 *    cohort_group_lost(), cohort_group_respawn(), cohort_group_abort(),
 *    cohort_comm_abort_handle(), cohort_abort_fire(), cohort_abort_put(),
 *    cohort_group_close().
 *
 * Rules of lifetime
 *
 *  1. An object that a function returns through a pointer is yours until you
 *     close or free it.  If the function fails, it stores nothing there.
 *  2. A communicator belongs to its group: cohort_comm_close() closes it early,
 *     and cohort_group_close() closes all that are left.  No call may use a
 *     communicator after its group is closed.  Two kinds of threads are exempt:
 *     abandoned workers (cohort_group_run()), and a thread that the
 *     communicator is bound to, until it unbinds (cohort_comm_bind()).  They
 *     may also use communicators that were split from theirs.  Their calls
 *     return COHORT_STALE.  Joined ranks have no group: when the process closes
 *     the last of its joined ranks, all of them end.  Streams that wait for a
 *     ticket (cohort_stream_after()) need not be idle when the group is closed.
 *  3. Buffers that are passed to a collective are borrowed until its ticket has
 *     a result.
 *  4. A ticket is a number.  Nothing needs to be released, and any thread can
 *     wait for it any number of times.
 *  5. If a wait returns a cause's status, the outputs are undefined, and the
 *     buffers are yours to free.  If it returns COHORT_WEDGED, keep the
 *     buffers.  If it returns COHORT_TIMED_OUT, the operation is still running.
 *  6. An abort handle may be used from any thread, even while its group is
 *     being opened or closed and afterwards, until cohort_abort_put().  A
 *     handle belongs to one generation: acquire a new one after
 *     cohort_group_respawn().
 *  7. A text that a function returns belongs to the library.  The text of
 *     cohort_last_error() is valid until the thread's next call.  A truncated
 *     text ends in "...".
 *  8. cohort_group_close() waits for operations in flight, up to the close
 *     deadline.  Call cohort_group_abort() first if you do not want to wait.
 *  9. Libraries that were opened for the gpu platform stay open for the life of
 *     the process.
 *
 * Results
 *
 * A function that can fail returns an int from COHORT_STATUS_LIST (status.h).
 *
 *  - 0 is success.
 *  - A positive value is not an error, but the call did not do all of its work.
 *  - A negative value is an error, which cohort_last_error() explains.
 *
 * Every such function also returns COHORT_INVALID if a pointer that is not
 * described as optional is NULL, and COHORT_FORKED in the child of a fork.
 * Comments do not repeat this.
 *
 * Enums are passed as int and streams as void *, so that bindings in any
 * language can call these functions.  A stream is a cudaStream_t; NULL is the
 * legacy default stream.  Times are in nanoseconds.
 *
 * Structs
 *
 * Programs and libraries of different versions work together: structs keep
 * their size, and later versions turn reserved fields into new ones, which have
 * no effect if they are 0.
 *
 *  - Options have init functions, which also set their size.  Set every other
 *    struct to 0 first; if it has a size field, set that to sizeof the struct.
 *  - Reserved fields of a struct that the library reads must be 0; otherwise
 *    the call returns COHORT_INVALID.  In a struct that the library fills, it
 *    sets them to 0.
 *  - struct cohort_tensor, cohort_parameter, cohort_fault and cohort_unique_id
 *    have no reserved fields.  A later version that needs more fields will add
 *    new functions.
 *
 * Blocking
 *
 * A function blocks only if its comment says so.
 *
 * Threads
 *
 * A function whose comment does not mention threads may be called from any
 * thread.  Calls on different groups need no synchronization.  The table shows
 * which calls on one group may overlap:
 *
 *  - "-": the two calls may overlap.
 *  - "B": if they overlap, the second returns COHORT_BUSY (or COHORT_OWNER on a
 *    bound communicator) and has no effect.
 *  - "X": the program must not let them overlap.
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
 *  - Row [1] contains every call on a communicator that takes a stream or host
 *    memory, every call whose comment says "one thread at a time per
 *    communicator", and cohort_comm_split(), cohort_comm_bind() and
 *    cohort_comm_unbind().
 *  - Split, run, respawn and the group-level calls count as calls for all
 *    ranks.  Only one thread at a time may make them.
 *  - Row [3] also contains the calls that return properties of a group or a
 *    communicator, cohort_group_wait(), cohort_comm_abort_handle(), the
 *    statistics, dumps and snapshots.
 *  - cohort_comm_subset() is as row [3], except that a cohort_comm_close() that
 *    overlaps with it returns COHORT_BUSY.
 *  - Row [6] also contains the cohort_comm_close() of the last joined rank of a
 *    process, for all its joined ranks.
 *  - Calls that belong to no group may overlap with everything: options, texts,
 *    probes, cohort_unique_id(), cohort_comm_join() and quiet sections.
 *
 * The process
 *
 * docs/api-rules.md, "What the library does to the process", has the rules for
 * the library's threads, the current CUDA device, and forks.
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
