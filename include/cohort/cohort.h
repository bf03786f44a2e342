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
 * can also *join* a communicator rank by rank, by a unique id; what is said of a
 * group holds for the ranks that a process joins by one id.  Beneath are NCCL and
 * the CUDA runtime (the *gpu* platform), or the same functions on CPU threads
 * and host memory (the *host* platform, built in, needs no GPU).
 *
 * Lifetime, in nine rules
 *
 *  1. What a function stored in its output is yours until the matching close
 *     or free.  If it fails, nothing was stored and nothing is owed.
 *  2. A communicator belongs to its group: cohort_comm_close() leaves early,
 *     cohort_group_close() closes those that are left.  No call may use a
 *     communicator after its group was closed, with two exceptions: a worker that
 *     a run left behind may, and so may a thread that a communicator was bound to
 *     (cohort_comm_bind()), until it unbinds that.  Both may use the communicators
 *     that were split from theirs, too, and are told COHORT_STALE.  Joined ranks
 *     have no group: the last of them in the process that is closed closes it.  A
 *     stream that still waits for a ticket (cohort_stream_after()) may go on.
 *  3. Buffers passed to a collective are borrowed until its ticket is answered.
 *  4. A ticket is a number: nothing to release, ask as often as you like.
 *  5. A ticket that answers with a cause leaves its output buffers undefined,
 *     and free for you to release; one that answers COHORT_WEDGED must keep
 *     its buffers.  COHORT_TIMED_OUT says nothing: the operation goes on.
 *  6. An abort handle may be used from any thread, also while its group is
 *     being closed and after, until cohort_abort_put().  It is of one
 *     generation: take a new one after cohort_group_respawn().
 *  7. A text that a function returns is the library's; the one of
 *     cohort_last_error() lasts until the thread's next call.  One that did not
 *     fit into its room ends in "...".
 *  8. cohort_group_close() waits for what is in flight, up to the close
 *     deadline; call cohort_group_abort() first if you do not want to wait.
 *  9. Libraries that were opened for the gpu platform stay open for the life
 *     of the process.
 *
 * Threads
 *
 * Calls on different groups never need synchronizing.  Within one group, X
 * marks pairs that callers must keep apart, - pairs that may overlap, and B
 * pairs that the library keeps apart: the second caller gets COHORT_BUSY (or
 * COHORT_OWNER on a bound communicator) and nothing has happened.
 *
 *                                  [1] [2] [3] [4] [5] [6]
 *  [1] submit, same rank            B   -   -   -   B   X
 *  [2] submit, other rank           -   -   -   -   -   X
 *  [3] wait, synchronize, cause     -   -   -   -   -   X
 *  [4] cohort_group_abort           -   -   -   -   -   X
 *      cohort_comm_fail             -   -   -   -   -   X
 *      cohort_abort_fire, _fired    -   -   -   -   -   -
 *  [5] cohort_comm_close            B   -   -   -   B   X
 *  [6] cohort_group_close           X   X   X   X   X   X
 *
 * "Submit" is every call on a communicator that takes a stream or host memory,
 * cohort_batch_begin(), cohort_comm_split(), cohort_premul_sum_create() and
 * cohort_op_destroy(), cohort_alloc(), cohort_alloc_registered(), cohort_free(),
 * cohort_register() and _deregister(), cohort_comm_bind() and _unbind(),
 * cohort_comm_native_enter() and _leave(), cohort_tag(), cohort_deadline_push() and
 * _pop(), cohort_pause() and cohort_resume().  Split, run, respawn and the group-level
 * calls (collectives, cohort_group_alloc(), _free() and _copy()) are for one thread at a
 * time, which submits for all ranks.  Facts of a
 * group or a communicator, cohort_group_wait(), cohort_group_abandoned(),
 * cohort_comm_abort_handle(), cohort_stats(), cohort_stats_write(), cohort_dump(),
 * cohort_group_snapshot() and cohort_comm_snapshot() are
 * [3].  The cohort_comm_close() of the last joined rank of a process is [6] for all of
 * them.  Calls that are about no group (options, texts, probe, cohort_unique_id(),
 * cohort_comm_join(), cohort_quiet_begin() and _end()) may overlap with everything.
 *
 * The library starts threads of its own, with every signal blocked but those of a fault
 * of their own (SIGSEGV and the like), of which the program's handlers hear: for each
 * generation of a group and for each split three that watch, one that tells if there is
 * a callback, one that dumps if there is a directory, one that asks for stacks if there
 * is a signal for that.  While a group is open they keep the process alive, as all
 * threads do: if main() ends by pthread_exit(), the process ends once the group is
 * closed and the program's own threads have ended.  If no thread of the program is left
 * to close it, it never ends, and only SIGKILL ends it.  A return from main(), or
 * exit(), ends the process as always.
 *
 * It keeps no file descriptor open but one for each options.dump_fifo (NCCL and CUDA
 * have their own).  Before it reads or closes that descriptor, it looks whether it is
 * still the FIFO.  If the program has closed it, by close_range() for example, the FIFO
 * is opened again.
 *
 * Blocking: a function blocks only where its comment says so, and on what.
 * The caller's current CUDA device is the same before and after every call, unless
 * that device has no context, for example device 0 in a thread that never set one: to go
 * back would make a context of some 500 MiB there.  Such a thread stays on the rank's
 * device.  No thread of the library makes a context on a device that is no rank's.
 *
 * In the child of a fork, once the library was used in the parent, every call that
 * returns a result answers COHORT_FORKED and does nothing: its threads are gone
 * and the devices are the parent's.  That holds for fork(), and since Linux 4.14 for
 * _Fork(), clone() and the system calls, too.  A child that shares the parent's memory
 * (vfork(), CLONE_VM) is told by its process number, by the calls that open, join,
 * split, bind, unbind, run, respawn, fail, abort or close.  It must make no other call,
 * and none at all before the parent has made one.
 *
 * Results: int, one of COHORT_STATUS_LIST; 0 is success, a positive value is
 * not an error but not the whole of what was asked for, a negative one is an
 * error with a text in cohort_last_error().  A NULL for what is not said to be
 * optional is COHORT_INVALID, also where a comment does not list that.
 * Enumerations travel as int and streams as void * (a cudaStream_t with CUDA's
 * meaning, NULL included: the legacy default stream), so that every language can
 * bind.  Times are nanoseconds.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define COHORT_API __attribute__((visibility("default")))
#else
#define COHORT_API
#endif

/* For ever, as a timeout. */
#define COHORT_FOREVER UINT64_MAX

/* ---- results ---------------------------------------------------------- */

/*
 * Every result: name, value, text.  Values are part of the ABI and never
 * reused.
 */
#define COHORT_STATUS_LIST(X)                                                  \
	X(COHORT_JOINED, 4, "every rank has joined: there is no step left")    \
	X(COHORT_SKIP, 3, "there is nothing to update the weights by")         \
	X(COHORT_TIMED_OUT, 2, "not done when the caller's timeout passed")    \
	X(COHORT_ALREADY, 1, "already so, nothing was changed")                \
	X(COHORT_OK, 0, "success")                                             \
	X(COHORT_INVALID, -1, "invalid argument")                              \
	X(COHORT_STATE, -2, "not possible in the object's state")              \
	X(COHORT_NO_MEMORY, -3, "out of memory")                               \
	X(COHORT_BUSY, -4, "another thread is inside this communicator")       \
	X(COHORT_OWNER, -5, "bound to another thread")                         \
	X(COHORT_UNSUPPORTED, -6, "not supported here")                        \
	X(COHORT_NO_LIBRARY, -7, "library not found")                          \
	X(COHORT_NO_SYMBOL, -8, "symbol not found in library")                 \
	X(COHORT_NO_DEVICE, -9, "no driver or no devices")                     \
	X(COHORT_CUDA, -10, "CUDA failure")                                    \
	X(COHORT_NCCL, -11, "NCCL failure")                                    \
	X(COHORT_SYSTEM, -12, "operating system failure")                      \
	X(COHORT_ABORTED, -13, "aborted")                                      \
	X(COHORT_WORKER, -14, "a rank's worker returned an error")             \
	X(COHORT_WEDGED, -15, "an abort could not be completed")               \
	X(COHORT_MISMATCH, -16, "ranks made different calls")                  \
	X(COHORT_FORKED, -17, "in the child of a fork")                        \
	X(COHORT_THREAD_EXITED, -18, "the thread of a bound rank has exited")  \
	X(COHORT_STALLED, -19, "a collective was not done in its time")        \
	X(COHORT_INIT_TIMEOUT, -20, "ranks did not connect in time")           \
	X(COHORT_STALE, -21, "the communicator is of the past")

enum cohort_status {
#define COHORT_STATUS_ENUM(name, value, text) name = value,
	COHORT_STATUS_LIST(COHORT_STATUS_ENUM)
#undef COHORT_STATUS_ENUM
};

/*
 * cohort_status_text - the text of a result
 *
 * Never NULL: for a value this version does not know, a text that says so.
 * Any thread; does not block.
 */
COHORT_API const char *cohort_status_text(int status);

/*
 * cohort_last_error - why the last failing call of this thread failed
 *
 * Names the argument and its value, or the native function with its code and
 * its own text.  Only means something after a call that failed.  Never NULL,
 * valid until the next call of this thread.  Does not block.
 */
COHORT_API const char *cohort_last_error(void);

/* cohort_version - the running library's version, "MAJOR.MINOR.PATCH".  Any
 * thread; does not block. */
COHORT_API const char *cohort_version(void);

/* ---- element types and reductions ------------------------------------- */

/*
 * Element types: name, value (NCCL's), bytes, spelling.  8-bit floats are the
 * OCP formats: E4M3 has no infinity, and results beyond the range of either,
 * infinities among them, saturate to the largest finite value.  On the gpu platform
 * they are as NCCL and the devices have them: a call that these refuse ends the group
 * with COHORT_NCCL.
 */
#define COHORT_TYPE_LIST(X)                                                    \
	X(COHORT_I8, 0, 1, "int8")                                             \
	X(COHORT_U8, 1, 1, "uint8")                                            \
	X(COHORT_I32, 2, 4, "int32")                                           \
	X(COHORT_U32, 3, 4, "uint32")                                          \
	X(COHORT_I64, 4, 8, "int64")                                           \
	X(COHORT_U64, 5, 8, "uint64")                                          \
	X(COHORT_F16, 6, 2, "float16")                                         \
	X(COHORT_F32, 7, 4, "float32")                                         \
	X(COHORT_F64, 8, 8, "float64")                                         \
	X(COHORT_BF16, 9, 2, "bfloat16")                                       \
	X(COHORT_F8E4M3, 10, 1, "float8e4m3")                                  \
	X(COHORT_F8E5M2, 11, 1, "float8e5m2")

enum cohort_type {
#define COHORT_TYPE_ENUM(name, value, bytes, text) name = value,
	COHORT_TYPE_LIST(COHORT_TYPE_ENUM)
#undef COHORT_TYPE_ENUM
};

/*
 * Reductions: name, value (NCCL's), spelling.
 *
 * On the host platform the result is the fold in rank order, bit-identical on
 * every rank and in every run: integers wrap; float16, bfloat16 and the 8-bit
 * floats accumulate in float32 and round once, to nearest even, subnormals
 * kept; of max and min a NaN loses to a number, and of equals (+0 and -0) the
 * lowest rank's is taken; a result that is NaN is the type's one quiet NaN; avg
 * is the sum divided by the number of ranks (integers: wrapped sum, then
 * truncated toward zero).  A group of one rank copies.  On the gpu platform the
 * arithmetic is NCCL's.
 */
#define COHORT_OP_LIST(X)                                                      \
	X(COHORT_SUM, 0, "sum")                                                \
	X(COHORT_PROD, 1, "prod")                                              \
	X(COHORT_MAX, 2, "max")                                                \
	X(COHORT_MIN, 3, "min")                                                \
	X(COHORT_AVG, 4, "avg")

enum cohort_op {
#define COHORT_OP_ENUM(name, value, text) name = value,
	COHORT_OP_LIST(COHORT_OP_ENUM)
#undef COHORT_OP_ENUM
};

/*
 * cohort_status_name, cohort_type_name, cohort_op_name - the names of values
 *
 * "COHORT_STALLED", "float32", "sum"; "premul sum" for every number that
 * cohort_premul_sum_create() may give.  Never NULL: for a value this version does not
 * know, a text that says so.  Any thread; none blocks.
 */
COHORT_API const char *cohort_status_name(int status);
COHORT_API const char *cohort_type_name(int type);
COHORT_API const char *cohort_op_name(int op);

/* cohort_type_size - bytes of one element of a type; 0 for no such type.  Any
 * thread; does not block. */
