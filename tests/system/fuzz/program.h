/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

/*
 * A random program over NCCL and the CUDA runtime for one to eight threads
 *
 * The bytes of an input are a header and then steps of STEP_BYTES each.  All
 * threads go through all steps in order, and each does its part: a collective
 * is called by the threads that own its ranks, a copy by one.  What is legal is
 * settled before anything runs (plan.c), by a model that knows who owns what,
 * and what may hang: a device belongs to one thread, as do its streams and the
 * ranks on it, so that all queues are filled in the order of the steps, and
 * only what the plan says can wait for ever.
 *
 * A thread that waits for what may never come declares that.  When every thread
 * waits, the reaper aborts all communicators and releases what is held.
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
#define SLOTS 4 /* streams of a device; 0 is the legacy default one */
/* a wait for the device as a whole is the only one possible */
#define NO_SLOT (-2)
#define EVENTS 4
#define BLOCKS 4
#define HOLDS 4

struct program;
struct runner;
struct step;

/* X(name, how often): the kinds of steps. */
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
 * The first byte of a step gives its kind.  The first values are kinds of their
 * own, in the list's order; the others are collectives.
 */
#define STEP_WEIGHT(name, weight) +weight
enum { STEP_BYTES_USED = 0 STEP_LIST(STEP_WEIGHT) };
#undef STEP_WEIGHT

/* One rank's part of a collective. */
struct part {
	struct program *program;
	struct step *step;
	struct part *next; /* the owner's next part, not checked yet */
	int rank;
	ncclResult_t called; /* the call's result */
	bool queued;         /* it has taken effect */
	bool dropped;        /* dropped with the group */
	cudaStream_t stream;
	int slot;
	/* Where the buffers are, and the memory that contains them. */
	void *send, *recv;
	void *send_memory, *recv_memory;
	void *scalar; /* the factor of each input, in device memory */
	size_t send_bytes, recv_bytes;
};

struct step {
	enum step_kind kind;
	int number;
	uint8_t raw[STEP_BYTES];
	int who; /* the thread, for a step of one thread */
	struct family *family;

	/* The model's part. */
	bool may_hang; /* it may wait for what never comes */
	bool is_sure;  /* its effect is certain: nothing before was odd */
	bool grouped;  /* inside the program's own group */

	/* For a collective. */
	int call; /* enum fuzz_call */
	size_t count;
	int type, op, root, peer;
	bool in_place;
	bool is_scaled; /* the operation is a sum of scaled inputs */
	int odd_rank;   /* the rank that does something else, or -1 */
	struct part parts[MOST_RANKS];

	/*
	 * For a split or shrink: the children, each rank's number in its child,
	 * and the list of the ranks left out.
	 */
	struct family *children[2];
	int child_rank[MOST_RANKS];
	unsigned excluded;
	bool is_simulated; /* the end of a group is only simulated */
	bool is_loss;      /* the ranks left out do not join a collective */

	/*
	 * Guarded by the program's lock: threads that have come to this step.
	 */
	int arrived;

	/* For a handoff. */
	sem_t done;
	cudaEvent_t event;
};

/* How a family ends, settled by the first thread to end it. */
enum ending {
	ENDING_NONE,
	ENDING_DESTROY, /* by the owners */
	ENDING_ABORT,   /* by the owners, the reaper, or both */
};

/* The ranks of one communicator. */
struct family {
	int n;
	int device[MOST_RANKS];
	int owner[MOST_RANKS];
	ncclUniqueId id;

	/* The model's part, constant while the program runs. */
	bool is_pending; /* its init is in the open group */
	bool is_doomed;  /* its calls may be cut short, or not match */
	bool hangs;      /* its calls may wait for ever */
	bool is_gone;    /* ends before the next step */
	bool is_final;   /* gets no more calls */
	bool is_revoked;
	bool is_ending;  /* the reaper has been asked to abort it */
	bool is_async;   /* does not block */
	bool is_partial; /* one rank never comes */
	bool has_config;
	/* children of a split and of a shrink are aborted with it */
	bool shares[2];
	struct family *root; /* of those that are aborted together, or itself */
	unsigned touched;    /* threads that have called it in this group */

