/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_OPTIONS_H
#define COHORT_OPTIONS_H

/*
 * Options of a group, and of ranks that join by id
 *
 * With them: when a rank's part of a collective is launched ("Launching
 * together"), which a program that allocates or copies while ranks are at work
 * should know.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/abort.h>
#include <cohort/bootstrap.h>
#include <cohort/deadline.h>
#include <cohort/platform.h>
#include <cohort/watch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which threads are asked for their stacks: added to options.stack_signal. */
enum cohort_stack {
	/* Also up to 32 other threads of the process, for dumps, and six of them
	 * for the verdict: the holder of a lock that a rank waits for is often
	 * one of them.  A thread that blocks the signal is left out.  All
	 * alternate signal stacks of the process need room for a handler. */
	COHORT_STACK_ALL = 0x10000,
};

/* How a list of tensors is launched (cohort_all_reduce_many() and the like). */
enum cohort_many {
	/* On the gpu platform _FLAT for tensors of less than 64 KiB, if there
	 * are at least 32 of them, and native groups of at most 64 tensors for
	 * the others; on the host platform _GROUP. */
	COHORT_MANY_AUTO = 0,
	COHORT_MANY_GROUP = 1, /* in one native group */

	/* All-reduce and broadcast: packed into buffers of 25 MiB, one for each
	 * type, by copies in stream order.  Other calls, and calls that are
	 * captured into graphs: in groups. */
	COHORT_MANY_FLAT = 2,
	COHORT_MANY_ALONE = 3, /* one native call after the other */
};

/* When a rank's part of a collective is launched: see "Launching together". */
enum cohort_launch {
	/* As COHORT_LAUNCH in the environment says, else together on the gpu
	 * platform, ahead on the host platform. */
	COHORT_LAUNCH_DEFAULT = 0,

	/* Once all ranks of this process have called the collective. */
	COHORT_LAUNCH_TOGETHER = 1,
	COHORT_LAUNCH_AHEAD = 2, /* at once */
};

/* What is connected when ranks open, join, split or respawn: see "Connecting". */
enum cohort_connect {
	/* As COHORT_CONNECT in the environment says, else for collectives. */
	COHORT_CONNECT_DEFAULT = 0,

	COHORT_CONNECT_COLLECTIVES = 1,

	/* Also every pair of ranks, for sends and receives, and for the
	 * collectives that NCCL makes of them. */
	COHORT_CONNECT_ALL = 2,

	/* Nothing: NCCL connects as it is called. */
	COHORT_CONNECT_NONE = 3,
};

/*
 * Options of cohort_group_open() and cohort_comm_join()
 *
 * Start from cohort_group_options_init() and set fields.  A field that is 0 or
 * NULL has its default.
 */
struct cohort_group_options {
	size_t size; /* set by init */

	/* The group's name in texts; its first 8 bytes or so are in thread
	 * names.  Copied, up to 63 bytes, whole characters of UTF-8; texts have
	 * "?" for control characters; default "cohort". */
	const char *name;
	int platform; /* enum cohort_platform; default _AUTO */

	/* How many operations a rank may have in flight, and how many the
	 * flight recorder keeps: a power of two from 16 to 65536; default
	 * 2048. */
	unsigned recorder_slots;
	struct cohort_deadlines deadlines;

	/* enum cohort_policy; default _ABORT; for _ASK there must be an
	 * on_verdict.  COHORT_POLICY in the environment ("end" for _ABORT,
	 * "report" for _REPORT) overrides it. */
	int policy;

	/* on_verdict is warned when this much of a collective's deadline has
	 * passed; 100: never; default 50. */
	unsigned warn_percent;

	/* Told of warnings, and of the end of each generation that does not end
	 * in peace, first on_abort and then on_verdict; default none. */
	cohort_verdict_fn on_verdict;
	void *user; /* passed on to each callback */

