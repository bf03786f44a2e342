/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DRILL_DRILL_H
#define CLI_DRILL_DRILL_H

/*
 * The drill: every fault in every place, and whether what is said of it is right
 *
 * A *cell* is one fault in one place.  The files, each of which uses those below it:
 *
 *	drill.c   the command: all cells in turn
 *	run.c     one cell, from its group's options to its judgement
 *	alone.c   the places where one thread acts for all ranks
 *	ranks.c   the places where each rank has a thread
 *	victim.c  what such a thread does
 *	remote.c  ranks that are missing from another process
 *	calls.c   what a rank calls in each place
 *	census.c  whether a cell has left anything behind
 *	judge.c   whether a cell did what it should
 *	cell.c    what all places use: notes, faults, waits, aborts, groups
 *	report.c  how cells are shown
 *	table.c   what each cell must come to
 */

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>

/* ---- the table -------------------------------------------------------- */

enum place {
	AT_OPEN,
	AT_FIRST, /* the first call */
	AT_CALL,
	AT_BATCH,
	AT_GROUP, /* a call of the whole group by one thread */
	AT_TRANSFER,
	AT_WAIT, /* all have called */
	AT_SPLIT,
	AT_RESPAWN,
	AT_CLOSE,
	AT_ABORT,
	PLACES,
};

enum trouble {
	BY_NOTHING,
	BY_ABSENCE,
	BY_LATE,     /* under the deadline */
	BY_TOO_LATE, /* over it */
	BY_COUNT,
	BY_TYPE,
	BY_OPERATION,
	BY_ROOT,
	BY_ORDER,
	BY_ERROR,
	BY_ASYNC_ERROR,
	BY_CUDA_ERROR,
	BY_DEVICE_LOST,
	BY_STUCK,
	BY_EXIT,
	BY_TWO_ABORTS,
	BY_SIGNAL,
	BY_MEMORY,
	BY_REMOTE, /* a rank that is missing, and of another process */
	BY_GRAPH,  /* a graph with captured calls is alive */
	TROUBLES,
};

/* Whom a verdict is to blame. */
enum blame {
	NOBODY,
	VICTIM,
	ODD_ONE, /* the victim, where there is a majority without it */
	FIRST,   /* rank 0 */
};

/* From when a verdict has how long. */
enum bound {
	NO_BOUND,
	BY_DEADLINE, /* from when that began to run */
	AT_ONCE,     /* from the fault */
	BY_PROBER,   /* likewise, when it next asks */
};

struct cell {
	const char *impossible; /* why; NULL: it is not */
	int kind; /* enum cohort_verdict_kind; NONE: all goes on */
	enum blame blame;
	enum bound bound;
	const char *says; /* what the text names */
	int least;        /* ranks that it takes, if more than two */
};

const struct cell *drill_cell(enum place place, enum trouble trouble);
const char *drill_place_name(enum place place);
const char *drill_trouble_name(enum trouble trouble);

/* ---- one cell --------------------------------------------------------- */

enum { DRILL_MOST_RANKS = 8 };

struct drill_options {
	int ranks;
	int platform; /* enum cohort_platform */
	uint64_t deadline_ns;
	uint64_t slack_ns; /* that a detection may be later than its bound */
	bool only[PLACES][TROUBLES];
	bool is_limited; /* some cells were chosen by name */
	bool list;
	bool json;
};

struct drill_result {
	enum place place;
	enum trouble trouble;
	int ranks;
	char expected[96];
	char got[512];
	char text[1024];    /* of the verdict; empty: there was none */
	bool is_timed;      /* the rest means something */
	double detected_ms; /* since the bound began to run */
	double bound_ms;
	bool ok;
};

/* Memory of the ranks' devices that outlives a cell's group: that of a group of its
 * own. */
struct drill_memory {
	struct cohort_group *keeper;
	struct cohort_comm *comms[DRILL_MOST_RANKS];
	float *tensors[DRILL_MOST_RANKS]; /* two for each rank */
};

