/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DRILL_DRILL_H
#define CLI_DRILL_DRILL_H

/*
 * The drill: injects each fault at each place, and checks the library's verdict
 *
 * A *cell* is one fault at one place. Each file uses only the files below it,
 * except that forked.c calls drill_run_here():
 *
 *  drill.c     the command: runs all cells in turn and prints them
 *  run_cell.c  a cell, from its group's options to the judgment
 *  forked.c    a cell in several processes, and the faults of a process
 *  alone.c     places where one thread acts for all ranks
 *  ranks.c     places where each rank has a thread, and their calls
 *  census.c    whether a cell has left anything behind
 *  cell.c      functions for all places: records, faults, waits, aborts, groups
 *  table.c     for each cell: the expected outcome, the scripted fault, and
 *              the steps of each thread
 */

#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>

/* ---- the table -------------------------------------------------------- */

/* The places. GROUP: one thread makes the calls of the whole group. WAIT: the
 * fault strikes after all ranks have called. CHILD: the calls are made in a
 * communicator that was split from the group's. */
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
	X(REMOTE, "remote stall") /* a rank of another process is missing */   \
	X(RETURN, "early return") /* the victim's worker returns 0 */          \
	X(CLOSING, "early close") /* the victim closes its communicator */     \
	/* A rank that waits for the victim gives up. */                       \
	X(TIMEOUT, "own timeout")                                              \
	X(ALONE, "one rank alone") /* no other rank calls */                   \
	/* The victim first passes an invalid stream. */                       \
	X(STREAM, "another device's stream")                                   \
	X(DEAD_STREAM, "destroyed stream")                                     \
	X(SIBLING, "hang in a sibling") /* the victim is in another child */   \
	/* The victim is late, and the parent communicator is paused. */       \
	X(PAUSED_PARENT, "pause on the parent")                                \
	/* Faults of the victim's process, if there are several processes */   \
	X(KILL, "process killed")                                              \
	X(PAUSE, "process paused") /* shorter than the deadline */             \
	X(STOP, "process stopped") /* longer than the deadline */              \
	X(DESCRIPTORS, "out of descriptors")                                   \
	X(UNLINK, "file removed") /* the file where processes meet */

#define DRILL_BY(trouble, name) BY_##trouble,
enum trouble {
	DRILL_TROUBLES(DRILL_BY) TROUBLES,

	/* Number of faults that a single process can have */
	TROUBLES_OF_ONE = BY_KILL,
};

/* The rank that a verdict must blame */
enum blame {
	NOBODY,
	VICTIM,
	ODD_ONE, /* the victim, if the others are a majority */
	FIRST,   /* rank 0 */
	LEADER,  /* the first rank of the victim's process */
};

/* Time by which a verdict is required */
enum bound {
	NO_BOUND,
	BY_DEADLINE,
	AT_ONCE,   /* soon after the fault */
	BY_PROBER, /* at the prober's next query after the fault */
};

struct cell {
	const char *impossible; /* reason why the cell is impossible, or NULL */
	/* enum cohort_verdict_kind, or NONE if the group must continue */
	int kind;
	enum blame blame;
	enum bound bound;
	const char *says; /* text that the verdict must contain */
	/* smallest number of ranks for this cell, if larger than two */
	int least;
	bool leaves; /* NCCL's init continues to wait in other processes */
};

const struct cell *drill_cell(enum place place, enum trouble trouble,
                              int processes);

/* Longest time that any step of a cell may take */
#define DRILL_LIMIT_NS (UINT64_C(30) * 1000 * 1000 * 1000)

/* A script value that stands for half the deadline */
#define DRILL_LATENESS UINT64_MAX

/* A fault of a simulated device */
struct drill_script {
	int kind; /* enum cohort_fault_kind */
	uint64_t value;
};

/* Return the script that causes the fault, or NULL if there is none. Only the
 * simulator's own NCCL can run scripts. */
const struct drill_script *drill_script(enum place place, enum trouble trouble);

/* Return why the cell is skipped with NVIDIA's NCCL, or NULL if it is not. */
const char *drill_why_not(enum place place, enum trouble trouble);