COHORT_API size_t cohort_type_size(int type);

/* ---- platforms -------------------------------------------------------- */

enum cohort_platform {
	COHORT_PLATFORM_AUTO = 0, /* COHORT_PLATFORM in the environment, else
	                             gpu if the machine has one, else host */
	COHORT_PLATFORM_GPU = 1,  /* NCCL and the CUDA runtime, opened at run
	                             time */
	COHORT_PLATFORM_HOST = 2, /* CPU threads and host memory, built in */
};

/* What cohort_platform_probe() found. */
struct cohort_platform_info {
	size_t size;         /* set by the caller: sizeof */
	int platform;        /* COHORT_PLATFORM_GPU or _HOST */
	int status;          /* COHORT_OK: usable; else why not, as a code */
	char reason[256];    /* why not, as a text; "" when usable */
	int devices;         /* how many; 0 when not usable */
	int nccl_version;    /* 10000 * major + 100 * minor + patch, or 0 */
	int runtime_version; /* of CUDA, 1000 * major + 10 * minor, or 0 */
	int driver_version;  /* of CUDA, likewise, or 0 */

	/* Of the gpu platform's libraries, as far as they could be opened, else
	 * NULL: the files.  The notes are sentences, or "".  They tell what is known
	 * to be wrong with such versions, that the libraries are not what they seem,
	 * and which variables COHORT_... of the environment mean nothing.  With
	 * _AUTO they also tell if the host platform was chosen because there is no
	 * GPU, although NVIDIA's libraries are here.  The texts last as long as the
	 * process. */
	const char *nccl_file;
	const char *runtime_file;
	const char *notes;
	int is_drop_in; /* 1: they are this project's drop-in libraries, and the
	                   devices the host's */
	int launch; /* how the ranks of a group opened there now launch, if it
	               has no choice of its own: COHORT_LAUNCH_TOGETHER or
	               _AHEAD; 0 when not usable, or COHORT_LAUNCH in the
	               environment is neither */
	uint64_t reserved[4];
};

/*
 * cohort_platform_probe - what is there, or why not
 * @platform: COHORT_PLATFORM_GPU, _HOST, or _AUTO for the one that a group
 *            opened now with no choice of its own would get
 * @info:     the caller has set its size; the rest is filled, up to that size
 *
 * "Not installed" is a normal answer: COHORT_OK with @info->status
 * COHORT_NO_LIBRARY, COHORT_NO_SYMBOL, COHORT_NO_DEVICE, COHORT_CUDA or
 * COHORT_UNSUPPORTED (too old, or not NCCL) and a reason that names what is
 * missing.  Never crashes and never prints.  Any thread.  The first probe of the
 * gpu platform opens its libraries, and may block on the driver's start: those
 * that the process has loaded already, else the system's; only those in the folder
 * COHORT_GPU_LIBRARIES of the environment, if that is set.  With _AUTO and no GPU
 * libcuda.so.1, or else NCCL, is opened too, to see whether it is there.
 *
 * COHORT_OK; COHORT_INVALID for a @platform that is none of the three, a NULL
 * @info or one whose size was not set, or with _AUTO an environment variable
 * COHORT_PLATFORM that is neither "gpu" nor "host"; @info is then untouched.  The
 * host platform's @info->status may be COHORT_INVALID, for an environment that
 * cannot be read.
 */
COHORT_API int cohort_platform_probe(int platform,
                                     struct cohort_platform_info *info);

/*
 * Told of what is no error, but may be a mistake: @text says what, in sentences, and is
 * borrowed for the call.
 */
typedef void (*cohort_note_fn)(const char *text, void *user);

/*
 * cohort_on_note - be told of variables COHORT_... of the environment that mean nothing
 * @note: is told; NULL: nobody is
 * @user: passed on to it
 *
 * A variable that is misspelt does nothing, and the library prints nothing.  Whoever
 * wants to hear of it without a probe (@info->notes) sets a function before the first
 * cohort_group_open() or cohort_comm_join().  The first of these calls in a process that
 * finds @note and is given valid options calls it once, if there is such a variable:
 * "COHORT_PLATFROM is set in the environment but means nothing; did you mean
 * COHORT_PLATFORM?"  It is called in the thread that opens or joins, before a platform
 * is opened.  Later calls tell nothing.
 *
 * For the process.  Any thread; does not block.
 */
COHORT_API void cohort_on_note(cohort_note_fn note, void *user);

/* ---- groups ----------------------------------------------------------- */

struct cohort_group;
struct cohort_comm;

/*
 * How long things may take, in nanoseconds; 0: the default, COHORT_FOREVER: for
 * ever.  The clocks of a call are seen by the group's watchdog, on a thread of
 * its own that makes no native call.
 *
 * Time in which the process did not run (SIGSTOP, a debugger, a machine that stood
 * still) is nobody's fault.  It shows when the watchdog wakes up later than it meant to
 * by more than half the shortest deadline, but 100 ms to 1 s.  The clocks of first_ns,
 * join_ns, exec_ns and slow_ns, and of answers by on_verdict and NCCL, then stand still
 * for what it has missed: what hangs is found at the latest one deadline after the
 * process goes on.  A verdict says how much that was.  Of init_ns, close_ns and the end
 * of an abort such time counts.
 */
struct cohort_deadlines {
	uint64_t init_ns;  /* to connect the ranks, at open, respawn, join and
	                      split; default 120 s */
	uint64_t first_ns; /* in place of each of join_ns and exec_ns, for the
	                      first collective of each rank in a generation,
	                      which may have connections to set up; default
	                      300 s */
	uint64_t join_ns;  /* from a rank's call of a collective until the last
	                      rank has called it; default 300 s */
	uint64_t exec_ns;  /* from the last rank's call until it is done on
	                      every rank; default 300 s.  While an older
	                      collective is not done, neither this clock nor that
	                      of join_ns runs */
	uint64_t close_ns; /* that close waits for what is in flight before it
	                      aborts; default 60 s */
	uint64_t abort_ns; /* that an abort may take before it is given up as
	                      wedged; also that on_verdict has to answer, that NCCL
	                      and CUDA have to answer whether they have failed, and that
	                      a run waits for its workers after a cause; default
	                      10 s */
	uint64_t reserved[10]; /* 0; room for what later versions add */
};

/* What the watchdog does about a collective whose deadline has passed. */
enum cohort_policy {
	COHORT_POLICY_ABORT = 0,  /* end the group with COHORT_STALLED and the
	                             verdict; then tell on_verdict */
	COHORT_POLICY_REPORT = 1, /* tell on_verdict, again each time that the
	                             deadline passes once more */
	COHORT_POLICY_ASK = 2,    /* tell on_verdict, and end the group if that
	                             returns anything but 0, or nothing within
	                             the abort deadline (a call of it that is
	                             under way, for a warning, counts in that),
	                             even if the collective is done by then; after
	                             0 ask again as for _REPORT */
};

/* The most ranks of a group, and the words of a set of ranks: rank r is bit
 * r % 64 of word r / 64. */
#define COHORT_MAX_RANKS 1024
#define COHORT_RANK_WORDS (COHORT_MAX_RANKS / 64)

/*
 * Why something does not go on or has ended: name, value, spelling
 *
 *  NONE            there is no cause
 *  NEVER_CALLED    @rank has made no call at all, or was closed
 *  DIFFERENT_CALL  @rank is inside another call, or has made another one
 *                  (COHORT_MISMATCH)
 *  NOT_STARTED     @rank has called, but is inside the native call, or its stream
 *                  is busy with what was queued before
 *  NOT_FINISHED    it runs; @rank is -1 if on all
 *  OUTSIDE         no thread is inside a call of @rank, or one is between
 *                  cohort_comm_native_enter() and _leave()
 *  THREAD_EXITED   the thread that @rank was bound to has exited, or one that was
 *                  inside a call of @rank
 *  ASYNC_ERROR     ncclCommGetAsyncError() of @rank has said so
 *  NATIVE_ERROR    a native call of NCCL's by @rank has failed
 *  CUDA_ERROR      one of the CUDA runtime's
 *  DEVICE_LOST     the device of @rank has failed: nothing runs on it any more
 *  INIT_STUCK      ncclCommSplit() has not returned within init_ns (@rank is -1), or
 *                  a CUDA call behind it, on the device of @rank.  That ends the
 *                  communicator that is split.  Open, respawn and join have no group
 *                  for a verdict: only the text of COHORT_INIT_TIMEOUT says it
 *  WEDGED          on_verdict only: the end was not complete in the abort deadline;
 *                  so are the next two
 *  CLOSE_STUCK     the same of an end in peace
 *  GRAPH_ALIVE     the same, and calls were captured into CUDA graphs, which NCCL
 *                  waits for; @rank is the first that has
 *  WORKER          the worker of @rank returned an error, or could not be bound; or the
 *                  rank gave up (cohort_comm_fail())
 *  ABORTED         cohort_group_abort(), a handle, or a close whose time was up
 *  CYCLE           ranks wait for each other in sends and receives: each for the
 *                  next, and the last for the first; @rank is -1
 *  ORDER           two communicators on the same devices are used in a different
 *                  order on different ranks: each waits in one for the other, which
 *                  waits in the other one; @rank is -1 where no majority tells
 *  REMOTE          no rank of this process is missing: @missing are of other
 *                  processes; @rank is -1, of a send or receive the peer
 *  PROBER_STUCK    on_verdict only: ncclCommGetAsyncError() of @rank, or a question
 *                  about its device, which a thread of the library asks now and then,
 *                  has not returned within the abort deadline.  Nothing has ended
 */
#define COHORT_VERDICT_LIST(X)                                                 \
	X(COHORT_VERDICT_NONE, 0, "none")                                      \
	X(COHORT_VERDICT_NEVER_CALLED, 1, "never called")                      \
	X(COHORT_VERDICT_DIFFERENT_CALL, 2, "different call")                  \
	X(COHORT_VERDICT_NOT_STARTED, 3, "joined but not started")             \
	X(COHORT_VERDICT_NOT_FINISHED, 4, "started but not finished")          \
	X(COHORT_VERDICT_OUTSIDE, 5, "outside the library")                    \
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
	X(COHORT_VERDICT_REMOTE, 20, "remote stall")

enum cohort_verdict_kind {
#define COHORT_VERDICT_ENUM(name, value, text) name = value,
	COHORT_VERDICT_LIST(COHORT_VERDICT_ENUM)
#undef COHORT_VERDICT_ENUM
};

/* cohort_verdict_text - the spelling of a kind.  Never NULL: for a value this
 * version does not know, a text that says so.  Any thread; does not block. */
COHORT_API const char *cohort_verdict_text(int kind);

/* What a verdict, or a snapshot, says of one rank. */
struct cohort_rank_report {
	int rank;
	int device;
	int joined;  /* 1: it has called the collective */
	int started; /* 1: that is running on its device; 0 also where the
	                platform does not tell */
	int done;    /* 1: that is done */
	int alive;   /* 1: the thread lives; 0: it does not; -1: not known */
	int inside;  /* 1: a thread is inside a call of the communicator, also
	                while it only waits in one with host memory */
	int tid;     /* of the thread it is bound to, else of the last that
	                called; 0: none has */
	char thread[16]; /* its name */
	uint64_t ticket; /* of its last call; 0: none */
	uint64_t age_ns; /* since that call */
	char call[96];   /* that call: "all_reduce of 1000 float32, sum" */
	char tag[48];    /* that it was made with (cohort_tag()), or "" */
	char state
		[64]; /* of the thread, as the system tells: "asleep in futex",
	                    "running"; or "" */
	const char *stack; /* where the thread was when the deadline passed, the
	                      program's innermost function first, without what
	                      that called in the C library and in this one:
	                      "f (a.c:12) < g < main"; or "stack
	                      unavailable: " and why; "" if it was not asked
	                      (stack_signal) */
	int bound; /* 1: the rank is bound to that thread.  0: any thread may make
	              the rank's next call, and whether this one lives says
	              nothing of the rank */
	char label[48]; /* what the library made that call for: "bucket 2/5:
	                   fc.weight and 1 more" of a reducer; or "" */

	/* What the rank is doing, for people: "rank 2 (thread 4711 "dp/2", device 2)
	 * is alive, outside the library; its last call, ..." */
	char text[512];
	uint64_t reserved[3];
};

enum cohort_stage {
	COHORT_STAGE_SLOW = 0,    /* on_slow only: slow_ns have passed */
	COHORT_STAGE_WARNING = 1, /* some of the deadline has passed */
	COHORT_STAGE_EXPIRED =
		2,              /* the deadline has passed; nothing has ended */
	COHORT_STAGE_ENDED = 3, /* the group has ended */
};

