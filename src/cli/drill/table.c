/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The outcome of every fault in every place, or why the fault is impossible there
 */

#include "cli/drill/drill.h"

#define PEACE                                                                  \
	{                                                                      \
		.kind = COHORT_VERDICT_NONE                                    \
	}
#define ENDS(kind_, blame_, bound_, says_)                                     \
	{                                                                      \
		.kind = COHORT_VERDICT_##kind_, .blame = (blame_),             \
		.bound = (bound_), .says = (says_)                             \
	}
#define CANNOT(why)                                                            \
	{                                                                      \
		.impossible = (why)                                            \
	}

/* Outcomes that all places where a rank calls have. */
#define ABORTS                                                                 \
	[BY_TWO_ABORTS] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),             \
	[BY_SIGNAL] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill")
#define EXITS [BY_EXIT] = ENDS(THREAD_EXITED, VICTIM, AT_ONCE, "has exited")
#define ASYNC_ERRORS                                                           \
	[BY_ASYNC_ERROR] = ENDS(ASYNC_ERROR, VICTIM, BY_PROBER,                \
	                        "native communicator has failed"),             \
	[BY_CUDA_ERROR] = ENDS(CUDA_ERROR, VICTIM, BY_PROBER, "has failed"),   \
	[BY_DEVICE_LOST] = ENDS(DEVICE_LOST, VICTIM, BY_PROBER, "has failed")
#define REMOTE(blame_, says_) ENDS(REMOTE, blame_, BY_DEADLINE, says_)
#define MISMATCHES(first, second)                                              \
	[BY_COUNT] = ENDS(DIFFERENT_CALL, ODD_ONE, AT_ONCE, first),            \
	[BY_TYPE] = ENDS(DIFFERENT_CALL, ODD_ONE, AT_ONCE, first),             \
	[BY_OPERATION] = ENDS(DIFFERENT_CALL, ODD_ONE, AT_ONCE, first),        \
	[BY_ROOT] = ENDS(DIFFERENT_CALL, ODD_ONE, AT_ONCE, second),            \
	[BY_ORDER] = ENDS(DIFFERENT_CALL, ODD_ONE, AT_ONCE, first)

#define HAVE_OTHERS                                                            \
	CANNOT("The ranks of other processes are seen; see the other faults.")
#define NOT_COMPARED                                                           \
	CANNOT("Sends and receives are not compared between processes, and "   \
	       "NCCL leaves those that differ undefined.")
#define INIT_FAILS(says_)                                                      \
	{                                                                      \
		.kind = COHORT_VERDICT_NATIVE_ERROR, .bound = AT_ONCE,         \
		.says = (says_), .leaves = true                                \
	}
#define KILLED [BY_KILL] = ENDS(PROCESS_EXITED, LEADER, AT_ONCE, "which drove")
#define PAUSED [BY_PAUSE] = PEACE
#define UNNAMED                                                                \
	[BY_UNLINK] =                                                          \
		CANNOT("A group that is open has nothing that has a name.")
/* What befalls a process, in places where a rank calls. */
#define PROCESS(blame_)                                                        \
	KILLED, PAUSED,                                                        \
		[BY_STOP] = ENDS(PROCESS_STOPPED, blame_, BY_DEADLINE,         \
	                         ", is stopped"),                              \
		[BY_DESCRIPTORS] = PEACE, UNNAMED

/* The victim leaves while others wait for it. */
#define DEPARTURES                                                             \
	[BY_RETURN] = ENDS(LEFT, VICTIM, AT_ONCE, "its worker returned 0"),    \
	[BY_CLOSING] =                                                         \
		ENDS(LEFT, VICTIM, AT_ONCE, "its communicator was closed")
/* A rank gives up its wait for the victim, whose absence is of kind @kind_. */
#define GIVES_UP(kind_)                                                        \
	[BY_TIMEOUT] = ENDS(kind_, VICTIM, AT_ONCE, " gave up first (")
/* The victim waits alone for ranks whose absence is of kind @kind_. */
#define IS_ALONE(kind_)                                                        \
	[BY_ALONE] = { .kind = COHORT_VERDICT_##kind_,                         \
		       .bound = BY_DEADLINE,                                   \
		       .says = "alone waits in",                               \
		       .least = 3 }
#define NO_RANK_LEAVES(why)                                                    \
	[BY_RETURN] = CANNOT(why), [BY_CLOSING] = CANNOT(why),                 \
	[BY_TIMEOUT] = CANNOT(why), [BY_ALONE] = CANNOT(why)
