/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DRILL_DRILL_H
#define CLI_DRILL_DRILL_H

/*
 * The drill: causes every fault in every place, and checks what the library
 * says of it
 *
 * A *cell* is one fault in one place.  The files, each of which uses those
 * below it:
 *
 *  drill.c     the command: all cells in turn, and how they are shown
 *  run_cell.c  one cell, from its group's options to whether it did what it
 *  should forked.c    a cell in several processes, and what strikes one of them
 *  alone.c     the places where one thread acts for all ranks ranks.c     the
 *  places where each rank has a thread, and what it calls there census.c
 *  whether a cell has left anything behind cell.c      what all places use:
 *  notes, faults, waits, aborts, groups table.c     each cell: what is
 *  expected, what is scripted, and what each thread does
 */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>

/* ---- the table -------------------------------------------------------- */

/* Places; in a group call, one thread calls for the whole group; at a wait, all
 * ranks have called; a child is a call in a communicator that was split from
 * the group's. */
#define DRILL_PLACES(X)                                                        \
	X(OPEN, "open")                                                        \
	X(FIRST, "first call")                                                 \
	X(CALL, "call")                                                        \
	X(BATCH, "batch")                                                      \
	X(GROUP, "group call")                                                 \
	X(TRANSFER, "send/recv")                                               \
	X(WAIT, "wait")                                                        \
	X(SPLIT, "split")                                                      \
	X(CHILD, "child")                                                      \
	X(RESPAWN, "respawn")                                                  \
	X(CLOSE, "close")                                                      \
	X(ABORT, "abort")

#define DRILL_AT(place, name) AT_##place,
enum place { DRILL_PLACES(DRILL_AT) PLACES };

#define DRILL_TROUBLES(X)                                                      \
	X(NOTHING, "none")                                                     \
	X(ABSENCE, "missing rank")                                             \
	X(LATE, "late rank under deadline")                                    \
	X(TOO_LATE, "late rank over deadline")                                 \
	X(COUNT, "different count")                                            \
	X(TYPE, "different type")                                              \
	X(OPERATION, "different operation")                                    \
	X(ROOT, "different root")                                              \
	X(ORDER, "different order")                                            \
	X(ERROR, "native error")                                               \
	X(ASYNC_ERROR, "asynchronous error")                                   \
	X(CUDA_ERROR, "CUDA error")                                            \
	X(DEVICE_LOST, "device lost")                                          \
	X(STUCK, "stuck native call")                                          \
	X(EXIT, "thread exit")                                                 \
	X(TWO_ABORTS, "double abort")                                          \
	X(SIGNAL, "abort by signal handler")                                   \
	X(MEMORY, "allocation failure")                                        \
	X(REMOTE, "remote stall")  /* a rank of another process is missing */  \
	X(GRAPH, "graph alive")    /* a graph with captured calls is alive */  \
	X(RETURN, "early return")  /* the victim's worker returns 0 */         \
	X(CLOSING, "early close")  /* the victim closes its communicator */    \
	X(TIMEOUT, "own timeout")  /* a rank that waits for it gives up */     \
	X(ALONE, "one rank alone") /* no other rank calls */                   \
	/* Streams on which the victim calls first. */                         \
	X(STREAM, "another device's stream")                                   \
	X(DEAD_STREAM, "destroyed stream")                                     \
	X(SIBLING, "hang in a sibling") /* the victim is in another child */   \
	/* The victim is too late, but paused. */                              \
	X(PAUSED_PARENT, "pause on the parent")                                \
	/* Of the victim's process, where ranks are spread over processes. */  \
	X(KILL, "process killed")                                              \
	X(PAUSE, "process paused") /* within the deadline */                   \
	X(STOP, "process stopped") /* beyond the deadline */                   \
	X(DESCRIPTORS, "out of descriptors")                                   \
	X(UNLINK, "file removed") /* by which processes meet */

#define DRILL_BY(trouble, name) BY_##trouble,
enum trouble {
	DRILL_TROUBLES(DRILL_BY) TROUBLES,

	/* How many there are where one process has all ranks. */
	TROUBLES_OF_ONE = BY_KILL,
};

/* The rank that a verdict must blame. */
enum blame {
	NOBODY,
	VICTIM,
	ODD_ONE, /* the victim, where there is a majority without it */
	FIRST,   /* rank 0 */
	LEADER,  /* the first rank of the victim's process */
};

/* How soon a verdict must come. */
enum bound {
	NO_BOUND,
	BY_DEADLINE, /* within the deadline, from its begin */
	AT_ONCE,     /* at once after the fault */
	BY_PROBER,   /* at the prober's next query after the fault */
};