/* Do one cell that is possible. */
void drill_run(const struct drill_options *options,
               const struct drill_memory *memory, enum place place,
               enum trouble trouble, struct drill_result *result);

/* ---- the inside of a cell --------------------------------------------- */

/* Elements of a tensor. */
enum { DRILL_COUNT = 1000 };

struct drill_run;

struct drill_rank {
	struct drill_run *run;
	int number;
	struct cohort_comm *comm;
	float *tensors; /* two of them */
	pthread_t thread;
	int status; /* what it was told */

	/* Posted by the thread at its end. */
	sem_t ended;
};

/* One run of one cell; lives on if a thread does not come back. */
struct drill_run {
	/* Constant while threads run. */
	const struct drill_options *options;
	const struct cell *cell;
	enum place place;
	enum trouble trouble;
	int n;
	uint64_t deadline_ns; /* that is to pass */
	struct cohort_group_options group_options;
	struct cohort_group *group;
	struct drill_rank ranks[DRILL_MOST_RANKS];
	struct cohort_abort *handle;

	/* Of the main thread. */
	pthread_t main;
	bool is_hung; /* a thread has not come back */

	/* Where all ranks meet before what is drilled. */
	pthread_barrier_t ready;

	/* Atomic; ranks that have called, or are about to where a call takes until
	 * all have. */
	atomic_int called;

	/* Atomic; ranks whose threads are done with their communicators. */
	atomic_int left;

	/* Atomic; how often the handle was fired, and how often that was what ended
	 * the group. */
	atomic_int fires;
	atomic_int fired;

	/* Atomic; somebody was warned of a rank that is inside its native call; the
	 * group is about to be closed. */
	atomic_bool is_stuck;
	atomic_bool is_closing;

	/* Atomic; when what is drilled began, and when the fault did. */
	_Atomic uint64_t began_ns;
	_Atomic uint64_t fault_ns;

	pthread_mutex_t lock;

	/* Guarded by lock. */
	struct drill_verdict {
		int kind; /* NONE: there is none */
		int rank;
		uint64_t since_ns; /* of a deadline, else 0 */
		uint64_t deadline_ns;
		uint64_t time_ns;
		char text[1024];
	} verdict;
	char complaint[256]; /* the first thing that is not right beside it */
};