/* What does not go on, or has ended, and why. */
struct cohort_verdict {
	int kind;            /* enum cohort_verdict_kind */
	int stage;           /* enum cohort_stage */
	int rank;            /* whose fault it is, the first of several; -1: not
	                      known, or nobody's */
	int generation;      /* of the group, from 1 */
	const char *group;   /* its name */
	uint64_t collective; /* number of the collective, from 1; 0: none */
	uint64_t time_ns;    /* when, on CLOCK_MONOTONIC */
	uint64_t since_ns;   /* since when the clock was running; 0: none was */
	uint64_t deadline_ns; /* what was allowed */
	uint64_t
		joined[COHORT_RANK_WORDS]; /* sets of ranks: that have called */
	uint64_t missing[COHORT_RANK_WORDS];    /* that it waits for: all, if
	                                           it runs on all */
	int size;                               /* ranks in this process */
	const struct cohort_rank_report *ranks; /* @size of them, by rank, of
	                                           now: after the end what was cut
	                                           short may seem done */
	const char *text;                       /* the whole of it for people */
	uint64_t rank_size; /* bytes of each of @ranks: later versions add to
	                       its end */
	uint64_t reserved[7];
};

/*
 * Told of verdicts, one at a time, on a thread of the group with no lock held;
 * @verdict is borrowed for the call.  What it returns counts for
 * COHORT_POLICY_ASK and COHORT_STAGE_EXPIRED only.  May call what any thread may call,
 * cohort_group_abort() too, but not what waits for the end: cohort_group_close(),
 * cohort_group_respawn(), and for ranks that have joined by id cohort_comm_close()
 * (COHORT_STATE).  While it is running further verdicts but the gravest and last are
 * dropped, and the watchdog goes on.
 *
 * It has to return: no exception, panic or longjmp() may leave it.
 *
 * Each generation has its own such thread.  One that has not returned within the abort
 * deadline when the group is respawned or closed is left behind, and @user with it:
 * it may then run beside that of the next generation, and after the close.
 */
typedef int (*cohort_verdict_fn)(const struct cohort_verdict *verdict,
                                 void *user);

struct cohort_cause;

/*
 * Told of what ended a generation of a group, on the same thread as
 * cohort_verdict_fn, before that is; @cause is borrowed for the call.  What holds for
 * that holds for this.
 */
typedef void (*cohort_cause_fn)(const struct cohort_cause *cause, void *user);

/* How a list of tensors is launched. */
enum cohort_many {
	COHORT_MANY_AUTO = 0,  /* by its tensors: see the thresholds */
	COHORT_MANY_GROUP = 1, /* in one native group, or of many_group_most */
	COHORT_MANY_FLAT =
		2, /* of all-reduce and broadcast: packed into buffers
	                          of 25 MiB, one for each type, by copies in
	                          stream order; else in groups.  Not into graphs */
	COHORT_MANY_ALONE = 3, /* one native call after the other */
};

/* When a rank's collective is launched: see "Launching together". */
enum cohort_launch {
	COHORT_LAUNCH_DEFAULT = 0, /* as COHORT_LAUNCH in the environment says,
	                              else on the gpu platform together, on the
	                              host platform ahead */
	COHORT_LAUNCH_TOGETHER =
		1, /* once all ranks of this process have called it */
	COHORT_LAUNCH_AHEAD = 2, /* at once */
};

/*
 * Options of cohort_group_open() and cohort_comm_join().  Start from
 * cohort_group_options_init() and set fields; a field that is 0 or NULL has its default.
 */
struct cohort_group_options {
	size_t size;      /* set by init; says which version */
	const char *name; /* in texts, and the first 8 bytes or so in thread
	                              names; copied, up to 63 bytes, whole
	                              characters of UTF-8; default
	                              "cohort" */
	int platform;     /* enum cohort_platform; default _AUTO */
	unsigned recorder_slots; /* operations a rank may have in flight and
	                              the recorder keeps; a power of two from 16
	                              to 65536, default 2048 */
	struct cohort_deadlines deadlines;
	int policy;            /* enum cohort_policy; default _ABORT; for _ASK
	                              there must be an on_verdict */
	unsigned warn_percent; /* of a collective's deadline, when on_verdict is
	                              warned; 100: never; default 50 */
	cohort_verdict_fn
		on_verdict; /* told of warnings, and of the end of each
	                                 generation that does not end in peace;
	                                 default none */
	void *user;         /* passed on to it */

	/* For NCCL, which explains them under ncclConfig_t.  With any of them the
	 * ranks are opened by a group of ncclCommInitRankConfig(), and @name is
	 * the communicators' name, too. */
	int min_ctas;         /* thread blocks per kernel: at least, */
	int max_ctas;         /* and at the most */
	int cga_cluster_size; /* of thread blocks, 1 to 8 */
	int traffic_class;    /* of the network */
	const char
		*net_name; /* network plugin to use; copied, up to 63 bytes */

	int allow_capture; /* 1: collectives on streams that are being captured
	                      into a CUDA graph are captured; else they are
	                      refused */

	/* Dumps of the flight recorder, see cohort_dump(), without a call.  Texts
	 * are copied, relative paths are seen from where the process is now.  Open
	 * answers COHORT_INVALID for a signal that has a handler or is stack_signal;
	 * for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGCHLD,
	 * SIGKILL and SIGSTOP; for a path that is no FIFO; and for a signal or a FIFO
	 * without any directory.  A dump that cannot be written later is not told
	 * of. */
	int dump_signal; /* write one when the process gets this signal, which
	                    must not have a handler; default that in
	                    COHORT_DUMP_SIGNAL of the environment, a number, else
	                    none */
	const char *dump_directory; /* where to, and write one with each verdict
	                               that is no warning; default
	                               COHORT_DUMP_DIR, else nothing is written
	                               unless asked for by a call.  It is made
	                               if it is missing, with its parents;
	                               COHORT_INVALID if nothing can be written
	                               to it now */
	const char *dump_fifo; /* write one when anything is written to this
	                          FIFO, which is made if it is missing, and
	                          looked at ten times a second; default
	                          COHORT_DUMP_FIFO, else none */
	cohort_cause_fn
		on_abort; /* told of each generation's cause; default none */
	cohort_verdict_fn
		on_slow;  /* told, once each, of collectives and transfers
	                              that are not done slow_ns after they began to
	                              wait; what it returns does not matter; default
	                              none */
	uint64_t slow_ns; /* 0: nothing is slow */
	int stack_signal; /* of SIGRTMIN to SIGRTMAX: when a deadline has passed, the
	                     threads of the first 8 ranks that are missing are asked
	                     by it where they are, for the verdict, which may take
	                     a tenth of a second; what has finished by then is not
	                     told of.  The handler is
	                     there only then, or until one that has not answered
	                     does, and never takes the place of yours.  A thread
	                     is not asked if its alternate signal stack has no
	                     room for a handler: that stack must be set before
	                     the thread's first call.
	                     Calls of those threads that sleep or poll may be
	                     interrupted (EINTR).  0: they are not asked */

	/* How lists of tensors are launched (cohort_all_reduce_many() and the
	 * like), the same on all ranks; else COHORT_MANY in the environment
	 * ("group", "flat", "alone", "auto"), COHORT_MANY_GROUP_MOST and
	 * COHORT_MANY_FLAT_BELOW, else as is best for the platform.  A rank on
	 * its own makes no native call for what is in place. */
	int many;                 /* enum cohort_many */
	unsigned many_group_most; /* tensors in one native group; default on the
	                             gpu platform 64, on the host platform all */
	size_t many_flat_below; /* _AUTO packs tensors of fewer bytes, if there
	                             are two; default on the gpu platform 64 KiB
	                             of at least 32 such, on the host platform
	                             none */

	/* Deadlines by what collectives have taken, see below. */
	unsigned adaptive_factor; /* 2 to 1000; default 0: they do not adapt */
	unsigned adaptive_warmup; /* collectives; default 100 */
	uint64_t adaptive_floor_ns; /* default 10 s */

	int launch; /* enum cohort_launch, the same on all ranks; else
	               COHORT_LAUNCH in the environment ("together", "ahead"),
	               else as is best for the platform */

	uint64_t reserved[1]; /* 0; room for what later versions add */
};

/*
 * Launching together
 *
 * In one process each device may wait for every other: to allocate or free memory, to
 * pin it, to load a kernel, or to copy pageable memory may wait until the kernels on
 * all devices are done.  A collective's kernel is done when the kernels of all ranks
 * have come.  So if one rank launches its part of a collective while the thread of
 * another rank is still in such an operation, both wait for ever.
 *
 * With COHORT_LAUNCH_TOGETHER nothing of a collective, a list of tensors, or a batch
 * that has collectives is launched before all ranks of this process have called it:
 *
 *  - A program may allocate, free, copy and load kernels between its collectives, in
 *    the thread that calls for that device.  For other threads see "Several threads for
 *    a device" below.
 *  - Of a collective that some rank never called nothing was launched.  Its outputs are
 *    untouched, its buffers are free as soon as the call has answered with the cause,
 *    and an abort has no kernel of it to end.
 *  - The library's own operations of that kind do not come between the first and the
 *    last rank's launch of a collective, in any group of the process.
 *
 * The price is that the call waits for the other ranks' calls:
 *
 *  - The call returns a cause that comes meanwhile, and deadlines run as for every
 *    collective: a rank that does not come is COHORT_STALLED.
 *  - No rank may wait, before it calls, for what another one does after its call.
 *  - One thread that calls for several ranks in turn never gets beyond the first.  Use
 *    the group-level calls (cohort_group_all_reduce() and the like), a thread for each
 *    rank, or COHORT_LAUNCH_AHEAD.  The verdict on such a thread says so.
 *
 * Not covered are sends and receives, alone or in batches without collectives: they are
 * launched at once.  So one with host memory that makes its staging memory, or has it
 * grow, may wait for the kernel of a peer that waits for just this call.  After a
 * cohort_all_reduce_host() of as many elements in plain memory there is nothing to make.
 * Ranks of other processes are not waited for.  A call that is captured into a graph
 * launches nothing and waits for nobody; there all ranks must capture (COHORT_MISMATCH).
 *
 * Nor is what NCCL allocates itself as it launches: from 2.22 on the first collective of
 * a kind connects the ranks, beside the launches of other groups.  If several groups
 * work at once, set NCCL_RUNTIME_CONNECT=0 in the environment, and the init connects
 * them.  And what NCCL allocates as ranks join by id (cohort_comm_join()) may come
 * between the launches of other groups, also if all the ranks are of this process: an
 * init that may wait for other processes keeps nobody from launching.  Have ranks join
 * while no other group has a collective in flight.
 *
 * A call with host memory whose timeout passes while it waits for the others returns
 * COHORT_TIMED_OUT, and nothing of it was launched; a thread of the library launches it
 * once all have called.  If that thread cannot be started, the call waits for the others
 * as if it had no timeout.
 *
 * Several threads for a device.  While a thread calls for a rank it does nothing else.
 * But another thread may be at work on that rank's device: for a rank of another group,
 * or for none.  If its operation begins between the first and the last rank's launch of
 * the collective, it waits for the kernel of the first and may hold the launch of the
 * last on its device meanwhile: a deadlock.  The library keeps its own operations out of
 * that time (above), but not those of the program, be it in the thread of a rank, and
 * not cohort_copy() and cohort_group_copy() of pageable memory.  Such a copy may wait
 * for all that is queued before it, say for a receive whose sender is to call a
 * collective first, so that it must not keep collectives from being launched.  In a
 * program with several groups or threads at a device, therefore,
 *
 *  - put memory operations between cohort_quiet_begin() and cohort_quiet_end(), in
 *    threads of ranks, too;
 *  - copy pinned memory, or wait for what is queued before (cohort_synchronize(), or
 *    cudaStreamSynchronize() of the stream), and then copy between these two.
 *
 * With COHORT_LAUNCH_AHEAD each rank launches at once, so that a thread may run ahead of
 * the others and call for several ranks in turn.  On GPUs such a program must make no
 * such operation while any rank has a collective in flight.
 */