struct cell {
	const char *impossible; /* why the cell is impossible, or NULL */
	int kind; /* enum cohort_verdict_kind; NONE if all must go on */
	enum blame blame;
	enum bound bound;
	const char *says; /* what the text must contain */
	int least;        /* the fewest ranks, if more than two */
	bool leaves;      /* NCCL's init is left waiting in other processes */
};

/* The cell where the ranks are spread over @processes. */
const struct cell *drill_cell(enum place place, enum trouble trouble,
                              int processes);

/* Nothing in a cell may take longer than this. */
#define DRILL_LIMIT_NS (UINT64_C(30) * 1000 * 1000 * 1000)

/* The value of a script that stands for half the deadline. */
#define DRILL_LATENESS UINT64_MAX

/* A fault of a simulated device. */
struct drill_script {
	int kind; /* enum cohort_fault_kind */
	uint64_t value;
};

/* What the simulator's own NCCL has to be told to cause the trouble, which
 * NVIDIA's cannot be; or NULL. */
const struct drill_script *drill_script(enum place place, enum trouble trouble);

/* Why the cell is left out on NVIDIA's NCCL, NULL: it is not. */
const char *drill_why_not(enum place place, enum trouble trouble);

/* Who acts in a cell whose ranks have threads. */
enum drill_role {
	SOUND,    /* a rank that is neither of the following */
	STRICKEN, /* the victim */
	QUITTER,  /* a rank that gives up by a timeout of its own */
	MAIN,     /* the main thread of rank 0's process */
};

enum drill_step {
	DONE,
	CALL,         /* make the calls of the place */
	FINISH,       /* wait until they are done, and check the results */
	GIVE_UP,      /* wait for them with a short timeout */
	AWAIT_OTHERS, /* until all ranks but the victim have called */
	AWAIT_ALL,    /* until all ranks have called */
	AWAIT_CAUSE,  /* until the group has a cause */
	AWAIT_STUCK,  /* until a rank is known to be stuck in its native call */
	AWAIT_CLOSE,  /* until the group is about to be closed */
	DAWDLE,       /* be late, but within the deadline */
	STRIKE,       /* note that the fault strikes, and strike the process */
	BEFALL,       /* strike the process */
	ABORT,        /* note that the fault strikes, and fire the handle */
	FIRE,         /* fire the handle */
	CLOSE,        /* close the communicator */
	LEAVE,        /* be done with it */
};

/* The steps of @role, up to DONE. */
const enum drill_step *drill_part(enum place place, enum trouble trouble,
                                  enum drill_role role);

const char *drill_place_name(enum place place);
const char *drill_trouble_name(enum trouble trouble);

/* ---- one cell --------------------------------------------------------- */

enum { DRILL_MOST_RANKS = 8 };

struct drill_options {
	int ranks;
	int processes; /* with as many ranks each, two at least */
	int platform;  /* enum cohort_platform */
	uint64_t deadline_ns;
	uint64_t slack_ns; /* by how much a detection may miss its bound */
	bool is_nvidia;    /* NVIDIA's NCCL on the simulated devices */
	bool only[PLACES][TROUBLES];
	bool is_limited; /* some cells were chosen by name */
	bool list;
	bool json;
};

/* How many faults there are. */
static inline int drill_troubles(const struct drill_options *options)
{
	return options->processes > 1 ? TROUBLES : TROUBLES_OF_ONE;
}

struct drill_result {
	enum place place;
	enum trouble trouble;
	int ranks;
	char expected[96];
	char got[512];
	char text[2048];    /* the verdict's, or empty */
	bool is_timed;      /* the following times are set */
	double detected_ms; /* since the begin of the bound */
	double bound_ms;
	bool ok;
};

/* Device memory of a process's ranks that outlives a cell's group: it belongs
 * to a group of its own. */
struct drill_memory {
	struct cohort_group *keeper;
	int first, n;
	struct cohort_comm *comms[DRILL_MOST_RANKS]; /* n */
	float *tensors
		[DRILL_MOST_RANKS]; /* two tensors for each rank, by rank */
};

/* Allocate for @n ranks, from rank @first; false after a complaint.  Close in
 * any case. */
bool drill_memory_open(struct drill_memory *memory,
                       const struct drill_options *options, int first, int n);
void drill_memory_close(struct drill_memory *memory);

/* Run a cell that is possible.  @memory is not used if there are several
 * processes: each has its own. */
void drill_run(const struct drill_options *options,
               const struct drill_memory *memory, enum place place,
               enum trouble trouble, struct drill_result *result);