	/*
	 * What to ask of NCCL: an ncclConfig_t of its header that began as
	 * NCCL_CONFIG_INITIALIZER; copied, with its texts; default NULL.  NCCL
	 * explains and checks its fields.  The ranks are then opened by a group
	 * of ncclCommInitRankConfig(), and what is split from them has the same
	 * settings; a commName that is not set is @name.  COHORT_INVALID for a
	 * blocking of 0 and a splitShare of 1, which this library cannot work
	 * with.
	 */
	const void *nccl_config;

	/* The priority of cohort_comm_stream(), as in
	 * cudaStreamCreateWithPriority(): streams with lower numbers go first,
	 * and CUDA clamps it to the device's range; default 0. */
	int stream_priority;

	/* 1: a call writes to its stream only when it is done, not also when it
	 * starts; 0: both.  This saves a stream memory operation for each call.
	 * Without start marks a verdict cannot tell a rank whose stream is busy with
	 * earlier work of the program from those that wait for it: if all have
	 * called, it names none. */
	int no_start_marks;

	/* 1: a call on a stream that is being captured into a CUDA graph is
	 * captured; 0: it is refused. */
	int allow_capture;

	/* When the flight recorder is dumped without a call of cohort_dump().
	 * Texts are copied; relative paths start where the process is now.
	 * Open answers COHORT_INVALID for a signal that has a handler or is
	 * stack_signal; for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS,
	 * SIGABRT, SIGCHLD, SIGKILL and SIGSTOP; for a path that is not a FIFO;
	 * and for a signal or a FIFO without any directory.  If a dump cannot
	 * be written later, nobody is told. */

	/* Dump when the process gets this signal, which must not have a
	 * handler; default the number in COHORT_DUMP_SIGNAL of the environment,
	 * else none. */
	int dump_signal;

	/* Where to dump, and dump with each verdict that is no warning; default
	 * COHORT_DUMP_DIR, else nothing is written unless a call asks for it.
	 * The directory is made if it is missing, with its parents;
	 * COHORT_INVALID if nothing can be written to it now.
	 *
	 * A verdict's files are written before on_abort and on_verdict are told
	 * of it, but these wait no longer than a second, as a disk may hang.  A
	 * close or a respawn waits for the files, too, up to the abort
	 * deadline.  A call that answers with the cause does not: a process
	 * that exits then may leave no files. */
	const char *dump_directory;

	/* Dump when anything is written to this FIFO, which is made if it is
	 * missing, and looked at ten times a second; default COHORT_DUMP_FIFO,
	 * else none. */
	const char *dump_fifo;

	/* Told of each generation's cause; default none. */
	cohort_cause_fn on_abort;

	/* Told, once each, of collectives and transfers that are not done
	 * slow_ns after they began to wait; what it returns does not matter;
	 * default none. */
	cohort_verdict_fn on_slow;
	uint64_t slow_ns; /* 0: nothing is slow */

	/* A signal from SIGRTMIN to SIGRTMAX, with COHORT_STACK_ALL added to
	 * also ask other threads; 0: no thread is asked.  When a
	 * deadline has passed, the threads of the first 8 missing ranks are
	 * asked by this signal where they are, for the verdict.  That may take
	 * a tenth of a second; what has finished by then is not told.  The
	 * signal's handler is there only while threads are asked, or until one
	 * that has not answered does, and never takes the place of yours.  A
	 * thread is not asked if its alternate signal stack has no room for a
	 * handler; such a stack must be set before the thread's first call.
	 * Calls of those threads that sleep or poll may be interrupted
	 * (EINTR). */
	int stack_signal;

	/* How lists of tensors are launched (cohort_all_reduce_many() and the
	 * like), the same on all ranks.  Default: what COHORT_MANY in the
	 * environment ("group", "flat", "alone", "auto") says.  If the group has
	 * one rank, it makes no native call for what is in place. */
	int many; /* enum cohort_many */

	/* Adaptive deadlines: see cohort/deadline.h. */
	unsigned adaptive_factor; /* 2 to 1000; default 0: they do not adapt */
	unsigned adaptive_warmup; /* collectives; default 100 */
	uint64_t adaptive_floor_ns; /* default 10 s */