/* The roles in a cell whose ranks have their own threads */
enum drill_role {
	SOUND,    /* a rank that is neither the victim nor the quitter */
	STRICKEN, /* the victim */
	QUITTER,  /* a rank that gives up when its own timeout expires */
	MAIN,     /* the main thread of rank 0's process */
};

enum drill_step {
	DONE,
	CALL,         /* make the calls of the place */
	FINISH,       /* wait until the calls are done, and check the results */
	GIVE_UP,      /* wait for the calls with a short timeout */
	AWAIT_OTHERS, /* wait until all ranks except the victim have called */
	AWAIT_ALL,    /* wait until all ranks have called */
	AWAIT_CAUSE,  /* wait until the group has a cause */
	AWAIT_STUCK,  /* wait until a rank is stuck in its native call */
	AWAIT_CLOSE,  /* wait until the group is about to be closed */
	DAWDLE,       /* delay, for less than the deadline */
	/* record the time of the fault, and inject the fault if it affects the
	 * whole process */
	STRIKE,
	BEFALL, /* inject the fault if it affects the whole process */
	/* record the time of the fault, and fire the abort handle */
	ABORT,
	FIRE,  /* fire the abort handle */
	CLOSE, /* close the communicator */
	LEAVE, /* report the rank as done with its communicator */
};

/* Return the steps of @role, terminated by DONE. */
const enum drill_step *drill_part(enum place place, enum trouble trouble,
                                  enum drill_role role);

extern const char *const drill_place_names[PLACES];
extern const char *const drill_trouble_names[TROUBLES];

/* ---- one cell --------------------------------------------------------- */

enum { DRILL_MOST_RANKS = 8 };

struct drill_options {
	int ranks;
	/* number of processes; each has the same number of ranks, at least
	 * two */
	int processes;
	int platform;
	uint64_t deadline_ns;
	uint64_t slack_ns; /* largest permitted delay of a detection */
	bool is_nvidia;    /* NVIDIA's NCCL on the simulated devices */
	bool only[PLACES][TROUBLES];
	bool list;
	bool json;
};

static inline int drill_troubles(const struct drill_options *options)
{
	return options->processes > 1 ? TROUBLES : TROUBLES_OF_ONE;
}

struct drill_result {
	char expected[96];
	char got[512];
	char text[2048];    /* text of the verdict, or empty */
	bool is_timed;      /* the following times are set */
	double detected_ms; /* time from the bound's start to the verdict */
	double bound_ms;
	bool ok;
};

/* Device memory of a process's ranks. It belongs to a separate group, so that
 * it outlives the groups of the cells. */
struct drill_memory {
	struct cohort_group *keeper;

	/* For each rank of the process: a communicator, and two tensors */
	struct cohort_comm *comms[DRILL_MOST_RANKS];
	void *tensors[DRILL_MOST_RANKS];
};

/* Allocate memory for @n ranks, starting with rank @first. Return false after
 * printing an error. The caller must call drill_memory_close() in either
 * case. */
bool drill_memory_open(struct drill_memory *memory,
                       const struct drill_options *options, int first, int n);
void drill_memory_close(struct drill_memory *memory);

/* Run a cell that is possible. With several processes, @memory is not used:
 * each process allocates its own. */
void drill_run(const struct drill_options *options,
               const struct drill_memory *memory, enum place place,
               enum trouble trouble, struct drill_result *result);

/* ---- the inside of a cell --------------------------------------------- */

/* Number of elements of a tensor */
enum { DRILL_COUNT = 1000 };

struct drill_run;

/* The outcome of a cell in one process */
struct drill_outcome {
	_Atomic uint64_t began_ns; /* Atomic; start of the call under test */

	/* Guarded by the lock in cell.c */
	/* the verdict; its kind is NONE if there is none */
	struct cohort_cause verdict;
	char complaint[256]; /* first error other than the verdict */
};

/* The state that all processes of a cell share */
struct drill_shared {
	/* Barrier of all ranks and the main threads, before the calls under
	 * test */
	pthread_barrier_t ready;