	/*
	 * Atomic.  The thread that makes a comm writes it, and ready publishes
	 * it.
	 */
	ncclComm_t comm[MOST_RANKS];
	atomic_int ready;
	atomic_int ending;
	atomic_bool is_broken;          /* could not be made */
	atomic_bool is_dead;            /* seq_cst, together with the gates */
	atomic_bool inside[MOST_RANKS]; /* the gates: its owner is inside */
	/* a thread releases it, or has released it */
	atomic_bool is_released[MOST_RANKS];
	/* the reaper must abort it; under the lock */
	bool is_wanted;
	bool is_flagged;        /* the reaper's */
	atomic_bool is_aborted; /* nothing of it is in progress any more */
};

/* A block of memory that one thread works on with one stream, and what must be
 * in it. */
#define BLOCK_BYTES 96
struct block {
	unsigned char *memory;
	unsigned char mirror[BLOCK_BYTES];
	int kind; /* 0: device, 1: pinned */
	int device;
	int slot;
};

/* One of the threads. */
struct runner {
	struct program *program;
	int index;
	int depth;           /* nesting of its groups */
	int group_error;     /* the required answer of the outermost end */
	bool group_is_loose; /* it may answer something else */
	bool simulates;      /* it simulates the end of its group */
	bool stays_inside;   /* even after its group is closed */
	bool group_waits;    /* its end waits for other threads */
	/*
	 * Parts that were called in this group; that were queued; that were
	 * checked.
	 */
	struct part *pending, *parts, *checked;
	struct step *joins[MOST_FAMILIES]; /* inits of this group */
	int join_count;
	struct {
		struct family *family;
		int rank;
	} held[MOST_FAMILIES * MOST_RANKS];
	int held_count;
	cudaEvent_t events[EVENTS];
	struct block blocks[BLOCKS];
	unsigned long host_calls; /* how many were queued */
	atomic_ulong host_called; /* how many ran */
};

struct program {
	int threads;
	int ends_by_destroy; /* if not, by abort */
	struct step steps[MOST_STEPS];
	int step_count;
	struct family families[MOST_FAMILIES];
	int family_count;

	/* The model's part. */
	bool is_wild; /* a fault is scripted */
	bool is_calm; /* nothing hangs, except for what the reaper ends */
	/*
	 * Why the queues of a device may be stuck: a bit for each family that
	 * hangs, and one for held host functions.
	 */
	unsigned tainted[DEVICES];
	unsigned event_tainted[MOST_THREADS][EVENTS];
	int depth;                     /* of the group */
	bool has_failed[MOST_THREADS]; /* a call of this group */
	bool has_joins, has_jobs;      /* this group */
	int holds;

	/* Owned by the thread that owns the device. */
	cudaStream_t streams[DEVICES][SLOTS];

	struct runner runners[MOST_THREADS];
	sem_t held[HOLDS];

	/* Atomic; how many threads wait, and for what: see run.c. */
	_Atomic uint64_t waits;

	/* Guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_over;
};

/* Make a program from @data; false if @data has none. */
bool plan(struct program *p, const uint8_t *data, size_t size);

/* Print the program, if that is asked for. */
void plan_show(const struct program *p);

/*
 * Make a program from @data, run it to its end, and check that everything was
 * given back.
 */
void fuzz_run(const uint8_t *data, size_t size);

/* A thread's part in a step. */
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
	FUZZ_FIRST_CALLS, /* the corpus has many of these */
	FUZZ_BCAST = FUZZ_FIRST_CALLS,
	FUZZ_ALL_TO_ALL,
	FUZZ_GATHER,
	FUZZ_SCATTER,
	FUZZ_RING, /* each rank sends to the one @root further on */
	FUZZ_PAIR, /* @root sends to @peer */
	FUZZ_CALLS,
};

/* Everything queued on @device's @slot (-1: all of both) is done: check it. */
void parts_check(struct runner *r, int device, int slot);

/* Have one of the thread's ranks call a step's collective. */
void call_rank(struct runner *r, struct step *s, int rank);

/* The group of @r has ended with @result. */
void parts_end_group(struct runner *r, ncclResult_t result);

/* How many results were compared so far. */
unsigned long fuzz_results(void);

/*
 * Give the buffers of a list back, those on @device or (-1) all; that waits for
 * the device.
 */
void parts_free(struct part **list, int device);

/* ---- partial.c -------------------------------------------------------- */

/*
 * Whether some rank of the family exists, and no thread has begun to abort that
 * rank.
 */
