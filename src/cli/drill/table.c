/* SPDX-License-Identifier: Apache-2.0 */

/*
 * For each fault at each place: the expected outcome, or why the fault is
 * impossible there; the script of the simulator; and the steps of each thread
 */

#include "cli/drill/drill.h"

#include <stdio.h>

#include <cohort/sim.h>

#include "base/util.h"
#include "platform/cuda_abi.h"

#define PEACE .cell.kind = COHORT_VERDICT_NONE
#define ENDS(kind_, blame_, bound_, says_)                                     \
	.cell.kind = COHORT_VERDICT_##kind_, .cell.blame = (blame_),           \
	.cell.bound = (bound_), .cell.says = (says_)
#define ENDS_OF(least_, kind_, blame_, bound_, says_)                          \
	ENDS(kind_, blame_, bound_, says_), .cell.least = (least_)
#define LEAVES(kind_, says_)                                                   \
	ENDS(kind_, NOBODY, AT_ONCE, says_), .cell.leaves = true
#define CANNOT(why) .cell.impossible = (why)
#define BY_ONE_THREAD "One thread acts for all ranks of a process."
#define SCRIPT(kind_, value_)                                                  \
	.of.kind = COHORT_FAULT_##kind_, .of.value = (value_)
#define STEPS(...) .steps = { __VA_ARGS__ }
#define INIT_STUCK(says) ENDS(INIT_STUCK, NOBODY, BY_DEADLINE, says)
#define ERROR(blame, says) ENDS(NATIVE_ERROR, blame, AT_ONCE, says)
#define MISMATCH(says) ENDS(DIFFERENT_CALL, ODD_ONE, AT_ONCE, says)

/* Sets of places and sets of faults */
#define P(place) (UINT32_C(1) << AT_##place)
#define T(trouble) (UINT64_C(1) << BY_##trouble)
#define ANYWHERE UINT32_MAX
#define EVERY UINT64_MAX
#define COLLECTIVES (P(FIRST) | P(CALL) | P(CHILD))
#define CALLS (COLLECTIVES | P(BATCH))
#define OPENS (P(OPEN) | P(RESPAWN))
/* Places where operations are in flight once all ranks have called */
#define UNENDED (P(GROUP) | P(WAIT) | P(CLOSE))
#define ENDINGS (P(CLOSE) | P(ABORT))
#define MISSING (T(ABSENCE) | T(TOO_LATE))
#define SHAPES (T(COUNT) | T(TYPE) | T(OPERATION))
#define DIFFERENCES (SHAPES | T(ROOT) | T(ORDER))
#define HANDLES (T(TWO_ABORTS) | T(SIGNAL))
#define FAILURES (T(ASYNC_ERROR) | T(CUDA_ERROR) | T(DEVICE_LOST))
#define DEPARTURES (T(RETURN) | T(CLOSING))
#define LONERS (DEPARTURES | T(TIMEOUT) | T(ALONE))
#define STREAMS (T(STREAM) | T(DEAD_STREAM))

/* The outcome of a set of faults at a set of places */
struct rule {
	uint32_t places;
	uint64_t troubles;
	struct cell cell;
};