#define REFUSES_STREAMS [BY_STREAM] = PEACE, [BY_DEAD_STREAM] = PEACE
#define TAKES_NO_STREAM(why)                                                   \
	[BY_STREAM] = CANNOT(why), [BY_DEAD_STREAM] = CANNOT(why)
#define NO_CHILD                                                               \
	[BY_SIBLING] =                                                         \
		CANNOT("A group's own communicators have no siblings."),       \
	[BY_PAUSED_PARENT] =                                                   \
		CANNOT("A group's own communicators have no parent.")

static const struct cell table[PLACES][TROUBLES] = {
	[AT_OPEN] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE,
		                    "ncclCommInitRank"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE,
		                     "ncclCommInitAll"),
		[BY_COUNT] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE,
		                  "ncclCommInitRank"),
		[BY_TYPE] = CANNOT("Connecting has no element type."),
		[BY_OPERATION] = CANNOT("Connecting has no operation."),
		[BY_ROOT] = CANNOT("Connecting has no root."),
		[BY_ORDER] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE,
		                  "ncclCommInitRank"),
		[BY_ERROR] = ENDS(NATIVE_ERROR, NOBODY, AT_ONCE,
		                  "ncclCommInitAll: internal error"),
		[BY_ASYNC_ERROR] = CANNOT("There is no communicator yet that could have an error."),
		[BY_CUDA_ERROR] = CANNOT("There is no work yet that could fail on a device."),
		[BY_DEVICE_LOST] = CANNOT("There is no work yet that could fail on a device."),
		[BY_STUCK] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE,
		                  "ncclCommInitAll"),
		[BY_EXIT] = CANNOT("No thread is bound to a rank before it is open; a thread that exits before it joins is a missing rank."),
		[BY_TWO_ABORTS] = CANNOT("There is no handle before the group is "
		                         "open."),
		[BY_SIGNAL] = CANNOT("There is no handle before the group is "
		                     "open."),
		[BY_MEMORY] = ENDS(NATIVE_ERROR, NOBODY, AT_ONCE,
		                   "ncclCommInitAll: unhandled system error"),
		[BY_REMOTE] = CANNOT("A rank that does not open is a missing rank, in whatever process."),
		[BY_GRAPH] = CANNOT("A group that is being opened has captured nothing yet."),
		NO_RANK_LEAVES("There is no communicator yet that a rank could wait in or leave."),
		TAKES_NO_STREAM("Connecting takes no stream."),
		NO_CHILD,
		[BY_KILL] = { .kind = COHORT_VERDICT_PROCESS_EXITED,
		              .bound = AT_ONCE,
		              .says = "was being opened",
		              .leaves = true },
		PAUSED,
		[BY_STOP] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, "not come"),
		[BY_DESCRIPTORS] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, "not come"),
		[BY_UNLINK] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, "not come"),
	},
	[AT_FIRST] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(NEVER_CALLED, VICTIM, BY_DEADLINE,
		                    "all_reduce"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(NEVER_CALLED, VICTIM, BY_DEADLINE,
		                     "all_reduce"),
		MISMATCHES("all_reduce", "broadcast"),
		[BY_ERROR] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE, "all_reduce"),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(NOT_STARTED, VICTIM, BY_DEADLINE,
		                  "all_reduce"),
		EXITS,
		ABORTS,
		[BY_MEMORY] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE,
		                   "out of memory"),
		[BY_REMOTE] = REMOTE(NOBODY, "all_reduce"),
		[BY_GRAPH] = CANNOT("A captured call is not part of a call; only the end waits for graphs."),
		DEPARTURES,
		GIVES_UP(NEVER_CALLED),
		IS_ALONE(NEVER_CALLED),
		REFUSES_STREAMS,
		NO_CHILD,
		PROCESS(LEADER),
	},
	[AT_CALL] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "all_reduce"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE,
		                     "all_reduce"),
		MISMATCHES("all_reduce", "broadcast"),
		[BY_ERROR] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE, "all_reduce"),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(NOT_STARTED, VICTIM, BY_DEADLINE,
		                  "all_reduce"),
		EXITS,
		ABORTS,
		[BY_MEMORY] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE,
		                   "out of memory"),
		[BY_REMOTE] = REMOTE(NOBODY, "all_reduce"),
		[BY_GRAPH] = CANNOT("A captured call is not part of a call; only the end waits for graphs."),
		DEPARTURES,
		GIVES_UP(OUTSIDE),
		IS_ALONE(OUTSIDE),
		REFUSES_STREAMS,
		NO_CHILD,
		PROCESS(LEADER),
	},
	[AT_BATCH] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "all_reduce"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE,
		                     "all_reduce"),
		MISMATCHES("batch", "batch"),
		[BY_ERROR] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE, "batch"),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(NOT_STARTED, VICTIM, BY_DEADLINE,
		                  "all_reduce"),
		EXITS,
		ABORTS,
		[BY_MEMORY] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE,
		                   "out of memory"),
		[BY_REMOTE] = REMOTE(NOBODY, "batch of"),
		[BY_GRAPH] = CANNOT("A captured call is not part of a call; only the end waits for graphs."),
		DEPARTURES,
		GIVES_UP(OUTSIDE),
		IS_ALONE(OUTSIDE),
		REFUSES_STREAMS,
		NO_CHILD,
		PROCESS(LEADER),
	},
	[AT_GROUP] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(NOT_FINISHED, NOBODY, BY_DEADLINE,
		                    "all_reduce"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(NOT_FINISHED, NOBODY, BY_DEADLINE,
		                     "all_reduce"),
		[BY_COUNT] = CANNOT("One count is given for all ranks."),
		[BY_TYPE] = CANNOT("One type is given for all ranks."),
		[BY_OPERATION] = CANNOT("One operation is given for all ranks."),
		[BY_ROOT] = CANNOT("One root is given for all ranks."),
		[BY_ORDER] = CANNOT("One thread makes all ranks' calls, in one order."),
		[BY_ERROR] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE, "all_reduce"),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(NOT_STARTED, FIRST, BY_DEADLINE,
		                  "all_reduce"),
		[BY_EXIT] = CANNOT("The thread that calls for all ranks is bound "
		                   "to none of them."),
		[BY_TWO_ABORTS] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_SIGNAL] = CANNOT("A handle comes from a communicator, and a group that was split takes no group calls."),
		[BY_MEMORY] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE,
		                   "out of memory"),
		[BY_REMOTE] = CANNOT("All ranks of a group are of this process."),
		[BY_GRAPH] = CANNOT("A captured call is not part of a call; only the end waits for graphs."),
		NO_RANK_LEAVES("One thread calls for all ranks."),
		REFUSES_STREAMS,
		NO_CHILD,
		PROCESS(LEADER),
	},
	[AT_TRANSFER] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "send"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "send"),
		[BY_COUNT] = ENDS(DIFFERENT_CALL, NOBODY, AT_ONCE,
		                  "recv of 999 float32 from rank"),
		[BY_TYPE] = ENDS(DIFFERENT_CALL, NOBODY, AT_ONCE,
		                 "recv of 1000 int32 from rank"),
		[BY_OPERATION] = ENDS(CYCLE, NOBODY, BY_DEADLINE, "send"),
		/* The victim receives from rank 0, which waits for nobody. */
		[BY_ROOT] = { .kind = COHORT_VERDICT_OUTSIDE,
		              .blame = FIRST,
		              .bound = BY_DEADLINE,
		              .says = "send",
		              .least = 4 },
		[BY_ORDER] = ENDS(CYCLE, NOBODY, BY_DEADLINE, "send"),
		[BY_ERROR] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE, "recv"),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(NOT_STARTED, VICTIM, BY_DEADLINE, "send"),
		EXITS,
		ABORTS,
		[BY_MEMORY] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE,
		                   "out of memory"),
		[BY_REMOTE] = REMOTE(VICTIM, "send"),
		[BY_GRAPH] = CANNOT("A captured call is not part of a call; only the end waits for graphs."),
		DEPARTURES,
		GIVES_UP(OUTSIDE),
		[BY_ALONE] = CANNOT("A rank that is alone with its message waits for a missing rank."),
		REFUSES_STREAMS,
		NO_CHILD,
		PROCESS(VICTIM),
	},
	[AT_WAIT] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(NOT_FINISHED, NOBODY, BY_DEADLINE,
		                    "all_reduce"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(NOT_FINISHED, NOBODY, BY_DEADLINE,
		                     "all_reduce"),
		[BY_COUNT] = CANNOT("A wait has a ticket and nothing else."),
		[BY_TYPE] = CANNOT("A wait has a ticket and nothing else."),
		[BY_OPERATION] = CANNOT("A wait has a ticket and nothing else."),
		[BY_ROOT] = CANNOT("A wait has a ticket and nothing else."),
		[BY_ORDER] = PEACE,
		[BY_ERROR] = CANNOT("A wait makes no native call that could "
		                    "fail on the simulated devices."),
		ASYNC_ERRORS,
		[BY_STUCK] = CANNOT("A wait makes no native call that could be stuck on the simulated devices."),
		EXITS,
		ABORTS,
		[BY_MEMORY] = CANNOT("A wait allocates no memory."),
		[BY_REMOTE] = CANNOT("Nobody can tell whether a rank of another process has called; see the missing rank of a call."),
		[BY_GRAPH] = CANNOT("A captured call is not part of a call; only the end waits for graphs."),
		[BY_RETURN] = PEACE,
		[BY_CLOSING] = PEACE,
		[BY_TIMEOUT] = ENDS(NOT_FINISHED, NOBODY, AT_ONCE,
		                    " gave up first ("),
		[BY_ALONE] = CANNOT("Where a rank waits alone, the others have not called."),
		TAKES_NO_STREAM("A wait has a ticket and nothing else."),
		NO_CHILD,
		KILLED,
		[BY_PAUSE] = CANNOT("The device of a process that is stopped goes on; a simulated one stops with it, and is a late rank."),
		[BY_STOP] = CANNOT("The device of a process that is stopped goes on; a simulated one stops with it, and is a late rank."),
		[BY_DESCRIPTORS] = PEACE,
		UNNAMED,
	},
	[AT_SPLIT] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "comm_split"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE,
		                     "comm_split"),
		[BY_COUNT] = CANNOT("A split has no count, and colors and keys "
		                    "may differ."),
		[BY_TYPE] = CANNOT("A split has no element type."),
		[BY_OPERATION] = ENDS(DIFFERENT_CALL, ODD_ONE, AT_ONCE,
		                      "comm_split"),
		[BY_ROOT] = CANNOT("A split has no root."),
		/* The order of the new communicator and its parent. */
		[BY_ORDER] =
			ENDS(ORDER, ODD_ONE, BY_DEADLINE, "all_reduce"),
		[BY_ERROR] = ENDS(NATIVE_ERROR, FIRST, AT_ONCE, "comm_split"),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE,
		                  "ncclCommSplit"),
		EXITS,
		ABORTS,
		[BY_MEMORY] = ENDS(NATIVE_ERROR, FIRST, AT_ONCE, "comm_split"),
		[BY_REMOTE] = CANNOT("Ranks that split connect, so a rank missing from another process is a stuck native call."),
		[BY_GRAPH] = CANNOT("A captured call is not part of a call; only the end waits for graphs."),
		DEPARTURES,
		[BY_TIMEOUT] = CANNOT("A split has no timeout of its own."),
		IS_ALONE(OUTSIDE),
		TAKES_NO_STREAM("A split takes no stream."),
		NO_CHILD,
		PROCESS(LEADER),
	},
	[AT_CHILD] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "all_reduce"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(OUTSIDE, VICTIM, BY_DEADLINE,
		                     "all_reduce"),
		MISMATCHES("all_reduce", "broadcast"),
		[BY_ERROR] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE, "all_reduce"),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(NOT_STARTED, VICTIM, BY_DEADLINE,
		                  "all_reduce"),
		EXITS,
		ABORTS,
		[BY_MEMORY] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE,
		                   "out of memory"),
		[BY_REMOTE] = CANNOT("Ranks that split connect, so a rank missing from another process is a stuck native call."),
		[BY_GRAPH] = CANNOT("A captured call is not part of a call; only the end waits for graphs."),
		DEPARTURES,
		GIVES_UP(OUTSIDE),
		IS_ALONE(OUTSIDE),
		REFUSES_STREAMS,
		[BY_SIBLING] = { .kind = COHORT_VERDICT_OUTSIDE,
		                 .blame = VICTIM,
		                 .bound = BY_DEADLINE,
		                 .says = "in all_reduce 2 of group \"drill.1\"",
		                 .least = 3 },
		[BY_PAUSED_PARENT] = PEACE,
		PROCESS(VICTIM),
	},
	[AT_RESPAWN] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = CANNOT("One thread respawns for all ranks."),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE,
		                     "ncclCommInitAll"),
		[BY_COUNT] = CANNOT("One thread respawns for all ranks."),
		[BY_TYPE] = CANNOT("A respawn has no element type."),
		[BY_OPERATION] = CANNOT("A respawn has no operation."),
		[BY_ROOT] = CANNOT("A respawn has no root."),
		[BY_ORDER] = CANNOT("One thread respawns for all ranks."),
		[BY_ERROR] = ENDS(NATIVE_ERROR, NOBODY, AT_ONCE,
		                  "ncclCommInitAll: internal error"),
		[BY_ASYNC_ERROR] = CANNOT("There is no communicator yet that could have an error."),
		[BY_CUDA_ERROR] = CANNOT("There is no work yet that could fail on a device."),
		[BY_DEVICE_LOST] = CANNOT("There is no work yet that could fail on a device."),
		[BY_STUCK] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE,
		                  "ncclCommInitAll"),
		[BY_EXIT] = PEACE,
		[BY_TWO_ABORTS] = PEACE,
		[BY_SIGNAL] = PEACE,
		[BY_MEMORY] = ENDS(NATIVE_ERROR, NOBODY, AT_ONCE,
		                   "ncclCommInitAll: unhandled system error"),
		[BY_REMOTE] = CANNOT("All ranks of a group are of this process."),
		[BY_GRAPH] = CANNOT("A group that is being opened has captured nothing yet."),
		NO_RANK_LEAVES("One thread respawns for all ranks."),
		TAKES_NO_STREAM("Connecting takes no stream."),
		NO_CHILD,
		[BY_KILL] = PEACE, /* the others respawn without its ranks */
		PAUSED,
		[BY_STOP] = ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, "not come"),
		[BY_DESCRIPTORS] = INIT_FAILS("ncclCommInitRank"),
		UNNAMED,
	},
	[AT_CLOSE] = {
		[BY_NOTHING] = PEACE,
		[BY_ABSENCE] = ENDS(ABORTED, FIRST, BY_DEADLINE, "closed after"),
		[BY_LATE] = PEACE,
		[BY_TOO_LATE] = ENDS(ABORTED, FIRST, BY_DEADLINE,
		                     "closed after"),
		[BY_COUNT] = CANNOT("A close has a group and nothing else."),
		[BY_TYPE] = CANNOT("A close has a group and nothing else."),
		[BY_OPERATION] =
			CANNOT("A close has a group and nothing else."),
		[BY_ROOT] = CANNOT("A close has a group and nothing else."),
		[BY_ORDER] = CANNOT("One thread closes all ranks."),
		[BY_ERROR] = CANNOT("The simulated devices have no error that strikes a close."),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(NOT_STARTED, VICTIM, BY_DEADLINE,
		                  "all_reduce"),
		EXITS,
		ABORTS,
		[BY_MEMORY] = CANNOT("A close allocates no memory."),
		[BY_REMOTE] = CANNOT("A close ends every wait, wherever the missing rank is."),
		[BY_GRAPH] = CANNOT("It ends wedged, which frees nothing, and a cell must leave nothing behind."),
		[BY_RETURN] = CANNOT("A group that runs workers cannot be closed."),
		[BY_CLOSING] = PEACE,
		[BY_TIMEOUT] = CANNOT("A group that runs workers cannot be closed."),
		[BY_ALONE] = CANNOT("One thread closes all ranks."),
		TAKES_NO_STREAM("A close has a group and nothing else."),
		NO_CHILD,
		KILLED,
		PAUSED,
		[BY_STOP] = PEACE,
		[BY_DESCRIPTORS] = PEACE,
		UNNAMED,
	},
	[AT_ABORT] = {
		[BY_NOTHING] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_ABSENCE] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_LATE] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_TOO_LATE] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_COUNT] = CANNOT("After an abort calls are not compared any "
		                    "more."),
		[BY_TYPE] = CANNOT("After an abort calls are not compared any "
		                   "more."),
		[BY_OPERATION] = CANNOT("After an abort calls are not compared "
		                        "any more."),
		[BY_ROOT] = CANNOT("After an abort calls are not compared any "
		                   "more."),
		[BY_ORDER] = CANNOT("After an abort calls are not compared any "
		                    "more."),
		[BY_ERROR] = ENDS(NATIVE_ERROR, VICTIM, AT_ONCE, "all_reduce"),
		ASYNC_ERRORS,
		[BY_STUCK] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_EXIT] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		ABORTS,
		[BY_MEMORY] = CANNOT("An abort allocates no memory."),
		[BY_REMOTE] = CANNOT("An abort ends every wait, wherever the missing rank is."),
		[BY_GRAPH] = CANNOT("It ends wedged, which frees nothing, and a cell must leave nothing behind."),
		NO_RANK_LEAVES("After an abort no rank waits for another."),
		TAKES_NO_STREAM("After an abort a call gets the cause, whatever its stream."),
		NO_CHILD,
		[BY_KILL] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_PAUSE] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_STOP] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		[BY_DESCRIPTORS] = ENDS(ABORTED, NOBODY, AT_ONCE, "drill"),
		UNNAMED,
	},
};

