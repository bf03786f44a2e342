/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

/*
 * A random program that uses NCCL and the CUDA runtime on one to eight threads
 *
 * An input is a header and steps of STEP_BYTES each. All threads go through all
 * steps in order, and each thread does its part. For example, the threads that
 * own the ranks of a collective call it, and a single thread makes a copy.
 * Before the run, the planner (plan.c) decides what is legal, by a model of who
 * owns what and of what may hang. Each device belongs to one thread, and so do
 * its streams and ranks. So all queues are filled in the order of the steps,
 * and only operations for which the plan allows it can wait forever.
 *
 * A thread announces when it waits for something that may never happen. When
 * every thread waits, the reaper aborts all communicators and releases
 * everything that is held.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/host.h"

#define STEP_BYTES 8
#define HEADER_BYTES 2
#define MOST_STEPS 64
#define MOST_THREADS 8
#define MOST_RANKS 8
#define MOST_FAMILIES 16
#define DEVICES 8
#define SLOTS 4 /* streams of a device; slot 0 is the legacy default stream */
/* slot that stands for a wait for the whole device */
#define NO_SLOT (-2)
#define EVENTS 4
#define BLOCKS 4
#define HOLDS 4

struct program;
struct runner;
struct step;

/* The kinds of steps and how often each is chosen, as X(name, weight) */
#define STEP_LIST(X)                                                           \
	X(init_all, 2)                                                         \
	X(init_ranks, 3)                                                       \
	X(collective, 12)                                                      \
	X(group_begin, 3)                                                      \
	X(group_end, 4)                                                        \
	X(finalize, 1)                                                         \
	X(destroy, 1)                                                          \
	X(own_abort, 1)                                                        \
	X(abort, 2)                                                            \
	X(fault, 1)                                                            \
	X(stream_sync, 4)                                                      \
	X(stream_query, 2)                                                     \
	X(stream_destroy, 1)                                                   \
	X(device_sync, 1)                                                      \
	X(host_function, 1)                                                    \
	X(hold, 1)                                                             \
	X(let_go, 1)                                                           \
	X(event, 4)                                                            \
	X(handoff, 2)                                                          \
	X(memory, 5)                                                           \
	X(wrong, 6)                                                            \
	X(split, 3)                                                            \
	X(shrink, 3)                                                           \
	X(revoke, 2)                                                           \
	X(extra, 4)                                                            \
	X(captured, 3)                                                         \
	X(window, 2)                                                           \
	X(scene, 4)                                                            \
	X(init_cut, 2)                                                         \
	X(flush, 4)

enum step_kind {
	STEP_NOTHING,
#define STEP_ENUM(name, weight) STEP_##name,
	STEP_LIST(STEP_ENUM)
#undef STEP_ENUM
};

/*
 * Number of values of a step's first byte that select a kind of the list, in
 * its order. All other values select a collective.
 */
#define STEP_WEIGHT(name, weight) +weight
enum { STEP_BYTES_USED = 0 STEP_LIST(STEP_WEIGHT) };
#undef STEP_WEIGHT

/* One rank's part of a collective */
struct part {
	struct program *program;
	struct step *step;
	/* next part in the same list of the owner (pending, parts or
	 * checked) */
	struct part *next;
	int rank;
	ncclResult_t called;
	bool queued;  /* the call has taken effect */
	bool dropped; /* the call was dropped with its group */
	cudaStream_t stream;
	int slot;
	/* addresses of the buffers, and of the memory that contains them */
	void *send, *recv;
	void *send_memory, *recv_memory;
	void *scalar; /* factor of this rank's input, in device memory */
	size_t send_bytes, recv_bytes;
};

struct step {
	enum step_kind kind;
	int number;
	uint8_t raw[STEP_BYTES];
	int who; /* the thread that runs the step, if there is only one */
	struct family *family;