/* ---- the inside of a cell --------------------------------------------- */

/* The number of elements of a tensor. */
enum { DRILL_COUNT = 1000 };

struct drill_run;

/* How a cell went in one process. */
struct drill_outcome {
	/* Atomic; when the drilled call began. */
	_Atomic uint64_t began_ns;

	/* Guarded by the process's lock. */
	struct drill_verdict {
		int kind; /* NONE if there is none */
		int rank;
		uint64_t since_ns; /* begin of the deadline, or 0 */
		uint64_t deadline_ns;
		uint64_t time_ns;
	} verdict;
	char text[2048];     /* the verdict's */
	char complaint[256]; /* the first problem other than the verdict */
};

/* What all processes of a cell see. */
struct drill_shared {
	/* Where all ranks and the main threads meet before the drilled
	 * calls. */
	pthread_barrier_t ready;

	/* Atomic; number of ranks that have joined by id, or have failed to. */
	atomic_int joined;

	/* Atomic; number of ranks that have called, or are about to call where
	 * a call waits for all ranks. */
	atomic_int called;

	/* Atomic; number of ranks whose threads are done with their
	 * communicators. */
	atomic_int left;

	/* Atomic; how often the group was told to end, and how often that has
	 * ended it. */
	atomic_int fires;
	atomic_int fired;

	/* Atomic flags; is_stuck: a warning has named a rank that is inside its
	 * native call; is_closing: the group is about to be closed; has_ids:
	 * the ids are there; is_removed: the file by which the processes meet
	 * has no name. */
	atomic_int is_stuck;
	atomic_int is_closing;
	atomic_int has_ids;
	atomic_int is_removed;

	/* Atomic; when the fault struck. */
	_Atomic uint64_t fault_ns;

	/* Ids of two communicators: the one that all ranks should join first,
	 * and another one.  Constant once has_ids is set. */
	struct cohort_unique_id ids[2];

	struct drill_outcome outcomes[DRILL_MOST_RANKS]; /* by process */
};

struct drill_rank {
	struct drill_run *run;
	int number;
	struct cohort_comm *comm; /* the one that the cell is about */

	/* The group's communicator if @comm was split from it, or NULL. */
	struct cohort_comm *parent;

	/* For BY_SIBLING: the communicator of the victim and the rank before
	 * it. */
	struct cohort_comm *sibling;
	void *stream;     /* of the rank's calls */
	void *bad_stream; /* one that they must refuse first, or NULL */
	float *tensors;   /* two tensors */
	pthread_t thread;
	uint64_t tickets[2]; /* of its calls, or 0 */
	int status;          /* the status that its call returned */
	bool is_told;        /* that must be the cause's */
};

/* One run of one cell, as one process sees it.  It is not freed if a thread
 * does not come back. */
struct drill_run {
	/* Constant while threads run. */
	const struct drill_options *options;
	const struct cell *cell;
	enum place place;
	enum trouble trouble;
	int n;
	int process;
	int first;            /* the process's first rank */
	int own_n;            /* how many ranks the process has */
	uint64_t deadline_ns; /* the deadline that must expire */
	struct cohort_group_options group_options;
	struct cohort_bootstrap bootstrap;
	struct cohort_group *group;
	/* Those of the process are used. */
	struct drill_rank ranks[DRILL_MOST_RANKS];
	const struct drill_memory *memory; /* of the process's ranks */
	pthread_t runner; /* runs the ranks if they are workers */

	/* The abort handle of the communicators that the cell is about. */
	struct cohort_abort *handle;
	struct drill_shared *shared;
	struct drill_outcome *own; /* the process's */

	/* Used by the main thread alone. */
	pthread_t main;
	bool is_hung; /* a thread has not come back */

	pthread_mutex_t lock;
};

/* Run the cell in this process, which has the ranks and memory of
 * @run->process. */
void drill_run_here(struct drill_run *run, const struct drill_memory *memory);

/* Run @run in processes of its own, after @warm_up. */
void drill_run_forked(struct drill_run *run, struct drill_run *warm_up);

