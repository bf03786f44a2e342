/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_OPTIONS_H
#define COHORT_OPTIONS_H

/*
 * Options of a group, and of ranks that join with an id
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

/* A flag to add to options.stack_signal. */
enum cohort_stack {
	/* Also take the stacks of up to 32 other threads of the process for
	 * dumps, and of six for the verdict, because another thread often holds
	 * a lock that a rank waits for.  A thread that blocks the signal is
	 * left out.  Every alternate signal stack in the process must have room
	 * for a handler. */
	COHORT_STACK_ALL = 0x10000,
};

/* Ways to launch a list of tensors (cohort_all_reduce_many() and the like). */
enum cohort_many {
	/* On the host platform, the same as COHORT_MANY_GROUP.  On the gpu
	 * platform, tensors of less than 64 KiB are packed as by
	 * COHORT_MANY_FLAT, if the list has at least 32 of them; other tensors
	 * are launched in native groups of at most 64 tensors. */
	COHORT_MANY_AUTO = 0,
	COHORT_MANY_GROUP = 1, /* in one native group */

	/* Copy the tensors into a buffer, in stream order, and launch one call
	 * per buffer of at most 25 MiB of one type; a larger tensor is alone in
	 * its buffer.  Calls that are captured into graphs are launched in
	 * native groups. */
	COHORT_MANY_FLAT = 2,
};

/*
 * When a rank's part of a collective is launched
 *
 * A rank that launches while another rank's thread is in a memory operation
 * (allocating, freeing, pinning, a pageable copy, the first launch of a kernel)
 * can deadlock with it.  See docs/gpu.md, "How ranks launch".
 */
enum cohort_launch {
	/* COHORT_LAUNCH in the environment ("together" or "ahead"); otherwise
	 * together on the gpu platform and ahead on the host platform. */
	COHORT_LAUNCH_DEFAULT = 0,

	/* Launch once all ranks of this process have called the collective.
	 * Each call waits for the other ranks.  So one thread cannot call for
	 * several ranks one after the other, and before its call a rank must
	 * not wait for something that another rank does only after its own
	 * call.  Between its calls a rank may do memory operations; other
	 * threads must use a quiet section (cohort_quiet_begin()).  Sends and
	 * receives that are not in a batch with a collective are launched
	 * immediately.  A launch does not wait for ranks of other processes. */
	COHORT_LAUNCH_TOGETHER = 1,

	/* Launch immediately.  On GPUs the program must then do no memory
	 * operation while any rank has a collective in flight. */
	COHORT_LAUNCH_AHEAD = 2,
};

/*
 * Connections that are made when ranks open, join, split or respawn
 *
 * Without these connections, NCCL connects ranks in their first call of a kind,
 * and that call blocks until the other ranks have called.  Unless
 * COHORT_CONNECT_ALL is set, the first send or receive of a pair, and the first
 * gather, scatter or all-to-all, still connect their ranks.  Connecting may
 * take deadlines.init_ns.  See docs/gpu.md, "Connections".
 */
enum cohort_connect {
	/* COHORT_CONNECT in the environment ("collectives", "all" or "none");
	 * otherwise COHORT_CONNECT_COLLECTIVES. */
	COHORT_CONNECT_DEFAULT = 0,

	/* Connect the ranks for all-reduce, all-gather, reduce-scatter,
	 * broadcast and reduce of up to 1 GiB. */
	COHORT_CONNECT_COLLECTIVES = 1,

	/* Also connect every pair of ranks, for sends, receives, gather,
	 * scatter and all-to-all.  Takes memory and time for each pair. */
	COHORT_CONNECT_ALL = 2,

	/* Connect nothing; NCCL then connects ranks in its first calls. */
	COHORT_CONNECT_NONE = 3,
};

/*
 * Options of cohort_group_open() and cohort_comm_join()
 *
 * Call cohort_group_options_init() and then set fields.  A field that is 0 or
 * NULL selects its default.  Texts are copied.
 */
struct cohort_group_options {
	size_t size; /* set by cohort_group_options_init() */

	/* Name of the group in texts and, truncated to about 8 bytes, in the
	 * names of threads; default "cohort".  The name is truncated to at
	 * most 63 bytes, on a UTF-8 character boundary; "?" replaces control
	 * characters. */
	const char *name;
	int platform; /* enum cohort_platform, default COHORT_PLATFORM_AUTO */

	/* Number of operations that a rank may have in flight, and that the
	 * flight recorder keeps; a power of two from 16 to 65536; default
	 * 2048. */
	unsigned recorder_slots;
	struct cohort_deadlines deadlines;

	/* enum cohort_policy, default COHORT_POLICY_ABORT; COHORT_POLICY_ASK
	 * needs on_verdict.  COHORT_POLICY in the environment ("end" or
	 * "report") overrides it. */
	int policy;