	/* Set by the planner */
	bool may_hang; /* the step may wait forever */
	bool is_sure;  /* the effect of the step is certain */
	bool grouped;  /* the step is inside the program's own group */

	/* For a collective */
	int call; /* enum fuzz_call */
	size_t count;
	int type, op, root, peer;
	bool in_place;
	bool is_scaled; /* the operation scales each input */
	int odd_rank;   /* the rank that does something else, or -1 */
	struct part parts[MOST_RANKS];

	/*
	 * For a split or a shrink: the children, each rank's number in its
	 * child, and the excluded ranks
	 */
	struct family *children[2];
	int child_rank[MOST_RANKS];
	unsigned excluded;
	bool is_simulated; /* the end of the group is only simulated */
	/* excluded ranks skip a collective before the step */
	bool is_loss;

	/* Number of threads that have reached this step, guarded by the lock */
	int arrived;

	/* For a handoff between two threads */
	sem_t done;
	cudaEvent_t event;
};

/* Way in which a family ends, decided by the first thread that ends it */
enum ending {
	ENDING_NONE,
	ENDING_DESTROY, /* the owners destroy the family */
	ENDING_ABORT,   /* the owners, the reaper, or both abort the family */
};

/* A family: the ranks of one communicator */
struct family {
	int n;
	int device[MOST_RANKS];
	int owner[MOST_RANKS];
	ncclUniqueId id;

	/* Set by the planner, constant while the program runs */
	bool is_pending; /* the init is in the open group */
	bool is_doomed;  /* calls may be cut short or mismatched */
	bool hangs;      /* calls may wait forever */
	bool is_gone;    /* ends before the next step */
	bool is_final;   /* gets no more calls */
	bool is_revoked;
	bool is_ending;  /* a step has asked the reaper to abort it */
	bool is_async;   /* nonblocking */
	bool is_partial; /* one rank never joins */
	bool has_config;
	/* children of a split, and of a shrink, are aborted with it */
	bool shares[2];
	struct family *root; /* first of the families aborted together */
	unsigned touched;    /* threads that have called in the open group */

	/*
	 * Atomic. The creating thread writes an entry, and ready publishes it.
	 */
	ncclComm_t comm[MOST_RANKS];
	atomic_int ready;
	atomic_int ending;
	atomic_bool is_broken;          /* creation has failed */
	atomic_bool is_dead;            /* seq_cst, ordered with the gates */
	atomic_bool inside[MOST_RANKS]; /* gates: the owner is inside */
	/* a thread has released the rank or is about to */
	atomic_bool is_released[MOST_RANKS];
	/* the reaper must abort the family; guarded by the lock */
	bool is_wanted;
	/* abort flags are raised; used only by the reaper */
	bool is_flagged;
	atomic_bool is_aborted; /* the abort is complete */
};

/*
 * A block of memory that one thread uses on one stream, and its expected
 * contents
 */
#define BLOCK_BYTES 96
struct block {
	unsigned char *memory;
	unsigned char mirror[BLOCK_BYTES];
	int kind; /* 0 is device memory, 1 is pinned host memory */
	int device;
	int slot;
};

/* A thread of the program */
struct runner {
	struct program *program;
	int index;
	int depth;           /* nesting depth of its groups */
	int group_error;     /* required result of the outermost group end */
	bool group_is_loose; /* the group end may return other results */
	bool simulates;      /* simulates the end of its group */
	bool stays_inside;   /* stays inside after its group has ended */
	bool group_waits;    /* the end of the group waits for other threads */
	/* parts that were called in this group, parts that are queued, and
	 * parts that were checked */
	struct part *pending, *parts, *checked;
	struct step *joins[MOST_FAMILIES]; /* inits in this group */
	int join_count;
	struct {
		struct family *family;
		int rank;
	} held[MOST_FAMILIES * MOST_RANKS];
	int held_count;
	cudaEvent_t events[EVENTS];
	struct block blocks[BLOCKS];
	unsigned long host_calls; /* number of host functions queued */
	atomic_ulong host_called; /* number of host functions that have run */
};