/* What is different where ranks are spread over processes. */
static const struct {
	enum place place;
	enum trouble trouble;
	struct cell cell;
} spread[] = {
	/* Ranks of several processes are connected by another function. */
	{ AT_OPEN, BY_TOO_LATE,
	  ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, "ncclCommInitRank") },
	{ AT_OPEN, BY_STUCK,
	  ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, "ncclCommInitRank") },
	{ AT_OPEN, BY_ERROR, INIT_FAILS("ncclCommInitRank: internal error") },
	{ AT_OPEN, BY_MEMORY,
	  INIT_FAILS("ncclCommInitRank: unhandled system error") },
	{ AT_RESPAWN, BY_TOO_LATE,
	  ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, "ncclCommInitRank") },
	{ AT_RESPAWN, BY_STUCK,
	  ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, "ncclCommInitRank") },
	{ AT_RESPAWN, BY_ERROR,
	  INIT_FAILS("ncclCommInitRank: internal error") },
	{ AT_RESPAWN, BY_MEMORY,
	  INIT_FAILS("ncclCommInitRank: unhandled system error") },
	/* One thread calls for the ranks of each process. */
	{ AT_GROUP, BY_STUCK,
	  ENDS(NOT_STARTED, LEADER, BY_DEADLINE, "all_reduce") },
	/* Each process tells of its own half, and any of them may be first. */
	{ AT_TRANSFER, BY_STUCK,
	  ENDS(NOT_STARTED, VICTIM, BY_DEADLINE, "is inside the native call") },
	{ AT_FIRST, BY_REMOTE, HAVE_OTHERS },
	{ AT_CALL, BY_REMOTE, HAVE_OTHERS },
	{ AT_BATCH, BY_REMOTE, HAVE_OTHERS },
	{ AT_TRANSFER, BY_REMOTE, HAVE_OTHERS },
	{ AT_TRANSFER, BY_COUNT, NOT_COMPARED },
	{ AT_TRANSFER, BY_TYPE, NOT_COMPARED },
	/* A process asks what the other's rank does when the deadline has passed.  Then
	 * the run of the victim's process is over, as its other ranks are done. */
	{ AT_TRANSFER, BY_RETURN,
	  ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "is busy in the program") },
	{ AT_TRANSFER, BY_CLOSING,
	  ENDS(LEFT, VICTIM, BY_DEADLINE, "has left by cohort_comm_close()") },
};