bool partial_waits(struct family *f);

/*
 * partial_abort() aborts the ranks that exist; partial_end() does that at the
 * end of the program, and uses the family's id up.
 */
void partial_abort(struct family *f);
void partial_end(struct family *f);

/* ---- captured.c ------------------------------------------------------- */

/* Give a rank a captured stream of its own. */
void part_capture(struct part *part);

/* ---- life.c ----------------------------------------------------------- */

void joins_end_group(struct runner *r, ncclResult_t result);

/* The kind of the fault that a step scripts. */
int fault_kind(const struct step *s);

/* How many ranks of the family the thread has. */
int own_ranks(const struct runner *r, const struct family *f);

/*
 * publish() makes @ranks more ranks known; check_comm() checks what a
 * communicator says it is.
 */
void publish(struct family *f, struct program *p, int ranks);
void check_comm(const struct family *f, int rank);

/*
 * Before a step that ends operations in flight: all ranks get to it first, or
 * all may hang.
 */
void cut_together(struct runner *r, struct step *s);

/* ---- wrong.c ---------------------------------------------------------- */

/* Whether wrong call number @n is one of NCCL's, and makes a group fail. */
bool wrong_is_poison(unsigned n);
bool wrong_needs_rank(unsigned n);
bool wrong_needs_revoked(unsigned n);

/* ---- run.c ------------------------------------------------------------ */

__attribute__((format(printf, 1, 2), noreturn)) void
fuzz_fail(const char *format, ...);

/* Called around everything that may wait for other threads. */
void wait_begin(struct program *p, bool may_hang);
void wait_end(struct program *p, bool may_hang);

/* Wait until all owners of @s's family have reached the step. */
void wait_for_owners(struct program *p, struct step *s);

/* From now on all may hang: one rank is aborted, and others may wait for it. */
void wait_cut(struct program *p);

/*
 * Go inside, unless the family is being aborted; settle() leaves the gates once
 * the thread's group is closed.
 */
bool go_inside(struct runner *r, struct family *f, int rank);
void settle(struct runner *r);

/* True if some family must be aborted for the threads to go on. */
bool is_stuck(const struct program *p);

/*
 * An NCCL call must have succeeded or, with @is_sure false, have returned one
 * of NCCL's codes.
 */
void expect(bool is_sure, ncclResult_t result, const char *call);
void expect_cuda(cudaError_t error, const char *call);

/* No other family is aborted with this one. */
bool is_alone(struct program *p, const struct family *f);

/*
 * True if no thread has begun to abort this family, or those aborted with it.
 */
bool is_intact(struct program *p, const struct family *f);

/* True if the reaper has not begun to abort it. */
bool is_alive(const struct family *f);

/*
 * What one of the thread's ranks answers once nothing is in progress;
 * ncclSuccess for a rank that is being aborted.
 */
ncclResult_t await_state(struct runner *r, struct family *f, int rank);

ncclResult_t fuzz_group_start(struct runner *r);
ncclResult_t fuzz_group_end(struct runner *r, bool may_hang);

/* ---- reaper.c --------------------------------------------------------- */

/* The thread, for one program. */
void reap(void *program, int i);

/* All ranks of the family exist. */
bool is_ready(const struct family *f);

/* Have the reaper abort @f. */
void reap_want(struct program *p, struct family *f);

/* True if the caller may end the family in this way. */
bool settle_ending(struct family *f, int how);

/* ---- scenes.c --------------------------------------------------------- */

/* How many streams of the threads' own there are. */
size_t scene_own_streams(void);

/* ---- cuda.c ----------------------------------------------------------- */

/* The stream in a slot, made if necessary; changes the current device. */
cudaStream_t slot_stream(struct runner *r, int device, int slot);
void streams_drain(struct runner *r);

/* Wait for everything on a device that the thread owns. */
void device_drain(struct runner *r, int device, bool may_hang);

/* device_drain() for all devices of the thread's ranks of @f. */
void ranks_drain(struct runner *r, const struct family *f, bool may_hang);
void cuda_end(struct program *p);

/*
 * The table, for functions that neither NCCL nor CUDA has: marks, progress,
 * flush.
 */
const struct platform *own_functions(void);

static inline bool owns(const struct runner *r, int device)
{
	return device % r->program->threads == r->index;
}

#endif