	/* Callback for verdicts; default none. */
	cohort_verdict_fn on_verdict;
	void *user; /* passed to on_verdict */

	/* Time in nanoseconds after which on_verdict gets COHORT_STAGE_SLOW for
	 * a collective or transfer that is still waiting, once per operation;
	 * default none. */
	uint64_t slow_ns;

	/* Settings of NCCL: a pointer to an ncclConfig_t from nccl.h that was
	 * initialized by NCCL_CONFIG_INITIALIZER; copied, with its texts;
	 * default NULL.  Splits have the same settings.  The default of
	 * commName is @name.  COHORT_INVALID if blocking is 0 or splitShare is
	 * 1; NCCL checks the other fields. */
	const void *nccl_config;

	/* 1 to mark only the end of each call on its stream, not its start.
	 * Saves one stream memory operation per call.  But then a verdict
	 * cannot distinguish a rank whose stream is busy with earlier work from
	 * the ranks that wait for it: if all ranks have called, it names no
	 * rank. */
	int no_start_marks;

	/* 1 to allow calls on a stream that is being captured into a CUDA
	 * graph; 0 to refuse them. */
	int allow_capture;

	/* Signal that makes the library dump the flight recorder; default the
	 * number in COHORT_DUMP_SIGNAL in the environment, otherwise none.
	 * COHORT_INVALID if there is no @dump_directory, or if the signal has a
	 * handler, equals @stack_signal, or is SIGSEGV, SIGBUS, SIGFPE, SIGILL,
	 * SIGTRAP, SIGSYS, SIGABRT, SIGCHLD, SIGKILL or SIGSTOP. */
	int dump_signal;

	/* Directory for dumps; default COHORT_DUMP_DIR in the environment,
	 * otherwise none.  If it is set, each verdict of COHORT_STAGE_EXPIRED
	 * or a later stage writes a dump.  Created if it is missing, with its
	 * parents; relative to the current directory; COHORT_INVALID if it is
	 * not writable when the group is opened.  If a later dump fails,
	 * nothing reports it.  docs/dumps.md says which calls wait for the
	 * files. */
	const char *dump_directory;

	/* FIFO that makes the library dump when anything is written to it;
	 * created if it is missing, and read ten times a second; needs
	 * @dump_directory; default COHORT_DUMP_FIFO in the environment,
	 * otherwise none. */
	const char *dump_fifo;

	/* Signal from SIGRTMIN to SIGRTMAX by which a verdict takes the stacks
	 * of the threads of the first 8 missing ranks; default none.  Add
	 * COHORT_STACK_ALL to also take stacks of other threads.  A dump that
	 * the program or a user requests takes the stacks of ranks that have
	 * made no call for a second.  Sleeps and polls of these threads may be
	 * interrupted (EINTR).  See docs/hangs.md, "Stacks". */
	int stack_signal;

	/* enum cohort_many, the same on all ranks; default COHORT_MANY_AUTO.  A
	 * group of one rank makes no native call for in-place tensors. */
	int many;

	/* Adaptive deadlines (cohort/deadline.h). */
	unsigned adaptive_factor;   /* 2 to 1000; 0, the default, for none */
	unsigned adaptive_warmup;   /* number of collectives; default 100 */
	uint64_t adaptive_floor_ns; /* in nanoseconds; default 10 s */

	int launch;  /* enum cohort_launch, the same on all ranks */
	int connect; /* enum cohort_connect, the same on all ranks */

	/* Method by which this process finds the other processes of the group
	 * (cohort/bootstrap.h); copied; default none.  Must be NULL for
	 * cohort_comm_join(). */
	const struct cohort_bootstrap *bootstrap;

	/* Handle from cohort_abort_create(), for one group, or for ranks that
	 * join with one id; default none.  Firing it ends an open or join that
	 * is waiting (COHORT_ABORTED), and later the group, until the group's
	 * first respawn.  Borrowed for the call. */
	struct cohort_abort *abort;

	/* Output of the library on stderr:
	 *
	 *	"line"     one line for each group that a cause ends, and for
	 *	           each misspelled COHORT_ variable; the default
	 *	"none"     nothing
	 *	"verdict"  instead of the group's line, each verdict of
	 *	           COHORT_STAGE_EXPIRED or a later stage, in full, with
	 *	           a report on each rank
	 *	a path     as "verdict", appended to this file, which is created
	 *	           with mode 0600; it must contain a '/'
	 *
	 * COHORT_LOG in the environment overrides this option.  Splits have no
	 * line of their own.  If a write to stderr would block, the line is
	 * dropped.  COHORT_INVALID for any other value, and for a file that
	 * cannot be opened. */
	const char *log;
	uint64_t reserved[30]; /* must be 0 */
};

/*
 * cohort_group_options_init - set every option to its default
 * @options: overwritten
 */
COHORT_API void cohort_group_options_init(struct cohort_group_options *options);

#ifdef __cplusplus
}
#endif

#endif