/* Note a problem other than the verdict; only the first one is kept. */
void drill_complain(struct drill_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* True if @status is COHORT_OK; else false, after a complaint about @what. */
bool drill_must(struct drill_run *run, int status, const char *what);

/* Note a verdict; only the first one is kept, unless it replaces another. */
void drill_note(struct drill_run *run, struct drill_verdict verdict,
                const char *text, bool replaces);

/* The rank on which the fault strikes. */
static inline int drill_victim(const struct drill_run *run)
{
	return run->n - 1;
}

/* True if the prober has to find the trouble. */
static inline bool drill_is_asked_for(const struct drill_run *run)
{
	return run->cell->bound == BY_PROBER;
}

/* True if rank @rank, or the victim, is of this process. */
static inline bool drill_has(const struct drill_run *run, int rank)
{
	return rank >= run->first && rank < run->first + run->own_n;
}

static inline bool drill_has_victim(const struct drill_run *run)
{
	return drill_has(run, drill_victim(run));
}

/* The rank whose call has the fault. */
int drill_struck_rank(const struct drill_run *run);

/* Script the cell's fault, if it is scripted, for a group that has warmed up or
 * does not. */
void drill_arm(struct drill_run *run);

/* Note that the fault strikes now. */
void drill_mark_fault(struct drill_run *run);

/* Wait until a count of the cell's is @n, or a flag is 1; false, after a
 * complaint, if that takes too long. */
#define drill_await(run, what, n)                                              \
	drill_await_count(run, &(run)->shared->what, n, #what " < " #n)
bool drill_await_count(struct drill_run *run, const atomic_int *count, int n,
                       const char *what);

/* Wait until the group has a cause; false, after a complaint, if that takes too
 * long. */
bool drill_await_cause(struct drill_run *run);

/* Be late, but within the deadline. */
void drill_dawdle(const struct drill_run *run);

/* Fire the handle, or abort a group that has none, and count that: for
 * BY_TWO_ABORTS, twice; for BY_SIGNAL, from a signal handler in @thread. */
void drill_fire(struct drill_run *run, pthread_t thread);

/* The signal whose handler fires. */
#define DRILL_SIGNAL SIGUSR1

/* Open the group, which drill_close() closes: its status, or false after a
 * complaint. */
int drill_open_quietly(struct drill_run *run);
bool drill_open(struct drill_run *run);

/* Split the group, and take a handle; false after a complaint. */
bool drill_split(struct drill_run *run, struct cohort_comm **comms);

/* Copy the cause of the communicators that the cell is about: false if there is
 * none. */
bool drill_cause(struct drill_run *run, struct cohort_cause *cause);

/* Note that cause as the verdict. */
void drill_keep_cause(struct drill_run *run);

/* Close the group, which must return @status. */
void drill_close(struct drill_run *run, int status);

/* Copy to or from device memory, and wait.  An enum cohort_status. */
int drill_copy(struct cohort_comm *comm, void *to, const void *from,
               size_t size);

/* Return a stream that the calls of rank @rank must refuse, or NULL if the cell
 * has none. */
void *drill_bad_stream(struct drill_run *run, int rank);

/* Note that the fault strikes now, and strike the process. */
void drill_strike(struct drill_run *run);

/* Strike the process, if the cell does: stop or kill it, take its descriptors
 * away until they are given back, or remove the name of the file by which it
 * opens its group. */
void drill_strike_process(struct drill_run *run);

/* ---- where each rank has a thread ------------------------------------- */

/* True if ranks make a first call before the cell's. */
static inline bool drill_warms_up(const struct drill_run *run)
{
	return run->place != AT_FIRST &&
	       (run->place != AT_TRANSFER || run->trouble != BY_REMOTE);
}

/* Start a thread of each rank of this process, for which @main has the rank as
 * argument, or the workers; false after a complaint. */
bool drill_start(struct drill_run *run, void *(*main)(void *rank));

/* Wait until they have ended. */
void drill_join(struct drill_run *run);

/* Run a cell in one of these places. */
void drill_by_ranks(struct drill_run *run);
void drill_at_open(struct drill_run *run);
void drill_at_group(struct drill_run *run);
void drill_at_respawn(struct drill_run *run);

/* ---- the census ------------------------------------------------------- */

/* Counts of everything that a cell may leave behind. */
struct drill_census {
	size_t threads; /* except those that the platform keeps */
	int newest;     /* the greatest thread id */
	size_t descriptors;
	size_t files; /* of processes that meet, see COHORT_BOOTSTRAP_ENV */
	size_t memory;
	size_t streams;
	size_t events;
	size_t worlds;
	size_t meetings;
};

struct drill_census drill_census(void);

/* True if more is left than in @before, even after a grace period for what goes
 * away by itself: @out then names what is left. */
bool drill_is_left(const struct drill_census *before, char *out, size_t size);

/* Write a verdict as text, such as "busy in the program, rank 3". */
void drill_spell(char *out, size_t size, int kind, int rank);

/* The rank that the verdict must blame among @ranks ranks of @processes, or
 * -1. */
int drill_expected_rank(const struct cell *cell, int ranks, int processes);

#endif