const struct cell *drill_cell(enum place place, enum trouble trouble,
                              int processes)
{
	const size_t n = sizeof(spread) / sizeof(spread[0]);

	for (size_t i = 0; i < n && processes > 1; i++)
		if (spread[i].place == place && spread[i].trouble == trouble)
			return &spread[i].cell;
	return &table[place][trouble];
}

bool drill_is_scripted(enum place place, enum trouble trouble)
{
#define AT(place) (UINT32_C(1) << (place))
	static const uint32_t places[TROUBLES] = {
		[BY_ABSENCE] = AT(AT_GROUP) | AT(AT_WAIT),
		[BY_LATE] = AT(AT_OPEN) | AT(AT_GROUP) | AT(AT_WAIT) |
		            AT(AT_RESPAWN) | AT(AT_CLOSE),
		[BY_TOO_LATE] = AT(AT_OPEN) | AT(AT_GROUP) | AT(AT_WAIT) |
		                AT(AT_RESPAWN) | AT(AT_CLOSE),
		[BY_ERROR] = UINT32_MAX,
		[BY_ASYNC_ERROR] = UINT32_MAX,
		[BY_CUDA_ERROR] = UINT32_MAX,
		[BY_DEVICE_LOST] = UINT32_MAX,
		[BY_STUCK] = UINT32_MAX,
		[BY_EXIT] = AT(AT_WAIT) | AT(AT_CLOSE),
		[BY_TWO_ABORTS] = AT(AT_GROUP) | AT(AT_WAIT) | AT(AT_CLOSE),
		[BY_SIGNAL] = AT(AT_WAIT) | AT(AT_CLOSE),
		[BY_MEMORY] = UINT32_MAX,
		[BY_TIMEOUT] = AT(AT_WAIT),
		[BY_KILL] = AT(AT_OPEN) | AT(AT_WAIT) | AT(AT_CLOSE),
	};

	return places[trouble] & AT(place);
#undef AT
}