/*
 * Adaptive deadlines
 *
 * A deadline of minutes finds a hang in minutes.  With @adaptive_factor, join_ns and
 * exec_ns of a collective are at most
 *
 *	max(adaptive_floor_ns, adaptive_factor x longest)
 *
 * where the longest is what such a collective has taken to be joined, or carried out,
 * in this generation of the group: one of the same kind whose tensors are of as many
 * bytes, up to the same power of two, lately, which is the last 1,024 and all of the
 * last 10 minutes at least, and twice that at the most.  What is configured stays the
 * hard limit, and the only one until adaptive_warmup of the kind have been observed, so
 * of what has never been called so before.  The first collective of all and the first
 * of each kind are no observations.  What was late but within its limit widens it at
 * once.  A verdict tells what its limit is from.
 *
 * While any rank of the process has pushed deadlines, whichever they are, nothing is
 * adapted: those and the group's hold as they are.  The same is so while one is paused,
 * of what any rank has called before a pop or a resume, and of what that rank calls
 * first after it.  None of that is observed.  So have a rank that is away for a while,
 * to evaluate or to write a checkpoint, do it between push and pop or between pause and
 * resume.  (Of a group of several processes each has to: the others' ranks are not
 * seen to.)  To push deadlines that are all 0 says just this: not now.
 *
 * Sends and receives do not adapt: their peers come when their own work is done.  Nor
 * do splits, calls that are captured, and batches of which ranks have parts of
 * different sizes.  Observations are made by the watchdog, which then looks every 25 ms
 * or every quarter of the floor: they cost a call nothing.  What it can tell no better
 * it takes for longer, so that a limit may be that much times the factor wider, and
 * run out that much later.
 *
 * The factor has to be more than a rank has ever been late compared with what is usual
 * there; 8 or more is a start, with a floor of what a machine may be busy with
 * otherwise.
 */

/*
 * cohort_group_options_init - set every field to its default
 * @options: overwritten
 *
 * For C, C++ and foreign callers alike.  Any thread; does not block.
 */
COHORT_API void cohort_group_options_init(struct cohort_group_options *options);

/* Why a group's communicators ended.  Written once; first cause wins. */
struct cohort_cause {
	int status;      /* what every call and ticket answers: COHORT_STALLED,
	                        COHORT_NCCL, COHORT_CUDA, COHORT_WORKER,
	                        COHORT_ABORTED, ...; COHORT_OK: no cause */
	int kind;        /* enum cohort_verdict_kind */
	int rank;        /* the rank to blame or that it came from, the first of
	                    several; -1: none */
	int nccl;        /* ncclResult_t where one was involved, else 0 */
	int cuda;        /* cudaError_t where one was involved, else 0 */
	int worker;      /* what the rank's worker returned, or gave to
	                    cohort_comm_fail(); else 0 */
	uint64_t ticket; /* of the operation it came from, 0: none */
	uint64_t collective; /* its number among the rank's, from 1; 0: none */
	uint64_t time_ns;    /* when it was set, on CLOCK_MONOTONIC */
	uint64_t since_ns; /* of a deadline: since when its clock was running */
	uint64_t deadline_ns;                /* and what it allowed; else 0 */
	uint64_t joined[COHORT_RANK_WORDS];  /* sets of ranks, of a collective
	                                        that was not done in time or that
	                                        differs: that had called it; */
	uint64_t missing[COHORT_RANK_WORDS]; /* of one not done in time: that
	                                        were waited for, all of them if it
	                                        was running on all */
	char text[1024];                     /* the whole of it for people; of a
	                                        cause that is of no operation it
	                                        ends with the calls that the ranks
	                                        were in, and had not finished */
	uint64_t reserved[16]; /* room for what later versions add */
};

/*
 * cohort_group_open - open a communicator over some of the machine's devices
 * @devices: @n device numbers, rank r on devices[r], each at most once; NULL
 *           for the first @n
 * @n:       number of ranks, 1 to the number of devices; with @devices NULL,
 *           0 for all of them
 * @options: NULL for the defaults; borrowed for the call
 * @group:   the new group, to be closed by cohort_group_close()
 *
 * Opens the platform.  Then a thread of the library connects all ranks in one
 * ncclCommInitAll(), and makes what each needs on its device.  Any thread; blocks until
 * that is done, or the init deadline has passed.
 *
 * COHORT_OK; COHORT_INVALID, also for an environment that changes what NCCL's
 * calls mean (NCCL_COMM_BLOCKING=0, NCCL_LAUNCH_MODE=GROUP,
 * NCCL_COMM_SPLIT_SHARE_RESOURCES=1), or for such a line in one of NCCL's files of
 * settings (NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf); COHORT_NO_MEMORY;
 * COHORT_SYSTEM (a thread could not be started); COHORT_INIT_TIMEOUT, which names the
 * devices, or the one that hangs and the CUDA call that it is in; from the gpu
 * platform COHORT_NO_LIBRARY, COHORT_NO_SYMBOL, COHORT_NO_DEVICE,
 * COHORT_UNSUPPORTED, COHORT_CUDA, COHORT_NCCL.  On error nothing is open and @group
 * is untouched; what a call that timed out opens after all is taken back.
 */
COHORT_API int cohort_group_open(const int *devices, int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_group **group);

/*
 * cohort_group_close - close the group and every communicator of it
 * @group: freed; NULL is allowed and does nothing
 *
 * Waits up to the close deadline for what is in flight, then destroys the
 * native communicators, all in one group of calls; if the wait expires or the
 * group gets a cause, it aborts them instead.  Former generations go, too.  No
 * other call may be using the group or its communicators: COHORT_STATE where that is
 * seen.  The threads of rule 2 are excepted, as they may hang: once the group has a
 * cause, they may make a call at any time, also during the close.  So abort first if a
 * rank hangs.  The group's communicators stay in memory until each worker that a run
 * left behind has returned, and until each other thread that has bound one of them has
 * unbound it or exited.  A communicator that is bound to the calling thread is unbound.
 * After the abort it waits up to the abort deadline each for
 * an on_verdict that is running and for the device to give memory back.
 *
 * COHORT_OK; COHORT_STATE while cohort_group_run() is running or a call is
 * inside a communicator (but for one whose abort was given up), or if called by
 * on_verdict, or during a respawn (nothing happened, the group is still open);
 * COHORT_ABORTED if work in flight did not finish in time and was cut short:
 * closed all the same; COHORT_WEDGED if the abort did not complete in its time
 * either: closed, the native communicators are leaked, and buffers of
 * unfinished operations must not be freed.  The text says what does not end.  Also
 * if that is so of a former generation; and if on_verdict has not returned: its thread
 * is left behind, buffers are free.
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
 * What a rank's thread runs.  Its communicator is bound to the thread and its
 * current device is the rank's.  Anything but 0 ends the group: the other
 * ranks are unblocked with COHORT_WORKER as the cause.  The cause's text has what was
 * returned.  If that is the result of the thread's last call that failed, and the rank
 * has queued nothing since, the text has its cohort_last_error(), too: "the worker of
 * rank 1 returned -1: root is 9, not 0 to 3".  A
 * worker with a reason of its own calls cohort_comm_fail() first.  No exception, panic
 * or longjmp() may leave it; pthread_exit() is the exit of a thread that is bound (see
 * cohort_comm_bind()).
 */
typedef int (*cohort_worker_fn)(struct cohort_comm *comm, void *user);

/*
 * cohort_group_run - run one function on every rank, a thread per rank
 * @group:  an open group; split first if it has not been.  May be called again
 *          and again
 * @worker: called once per rank, on a thread named after the group and the
 *          rank
 * @user:   passed on
 * @cause:  the group's cause, unless the result is COHORT_INVALID or
 *          COHORT_FORKED; its status is COHORT_OK while there is none.  May be
 *          NULL
 *
 * Blocks until every worker has returned, but once the group has a cause no longer
 * than the abort deadline from that, and if the abort is wedged a quarter of a second
 * more.  Workers that have not returned then, stuck or only slow, are *abandoned*
 * (cohort_group_abandoned()): their threads go on.  What @user points to must live
 * until they return, which only @worker itself can tell you; so do their
 * communicators, whose calls that queue something answer COHORT_STALE.
 *
 * COHORT_OK if every worker returned 0; COHORT_WORKER if one returned anything
 * else (@cause->worker, @cause->rank); the cause's status if something else
 * ended the group; COHORT_INVALID; COHORT_STATE if the group has a cause
 * already, a run or a respawn is under way, or a communicator was closed, is bound,
 * was entered for native calls, or has an open batch;
 * COHORT_SYSTEM or COHORT_NO_MEMORY if the threads could not be started (no
 * worker has run, the group is as before).
 */
COHORT_API int cohort_group_run(struct cohort_group *group,
                                cohort_worker_fn worker, void *user,
                                struct cohort_cause *cause);

/*
 * cohort_group_respawn - a new generation without the ranks that were lost
 * @group:      a group that has a cause
 * @lost_ranks: @n rank numbers of the generation that has ended, to go on
 *              without; NULL with @n 0: with all of them
 * @n:          0 to its size - 1
 *
 * Opens new communicators over the devices that are left, ranks renumbered in the
 * old order; cohort_comm_origin() tells the first number.  The group can then be
 * split, or run, as a new one.  Until the group is closed former communicators answer
 * for their tickets and give memory back; calls that queue something on them answer
 * COHORT_STALE with the old cause, others have no effect on the new ones.  Tickets of
 * group-level calls must no longer be asked about: the same numbers are given out anew.
 * Abort handles of former generations do nothing any more.  Threads of a split group
 * must stop using its communicators by themselves; deadlines that were pushed, and
 * pauses, are not taken over.
 *
 * A supervisor is a loop: run; while that fails, respawn without @cause->rank, those in
 * @cause->missing, unless that is all, and those that cohort_group_abandoned() tells
 * (before the respawn), and run again.  A worker that was abandoned may still be on
 * its device: respawned with its rank, two threads work for that.
 *
 * One thread at a time; no thread may be inside a split or group-level call.
 * Blocks until the former generation is reclaimed, up to the abort deadline, and again
 * for what was split from it; then as cohort_group_open() does; then for an on_verdict
 * that is running, up to the abort deadline.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_STATE while there is no cause, a run or another
 * respawn is under way, the former generation or what was split from it is not
 * reclaimed, or is wedged on a device that would be used again (drop those ranks), or if
 * called by on_verdict; COHORT_NO_MEMORY,
 * COHORT_SYSTEM, COHORT_INIT_TIMEOUT, COHORT_CUDA, COHORT_NCCL.  On error the group
 * is as before.
 */
COHORT_API int cohort_group_respawn(struct cohort_group *group,
                                    const int *lost_ranks, int n);

/*
 * cohort_group_abort - end every operation and communicator of the group
 * @group:  an open group
 * @reason: for people, copied (up to 200 bytes); NULL: none
 *
 * Sets the cause (COHORT_ABORTED) and returns; tickets answer with it as soon
 * as no buffer can be touched any more.  An operation that is queued behind other
 * work of its stream, yours or another group's, is over only when that is; if that
 * takes longer than the abort deadline, the answer is COHORT_WEDGED.  Any thread, any
 * number of times; does not block.
 *
 * COHORT_OK for the call that set the cause; COHORT_ALREADY if there was one;
 * COHORT_INVALID.
 */
COHORT_API int cohort_group_abort(struct cohort_group *group,
                                  const char *reason);

/*
 * Facts of a group.  Any thread; none blocks.  With a NULL group: -1, and
 * COHORT_INVALID from cohort_group_devices() and cohort_group_cause().
 *
 * cohort_group_size     - number of ranks
 * cohort_group_platform - COHORT_PLATFORM_GPU or _HOST
 * cohort_group_devices  - @devices (room for cohort_group_size() numbers) is
 *                         filled in rank order; COHORT_OK
 * cohort_group_cause    - @cause is filled; COHORT_OK whether or not there is
 *                         one (then its status is COHORT_OK)
 * cohort_group_launch   - COHORT_LAUNCH_TOGETHER or _AHEAD, whichever is in force
 * cohort_group_generation - 1, and 1 more with each cohort_group_respawn()
 * cohort_group_abandoned  - how many ranks the last run of this generation has left
 *                         behind, also if they have returned since; the first
 *                         @room of them are stored in @ranks, which may be NULL
 *
 * All of them are about the generation that counts.
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
 * cohort_dump - write down what the ranks have done last
 * @group:     an open group, also one that hangs or has ended
 * @directory: where to, made if it is missing; NULL: options.dump_directory
 *
 * For each rank of the generation that counts fr_NAME_gGENERATION_OF_rank_RANK.json:
 * its last operations, as many as options.recorder_slots, with the keys and types of
 * PyTorch's flight recorder 2.10 and more.  Besides, of the last operations of all
 * ranks, fr_NAME_gGENERATION_OF_merged.json, with the verdict or the cause, and
 * fr_NAME_gGENERATION_OF_chrome.json, trace events.  OF is HOST.PID.SERIAL, where the
 * serial number tells groups, generations and splits of a process apart.  `cohort
 * trace` reads them.
 *
 * These are the names of the files that are written with a generation's first verdict
 * (options.dump_directory).  With its second verdict OF ends in "_v2", and so on up to
 * "_v16", which later ones share; a stall that is told again has its files replaced.
 * Without a verdict, by this call, a signal or the FIFO, OF ends in "_asked": such a
 * dump replaces the last one that was asked for, and never a verdict's.  Each file is
 * replaced as a whole or not at all.
 *
 * When something started and
 * finished is told by whoever saw it first: the rank's next call, a wait, or a thread
 * of the library that looks every 25 ms.
 *
 * What was split from the group's communicators, up to 256 of them, has files of its
 * own, unless it has ended and given back what it had.  Ranks that have joined by id
 * write theirs when there is a verdict, a signal, or a write to the FIFO: see the
 * options.
 *
 * Temporary files, whose names begin with a dot, of dumps of this machine's processes
 * that are gone are removed.
 *
 * Any thread; takes no lock and makes no native call that a hang could hold, and
 * blocks on the file system only.
 *
 * COHORT_OK; COHORT_INVALID, also if neither @directory nor the options name one;
 * COHORT_NO_MEMORY; COHORT_SYSTEM, with the file's name: that one is as it was before,
 * others may have been written.
 */