/* The outcomes. The first rule that contains the cell applies. */
static const struct rule rules[] = {
	/* An abort takes precedence over every other outcome. */
	{ P(ABORT),
	  T(NOTHING) | T(ABSENCE) | T(LATE) | T(TOO_LATE) | T(STUCK) | T(EXIT) |
	          T(KILL) | T(PAUSE) | T(STOP) | T(DESCRIPTORS),
	  ENDS(ABORTED, NOBODY, AT_ONCE, "drill") },
	{ P(ABORT), DIFFERENCES | STREAMS | LONERS,
	  CANNOT("After an abort, every call returns the cause.") },

	/* A rank that is late or missing */
	{ ANYWHERE, T(NOTHING) | T(LATE), PEACE },
	{ P(OPEN), T(ABSENCE), INIT_STUCK("ncclCommInitRank") },
	{ P(RESPAWN), T(ABSENCE), CANNOT(BY_ONE_THREAD) },
	{ P(GROUP) | P(RESPAWN), DIFFERENCES | LONERS, CANNOT(BY_ONE_THREAD) },
	{ OPENS, T(TOO_LATE), INIT_STUCK("ncclCommInitAll") },
	{ P(FIRST), MISSING,
	  ENDS(NEVER_CALLED, VICTIM, BY_DEADLINE, "all_reduce") },
	{ CALLS, MISSING, ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "all_reduce") },
	{ P(TRANSFER), MISSING, ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "send") },
	{ P(SPLIT), MISSING, ENDS(OUTSIDE, VICTIM, BY_DEADLINE, "comm_split") },
	{ P(GROUP) | P(WAIT), MISSING,
	  ENDS(NOT_FINISHED, NOBODY, BY_DEADLINE, "all_reduce") },
	{ P(CLOSE), MISSING,
	  ENDS(ABORTED, FIRST, BY_DEADLINE, "the close deadline of") },

	/* Mismatched calls */
	{ COLLECTIVES, SHAPES | T(ORDER), MISMATCH("all_reduce") },
	{ COLLECTIVES, T(ROOT), MISMATCH("broadcast") },
	{ P(BATCH), DIFFERENCES, MISMATCH("batch") },
	{ P(TRANSFER), T(COUNT),
	  ENDS(DIFFERENT_CALL, NOBODY, AT_ONCE,
	       "recv of 999 float32 from rank") },
	{ P(TRANSFER), T(TYPE),
	  ENDS(DIFFERENT_CALL, NOBODY, AT_ONCE,
	       "recv of 1000 int32 from rank") },
	{ P(TRANSFER), T(OPERATION) | T(ORDER),
	  ENDS(CYCLE, NOBODY, BY_DEADLINE, "send") },
	/* The victim receives from rank 0, which waits for no rank. */
	{ P(TRANSFER), T(ROOT),
	  ENDS_OF(4, OUTSIDE, FIRST, BY_DEADLINE, "send") },
	{ P(SPLIT), T(OPERATION), MISMATCH("comm_split") },
	/* The victim calls first in the child, the others first in the
	 * parent. */
	{ P(SPLIT), T(ORDER), ENDS(ORDER, ODD_ONE, BY_DEADLINE, "all_reduce") },
	{ P(SPLIT), T(COUNT) | T(TYPE) | T(ROOT),
	  CANNOT("A split has no count, type or root, and colors and keys may "
	         "differ.") },
	{ P(OPEN), T(COUNT) | T(ORDER), INIT_STUCK("ncclCommInitRank") },
	{ P(OPEN), DIFFERENCES,
	  CANNOT("Connecting has no type, operation or root.") },
	{ P(WAIT), T(ORDER), PEACE },
	{ P(WAIT), DIFFERENCES | STREAMS,
	  CANNOT("A wait has a ticket and nothing else.") },
	{ P(CLOSE), T(ORDER) | T(ALONE),
	  CANNOT("One thread closes all ranks.") },
	{ P(CLOSE), DIFFERENCES | STREAMS,
	  CANNOT("A close has a group and nothing else.") },

	/* Errors of NCCL and of devices */
	{ OPENS, T(ERROR), ERROR(NOBODY, "ncclCommInitAll: internal error") },
	{ OPENS, T(MEMORY),
	  ERROR(NOBODY, "ncclCommInitAll: unhandled system error") },
	{ P(BATCH), T(ERROR), ERROR(VICTIM, "batch") },
	{ P(TRANSFER), T(ERROR), ERROR(VICTIM, "recv") },
	{ P(SPLIT), T(ERROR) | T(MEMORY), ERROR(FIRST, "comm_split") },
	{ P(WAIT), T(ERROR) | T(STUCK),
	  CANNOT("A wait makes no native call that could fail or be stuck on "
	         "the simulated devices.") },
	{ P(CLOSE), T(ERROR),
	  CANNOT("No error of the simulated devices can make a close fail.") },
	{ ANYWHERE, T(ERROR), ERROR(VICTIM, "all_reduce") },
	{ P(WAIT) | ENDINGS, T(MEMORY),
	  CANNOT("A wait, a close and an abort allocate no memory.") },
	{ ANYWHERE, T(MEMORY), ERROR(VICTIM, "out of memory") },
	{ OPENS, FAILURES,
	  CANNOT("There is no communicator yet whose work could fail.") },
	{ ANYWHERE, T(ASYNC_ERROR),
	  ENDS(ASYNC_ERROR, VICTIM, BY_PROBER,
	       "native communicator has failed") },
	{ ANYWHERE, T(CUDA_ERROR),
	  ENDS(CUDA_ERROR, VICTIM, BY_PROBER, "has failed") },
	{ ANYWHERE, T(DEVICE_LOST),
	  ENDS(DEVICE_LOST, VICTIM, BY_PROBER, "has failed") },

	/* A native call that does not return */
	{ OPENS, T(STUCK), INIT_STUCK("ncclCommInitAll") },
	{ P(SPLIT), T(STUCK), INIT_STUCK("ncclCommSplit") },
	{ P(GROUP), T(STUCK),
	  ENDS(NOT_STARTED, FIRST, BY_DEADLINE, "all_reduce") },
	{ P(TRANSFER), T(STUCK),
	  ENDS(NOT_STARTED, VICTIM, BY_DEADLINE, "send") },
	{ ANYWHERE, T(STUCK),
	  ENDS(NOT_STARTED, VICTIM, BY_DEADLINE, "all_reduce") },

	/* Thread exits and aborts */
	{ P(OPEN), T(EXIT),
	  CANNOT("No thread is bound to a rank before it is open; a thread "
	         "that exits before it joins is a missing rank.") },
	{ P(GROUP), T(EXIT),
	  CANNOT("The thread that makes the calls of all ranks is bound to "
	         "none of them.") },
	{ P(RESPAWN), T(EXIT) | HANDLES, PEACE },
	{ ANYWHERE, T(EXIT),
	  ENDS(THREAD_EXITED, VICTIM, AT_ONCE, "has exited") },
	{ P(OPEN), HANDLES,
	  CANNOT("There is no handle before the group is open.") },
	{ P(GROUP), T(SIGNAL),
	  CANNOT("A handle comes from a communicator, and a group that was "
	         "split takes no group calls.") },
	{ ANYWHERE, HANDLES, ENDS(ABORTED, NOBODY, AT_ONCE, "drill") },

	/* Missing ranks of other processes */
	{ P(FIRST) | P(CALL), T(REMOTE),
	  ENDS(REMOTE, NOBODY, BY_DEADLINE, "all_reduce") },
	{ P(BATCH), T(REMOTE), ENDS(REMOTE, NOBODY, BY_DEADLINE, "batch of") },
	{ P(TRANSFER), T(REMOTE), ENDS(REMOTE, VICTIM, BY_DEADLINE, "send") },
	{ P(OPEN), T(REMOTE),
	  CANNOT("A rank that does not open is a missing rank in any "
	         "process.") },
	{ P(WAIT), T(REMOTE),
	  CANNOT("It is unknown whether a rank of another process has called; "
	         "see the missing rank of a call.") },
	{ P(GROUP) | P(RESPAWN), T(REMOTE),
	  CANNOT("All ranks of a group are of this process.") },
	{ P(SPLIT) | P(CHILD), T(REMOTE),
	  CANNOT("A split connects ranks, so a missing rank of another process "
	         "is a stuck native call.") },
	{ ENDINGS, T(REMOTE),
	  CANNOT("A close or an abort ends every wait, wherever the missing "
	         "rank is.") },

	/* The victim's worker returns, or its communicator is closed, while
	 * others wait. */
	{ P(OPEN), LONERS,
	  CANNOT("There is no communicator yet in which a rank could wait or "
	         "which it could leave.") },
	{ P(WAIT), DEPARTURES, PEACE },
	{ P(CLOSE), T(CLOSING), PEACE },
	{ P(CLOSE), T(RETURN) | T(TIMEOUT),
	  CANNOT("A group that runs workers cannot be closed.") },
	{ ANYWHERE, T(RETURN),
	  ENDS(LEFT, VICTIM, AT_ONCE, "its worker returned 0") },
	{ ANYWHERE, T(CLOSING),
	  ENDS(LEFT, VICTIM, AT_ONCE, "its communicator was closed") },
	/* A rank gives up its wait for the victim. */
	{ P(FIRST), T(TIMEOUT),
	  ENDS(NEVER_CALLED, VICTIM, AT_ONCE, " gave up first (") },
	{ P(WAIT), T(TIMEOUT),
	  ENDS(NOT_FINISHED, NOBODY, AT_ONCE, " gave up first (") },
	{ P(SPLIT), T(TIMEOUT), CANNOT("A split has no timeout of its own.") },
	{ ANYWHERE, T(TIMEOUT),
	  ENDS(OUTSIDE, VICTIM, AT_ONCE, " gave up first (") },
	{ P(FIRST), T(ALONE),
	  ENDS_OF(3, NEVER_CALLED, NOBODY, BY_DEADLINE, "alone waits in") },
	{ P(TRANSFER), T(ALONE),
	  CANNOT("A rank that is alone with its message waits for a missing "
	         "rank.") },
	{ P(WAIT), T(ALONE),
	  CANNOT("If a rank waits alone, the others have not called.") },
	{ ANYWHERE, T(ALONE),
	  ENDS_OF(3, OUTSIDE, NOBODY, BY_DEADLINE, "alone waits in") },

	/* Invalid streams, and child communicators */
	{ OPENS | P(SPLIT), STREAMS,
	  CANNOT("Connecting and splitting take no stream.") },
	{ ANYWHERE, STREAMS, PEACE },
	{ P(CHILD), T(SIBLING),
	  ENDS_OF(3, OUTSIDE, VICTIM, BY_DEADLINE,
	          "in all_reduce 2 of group \"drill.1\"") },
	{ P(CHILD), T(PAUSED_PARENT), PEACE },
	{ ANYWHERE, T(SIBLING) | T(PAUSED_PARENT),
	  CANNOT("A group's own communicators have no parent or sibling.") },

	/* Faults of a process */
	{ P(OPEN), T(KILL), LEAVES(PROCESS_EXITED, "was being opened") },
	{ P(RESPAWN), T(KILL), PEACE }, /* continues without the killed ranks */
	{ ANYWHERE, T(KILL),
	  ENDS(PROCESS_EXITED, LEADER, AT_ONCE, "which drove") },
	{ P(WAIT), T(PAUSE) | T(STOP),
	  CANNOT("The device of a stopped process continues; a simulated "
	         "device stops with its process, which is a late rank.") },
	{ ANYWHERE, T(PAUSE), PEACE },
	{ P(OPEN), T(STOP), INIT_STUCK("not arrived") },
	{ P(RESPAWN), T(STOP), INIT_STUCK("is stopped") },
	{ P(CLOSE), T(STOP), PEACE },
	{ P(TRANSFER) | P(CHILD), T(STOP),
	  ENDS(PROCESS_STOPPED, VICTIM, BY_DEADLINE, ", is stopped") },
	{ ANYWHERE, T(STOP),
	  ENDS(PROCESS_STOPPED, LEADER, BY_DEADLINE, ", is stopped") },
	{ P(OPEN), T(DESCRIPTORS) | T(UNLINK), INIT_STUCK("not arrived") },
	{ P(RESPAWN), T(DESCRIPTORS),
	  LEAVES(NATIVE_ERROR, "ncclCommInitRank") },
	{ ANYWHERE, T(DESCRIPTORS), PEACE },
	{ ANYWHERE, T(UNLINK), CANNOT("A group that is open has no file.") },
};