const char *drill_why_not(enum place place, enum trouble trouble)
{
	const bool ends_late = place != AT_OPEN && place != AT_RESPAWN;

	if (drill_is_scripted(place, trouble))
		return "only scripted";
	/* It keeps a message of the drill's size for the rank that is to receive it. */
	if (place == AT_TRANSFER && trouble != BY_NOTHING &&
	    trouble != BY_LATE && trouble != BY_STREAM &&
	    trouble != BY_DEAD_STREAM)
		return "small sends wait for nobody";
	/* Its service threads end when the other processes have hung up. */
	if (trouble == BY_STOP && ends_late)
		return "NCCL's abort waits for it";
	/* It connects once more, to tell its threads to end. */
	if (trouble == BY_DESCRIPTORS && ends_late)
		return "NCCL's end takes some";
	if (trouble == BY_DESCRIPTORS && place == AT_RESPAWN)
		return "its former ranks leave some";
	return NULL;
}

const char *drill_place_name(enum place place)
{
	static const char *const names[PLACES] = {
		[AT_OPEN] = "open",        [AT_FIRST] = "first call",
		[AT_CALL] = "call",        [AT_BATCH] = "batch",
		[AT_GROUP] = "group call", [AT_TRANSFER] = "send/recv",
		[AT_WAIT] = "wait",        [AT_SPLIT] = "split",
		[AT_CHILD] = "child",      [AT_RESPAWN] = "respawn",
		[AT_CLOSE] = "close",      [AT_ABORT] = "abort",
	};

	return names[place];
}