COHORT_API int cohort_dump(struct cohort_group *group, const char *directory);

/*
 * cohort_group_snapshot - what each rank of the generation that counts is doing now
 * cohort_comm_snapshot  - what @comm and the other ranks of its group or split are doing,
 *                         those of this process
 * @ranks:     filled in the order of the ranks, as in a verdict; a report that is left
 *             over has the rank -1
 * @room:      how many reports there are: at least the ranks of this process;
 *             cohort_group_size() or cohort_comm_size() is always enough
 * @rank_size: sizeof(struct cohort_rank_report)
 *
 * For a supervisor that does not wait for a verdict.  The fields joined, started and
 * done are about the oldest collective that is not done on every rank; if none is in
 * flight, joined is 0 on every rank.  No thread is asked for its stack.  The ranks are
 * looked at one after the other, also in a hang, during an abort and after a cause.
 * Once there is a cause, what was cut short may seem done.
 *
 * Any thread; takes no lock, makes no native call, and does not block.  Other ranks need
 * not do anything.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value, and nothing is stored.
 */
COHORT_API int cohort_group_snapshot(struct cohort_group *group,
                                     struct cohort_rank_report *ranks, int room,
                                     size_t rank_size);
COHORT_API int cohort_comm_snapshot(struct cohort_comm *comm,
                                    struct cohort_rank_report *ranks, int room,
                                    size_t rank_size);

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
 * group: all or nothing.  As all ranks call at once, it never waits for other calls.
 * Results and blocking otherwise as for cohort_all_reduce(), and with nothing queued
 * COHORT_STATE after a split, COHORT_NO_MEMORY, and COHORT_UNSUPPORTED if a stream is
 * being captured, or if CUDA_LAUNCH_BLOCKING was set in the environment when a group of
 * several ranks was opened: each launch would wait for the next.
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
 * @memory: room for one pointer per rank; of free: one per rank, NULL allowed, and each
 *          is set to NULL once it is given back
 *
 * As cohort_alloc() and cohort_free() on each rank, before the split and after it.
 * Alloc is all or nothing: on error @memory is untouched.  After an error of free, what
 * is not NULL is still there: call it again.
 *
 * The memory is the program's until it is given back: a split, a run, an abort and a
 * respawn leave it as it is, and cohort_group_close() does not free it.
 * cohort_free() of a rank's communicator takes it, too.  After a respawn @memory has one
 * pointer for each rank of the new generation; the memory of a rank that was lost may be
 * given back in the place of any rank's.
 *
 * Results and blocking as for cohort_alloc() and cohort_free().
 */
COHORT_API int cohort_group_alloc(struct cohort_group *group, size_t bytes,
                                  void *memory[]);
COHORT_API int cohort_group_free(struct cohort_group *group, void *memory[]);

/*
 * cohort_group_copy - copy bytes on every rank, in stream order
 * @dst, @src: one pointer per rank, each @bytes of host memory or of that rank's
 *             device; borrowed until the copies are done
 * @streams:   one per rank, of that rank's device; NULL: the ranks' own
 * @ticket:    one for all ranks, for cohort_group_wait(); may be NULL
 *
 * As cohort_copy() on each rank, before the split only (COHORT_STATE).  If the first
 * rank's copy fails nothing was copied and the group goes on; if a later one's does,
 * that is the end of the group, as of a collective.
 */
COHORT_API int cohort_group_copy(struct cohort_group *group, void *const dst[],
                                 const void *const src[], size_t bytes,
                                 void *const streams[], uint64_t *ticket);

/*
 * cohort_group_stream - rank @rank's own stream, as cohort_comm_stream()
 *
 * Which group-level calls go to without @streams.  Any thread; does not block.  Valid
 * until the group is respawned or closed.  NULL without a group or such a rank.
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

/* ---- joining by unique id --------------------------------------------- */

/* What ranks that join have in common; bytes that can be sent to other processes. */
struct cohort_unique_id {
	unsigned char bytes[192];
};

/*
 * cohort_unique_id - a new id, for one communicator
 * @id: filled
 *
 * One rank makes it and gives it to the others.  Of the platform that a group
 * opened now with no choice of its own would get.  Any thread; may block on the
 * platform's start.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_NCCL; what cohort_group_open() answers about
 * the platform.
 */
COHORT_API int cohort_unique_id(struct cohort_unique_id *id);

/*
 * cohort_comm_join - be one rank of a communicator, a thread or a process per rank
 * @id:      the same for all
 * @nranks:  1 to COHORT_MAX_RANKS, the same for all
 * @rank:    0 to @nranks - 1, another one for each
 * @device:  of this rank, another one for each rank of the machine
 * @options: as for cohort_group_open(), the same for all (of a process the first
 *           one's count); NULL for the defaults; borrowed for the call
 * @comm:    to be closed by cohort_comm_close(), which ends it as
 *           cohort_group_close() ends a group once the last rank of this process
 *           has done so; after that no call may use it
 *
 * The ranks that a process joins by one id are one clique: an abort handle of any
 * ends all, each is compared with the others, the watchdog sees all of them.  It
 * does not see those of other processes; that a verdict says.  They cannot be run or
 * respawned: bind each to its thread yourself (cohort_comm_bind()), and after a cause
 * close all and join anew, by a new id.
 *
 * Every rank must join, each from a thread of its own: blocks until all have, or the
 * init deadline has passed.  On an error no rank of this process has joined, what
 * connects after all is taken back, and @id should not be used again.  Any thread.
 *
 * COHORT_OK; COHORT_INVALID, with the argument and its value, also for a rank,
 * a device or a number of ranks that does not go with those of others in this
 * process (who go on waiting); COHORT_UNSUPPORTED for an id of another process on
 * the host platform, which joins ranks of one process; COHORT_INIT_TIMEOUT;
 * otherwise as cohort_group_open().
 */
COHORT_API int cohort_comm_join(const struct cohort_unique_id *id, int nranks,
                                int rank, int device,
                                const struct cohort_group_options *options,
                                struct cohort_comm **comm);

/* ---- communicators ---------------------------------------------------- */

/*
 * Facts of a communicator.  Any thread; none blocks.  With a NULL or closed
 * communicator -1, or NULL.
 *
 * cohort_comm_rank   - this rank, 0 to size - 1
 * cohort_comm_size   - number of ranks
 * cohort_comm_device - its device
 * cohort_comm_launch - COHORT_LAUNCH_TOGETHER or _AHEAD, whichever is in force
 * cohort_comm_generation - of the group, from 1
 * cohort_comm_origin - its rank in generation 1
 * cohort_comm_stream - its own stream, which does not synchronize with the
 *                      legacy default stream; valid until the group is closed
 */
COHORT_API int cohort_comm_rank(const struct cohort_comm *comm);
COHORT_API int cohort_comm_size(const struct cohort_comm *comm);
COHORT_API int cohort_comm_device(const struct cohort_comm *comm);
COHORT_API int cohort_comm_launch(const struct cohort_comm *comm);
COHORT_API int cohort_comm_generation(const struct cohort_comm *comm);
COHORT_API int cohort_comm_origin(const struct cohort_comm *comm);
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
 * cohort_comm_unbind - any thread may, one at a time
 *
 * The exit of a thread that has a communicator bound to it ends the group at once,
 * with COHORT_THREAD_EXITED and that rank as the cause: it could never make its
 * next call.  Unbind first to leave in peace.  Workers of cohort_group_run() are
 * bound already, and unbound when they return.  (If the thread exits inside a native
 * call, the others are told COHORT_WEDGED when the abort deadline has passed.)
 *
 * Another thread may close the group of a bound communicator; after an abort it may do
 * so while the communicator's thread hangs.  That thread may then still use the
 * communicator: calls that queue something answer COHORT_STALE, tickets and the cause
 * answer as before.  Its cohort_comm_unbind(), or its exit, gives the memory back, and
 * may wait for the device to do so.  After that no call may use the communicator.
 * Otherwise neither blocks.
 *
 * COHORT_OK; COHORT_ALREADY if it is bound to this thread already, or not
 * bound at all; COHORT_OWNER if it is bound to another thread; COHORT_BUSY if
 * another thread is inside; COHORT_INVALID.  Bind only: COHORT_STATE if it was closed,
 * COHORT_STALE if its group was respawned or closed, COHORT_SYSTEM if the thread's end
 * cannot be watched.
 */
COHORT_API int cohort_comm_bind(struct cohort_comm *comm);
COHORT_API int cohort_comm_unbind(struct cohort_comm *comm);

/*
 * cohort_comm_fail - this rank gives up, for a reason of its own
 * @code: the program's, not 0
 * @text: for people, copied (up to 200 bytes); NULL: none
 *
 * Ends the group, as cohort_group_abort() does, with this rank to blame: the cause's
 * status is COHORT_WORKER, its kind COHORT_VERDICT_WORKER, @rank this one, @worker
 * @code, and its text like "rank 1 gave up with -7: shard 12 is unreadable".  Nothing is
 * asked of the other ranks, whose calls and waits answer with the cause.  In
 * cohort_group_run() what the worker returns afterwards changes nothing: the first cause
 * counts.
 *
 * Any thread may call it, also if the communicator is bound to another thread, if another
 * thread is inside, or if it was closed while its group is open.  A signal handler may
 * not: it has cohort_abort_fire().  Does not block.
 *
 * COHORT_OK for the call that set the cause; COHORT_ALREADY if there was one, so also
 * for a former generation and a rank that was abandoned; COHORT_INVALID for a @code of
 * 0.
 */
COHORT_API int cohort_comm_fail(struct cohort_comm *comm, int code,
                                const char *text);

/*
 * cohort_tag - a label for this rank's calls from now on
 * @text: for people: where in the program, "step 12, gradients"; copied, up to 47
 *        bytes; NULL or "": none
 *
 * Kept with every call until the next tag, and shown with it in verdicts.  Each rank
 * has its own, and need not give the same.  The last 64 different texts are kept: a
 * tag that is used again and again costs no more than comparing it.  A reducer's calls
 * have a label of their own beside it.  One submitting thread at a time; does not
 * block.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_BUSY; COHORT_OWNER; COHORT_STATE if closed.
 */
COHORT_API int cohort_tag(struct cohort_comm *comm, const char *text);

/* The color of a rank that is to be in none of the new communicators. */
#define COHORT_NO_COLOR (-1)

/*
 * cohort_comm_split - communicators of some of this one's ranks
 * @color: the ranks that give the same one, 0 or more, are together in a new
 *         communicator; COHORT_NO_COLOR: in none
 * @key:   the order of the ranks there; those of the same one in the order that they
 *         have here
 * @child: this rank's new communicator; NULL for COHORT_NO_COLOR
 *
 * Every rank must call, in the sequence of calls that all ranks make, with what
 * color and key it likes, each from a thread of its own: blocks until all have
 * called and all that they had called before is done, then until the platform has
 * made the new communicators, up to the init deadline.  Its clocks are those of a
 * collective.
 *
 * What is new has its own deadlines (the same), watchdog, cause and abort handles,
 * calls the same functions with the same @user as this one does, on a thread of its
 * own and maybe at the same time, and has a name of its own, with a dot and the color
 * behind this one's; its end is not that of this one.  But the end of this one is its
 * end: before a close, and with a cause; and after cohort_group_respawn() its calls
 * answer COHORT_STALE.  cohort_comm_close() of its last rank in this process ends it, in
 * peace or not, and no call may use it after that; it gives back what it has when the
 * device comes to it.  Else it goes when this one's group is closed, or this one if its
 * ranks have joined by id.  It can be split, too.  cohort_comm_origin() is that of the
 * rank it was split from.  It works for ranks of several processes, where NCCL does.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value; COHORT_STATE if
 * closed, or a batch is open; COHORT_BUSY; COHORT_OWNER; COHORT_STALE; the cause.  On
 * these but the cause nothing has happened.  COHORT_MISMATCH if others call something
 * else, COHORT_STALLED if one does not come in time, COHORT_INIT_TIMEOUT,
 * COHORT_NCCL, COHORT_CUDA, COHORT_NO_MEMORY and COHORT_SYSTEM if it fails: as the
 * others wait for this one, they are the cause of this communicator's end.
 */