	/* enum cohort_launch, the same on all ranks; default: what
	 * COHORT_LAUNCH in the environment ("together", "ahead") says, else
	 * what is best for the platform. */
	int launch;

	/* enum cohort_connect, the same on all ranks; default: what
	 * COHORT_CONNECT in the environment ("collectives", "all", "none")
	 * says, else for collectives. */
	int connect;

	/* The other processes of a group of several, see cohort/bootstrap.h;
	 * default: there are none.  cohort_comm_join() takes none.  Copied. */
	const struct cohort_bootstrap *bootstrap;

	/* Ends open or join while it waits (COHORT_ABORTED), and then the group,
	 * until its first respawn; default none.  From cohort_abort_create(), and
	 * for one group; ranks that join by one id may share it.  Borrowed for
	 * the call. */
	struct cohort_abort *abort;
	/* What goes to stderr, where the library otherwise prints nothing:
	 *
	 *	"line"     one line for each group that a cause ends, and for
	 *	           each misspelt variable COHORT_...; the default
	 *	"none"     nothing
	 *	"verdict"  instead of the group's line, each verdict that is no
	 *	           warning, in full, with a report on each rank
	 *	a path     as "verdict", appended to this file, which is created
	 *	           with mode 0600; it must contain a '/'
	 *
	 * COHORT_LOG in the environment overrides it.  What is split from a
	 * group has no line of its own.  A line that stderr cannot take at once
	 * is dropped.  Copied.  COHORT_INVALID for any other value, and for a
	 * file that cannot be opened. */
	const char *log;
	uint64_t reserved[30]; /* 0; room for what later versions add */
};

/*
 * cohort_group_options_init - set every field to its default
 * @options: overwritten
 *
 * For C, C++ and callers in other languages alike.  Any thread; does not block.
 */
COHORT_API void cohort_group_options_init(struct cohort_group_options *options);

/*
 * Connecting
 *
 * NCCL makes the connections of an algorithm in the first collective that uses
 * it, and those of a pair of ranks in the first send or receive of either.  That
 * call blocks until the other ranks have come to theirs, whatever stream it is
 * for.  So a thread that calls for several ranks in turn never gets beyond the
 * first; and two ranks that each send to the other first may take the other's
 * message for the answer to their own, with which their kernels use wrong
 * pointers.  With options.connect
 *
 *  - COHORT_CONNECT_COLLECTIVES: the ranks are connected as they open, join,
 *    split or respawn, for whatever algorithms NCCL chooses for all-reduce,
 *    all-gather, reduce-scatter, broadcast and reduce of up to 1 GiB.  Nothing
 *    is launched for it.  What a plugin of NCCL's chooses by another measure
 *    may be connected later, as without this.
 *  - The first send or receive of a rank with a peer, in either direction,
 *    connects both directions: it waits for the peer's first, whichever that
 *    is.  NCCL's own would wait for a receive that matches the send, so no
 *    program waits longer.  If the peer never comes, the deadlines apply.  An
 *    empty message each way is sent for it on the communicator's own stream.
 *  - The first gather, scatter or all-to-all of a communicator, which NCCL makes
 *    of sends and receives, connects all pairs in this way, and waits until all
 *    ranks of the process are connected: NCCL allocates memory for it, which may
 *    wait for the kernels of all devices.
 *  - COHORT_CONNECT_ALL: all pairs are connected at once, too.  Then no call
 *    waits for its peer on the host.  It takes memory and time for each pair.
 *
 * All of this is within deadlines.init_ns.  What does not connect by then as
 * ranks open, join, split or respawn is aborted (COHORT_INIT_TIMEOUT).  A call
 * that connects ranks, as above or as the first collective of a rank with
 * COHORT_CONNECT_NONE, may take init_ns instead of exec_ns, if that is longer,
 * once all ranks have called it (COHORT_STALLED).  The host platform has nothing to connect
 * unless COHORT_HOST_CONNECT=first.
 */