/* Say what is not right beside the verdict; the first counts. */
void drill_complain(struct drill_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* COHORT_OK of @what, or a complaint. */
bool drill_must(struct drill_run *run, int status, const char *what);

/* Take a verdict that is no cause, of a deadline since @began_ns; the first counts. */
void drill_note(struct drill_run *run, int kind, const char *text,
                uint64_t began_ns);

/* The rank that the fault is on. */
static inline int drill_victim(const struct drill_run *run)
{
	return run->n - 1;
}

/* Whether a trouble shows when the prober asks. */
static inline bool drill_is_asked_for(enum trouble trouble)
{
	return trouble == BY_ASYNC_ERROR || trouble == BY_CUDA_ERROR ||
	       trouble == BY_DEVICE_LOST;
}

/* Script a fault on the victim. */
void drill_fault(struct drill_run *run, int rank, uint64_t operation, int kind,
                 uint64_t value);

/* That which the cell's trouble is at the native call number @operation of the
 * victim; none for troubles that are not such. */
void drill_arm(struct drill_run *run, uint64_t operation);

/* The same at an init (0) or a split (1) of @rank. */
void drill_arm_init(struct drill_run *run, int rank, uint64_t operation);

/* The fault begins. */
void drill_strike(struct drill_run *run);

/* Wait until @n ranks are counted; false, and a complaint, if they are not. */
bool drill_await_counted(struct drill_run *run, const atomic_int *count, int n);

/* Wait until the group has a cause; false, and a complaint, if it gets none. */
bool drill_await_cause(struct drill_run *run);

/* Wait until @flag is set; false, and a complaint with @what, if it is not. */
bool drill_await(struct drill_run *run, const atomic_bool *flag,
                 const char *what);

/* Be late, but in time. */
void drill_dawdle(const struct drill_run *run);

/* Fire the handle, and count. */
void drill_fire(struct drill_run *run);

/* That of which the handler fires. */
#define DRILL_SIGNAL SIGUSR1

/* That by which threads are asked for their stacks. */
#define DRILL_STACK_SIGNAL (SIGRTMIN + 5)

/* Have @thread fire it, by a signal handler, and wait for that. */
void drill_fire_by_signal(struct drill_run *run, pthread_t thread);

/* Open the group, for drill_close(); false after a complaint. */
bool drill_open(struct drill_run *run);

/* Split it, and take a handle; false after a complaint. */
bool drill_split(struct drill_run *run, struct cohort_comm **comms);

/* Keep the group's cause, or @cause. */
void drill_keep_cause(struct drill_run *run);
void drill_keep(struct drill_run *run, const struct cohort_cause *cause);

/* Close the group, which must answer @status. */
void drill_close(struct drill_run *run, int status);

/* One sum of @n ranks by this thread, and whether it is right. */
void drill_sum(struct drill_run *run, struct cohort_comm **comms, int n);

/* Judge what was noted of a run that is over, and time it. */
void drill_judge(struct drill_run *run, struct drill_result *result);

/* ---- where each rank has a thread ------------------------------------- */

/* Tensor 0 or 1 of a rank; fill both with what it gives, and see whether the first
 * @tensors hold what they are to hold at the end. */
float *drill_tensor(struct drill_rank *k, int i);
int drill_fill(struct drill_rank *k);
void drill_check(struct drill_rank *k, int tensors);

/* Call what the place is about; which tickets it gave, 0: none. */
int drill_act(struct drill_rank *k, uint64_t tickets[2]);

/* Whether @k is what makes the cell, by @trouble. */
bool drill_is_odd(const struct drill_rank *k, enum trouble trouble);

/* What a sound rank does, and what the victim does. */
void drill_act_and_wait(struct drill_rank *k);
void drill_act_as_victim(struct drill_rank *k);

/* Its thread is done with the communicator. */
void drill_leave(struct drill_rank *k);

/* Of a rank that waits for the victim. */
pthread_t drill_waiting_thread(const struct drill_run *run);

/* End the group from outside, in @thread if that is by a signal. */
void drill_abort_it(struct drill_run *run, pthread_t thread);

/* The places. */
void drill_by_ranks(struct drill_run *run);
void drill_at_open(struct drill_run *run);
void drill_at_group(struct drill_run *run);
void drill_at_respawn(struct drill_run *run);
void drill_with_remote(struct drill_run *run);

/* ---- the census ------------------------------------------------------- */

/* How many there are of the things that a cell begins. */
struct drill_census {
	size_t threads; /* except those that the platform keeps */
	int newest;     /* the greatest thread id */
	size_t memory;
	size_t streams;
	size_t events;
	size_t worlds;
	size_t meetings;
};

struct drill_census drill_census(void);

/* True if there is more than in @before, after a time for what ends by itself: then
 * @out names it. */
bool drill_is_left(const struct drill_census *before, char *out, size_t size);

/* ---- reporting -------------------------------------------------------- */

/* Of all cells. */
struct drill_summary {
	size_t cells;
	size_t wrong;
	size_t timed;
	double *late_ms; /* beyond the bound, @timed of them, sorted */
	double seconds;
};

void drill_print_head(void);
void drill_print(const struct drill_result *result);
void drill_print_summary(const struct drill_summary *summary);
void drill_json(const struct drill_result *results, size_t n);
void drill_list(const struct drill_options *options);

/* "outside the library, rank 3". */
void drill_spell(char *out, size_t size, int kind, int rank);

/* What a cell is to come to, of @ranks ranks. */
int drill_expected_rank(const struct cell *cell, int ranks);

/* The command: @argv[0] is its name, an enum cli_exit is returned. */
int drill_main(int argc, char **argv);

#endif