/* Rules that take precedence if ranks are in several processes */
static const struct rule spread[] = {
	/* NCCL connects ranks of several processes by another function. */
	{ OPENS, T(TOO_LATE) | T(STUCK), INIT_STUCK("ncclCommInitRank") },
	{ OPENS, T(ERROR),
	  LEAVES(NATIVE_ERROR, "ncclCommInitRank: internal error") },
	{ OPENS, T(MEMORY),
	  LEAVES(NATIVE_ERROR, "ncclCommInitRank: unhandled system error") },
	/* One thread makes the calls of the ranks of each process. */
	{ P(GROUP), T(STUCK),
	  ENDS(NOT_STARTED, LEADER, BY_DEADLINE, "all_reduce") },
	/* Each process reports its own side of the transfer, and either can be
	 * first. */
	{ P(TRANSFER), T(STUCK),
	  ENDS(NOT_STARTED, VICTIM, BY_DEADLINE, "is inside the native call") },
	{ P(FIRST) | P(CALL) | P(BATCH) | P(TRANSFER), T(REMOTE),
	  CANNOT("The ranks of other processes are known; see the other "
	         "faults.") },
	{ P(TRANSFER), T(COUNT) | T(TYPE),
	  CANNOT("Sends and receives are not compared between processes, and "
	         "in NCCL a difference is undefined behavior.") },
	/* A process asks another one about its rank only when the deadline has
	 * expired. By then the run in the victim's process has returned,
	 * because the other ranks are done. */
	{ P(TRANSFER), T(RETURN),
	  ENDS(LEFT, VICTIM, BY_DEADLINE, "has left: its worker returned 0") },
	{ P(TRANSFER), T(CLOSING),
	  ENDS(LEFT, VICTIM, BY_DEADLINE,
	       "has left with cohort_comm_close()") },
};