/*
 * Launching together
 *
 * In one process each device may wait for every other: a call that allocates or
 * frees memory, pins it, loads a kernel, or copies pageable memory may wait
 * until the kernels on all devices are done.  A collective's kernel is done
 * when the kernels of all ranks have come.  So if one rank launches its part of
 * a collective while the thread of another rank is still in such a call, both
 * wait for ever.
 *
 * With COHORT_LAUNCH_TOGETHER nothing of a collective, a list of tensors, or a
 * batch that has collectives is launched before all ranks of this process have
 * called it:
 *
 *  - A program may allocate, free, copy and load kernels between its
 *    collectives, in the thread that calls for that device.  For other threads
 *    see "Several threads for a device" below.
 *  - If some rank never calls a collective, nothing of it is launched.  Its
 *    outputs are untouched, its buffers are free as soon as the call has
 *    answered with the cause, and an abort has no kernel of it to end.
 *  - The library's own memory operations do not come between the first and the
 *    last rank's launch of a collective, in any group of the process.
 *
 * The price is that a call waits until all ranks of this process have called
 * and launched:
 *
 *  - If a cause comes before the launch, the call returns it; after that, its
 *    ticket does.  Deadlines run as for every collective: a rank that does not
 *    come is COHORT_STALLED.
 *  - Before its call, no rank may wait for what another one does after its own.
 *  - One thread that calls for several ranks in turn never gets beyond the
 *    first.  Use the group-level calls (cohort_group_all_reduce() and the
 *    like), a thread for each rank, or COHORT_LAUNCH_AHEAD.  The verdict on
 *    such a thread says so.
 *
 * What does not launch together:
 *
 *  - Sends and receives, alone or in batches without collectives, are launched
 *    at once.  So one with host memory that makes its staging memory, or has it
 *    grow, may wait for the kernel of a peer that waits for just this call.
 *    After a cohort_all_reduce_host() of as many elements in plain memory there
 *    is nothing to make.
 *  - Ranks of other processes are not waited for.
 *  - A call that is captured into a graph launches nothing and waits for
 *    nobody; there all ranks must capture (COHORT_MISMATCH).
 *  - NCCL itself allocates where it connects ranks as it launches, beside the
 *    launches of other groups: see "Connecting".  If several groups work at
 *    once and send or call all-to-all, use COHORT_CONNECT_ALL.
 *  - What NCCL allocates as ranks join by id (cohort_comm_join()) may come
 *    between the launches of other groups, even if all the ranks are of this
 *    process: an init that may wait for other processes keeps nobody from
 *    launching.  Have ranks join while no other group has a collective in
 *    flight.
 *
 * A call with host memory whose timeout passes while it waits for the others
 * returns COHORT_TIMED_OUT, and nothing of it was launched; a thread of the
 * library launches it once all have called.  If that thread cannot be started,
 * the call waits for the others as if it had no timeout.
 *
 * Several threads for a device
 *
 * While a thread calls for a rank it does nothing else.  But another thread may
 * be at work on that rank's device: for a rank of another group, or for none.
 * If that thread begins a memory operation between the first and the last
 * rank's launch of the collective, the operation waits for the first rank's
 * kernel, and may block the last rank's launch: a deadlock.  The library keeps
 * its own operations out of that time (above), but
 * neither those of the program, even in the thread of a rank, nor cohort_copy()
 * and cohort_group_copy() of pageable memory.  Such a copy may wait for all
 * that is queued before it, say for a receive whose sender is to call a
 * collective first: so it must not keep collectives from being launched.
 * Therefore, in a program with several groups or several threads at a device,
 *
 *  - put memory operations between cohort_quiet_begin() and cohort_quiet_end(),
 *    in threads of ranks, too;
 *  - copy pinned memory; or wait for what is queued before
 *    (cohort_synchronize(), or cudaStreamSynchronize() of the stream), and then
 *    copy between these two.
 *
 * Launching ahead
 *
 * With COHORT_LAUNCH_AHEAD each rank launches at once, so that a thread may run
 * ahead of the others and call for several ranks in turn.  On GPUs such a
 * program must make no memory operation while any rank has a collective in
 * flight.
 */

#ifdef __cplusplus
}
#endif

#endif