const char *drill_trouble_name(enum trouble trouble)
{
	static const char *const names[TROUBLES] = {
		[BY_NOTHING] = "none",
		[BY_ABSENCE] = "missing rank",
		[BY_LATE] = "late rank under deadline",
		[BY_TOO_LATE] = "late rank over deadline",
		[BY_COUNT] = "different count",
		[BY_TYPE] = "different type",
		[BY_OPERATION] = "different operation",
		[BY_ROOT] = "different root",
		[BY_ORDER] = "different order",
		[BY_ERROR] = "native error",
		[BY_ASYNC_ERROR] = "asynchronous error",
		[BY_CUDA_ERROR] = "CUDA error",
		[BY_DEVICE_LOST] = "device lost",
		[BY_STUCK] = "stuck native call",
		[BY_EXIT] = "thread exit",
		[BY_TWO_ABORTS] = "double abort",
		[BY_SIGNAL] = "abort by signal handler",
		[BY_MEMORY] = "allocation failure",
		[BY_REMOTE] = "remote stall",
		[BY_GRAPH] = "graph alive",
		[BY_RETURN] = "early return",
		[BY_CLOSING] = "early close",
		[BY_TIMEOUT] = "own timeout",
		[BY_ALONE] = "one rank alone",
		[BY_STREAM] = "another device's stream",
		[BY_DEAD_STREAM] = "destroyed stream",
		[BY_SIBLING] = "hang in a sibling",
		[BY_PAUSED_PARENT] = "pause on the parent",
		[BY_KILL] = "process killed",
		[BY_PAUSE] = "process paused",
		[BY_STOP] = "process stopped",
		[BY_DESCRIPTORS] = "out of descriptors",
		[BY_UNLINK] = "file removed",
	};

	return names[trouble];
}

int drill_expected_rank(const struct cell *cell, int ranks, int processes)
{
	switch (cell->blame) {
	case NOBODY:
		break;
	case VICTIM:
		return ranks - 1;
	case ODD_ONE:
		return ranks > 2 ? ranks - 1 : -1;
	case FIRST:
		return 0;
	case LEADER:
		return ranks - ranks / processes;
	}
	return -1;
}