static bool has(uint32_t places, uint64_t troubles, enum place place,
                enum trouble trouble)
{
	return places >> place & 1 && troubles >> trouble & 1;
}

static const struct cell *find(const struct rule *of, size_t n,
                               enum place place, enum trouble trouble)
{
	for (size_t i = 0; i < n; i++)
		if (has(of[i].places, of[i].troubles, place, trouble))
			return &of[i].cell;
	return NULL;
}

const struct cell *drill_cell(enum place place, enum trouble trouble,
                              int processes)
{
	const struct cell *cell = NULL;

	if (processes > 1)
		cell = find(spread, ARRAY_SIZE(spread), place, trouble);
	return cell ? cell : find(rules, ARRAY_SIZE(rules), place, trouble);
}

/* The scripts. The first entry that contains a cell applies. */
static const struct script {
	uint32_t places;
	uint64_t troubles;
	struct drill_script of;
} scripts[] = {
	{ OPENS | P(SPLIT), T(STUCK), SCRIPT(INIT, 0) },
	{ OPENS | P(SPLIT), T(ERROR), SCRIPT(INIT_ERROR, 3) },
	/* NCCL reports a lack of memory as a system error. */
	{ OPENS | P(SPLIT), T(MEMORY), SCRIPT(INIT_ERROR, 2) },
	{ OPENS, T(LATE), SCRIPT(INIT, DRILL_LATENESS) },
	{ OPENS, T(TOO_LATE), SCRIPT(INIT, DRILL_LIMIT_NS) },
	/* The process is killed while its init runs. */
	{ P(OPEN), T(KILL), SCRIPT(INIT, DRILL_LIMIT_NS) },
	{ UNENDED, T(LATE), SCRIPT(DELAY, DRILL_LATENESS) },
	{ UNENDED, T(TOO_LATE), SCRIPT(DELAY, DRILL_LIMIT_NS) },
	{ UNENDED, T(TWO_ABORTS), SCRIPT(NEVER, 0) },
	{ P(GROUP) | P(WAIT), T(ABSENCE), SCRIPT(NEVER, 0) },
	{ P(WAIT), T(TIMEOUT), SCRIPT(NEVER, 0) },
	{ P(WAIT) | P(CLOSE), T(EXIT) | T(SIGNAL) | T(KILL), SCRIPT(NEVER, 0) },
	{ ANYWHERE, T(STUCK), SCRIPT(STUCK, 0) },
	{ ANYWHERE, T(ERROR), SCRIPT(ERROR, 3) },
	{ ANYWHERE, T(MEMORY), SCRIPT(MEMORY, 0) },
	{ ANYWHERE, T(ASYNC_ERROR), SCRIPT(ASYNC, 6) },
	{ ANYWHERE, T(CUDA_ERROR),
	  SCRIPT(DEVICE, cudaErrorLaunchOutOfResources) },
	{ ANYWHERE, T(DEVICE_LOST), SCRIPT(DEVICE, cudaErrorLaunchFailure) },
};