	/* Atomic counters. If calls wait for all ranks, a rank is counted in
	 * @called right before its call. */
	atomic_int joined; /* ranks that have tried to join by id */
	atomic_int called; /* ranks that have called */
	atomic_int left;   /* ranks that are done with their communicators */
	atomic_int fires;  /* aborts of the group */
	atomic_int fired;  /* aborts that ended the group */

	/* Atomic; the flags of the cell */
	atomic_int is_stuck;   /* the victim is about to get stuck in a call */
	atomic_int is_closing; /* the group is about to be closed */
	atomic_int has_ids;    /* the ids are valid */
	atomic_int is_removed; /* the file where processes meet was removed */

	_Atomic uint64_t fault_ns; /* atomic; time of the fault */

	/* Ids of two communicators: the one that all ranks must join first, and
	 * a second one. Constant after has_ids is set. */
	struct cohort_unique_id ids[2];

	/* outcomes, indexed by process */
	struct drill_outcome outcomes[DRILL_MOST_RANKS];
};

struct drill_rank {
	struct drill_run *run;
	int number;
	struct cohort_comm *comm; /* the communicator that the cell tests */

	/* the group's communicator if @comm was split from it, or NULL */
	struct cohort_comm *parent;

	/* for BY_SIBLING, the communicator of the victim and the previous
	 * rank */
	struct cohort_comm *sibling;
	void *stream; /* stream of the rank's calls */
	/* invalid stream on which the call is first tried, and must fail; NULL
	 * for none */
	void *bad_stream;
	float *tensors;
	pthread_t thread;
	uint64_t tickets[2]; /* tickets of the rank's calls, or 0 */
	int status;          /* status that the rank's call returned */
	bool must_be_cause;  /* @status must equal the status of the cause */
};

/* A run of a cell in one process. If a thread does not return, the run is never
 * freed. */
struct drill_run {
	/* Constant while threads run */
	const struct drill_options *options;
	const struct cell *cell;
	enum place place;
	enum trouble trouble;
	int n;
	int process;
	int first;            /* first rank of this process */
	int own_n;            /* number of ranks of this process */
	uint64_t deadline_ns; /* the deadline that must expire */
	struct cohort_group_options group_options;
	struct cohort_group *group;
	/* ranks of the group; only this process's ranks are used */
	struct drill_rank ranks[DRILL_MOST_RANKS];
	const struct drill_memory *memory; /* memory of the process's ranks */
	/* thread that runs the workers, if the ranks are workers */
	pthread_t runner;

	/* Abort handle of the communicators that the cell tests */
	struct cohort_abort *handle;
	struct drill_shared *shared;
	struct drill_outcome *own;

	/* Used only by the main thread */
	pthread_t main;
	bool is_hung; /* a thread has not returned */
};

/* Run the cell in process @run->process, with the ranks and the memory of that
 * process. */
void drill_run_here(struct drill_run *run, const struct drill_memory *memory);

/* Run @run in new processes, each of which first runs @warm_up. */
void drill_run_forked(struct drill_run *run, struct drill_run *warm_up);