COHORT_API int cohort_comm_split(struct cohort_comm *comm, int color, int key,
                                 struct cohort_comm **child);

/*
 * cohort_comm_close - this rank leaves early
 * @comm: from now on it takes no operations and no memory (COHORT_STATE); it may
 *        be asked about its tickets until the group is closed
 *
 * Waits for this rank's tickets, up to the close deadline.  The native
 * communicator lives until the group is closed, as NCCL frees all of a
 * process's ranks together.  Of ranks that have joined by id the last one to be
 * closed ends them all, and waits for that as cohort_group_close() does; then no call
 * may use any of them, with the exceptions of rule 2.  A rank that a thread is stuck
 * inside (COHORT_BUSY) keeps them open.  Once there is a cause any thread may close a rank that
 * is bound to another, which may hang.  A rank that is closed by the thread it is
 * bound to is unbound.
 *
 * COHORT_OK; COHORT_TIMED_OUT if a ticket was not answered in time (nothing
 * changed); the cause, or COHORT_WEDGED, if that is what its tickets answered
 * (closed all the same); COHORT_OWNER if it is bound to another thread and there is
 * no cause; COHORT_BUSY; COHORT_STATE if closed already; COHORT_INVALID.  The last
 * joined rank: also what cohort_group_close() answers; a joined rank: COHORT_STATE if
 * called by on_verdict.
 */
COHORT_API int cohort_comm_close(struct cohort_comm *comm);

/*
 * cohort_comm_native_enter - the ncclComm_t, for calls this library does not have
 * cohort_comm_native_leave - the end of that
 * @nccl_comm: the native communicator; valid until cohort_comm_native_leave(), by
 *             the same thread
 *
 * In between this thread is inside the communicator: all its other calls that
 * submit answer COHORT_BUSY, and an abort waits for it to leave, up to the abort
 * deadline.  An abort unblocks native calls as it does ours.  The communicator must
 * not be aborted, destroyed, finalized, split or kept.  What is called is not
 * recorded, compared with other ranks or waited for by tickets.  Before it has left
 * the thread must not wait for tickets of the group or submit for other ranks: if
 * the group ends meanwhile, they wait for it.  Neither call blocks.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_BUSY (enter: also while a call with host memory
 * that has timed out is not launched); COHORT_OWNER (also for a leave by
 * another thread than entered); COHORT_STATE if closed, or for a leave without
 * an enter; enter: the cause, or COHORT_STALE, as the collectives do.
 */
COHORT_API int cohort_comm_native_enter(struct cohort_comm *comm,
                                        void **nccl_comm);
COHORT_API int cohort_comm_native_leave(struct cohort_comm *comm);

/* ---- deadlines -------------------------------------------------------- */

/*
 * cohort_deadline_push - other deadlines for this rank's calls from now on
 * cohort_deadline_pop  - those before the last push again
 * @deadlines: join_ns and exec_ns count, 0: as before; the others are the group's
 *             and must be 0.  Borrowed for the call
 *
 * Each call keeps the deadlines it was made with.  A collective has as many clocks
 * as ranks have called it; the first that runs out decides.  So a rank that is to
 * be waited for longer needs the longer deadline on the others.  At most 16 deep.
 * join_ns and exec_ns take the place of first_ns, too.  One submitting thread at a
 * time; neither blocks; also once the group has a cause.  At the end of a worker of
 * cohort_group_run(), and by cohort_comm_close(), all are popped.
 *
 * COHORT_OK; COHORT_INVALID with the field and its value; COHORT_STATE for a pop
 * without a push, a push too deep, or if closed; COHORT_BUSY; COHORT_OWNER.
 */
COHORT_API int cohort_deadline_push(struct cohort_comm *comm,
                                    const struct cohort_deadlines *deadlines);
COHORT_API int cohort_deadline_pop(struct cohort_comm *comm);

/*
 * cohort_pause  - this rank will be away for a while, with good reason
 * cohort_resume - it is back
 *
 * While any rank is paused no deadline of a collective runs; when the last one
 * resumes, the clocks of what is waiting start anew.  Nests.  Everything else goes
 * on: a paused rank may make calls, and its thread's exit still ends the group.
 * One submitting thread at a time; neither blocks.  At the end of a worker of
 * cohort_group_run() its rank is resumed, and by cohort_comm_close().
 *
 * COHORT_OK; COHORT_STATE for a resume without a pause, or if closed; COHORT_BUSY;
 * COHORT_OWNER; COHORT_INVALID.
 */
COHORT_API int cohort_pause(struct cohort_comm *comm);
COHORT_API int cohort_resume(struct cohort_comm *comm);

/* ---- counters --------------------------------------------------------- */

/* Counters of one rank, and of its group's generation. */
struct cohort_stats {
	size_t size; /* set by the caller: sizeof */

	/* Of the rank. */
	uint64_t operations;  /* that were queued */
	uint64_t collectives; /* that were called */
	uint64_t transfers;   /* sends and receives */
	uint64_t bytes;       /* of the operations' tensors */
	uint64_t waits;    /* for what was not done when it was asked about */
	uint64_t captured; /* calls that went into CUDA graphs */
	uint64_t
		lost_records; /* of the flight recorder: overwritten by newer ones */

	/* Of the generation of the group. */
	uint64_t slow;     /* operations that took longer than slow_ns */
	uint64_t warnings; /* of the watchdog's */
	uint64_t aborts;   /* 1: it has a cause */
	uint64_t
		verdicts[32]; /* but warnings, by enum cohort_verdict_kind: of a
	                          cause one, and one more for each time that it was
	                          told of before */
	uint64_t
		stops; /* that the watchdog has noticed: the process did not run */
	uint64_t reserved[7];
};

/*
 * cohort_stats       - counters of a rank
 * cohort_stats_write - those of all ranks of a group, as text for Prometheus
 * @stats: its size is set; the rest is filled, as far as it goes
 * @fd:    where to write; may be a file, a pipe or a socket
 *
 * Read from memory without a lock, whatever any rank's thread is doing; the counters
 * need not be of the same moment.  The text is always UTF-8: U+FFFD stands for each byte
 * of the group's name that is not, as in dumps.  Any thread; cohort_stats() does not
 * block, cohort_stats_write() only as write() does.
 *
 * COHORT_OK; COHORT_INVALID, also for a @stats whose size was not set;
 * cohort_stats_write(): COHORT_SYSTEM if it cannot write, which may be after a part of
 * it; a reader that has gone is a SIGPIPE, as of write().
 */
COHORT_API int cohort_stats(struct cohort_comm *comm,
                            struct cohort_stats *stats);
COHORT_API int cohort_stats_write(struct cohort_group *group, int fd);

/* ---- abort handles ---------------------------------------------------- */

struct cohort_abort;

/*
 * cohort_comm_abort_handle - a handle that ends the communicators of the group
 *
 * A reference, to be given back by cohort_abort_put(); it may outlive the
 * communicator and the group.  Any handle of any rank ends all ranks of this
 * generation: the others could never finish.  Any thread; does not block.  NULL for a
 * NULL @comm, and in the child of a fork.
 */
COHORT_API struct cohort_abort *
cohort_comm_abort_handle(struct cohort_comm *comm);

/*
 * cohort_abort_fire - end every operation and communicator of the group
 * @handle: may be of a group that has ended or was closed
 * @reason: for people, copied (up to 200 bytes); NULL: none
 *
 * As cohort_group_abort(), from any thread, also while the group is being closed
 * or was, any number of times, and from a signal handler: takes no lock, no
 * memory, no thread-local storage, and leaves no text for cohort_last_error().
 * Does not block.
 *
 * COHORT_OK for the call that set the cause; COHORT_ALREADY if there was one, or
 * the group had been closed; COHORT_INVALID for NULL.
 */
COHORT_API int cohort_abort_fire(struct cohort_abort *handle,
                                 const char *reason);

/*
 * cohort_abort_fired - 1 if the group has a cause, whoever set it, else 0
 *
 * An orderly close is none.  Threads as cohort_abort_fire().
 */
COHORT_API int cohort_abort_fired(const struct cohort_abort *handle);

/*
 * cohort_abort_put - give a handle back
 *
 * No call may use it afterwards.  NULL is allowed and does nothing.  Any thread,
 * not a signal handler; does not block.
 */
COHORT_API void cohort_abort_put(struct cohort_abort *handle);

/* ---- collectives ------------------------------------------------------ */

/*
 * What the collectives have in common
 *
 * Every rank of the group must make the same sequence of calls with the same
 * @count, @type, @op and @root.  Each call is compared with the other ranks' of
 * the same number before it is launched: a difference ends the group with
 * COHORT_MISMATCH, and the cause spells out the calls and names the odd rank, if
 * there is a majority.  (Compared are 32 bits of a hash of all that, and the number of
 * the call: one difference in four thousand million is not seen.  A call with a @count
 * of 0 may be done before there is anything to compare it with.)  A call returns once
 * the operation is queued on @stream (NULL: the legacy default stream of the rank's
 * device).  With COHORT_LAUNCH_TOGETHER it blocks until all ranks of this process have
 * called, or the group has a cause; with COHORT_LAUNCH_AHEAD it does not wait for peers.
 * It also blocks while too much is in flight, until the oldest is done or the group has
 * a cause: as many operations of this rank, or calls ahead of the slowest rank, as the
 * recorder has slots, or more on @stream than its queue holds (about 1,000 launches on a
 * GPU, 500 operations on the host platform).  So a thread that launches ahead and calls
 * for several ranks in turn must not run one of them further ahead.  On the gpu platform
 * the first call of a kind may also wait for connections to be set up.
 *
 * Buffers are device memory of the rank's device (cohort_alloc(), or from
 * cudaMalloc()), borrowed until the ticket is answered.  A @count of 0 is
 * allowed, buffers are then not looked at.  A stream of another device is
 * COHORT_INVALID.  A CUDA runtime before 12.8 cannot tell the device of a stream that is
 * being captured: then the native call fails.
 *
 * While a batch is open (cohort_batch_begin()) a call is only checked and kept for
 * cohort_batch_end(): see there.
 *
 * One thread at a time per communicator; a bound one from its thread only.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value in the text;
 * COHORT_BUSY; COHORT_OWNER; COHORT_STATE if the communicator is closed; the
 * cause's status if the group has one, or gets one while the call waits for the other
 * ranks' calls; COHORT_STALE if the group was respawned or
 * has abandoned this rank.  On these nothing was queued, @ticket and the buffers are
 * untouched, and the group goes on as it was.  COHORT_NCCL or COHORT_CUDA if
 * a native call failed: as the other ranks are already waiting for this one,
 * that becomes the cause and ends the group.  The call then returns as a wait
 * would, once no buffer can be touched any more, or with COHORT_WEDGED when the
 * abort deadline has passed.  COHORT_NO_MEMORY stands for COHORT_CUDA where CUDA
 * says so.  COHORT_MISMATCH likewise, after up to a second in which the call waits for
 * those of others, to tell who differs.  What goes wrong later is the ticket's
 * answer; COHORT_STALLED among that, with the watchdog's verdict, when a deadline
 * of the call has passed (struct cohort_deadlines).
 */

/*
 * CUDA graphs
 *
 * A call on a stream that is being captured answers COHORT_UNSUPPORTED, and nothing
 * has happened to the capture; so do cohort_stream_after() and
 * cohort_after_stream().  With allow_capture in the options it becomes part of the
 * graph, and its ticket is COHORT_CAPTURED, which cannot be waited for: nothing tells
 * when it runs, or how often.  All ranks must capture it, and all launch the graph.
 * The call is compared with those of the other ranks when it is captured, and that is
 * all.  Group-level calls and copies of all ranks are never captured.
 *
 * A launch of the graph is not watched, recorded or counted.  So of launches
 *  - no deadline holds, and a hang in one has no verdict;
 *  - a cause does not say that the buffers are free: a launch that was queued before may
 *    write to them still.  Wait for the streams of all launches before you free;
 *  - an abort ends those that run, without a word about it: what they leave in their
 *    outputs is undefined, and looks complete;
 *  - one after an abort, a close or a respawn is undefined.
 * Destroy graphs before their group is closed, respawned or aborted: the end of NCCL's
 * communicators waits for that.  NVIDIA advises against graphs of collectives on several
 * GPUs of one process: the launches of graphs are not ordered between devices, and may
 * wait for each other for ever.
 */