const struct drill_script *drill_script(enum place place, enum trouble trouble)
{
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
		if (has(scripts[i].places, scripts[i].troubles, place, trouble))
			return &scripts[i].of;
	return NULL;
}

/* The steps of each thread. The first entry that contains the role and the cell
 * applies. */
static const struct part {
	uint32_t places;
	uint64_t troubles;
	enum drill_role role;
	enum drill_step steps[8];
} parts[] = {
	/* Steps of the main thread, which aborts. An error ends the group
	 * earlier. */
	{ P(ABORT), T(ERROR) | FAILURES, MAIN, STEPS(AWAIT_CAUSE, FIRE) },
	{ P(ABORT), T(STUCK), MAIN, STEPS(AWAIT_STUCK, ABORT) },
	{ P(ABORT), T(NOTHING), MAIN, STEPS(ABORT) },
	{ P(ABORT), T(PAUSE) | T(STOP), MAIN,
	  STEPS(AWAIT_OTHERS, DAWDLE, ABORT) },
	{ P(ABORT), EVERY, MAIN, STEPS(AWAIT_OTHERS, ABORT) },
	{ ANYWHERE, EVERY, MAIN, STEPS(DONE) },

	/* Steps of a rank that gives up after the other ranks have called */
	{ P(WAIT), T(TIMEOUT), QUITTER,
	  STEPS(CALL, AWAIT_ALL, GIVE_UP, LEAVE) },
	{ ANYWHERE, T(TIMEOUT), QUITTER,
	  STEPS(CALL, AWAIT_OTHERS, GIVE_UP, LEAVE) },

	{ P(CLOSE), EVERY, SOUND, STEPS(CALL, LEAVE) },
	{ P(WAIT), EVERY, SOUND, STEPS(CALL, AWAIT_ALL, FINISH, LEAVE) },
	{ P(ABORT), T(NOTHING), SOUND,
	  STEPS(AWAIT_CAUSE, CALL, FINISH, LEAVE) },
	{ ANYWHERE, T(ALONE), SOUND, STEPS(AWAIT_CAUSE, LEAVE) },
	{ ANYWHERE, EVERY, SOUND, STEPS(CALL, FINISH, LEAVE) },

	/* Steps of the victim if the main thread aborts */
	{ P(ABORT), T(ERROR) | T(STUCK) | FAILURES, STRICKEN,
	  STEPS(CALL, FINISH, LEAVE) },
	{ P(ABORT), T(ABSENCE), STRICKEN, STEPS(AWAIT_CAUSE, LEAVE) },
	{ P(ABORT), T(EXIT), STRICKEN, STEPS(AWAIT_CAUSE) },
	{ P(ABORT), T(PAUSE) | T(STOP), STRICKEN,
	  STEPS(AWAIT_OTHERS, BEFALL, CALL, FINISH, LEAVE) },
	{ P(ABORT), T(KILL) | T(DESCRIPTORS), STRICKEN,
	  STEPS(AWAIT_CAUSE, BEFALL, CALL, FINISH, LEAVE) },
	{ P(ABORT), T(TOO_LATE), STRICKEN,
	  STEPS(AWAIT_CAUSE, DAWDLE, DAWDLE, DAWDLE, CALL, FINISH, LEAVE) },
	{ P(ABORT), EVERY, STRICKEN, STEPS(AWAIT_CAUSE, CALL, FINISH, LEAVE) },

	/* Steps of the victim if the main thread closes. No thread may use a
	 * communicator at that time. */
	{ P(CLOSE), T(ABSENCE), STRICKEN, STEPS(LEAVE) },
	{ P(CLOSE), T(CLOSING), STRICKEN, STEPS(CALL, STRIKE, CLOSE, LEAVE) },
	/* The process is stopped with nothing in flight. */
	{ P(CLOSE), T(PAUSE) | T(STOP), STRICKEN,
	  STEPS(CALL, FINISH, LEAVE, AWAIT_CLOSE, STRIKE) },
	{ P(CLOSE), T(EXIT) | T(KILL) | T(DESCRIPTORS), STRICKEN,
	  STEPS(CALL, LEAVE, AWAIT_CLOSE, DAWDLE, STRIKE) },
	{ P(CLOSE), HANDLES, STRICKEN,
	  STEPS(CALL, LEAVE, AWAIT_CLOSE, DAWDLE, ABORT) },
	{ P(CLOSE), EVERY, STRICKEN, STEPS(CALL, LEAVE) },

	/* Steps of the victim if all ranks have called and their operations are
	 * still in flight when the fault strikes */
	{ P(WAIT), T(EXIT) | T(KILL), STRICKEN,
	  STEPS(CALL, AWAIT_ALL, STRIKE) },
	{ P(WAIT), T(RETURN), STRICKEN, STEPS(CALL, AWAIT_ALL, STRIKE, LEAVE) },
	{ P(WAIT), T(CLOSING), STRICKEN,
	  STEPS(CALL, AWAIT_ALL, STRIKE, CLOSE, LEAVE) },
	{ P(WAIT), HANDLES, STRICKEN,
	  STEPS(CALL, AWAIT_ALL, ABORT, FINISH, LEAVE) },
	{ P(WAIT), EVERY, STRICKEN, STEPS(CALL, AWAIT_ALL, FINISH, LEAVE) },

	/* Steps of the victim if the other ranks have called and wait for it */
	{ ANYWHERE, T(NOTHING) | T(ALONE), STRICKEN,
	  STEPS(CALL, FINISH, LEAVE) },
	/* In a batch, the call has started but does not return. */
	{ P(BATCH), T(ABSENCE), STRICKEN, STEPS(CALL, FINISH, LEAVE) },
	{ ANYWHERE, T(ABSENCE) | T(TIMEOUT), STRICKEN,
	  STEPS(AWAIT_CAUSE, LEAVE) },
	{ ANYWHERE, T(LATE), STRICKEN, STEPS(DAWDLE, CALL, FINISH, LEAVE) },
	{ ANYWHERE, T(TOO_LATE) | T(SIBLING), STRICKEN,
	  STEPS(AWAIT_CAUSE, CALL, FINISH, LEAVE) },
	{ ANYWHERE, T(PAUSED_PARENT), STRICKEN,
	  STEPS(DAWDLE, DAWDLE, DAWDLE, CALL, FINISH, LEAVE) },
	{ ANYWHERE, T(EXIT), STRICKEN, STEPS(AWAIT_OTHERS, STRIKE) },
	{ ANYWHERE, T(RETURN), STRICKEN, STEPS(AWAIT_OTHERS, STRIKE, LEAVE) },
	{ ANYWHERE, T(CLOSING), STRICKEN,
	  STEPS(AWAIT_OTHERS, STRIKE, CLOSE, LEAVE) },
	{ ANYWHERE, HANDLES, STRICKEN,
	  STEPS(AWAIT_OTHERS, ABORT, CALL, FINISH, LEAVE) },
	/* Give the messages of the process's other ranks time to arrive. */
	{ P(TRANSFER), T(STOP), STRICKEN,
	  STEPS(AWAIT_OTHERS, DAWDLE, STRIKE, CALL, FINISH, LEAVE) },
	{ ANYWHERE, T(KILL) | T(PAUSE) | T(STOP) | T(DESCRIPTORS), STRICKEN,
	  STEPS(AWAIT_OTHERS, STRIKE, CALL, FINISH, LEAVE) },
	/* Call last, so that the deadlines of the other ranks start first. */
	{ ANYWHERE, EVERY, STRICKEN, STEPS(AWAIT_OTHERS, CALL, FINISH, LEAVE) },
};