/* Record an error other than a wrong verdict. Only the first one is kept. */
void drill_record_error(struct drill_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Return whether @status is COHORT_OK. Otherwise record that @what failed. */
bool drill_check_ok(struct drill_run *run, int status, const char *what);

/* Record a verdict. Unless @replaces is true, only the first one is kept. */
void drill_record_verdict(struct drill_run *run,
                          const struct cohort_cause *verdict, bool replaces);

static inline int drill_victim(const struct drill_run *run)
{
	return run->n - 1;
}

/* Return whether only the prober can find the fault. */
static inline bool drill_is_asked_for(const struct drill_run *run)
{
	return run->cell->bound == BY_PROBER;
}

static inline bool drill_has(const struct drill_run *run, int rank)
{
	return rank >= run->first && rank < run->first + run->own_n;
}

static inline bool drill_has_victim(const struct drill_run *run)
{
	return drill_has(run, drill_victim(run));
}

/* Return the rank whose native call has the fault. */
int drill_struck_rank(const struct drill_run *run);

/* Make the group's next calls fail as the cell's script says, if it has one. */
void drill_arm(struct drill_run *run);

void drill_mark_fault(struct drill_run *run);

/* Wait until the counter @what is @n, or until the flag @what is 1. If that
 * takes too long, record an error and return false. */
#define drill_await(run, what, n)                                              \
	drill_await_count(run, &(run)->shared->what, n, #what " < " #n)
bool drill_await_count(struct drill_run *run, const atomic_int *count, int n,
                       const char *what);

/* Wait until the group has ended with a cause. If that takes too long, record
 * an error and return false. */
bool drill_await_cause(struct drill_run *run);

/* Sleep for half the deadline. */
void drill_delay(const struct drill_run *run);

/* Fire the abort handle, or abort the group if there is no handle, and count
 * the abort. For BY_TWO_ABORTS, do it twice. For BY_SIGNAL, do it in a signal
 * handler in @thread. */
void drill_fire(struct drill_run *run, pthread_t thread);

/* The signal whose handler fires the abort handle */
#define DRILL_SIGNAL SIGUSR1

/* Open the group, which drill_close() closes. Return its status. */
int drill_open_quietly(struct drill_run *run);

/* Open the group. Return false after recording an error. */
bool drill_open(struct drill_run *run);

/* Split the group, and create an abort handle for its communicators. Return
 * false after recording an error. */
bool drill_split(struct drill_run *run, struct cohort_comm **comms);

/* Copy the cause of the tested communicators. Return false if there is none. */
bool drill_cause(struct drill_run *run, struct cohort_cause *cause);

/* Record the cause of the tested communicators as the verdict. */
void drill_keep_cause(struct drill_run *run);

/* Close the group, and record an error unless the close returns @status. */
void drill_close(struct drill_run *run, int status);

/* Copy to or from device memory, and wait. Return an enum cohort_status. */
int drill_copy(struct cohort_comm *comm, void *to, const void *from,
               size_t size);

/* Return a stream that rank @rank's calls must refuse, or NULL if the cell has
 * none. */
void *drill_bad_stream(struct drill_run *run, int rank);

/* Record the time of the fault, and inject the fault if it affects the whole
 * process. */
void drill_strike(struct drill_run *run);

/* If the cell's fault affects the whole process, inject it: stop or kill the
 * process, use up its file descriptors, or remove the file by which it opens
 * its group. */
void drill_strike_process(struct drill_run *run);

/* ---- where each rank has a thread ------------------------------------- */

/* Return whether the ranks make a first call before the cell's calls. */
static inline bool drill_warms_up(const struct drill_run *run)
{
	return run->place != AT_FIRST &&
	       (run->place != AT_TRANSFER || run->trouble != BY_REMOTE);
}

/* Start a thread for each rank of this process, which runs @main with the rank
 * as its argument. If the ranks are workers, start a thread that runs them.
 * Return false after recording an error. */
bool drill_start(struct drill_run *run, void *(*main)(void *rank));

void drill_join(struct drill_run *run);

/* Run a cell at a place where each rank has a thread. */
void drill_by_ranks(struct drill_run *run);
void drill_at_open(struct drill_run *run);
void drill_at_group(struct drill_run *run);
void drill_at_respawn(struct drill_run *run);

/* ---- the census ------------------------------------------------------- */

/* Numbers of all resources that a cell can leave behind */
struct drill_census {
	size_t threads; /* number of threads, without reusable ones */
	int newest;     /* largest thread id */
	size_t descriptors;
	size_t files; /* number of files by which processes find each other */
	size_t memory;
	size_t streams;
	size_t events;
	size_t worlds;
	size_t meetings;
};

struct drill_census drill_census(void);

/* Find the files by which the drill's processes find each other. The caller
 * must call globfree(). */
void drill_find_files(glob_t *files);

/* Wait until temporary resources have ended, and return whether a resource
 * exists that is not in @before. If so, describe it in @out. */
bool drill_is_left(const struct drill_census *before, char *out, size_t size);

/* Write a verdict as text, such as "busy in the program, rank 3". */
void drill_format_verdict(char *out, size_t size, int kind, int rank);

/* Return the rank that the verdict must blame if there are @ranks ranks in
 * @processes processes, or -1. */
int drill_expected_rank(const struct cell *cell, int ranks, int processes);

#endif