#define COHORT_CAPTURED UINT64_MAX

/*
 * cohort_all_reduce - combine a buffer across ranks, result on every rank
 * @comm:   this rank's communicator
 * @send:   @count elements of @type, read
 * @recv:   @count elements of @type, written; may equal @send
 * @op:     enum cohort_op, or a premultiplied sum (cohort_premul_sum_create())
 * @stream: where to queue it
 * @ticket: for cohort_wait(); may be NULL
 */
COHORT_API int cohort_all_reduce(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type, int op,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_broadcast - copy a buffer from rank @root to every rank
 * @send: @count elements of @type, read on @root only; elsewhere ignored
 * @recv: @count elements of @type, written; may equal @send
 */
COHORT_API int cohort_broadcast(struct cohort_comm *comm, const void *send,
                                void *recv, size_t count, int type, int root,
                                void *stream, uint64_t *ticket);

/*
 * cohort_reduce - combine a buffer across ranks, result on rank @root
 * @send: @count elements of @type, read
 * @recv: @count elements of @type, written on @root only; elsewhere ignored;
 *        may equal @send
 */
COHORT_API int cohort_reduce(struct cohort_comm *comm, const void *send,
                             void *recv, size_t count, int type, int op,
                             int root, void *stream, uint64_t *ticket);

/*
 * cohort_all_gather - collect every rank's buffer on every rank
 * @send: @count elements of @type, read
 * @recv: size * @count elements, written in rank order; in place if @send is
 *        @recv + rank * @count elements
 */
COHORT_API int cohort_all_gather(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_reduce_scatter - combine across ranks, each rank keeps its block
 * @send: size * @count elements of @type, read
 * @recv: @count elements, written: block number rank of the combination; in
 *        place if @recv is @send + rank * @count elements
 */
COHORT_API int cohort_reduce_scatter(struct cohort_comm *comm, const void *send,
                                     void *recv, size_t count, int type, int op,
                                     void *stream, uint64_t *ticket);

/*
 * cohort_gather - collect every rank's buffer on rank @root
 * @send: @count elements of @type, read
 * @recv: on @root size * @count elements, written in rank order; elsewhere ignored;
 *        in place if @send is @recv + rank * @count elements
 *
 * One native call where NCCL has it (2.28.3), else the sends and receives that it
 * means in one native group; likewise the next two.
 */
COHORT_API int cohort_gather(struct cohort_comm *comm, const void *send,
                             void *recv, size_t count, int type, int root,
                             void *stream, uint64_t *ticket);

/*
 * cohort_scatter - give every rank its block of rank @root's buffer
 * @send: on @root size * @count elements of @type, read in rank order; elsewhere
 *        ignored
 * @recv: @count elements, written; in place if @recv is @send + rank * @count
 *        elements
 */
COHORT_API int cohort_scatter(struct cohort_comm *comm, const void *send,
                              void *recv, size_t count, int type, int root,
                              void *stream, uint64_t *ticket);

/*
 * cohort_all_to_all - every rank gives every rank a block
 * @send: size * @count elements of @type, read: block r is for rank r
 * @recv: size * @count elements, written: block r is from rank r; never in place:
 *        it must not overlap @send
 */
COHORT_API int cohort_all_to_all(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_send - give a buffer to one rank
 * cohort_recv - get a buffer from one rank
 * @send: @count elements of @type, read
 * @recv: @count elements of @type, written
 * @peer: the other rank, which must receive, or send, the same @count and @type;
 *        this rank itself only in a batch, together with the other half
 *
 * Of two ranks the k-th send to the other and its k-th receive are one transfer,
 * whatever else is called in between; but a gather, scatter or all-to-all, which NCCL
 * makes of such transfers, must be called after the same ones on both.  (Not so in one
 * batch: there the calls that all ranks make come first.)  These calls have no place in
 * the sequence of calls that all ranks must make, and their arguments are not compared.
 * Transfers that are to go on side by side, in both directions or with several peers,
 * belong into one batch: on one stream a send keeps what is queued behind it from
 * starting until its peer receives.  One with a @count of 0 is a real transfer, too,
 * which waits for its peer.
 *
 * The clocks of deadlines run as those of a collective of the two ranks, in a batch
 * of the rank and all its peers there, first_ns for a rank's first send to, or receive
 * from, this peer; of a peer of another process it is taken for granted that it has
 * called.  Everything else as for the
 * collectives.
 */
COHORT_API int cohort_send(struct cohort_comm *comm, const void *send,
                           size_t count, int type, int peer, void *stream,
                           uint64_t *ticket);
COHORT_API int cohort_recv(struct cohort_comm *comm, void *recv, size_t count,
                           int type, int peer, void *stream, uint64_t *ticket);

/*
 * cohort_barrier - a ticket that is done only when every rank has come
 *
 * In stream order: what is queued on @stream after it starts only when every
 * rank's stream has reached its barrier.  To hold the thread itself, wait for
 * the ticket.
 */
COHORT_API int cohort_barrier(struct cohort_comm *comm, void *stream,
                              uint64_t *ticket);

/* One tensor of a list: what one call takes. */
struct cohort_tensor {
	const void *send; /* read */
	void *recv;       /* written; in place as in the call for one */
	size_t count;     /* elements of @type */
	int type;         /* enum cohort_type */
};

/*
 * cohort_all_reduce_many     - a list of tensors as one operation: each as by
 *                              cohort_all_reduce(),
 * cohort_broadcast_many      - by cohort_broadcast(),
 * cohort_all_gather_many     - by cohort_all_gather(),
 * cohort_reduce_scatter_many - by cohort_reduce_scatter()
 * @tensors: @n of them, of any types and in place or not, each by itself; counts are
 *           those of the calls for one (of an all-gather @send has count elements and
 *           @recv size * count, of a reduce-scatter the other way round).  The array
 *           is borrowed for the call, the buffers until the ticket is answered.  No
 *           buffer may overlap that of another tensor, unless both are only read
 * @n:       1 or more
 *
 * Every rank has the same list of counts and types.  One record, one ticket, and one
 * comparison with the other ranks: a difference is told with the number of the first
 * tensor that differs.  All or nothing.  The options say how it is launched (many).
 * The first call that packs, or one that packs more than any before, allocates on the
 * device, and may block as cudaMalloc() may; COHORT_NO_MEMORY or COHORT_CUDA of that:
 * nothing was queued.  Copies and groups take places on @stream as other launches do.
 * A rank remembers up to 64 of the lists that it has called, by where the array is: one
 * that is called again and says the same is not looked through again, so keep the array
 * of what every step calls, and keep its padding.  Everything else as for the
 * collectives.
 */
COHORT_API int cohort_all_reduce_many(struct cohort_comm *comm,
                                      const struct cohort_tensor *tensors,
                                      size_t n, int op, void *stream,
                                      uint64_t *ticket);
COHORT_API int cohort_broadcast_many(struct cohort_comm *comm,
                                     const struct cohort_tensor *tensors,
                                     size_t n, int root, void *stream,
                                     uint64_t *ticket);
COHORT_API int cohort_all_gather_many(struct cohort_comm *comm,
                                      const struct cohort_tensor *tensors,
                                      size_t n, void *stream, uint64_t *ticket);
COHORT_API int cohort_reduce_scatter_many(struct cohort_comm *comm,
                                          const struct cohort_tensor *tensors,
                                          size_t n, int op, void *stream,
                                          uint64_t *ticket);

/*
 * cohort_batch_begin - what is called on @comm from now on belongs together
 * cohort_batch_end   - launch it: all or nothing
 * @stream: where to queue it all
 * @ticket: one for all; may be NULL
 *
 * In between, collectives, sends and receives of this communicator are checked and
 * kept; their @ticket must be NULL, and their @stream NULL or the @stream of the end,
 * where all of it goes.  The end makes of them one operation: compared, recorded,
 * launched as one native group, with one ticket.  Its collectives, in their order,
 * are one call in the sequence that all ranks must make; its sends and receives find
 * their peers each by itself.  They may be carried out in any order, and at the same
 * time: none may write what another of them reads or writes.  With nothing in it, it
 * is done when @stream comes to it.
 *
 * A call that is refused says so at once, and the end says it again with the number
 * of the call: then, as after every other error of the end but COHORT_BUSY and
 * COHORT_OWNER, nothing was launched and no batch is open.  An abort meanwhile is
 * told by the end, too.  The thread that has begun must also end: to other threads
 * these calls answer COHORT_OWNER until then.  There is no batch in a batch, and
 * cohort_copy() is none of its calls; those that queue nothing for peers go on as
 * ever.  What is open is forgotten when a worker of cohort_group_run() returns, and
 * by cohort_comm_close() and cohort_group_close().  Memory for as many calls as the
 * largest batch so far is kept until the group is closed.
 *
 * Neither blocks otherwise than a collective does.
 *
 * Begin: COHORT_OK; COHORT_STATE if one is open; COHORT_NO_MEMORY, COHORT_OWNER,
 * COHORT_BUSY, COHORT_STALE, COHORT_INVALID, the cause, as for the collectives.
 * End: as a collective; and COHORT_STATE without a begin.
 */
COHORT_API int cohort_batch_begin(struct cohort_comm *comm);
COHORT_API int cohort_batch_end(struct cohort_comm *comm, void *stream,
                                uint64_t *ticket);

/* ---- plain host memory ------------------------------------------------ */

/*
 * What the calls with host memory have in common
 *
 * Each is the collective, send or receive of its name, but for memory of the process as
 * malloc() gives it, and waits for its end.  Those whose input and output are of one
 * size work in place, in @data; the others as the device's calls do, in place or not.
 * They go to the communicator's own stream (cohort_comm_stream()), in order with what
 * is queued there.
 *
 * To the other ranks such a call is one of its own: a call with host memory on one rank
 * and one without on another are different calls (COHORT_MISMATCH); of a send and its
 * receive, which are not compared, both must be of this kind.  Each call is one
 * operation, with one record ("all_reduce_host"), and is watched by the deadlines of
 * collectives.  How long @timeout_ns is may differ between ranks.
 *
 * @timeout_ns: how long to wait; COHORT_FOREVER: until the end, or a deadline of the
 *              watchdog's.  0: begin it, and see
 *
 * COHORT_TIMED_OUT: the operation goes on without the caller, in memory of the
 * library's.  The other ranks get this rank's input as if nothing had happened; the
 * result on this rank is lost, and the contents of its output (@data, too) are
 * undefined.  Buffers are the caller's again, and nothing touches them any more;
 * cohort_synchronize() waits for the end of the operation.  The next call with host
 * memory waits for it, too, up to its own timeout, and then answers COHORT_BUSY: it
 * was not made, and nothing has happened.
 *
 * With COHORT_LAUNCH_TOGETHER the operation is launched when all ranks have called it.
 * Until then other calls of this rank that take a stream, make or end a reduction or
 * register memory wait for that too, or for a cause, whatever their kind.  What the
 * program itself queues on the stream meanwhile comes before the operation.
 *
 * So after every answer but COHORT_WEDGED neither a thread nor a device reads or
 * writes the caller's buffers; also after a cause, of which an output is undefined.
 *
 * On the gpu platform the memory is copied through pinned staging memory, in chunks of 4
 * MiB or a 64th of the call, by streams of the communicator's, so that copies in,
 * collectives and copies out overlap.  The staging memory is as large as the largest
 * call so far, since a call that is given up must go on, and three chunks are on the
 * device; both are made by the first call and by larger ones, which may block as
 * cudaMalloc() and cudaFree() may, for a send or receive also on a peer's kernel (see
 * "Launching together"), and are kept until the group is closed.  Memory that
 * is pinned already (cudaHostAlloc(), cudaHostRegister()) is not copied on the way, if
 * @timeout_ns is COHORT_FOREVER.  Memory of a device is COHORT_INVALID.
 *
 * On the host platform the collective works with the caller's memory, without a copy, if
 * @timeout_ns is COHORT_FOREVER; else with a copy of it in the staging memory.
 *
 * Blocks up to @timeout_ns, and besides while it copies, and as a collective may before
 * it is queued, but with COHORT_LAUNCH_TOGETHER for the other ranks' calls no longer
 * than @timeout_ns.  Threads as for the collectives: one at a time for a communicator.
 * The thread is inside until the call returns, also while it waits, but an abort does
 * not wait for a thread that waits.  Not in a batch (COHORT_STATE), nor while the
 * communicator's own stream is being captured (COHORT_UNSUPPORTED).
 *
 * COHORT_OK: done, the output may be read; COHORT_TIMED_OUT; COHORT_INVALID with the
 * argument and its value; COHORT_BUSY, also after a call that has timed out, see above;
 * COHORT_NO_MEMORY or COHORT_CUDA if the staging memory could not be made (nothing has
 * happened); COHORT_WEDGED: an abort did not complete, and buffers must not be freed; the
 * others as for the collectives and cohort_wait().
 */

/*
 * cohort_all_reduce_host - combine a buffer across ranks, result on every rank
 * @data: @count elements of @type, read and written
 * @op:   enum cohort_op, or a premultiplied sum
 */
COHORT_API int cohort_all_reduce_host(struct cohort_comm *comm, void *data,
                                      size_t count, int type, int op,
                                      uint64_t timeout_ns);

/*
 * cohort_broadcast_host - copy a buffer from rank @root to every rank
 * @data: @count elements of @type, on @root read, elsewhere written
 */
COHORT_API int cohort_broadcast_host(struct cohort_comm *comm, void *data,
                                     size_t count, int type, int root,
                                     uint64_t timeout_ns);

/*
 * cohort_reduce_host - combine a buffer across ranks, result on rank @root
 * @data: @count elements of @type, read; on @root also written
 */
COHORT_API int cohort_reduce_host(struct cohort_comm *comm, void *data,
                                  size_t count, int type, int op, int root,
                                  uint64_t timeout_ns);

/*
 * cohort_all_gather_host     - as cohort_all_gather(),
 * cohort_reduce_scatter_host - cohort_reduce_scatter(),
 * cohort_gather_host         - cohort_gather(),
 * cohort_scatter_host        - cohort_scatter(),
 * cohort_all_to_all_host     - cohort_all_to_all(),
 * cohort_send_host           - cohort_send(),
 * cohort_recv_host           - and cohort_recv(): buffers as there
 */
COHORT_API int cohort_all_gather_host(struct cohort_comm *comm,
                                      const void *send, void *recv,
                                      size_t count, int type,
                                      uint64_t timeout_ns);
COHORT_API int cohort_reduce_scatter_host(struct cohort_comm *comm,
                                          const void *send, void *recv,
                                          size_t count, int type, int op,
                                          uint64_t timeout_ns);
COHORT_API int cohort_gather_host(struct cohort_comm *comm, const void *send,
                                  void *recv, size_t count, int type, int root,
                                  uint64_t timeout_ns);
COHORT_API int cohort_scatter_host(struct cohort_comm *comm, const void *send,
                                   void *recv, size_t count, int type, int root,
                                   uint64_t timeout_ns);
COHORT_API int cohort_all_to_all_host(struct cohort_comm *comm,
                                      const void *send, void *recv,
                                      size_t count, int type,
                                      uint64_t timeout_ns);
COHORT_API int cohort_send_host(struct cohort_comm *comm, const void *send,
                                size_t count, int type, int peer,
                                uint64_t timeout_ns);
COHORT_API int cohort_recv_host(struct cohort_comm *comm, void *recv,
                                size_t count, int type, int peer,
                                uint64_t timeout_ns);

/* ---- reductions of one's own ------------------------------------------ */

/* Where the scalar of a premultiplied sum is: values are NCCL's. */
enum cohort_scalar {
	COHORT_SCALAR_DEVICE = 0, /* memory of the rank's device, read whenever
	                             an operation with it runs */
	COHORT_SCALAR_HOST = 1,   /* memory of the host, read by the call */
};

/*
 * cohort_premul_sum_create - a sum of what each rank multiplies before
 * cohort_op_destroy        - it is not needed any more
 * @scalar:    one element of @type: this rank's factor; COHORT_SCALAR_DEVICE:
 *             borrowed until the operation is destroyed and all that used it is done
 * @type:      enum cohort_type, of the tensors that it can be used with
 * @residence: enum cohort_scalar
 * @op:        what to give as an @op, on this communicator only
 *
 * For every @op of a reduction, where the other ranks must give such a sum of their
 * own, too; the scalars may differ.  A communicator has room for 64 at a time.  May
 * be destroyed as soon as the last call that uses it has returned, in a batch the end
 * of that; is gone after an abort, and with its communicator.  One submitting thread
 * at a time; neither blocks.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value (an @op that is no such
 * one, or of another communicator); COHORT_BUSY; COHORT_OWNER; COHORT_STATE if closed;
 * COHORT_NCCL, and the group goes on: so, too, if NCCL had no memory, of which it has
 * no result of its own.  Create: COHORT_NO_MEMORY if there are 64 already; COHORT_CUDA,
 * and the group goes on; the cause, or COHORT_STALE, as the collectives do.  What
 * destroy was given, and was one, is none any more whatever the answer, but for
 * COHORT_BUSY, COHORT_OWNER and COHORT_STATE.
 */
COHORT_API int cohort_premul_sum_create(struct cohort_comm *comm,
                                        const void *scalar, int type,
                                        int residence, int *op);
COHORT_API int cohort_op_destroy(struct cohort_comm *comm, int op);

/* ---- completion ------------------------------------------------------- */

/*
 * cohort_wait - wait for a ticket
 * @ticket:     of this communicator
 * @timeout_ns: how long; 0: only test; COHORT_FOREVER
 *
 * Any thread, any number of times; once it was COHORT_OK or a cause, the
 * answer stays the same.  Blocks up to @timeout_ns, and while an abort is
 * under way at most for the rest of the abort deadline beyond that cause.
 *
 * COHORT_OK: done, the output may be read; the status of the cause: cut short,
 * outputs are undefined, no buffer can be touched any more; COHORT_WEDGED: an
 * abort did not complete, the buffers must not be freed; COHORT_TIMED_OUT:
 * nothing changed, ask again; COHORT_INVALID for a ticket that was never given
 * out; COHORT_UNSUPPORTED for COHORT_CAPTURED.
 */
COHORT_API int cohort_wait(struct cohort_comm *comm, uint64_t ticket,
                           uint64_t timeout_ns);

/*
 * cohort_synchronize - wait for everything submitted so far on this rank
 *
 * As cohort_wait() on the last ticket and every one before it; COHORT_OK with
 * none.
 */
COHORT_API int cohort_synchronize(struct cohort_comm *comm,
                                  uint64_t timeout_ns);

/*
 * cohort_stream_after - a stream waits for a ticket, on the device
 * @ticket: of this communicator
 * @stream: of the rank's device; what is queued on it from now on starts after
 *          the operation of @ticket is done
 *
 * The calling thread does not wait.  If the operation is cut short the stream
 * goes on: the ticket tells.  One submitting thread at a time.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_BUSY; COHORT_OWNER; COHORT_STATE; the cause
 * if the group has one, or COHORT_STALE, as for the collectives; COHORT_UNSUPPORTED for
 * a stream that is being captured; COHORT_CUDA (nothing was queued).
 */
COHORT_API int cohort_stream_after(struct cohort_comm *comm, uint64_t ticket,
                                   void *stream);

/*
 * cohort_after_stream - the communicator's own stream waits for a stream
 * @stream: of the rank's device; what is queued on cohort_comm_stream() from
 *          now on starts after what is queued on @stream now
 *
 * Threads, blocking and results as for cohort_stream_after().
 */
COHORT_API int cohort_after_stream(struct cohort_comm *comm, void *stream);

/* ---- device memory ---------------------------------------------------- */

/*
 * cohort_alloc - memory on the rank's device
 * cohort_free  - give it back; NULL is allowed and does nothing
 * @bytes: at least 1
 *
 * So that one program runs on both platforms: cudaMalloc() and cudaFree() on
 * the rank's device.  Memory must not be freed while an operation uses it.
 * cohort_free() may block as cudaFree() may: on work of the device.  Both wait while a
 * collective is being launched, as cohort_quiet_begin() does.
 *
 * COHORT_OK; COHORT_INVALID; COHORT_NO_MEMORY; COHORT_CUDA; COHORT_BUSY;
 * COHORT_OWNER; COHORT_STATE.  Both work after the group has ended with a
 * cause, so that a worker can clean up.
 */
COHORT_API int cohort_alloc(struct cohort_comm *comm, size_t bytes,
                            void **memory);
COHORT_API int cohort_free(struct cohort_comm *comm, void *memory);

/*
 * cohort_quiet_begin - keep collectives of this process from being launched
 * cohort_quiet_end   - let them
 *
 * For a program's own memory operations while ranks are at work in other threads:
 * cudaMalloc(), cudaFree(), cudaHostAlloc(), cudaDeviceEnablePeerAccess(), a copy of
 * pageable memory, the first launch of a kernel.  On one device they may wait for
 * kernels on all devices of the process.  Between the launches of a collective's first
 * and last rank such a wait would never end.  The library keeps its own memory
 * operations out of that time, and these two keep the program's out:
 *
 *	cohort_quiet_begin();
 *	cudaFree(old);
 *	cohort_quiet_end();
 *
 * They are for threads that are no rank's, and for those of ranks where several groups
 * work on a device (see "Launching together").  They nest, and any number of threads may
 * be between them.  They are of the thread: end in the one that began; its exit ends
 * all.  Groups with options.launch `ahead` are not kept from launching, nor are sends and
 * receives alone.
 *
 * Between them keep it short, and wait for no other thread, nor for work of a device that
 * does: before a copy of pageable memory wait for what its stream has to do.  Calls of
 * the library that would wait for the end are refused with COHORT_STATE, and nothing has
 * happened: collectives, also in a batch, cohort_comm_split(), _join() and _close(),
 * cohort_group_open(), _run(), _respawn() and _close(), cohort_free() of registered
 * memory after an abort, and what waits for the launch of a call with host memory that
 * has timed out.  What was not ended within 30 s is not waited for any more.
 *
 * Begin blocks while a collective is being launched, which is short; if a launch hangs,
 * until its group is aborted, a minute at most.
 *
 * COHORT_OK; end: COHORT_STATE without a begin of this thread.
 */
COHORT_API int cohort_quiet_begin(void);
COHORT_API int cohort_quiet_end(void);

/*
 * cohort_alloc_registered - memory of NCCL's own, registered with the communicator
 * cohort_register         - register memory that the caller has
 * cohort_deregister       - the end of that
 * @memory: @bytes on the rank's device, which is not to be freed before it was
 *          deregistered, or all of it was closed
 * @registration: for cohort_deregister()
 *
 * Collectives on registered memory may go without copies in between.  By
 * ncclMemAlloc() and ncclCommRegister(); cohort_free() gives back what
 * cohort_alloc_registered() gave, and deregisters it before.
 *
 * Warning: as NVIDIA documents, memory of cudaMalloc() (and so cohort_alloc()) that is
 * registered is not safe: operations may hang, and a failure or an abort may crash.
 * Register what comes from ncclMemAlloc(), or use cohort_alloc_registered().  Windows
 * (ncclCommWindowRegister()) are not offered: in NCCL 2.28 the kernels that use
 * symmetric ones do not see an abort, and could never be ended.
 *
 * After an abort registrations are gone; cohort_deregister() then only forgets, and
 * cohort_free() of such memory waits until the communicator is given back, up to the
 * abort deadline, else answers COHORT_WEDGED: the memory stays.  One submitting
 * thread at a time; else no call blocks but as cudaMalloc() and cudaFree() may.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value; COHORT_NO_MEMORY;
 * COHORT_CUDA, COHORT_NCCL (nothing has changed); COHORT_BUSY; COHORT_OWNER;
 * COHORT_STATE if closed, and by cohort_free() for memory that is registered
 * otherwise; alloc and register: the cause, or COHORT_STALE, as the collectives do.
 */
COHORT_API int cohort_alloc_registered(struct cohort_comm *comm, size_t bytes,
                                       void **memory);
COHORT_API int cohort_register(struct cohort_comm *comm, void *memory,
                               size_t bytes, void **registration);
COHORT_API int cohort_deregister(struct cohort_comm *comm, void *registration);

/*
 * cohort_copy - copy bytes, in stream order
 * @dst, @src: @bytes of host memory or of the rank's device, each; @src is
 *             borrowed until the copy is done
 *
 * cudaMemcpyAsync() with the direction found from the pointers, then a ticket
 * that is not handed out but that cohort_synchronize() waits for.  Pageable
 * host memory may make it block as CUDA says, and in a program with several groups
 * wants a quiet section (see "Launching together").  Results as for the collectives,
 * except that peers are not involved: of COHORT_CUDA and COHORT_NO_MEMORY nothing was
 * copied and the group goes on, unless only the ticket has failed, behind the copy.
 */
COHORT_API int cohort_copy(struct cohort_comm *comm, void *dst, const void *src,
                           size_t bytes, void *stream);

#ifdef __cplusplus
}
#endif

#endif