const enum drill_step *drill_part(enum place place, enum trouble trouble,
                                  enum drill_role role)
{
	const struct part *p = parts;

	while (p->role != role || !has(p->places, p->troubles, place, trouble))
		p++;
	return p->steps;
}

const char *drill_why_not(enum place place, enum trouble trouble)
{
	const bool ends_late = place != AT_OPEN && place != AT_RESPAWN;

	if (drill_script(place, trouble))
		return "only the simulator's own NCCL can inject it";
	/* NCCL buffers messages of this size, so the sender does not wait. */
	if (place == AT_TRANSFER && trouble != BY_NOTHING &&
	    trouble != BY_LATE && trouble != BY_STREAM &&
	    trouble != BY_DEAD_STREAM)
		return "small sends do not wait";
	/* NCCL's service threads end only after the other processes have closed
	 * their connections. */
	if (trouble == BY_STOP && ends_late)
		return "NCCL's abort waits for that process";
	/* NCCL opens connections to make its threads end. */
	if (trouble == BY_DESCRIPTORS && ends_late)
		return "NCCL needs descriptors to end";
	if (trouble == BY_DESCRIPTORS && place == AT_RESPAWN)
		return "ranks that have ended free some descriptors";
	return NULL;
}

#define NAME(enumerator, name) name,
const char *const drill_place_names[PLACES] = { DRILL_PLACES(NAME) };
const char *const drill_trouble_names[TROUBLES] = { DRILL_TROUBLES(NAME) };

void drill_format_verdict(char *out, size_t size, int kind, int rank)
{
	if (kind == COHORT_VERDICT_NONE)
		snprintf(out, size, "none");
	else if (rank < 0)
		snprintf(out, size, "%s", cohort_verdict_text(kind));
	else
		snprintf(out, size, "%s, rank %d", cohort_verdict_text(kind),
		         rank);
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