struct program {
	int threads;
	/* whether the program ends by destroying its communicators */
	int ends_by_destroy;
	struct step steps[MOST_STEPS];
	int step_count;
	struct family families[MOST_FAMILIES];
	int family_count;

	/* Set by the planner */
	bool is_wild; /* a fault is scripted */
	bool is_calm; /* the reaper can end everything that hangs */
	/*
	 * Reasons why the queues of a device may be stuck: one bit for each
	 * family that hangs, and one for held host functions
	 */
	unsigned tainted[DEVICES];
	unsigned event_tainted[MOST_THREADS][EVENTS];
	int depth;                     /* nesting depth of the group */
	bool has_failed[MOST_THREADS]; /* a call in this group failed */
	/* this group has inits, and has other calls */
	bool has_joins, has_jobs;
	int holds;

	/* Used only by the thread that owns the device */
	cudaStream_t streams[DEVICES][SLOTS];

	struct runner runners[MOST_THREADS];
	sem_t held[HOLDS];

	/* Atomic; numbers of waiting threads, by kind of wait (run.c) */
	_Atomic uint64_t waits;

	/* Guarded by lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_over;
};

/* Make a program from @data. Return false if @data is too short. */
bool plan(struct program *p, const uint8_t *data, size_t size);

/* Print the program if FUZZ_SHOW is set. */
void plan_show(const struct program *p);

/*
 * Make a program from @data, run it, and check that it has released everything.
 */
void fuzz_run(const uint8_t *data, size_t size);

/* Declare the function that runs a thread's part of a kind of step. */
#define STEP_FUNCTION(name, weight)                                            \
	void run_##name(struct runner *r, struct step *s);
STEP_LIST(STEP_FUNCTION)
#undef STEP_FUNCTION

/* ---- calls.c ---------------------------------------------------------- */

enum fuzz_call {
	FUZZ_ALL_REDUCE,
	FUZZ_BROADCAST,
	FUZZ_REDUCE,
	FUZZ_ALL_GATHER,
	FUZZ_REDUCE_SCATTER,
	FUZZ_FIRST_CALLS, /* end of the calls that most of the corpus uses */
	FUZZ_BCAST = FUZZ_FIRST_CALLS,
	FUZZ_ALL_TO_ALL,
	FUZZ_GATHER,
	FUZZ_SCATTER,
	FUZZ_RING, /* each rank sends to the rank @root places after it */
	FUZZ_PAIR, /* @root sends to @peer */
	FUZZ_CALLS,
};

/* Check the results of all work that was queued on stream @slot of @device, or
 * on all of its streams if @slot is -1. The work must be done. */
void parts_check(struct runner *r, int device, int slot);

/* Call a step's collective for one of the thread's ranks. */
void call_rank(struct runner *r, struct step *s, int rank);

/* Record that the group of @r has ended with @result. */
void parts_end_group(struct runner *r, ncclResult_t result);

/* Return the number of results compared so far. */
unsigned long fuzz_results(void);

/*
 * Free the buffers of a list that are on @device, or on any device if @device
 * is -1. Waits for the device.
 */
void parts_free(struct part **list, int device);

/* ---- partial.c -------------------------------------------------------- */

/*
 * Return whether the family has a rank that exists and that no thread has begun
 * to abort.
 */
bool partial_waits(struct family *f);

/*
 * partial_abort() aborts the ranks that exist. partial_end() does this at the
 * end of the program, and uses up the family's id.
 */
void partial_abort(struct family *f);
void partial_end(struct family *f);

/* ---- captured.c ------------------------------------------------------- */

/* Give a rank its own stream, and begin a capture on it. */
void part_capture(struct part *part);

/* ---- life.c ----------------------------------------------------------- */

void joins_end_group(struct runner *r, ncclResult_t result);

int fault_kind(const struct step *s);

/* Return how many ranks of the family the thread has. */
int own_ranks(const struct runner *r, const struct family *f);

/*
 * publish() publishes @ranks more ranks. check_comm() checks what a
 * communicator reports about itself.
 */
void publish(struct family *f, struct program *p, int ranks);
void check_comm(const struct family *f, int rank);

/*
 * Wait for all ranks before a step that aborts operations in flight. If they do
 * not all arrive before the abort, all of them may hang.
 */
void cut_together(struct runner *r, struct step *s);

/* ---- wrong.c ---------------------------------------------------------- */

/* Return whether invalid call @n is a call of NCCL that makes its group
 * fail. */
bool wrong_is_poison(unsigned n);
bool wrong_needs_rank(unsigned n);
bool wrong_needs_revoked(unsigned n);

/* ---- run.c ------------------------------------------------------------ */

__attribute__((format(printf, 1, 2), noreturn)) void
fuzz_fail(const char *format, ...);

/* Call these before and after everything that may wait for other threads. */
void wait_begin(struct program *p, bool may_hang);
void wait_end(struct program *p, bool may_hang);

/* Wait until all owners of @s's family have reached the step. */
void wait_for_owners(struct program *p, struct step *s);

/*
 * Allow all threads to hang from now on, because they may wait for an aborted
 * rank.
 */
void wait_cut(struct program *p);

/*
 * Enter a rank's gate. Return false if the family is being aborted. settle()
 * leaves the gates after the thread's group has ended.
 */
bool go_inside(struct runner *r, struct family *f, int rank);
void settle(struct runner *r);

/* Return whether the threads are stuck until some family is aborted. */
bool is_stuck(const struct program *p);

/*
 * Check that an NCCL call has succeeded or, if @is_sure is false, has returned
 * an NCCL code.
 */
void expect(bool is_sure, ncclResult_t result, const char *call);
void expect_cuda(cudaError_t error, const char *call);

/* Return whether no other family is aborted together with this one. */
bool is_alone(struct program *p, const struct family *f);

/*
 * Return whether no thread has begun to abort this family or a family that is
 * aborted together with it.
 */
bool is_intact(struct program *p, const struct family *f);

/* Return whether the reaper has not begun to abort the family. */
bool is_alive(const struct family *f);

/*
 * Wait until nothing of a rank is in progress. Return its asynchronous state,
 * or ncclSuccess if the rank is being aborted.
 */
ncclResult_t await_state(struct runner *r, struct family *f, int rank);

ncclResult_t fuzz_group_start(struct runner *r);
ncclResult_t fuzz_group_end(struct runner *r, bool may_hang);

/* ---- reaper.c --------------------------------------------------------- */

/* Run the reaper's thread for one program. */
void reap(void *program, int i);

/* Return whether all ranks of the family exist. */
bool is_ready(const struct family *f);

/* Ask the reaper to abort @f. */
void reap_want(struct program *p, struct family *f);

/* Decide how the family ends. Return true if it ends in the way @how. */
bool settle_ending(struct family *f, int how);

/* ---- scenes.c --------------------------------------------------------- */

/* Return how many streams of their own the threads have. */
size_t scene_own_streams(void);

/* ---- cuda.c ----------------------------------------------------------- */

/* Return the stream in a slot, created on demand. Makes its device current. */
cudaStream_t slot_stream(struct runner *r, int device, int slot);
void streams_drain(struct runner *r);

/* Wait for everything on a device that the thread owns. */
void device_drain(struct runner *r, int device, bool may_hang);

/* Call device_drain() for each device of the thread's ranks of @f. */
void ranks_drain(struct runner *r, const struct family *f, bool may_hang);
void cuda_end(struct program *p);

/*
 * Return the platform's table, for functions that are not in NCCL or CUDA:
 * marks, progress and flush.
 */
const struct platform *own_functions(void);

static inline bool owns(const struct runner *r, int device)
{
	return device % r->program->threads == r->index;
}

#endif
