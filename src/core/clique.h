/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CLIQUE_H
#define CORE_CLIQUE_H

/*
 * A clique: the communicators of one generation of a group, one per rank
 * (comm.h), and the state that decides how they end
 *
 * docs/internals.md ("The abort protocol") has a diagram of the states, and the
 * steps of the *reaper*, the one job that aborts or destroys the native
 * communicators.
 *
 *  A. The cause is written once, and never changes.
 *  B. Each native communicator is aborted once or destroyed once, and only by
 *     the reaper.
 *  C. From QUIESCED on, no operation of the clique can access a buffer of the
 *     program.
 *  D. A WEDGED clique frees nothing, because operations that cannot be stopped
 *     may still use the memory.
 *  E. A LEAKED clique is quiesced, but its native communicators could not be
 *     freed.
 *  F. No abort flag is up in LIVE and CAUSED, so an operation that is marked as
 *     done has really completed.  The move to NOTING starts a snapshot of the
 *     completed operations.  From NOTED on, only that snapshot decides which
 *     tickets are COHORT_OK, so the result for a ticket never changes.
 */

#include <stdatomic.h>

#include "base/backoff.h"
#include "base/crew.h"
#include "core/cause.h"
#include "core/comm.h"
#include "core/connect.h"
#include "core/remote.h"
#include "platform/platform.h"

struct generation;
struct remote;
struct remote_agreement;

enum clique_state {
	/* LIVE or CAUSED, depending on the cause pointer. */
	CLIQUE_LIVE,
	CLIQUE_NOTING,
	CLIQUE_NOTED,
	CLIQUE_FLAGGED,
	CLIQUE_QUIESCED,
	CLIQUE_RECLAIMED,
	CLIQUE_RELEASED,
	CLIQUE_LEAKED,
	CLIQUE_WEDGED,
};

/* Progress of the teardown of a split clique whose ranks have all been
 * closed. */
enum over {
	OVER_NOT,
	/* All ranks are closed, so no rank uses the clique again. */
	OVER_CLOSED,
	/* The watchdog no longer samples the clique, so it may be freed. */
	OVER_UNWATCHED,
	OVER_TAKEN, /* a thread is moving the clique to the next step */
};

/* Progress toward the release of the ranks' resources, which needs two events:
 * the reaper has finished, and tickets can no longer be queried.  Whichever
 * happens last triggers the release. */
enum unused {
	UNUSED_NOT,
	/* Tickets can no longer be queried, so the reaper also releases the
	 * resources. */
	UNUSED,
	/* The reaper has finished, but tickets could still be queried. */
	UNUSED_REAPED,
};

#define COUNTED_KINDS 32

/* Number of reports that the watchdog has made about a clique. */
struct clique_counts {
	/* Number of verdicts of each kind, excluding slow operations, which are
	 * counted in @slow.  Atomic, relaxed, because it is for diagnostics
	 * only.  Written by the watchdog. */
	_Atomic uint64_t verdicts[COUNTED_KINDS];
	_Atomic uint64_t slow;
	_Atomic uint64_t stops;
	_Atomic uint64_t starved;
};

static inline void count_up(_Atomic uint64_t *count)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

struct clique {
	/* ---- constant once the clique is in use -------------------------- */

	const struct platform *platform;
	int size;        /* number of ranks in this process */
	int world_size;  /* number of ranks in all processes */
	int generation;  /* generation of the group, from 1 */
	unsigned serial; /* number of the clique, unique in this process */

	/* Number that identifies this clique among all cliques of the group,
	 * equal in all processes. */
	uint64_t identity;
	/* Maximum number of operations in flight per rank; a power of two. */
	unsigned slots;
	bool allow_capture; /* true if calls may be captured into CUDA graphs */

	/* True if streams also mark the start of each operation. */
	bool starts_are_marked;
	bool together; /* true if no rank launches before all have called */

	/* True if no group owns the clique, which then ends when its last rank
	 * is closed. */
	bool ends_with_last;
	struct generation *owning_generation;
	size_t bytes; /* size of this structure, with its ranks */
	char name[64];
	struct cohort_deadlines deadlines;

	/* True if the environment has set the deadlines; the program then
	 * cannot change them. */
	bool deadlines_are_fixed;
	struct comm_config config;
	int list_way;             /* enum cohort_many */
	_Atomic uint64_t *agreed; /* shared words: see agree_words.h */

	/* Words in which pairs of ranks compare sends and receives (pair.h).
	 * NULL until a rank first sends or receives. */
	struct halves *_Atomic halves;

	/* Functions that ask other processes about their ranks, or NULL in a
	 * group of one process. */
	const struct remote *remote;

	/* Shared memory with the calls of ranks in other processes, or NULL. */
	struct remote_agreement *others;

	/* The block that holds the cause; this pointer owns a reference. */
	struct cohort_abort *end;

	/* Operation that the blamed rank had not called: "all_reduce 3 of
	 * "dp.1"".  Written by the watchdog before it sets a cause; valid if
	 * the cause's since_ns is equal to missed_since_ns. */
	char missed[WAITS_CALL];
	uint64_t missed_since_ns;

	/* ---- the end: written by any thread and by the reaper ------------ */

	/* Atomic; enum clique_state.  Changed by compare-and-swap. */
	atomic_int state;

	/* Atomic; native communicators that an unfinished or failed split has
	 * created, one per rank, or NULL.  The connecting thread stores them,
	 * and takes them back once they are connected.  The reaper takes them
	 * and stores a value that prevents further stores.  seq_cst, so that a
	 * reader also sees the array's contents. */
	ncclComm_t *_Atomic orphans;

	atomic_bool is_reaped; /* atomic; true if the reaper has been started */

	atomic_int unused; /* atomic; enum unused */

	/* Job of the reaper, and the job that later releases the resources that
	 * the reaper had to keep while tickets could still be queried. */
	struct job reaper, releaser;

	/* Atomic; native function that the reaper is in, or NULL.  Relaxed,
	 * because it is for diagnostics only. */
	const char *_Atomic reaping;

	/* Atomic; index in comms of the rank that the reaper's native call is
	 * for, or -1 if the call is for no rank.  Relaxed, because it is for
	 * diagnostics only. */
	atomic_int reaping_place;

	/* ---- the group: written by open, close and respawn --------------- */

	/* Atomic; reference count.  The group, cliques split from this one, and
	 * abandoned threads own references. */
	atomic_int users;

	/* Atomic; number of references that abandoned threads own. */
	atomic_int abandoned_threads;

	/* Atomic; number of reducers and allocations that the program has not
	 * freed. */
	atomic_int held;

	/* True if the clique's memory must read as zero after it is freed,
	 * because the program may still pass its communicators to calls.
	 * comm_check() then refuses them. */
	bool is_forgotten;

	/* Atomic; number of ranks whose communicator is not closed. */
	atomic_int open;

	/* Atomic; true if the group was closed or a respawn has replaced this
	 * generation.  A respawn sets replaced first. */
	atomic_bool stale;

	/* Atomic; true if a respawn has replaced this generation. */
	atomic_bool replaced;

	/* Atomic; enum over.  Written under the lock of clique_tree.c, or by
	 * the thread that has set OVER_TAKEN. */
	atomic_int over;

	/* Atomic; thread ID of the thread that called cohort_group_split(), or
	 * 0.  Relaxed, because it is for diagnostics only. */
	atomic_int split_tid;

	/* ---- the ranks: written with their locks held ----------------- */

	/* Atomic; number of paused ranks.  A rank that resumes first stores
	 * resumed_ns, then decrements this with release. */
	atomic_int paused;

	/* Atomic; time at which a rank last resumed. */
	_Atomic uint64_t resumed_ns;

	/* Atomic; number of ranks that have pushed deadlines.  When a rank pops
	 * its last pushed deadlines, it first updates its struct
	 * deadline_stack, then decrements this with release. */
	atomic_int pushed;

	/* Atomic; total number of times that ranks have entered a split. */
	atomic_int split_arrived;

	atomic_uint splits; /* atomic; number of splits completed */

	/* Atomic; number of ranks that are connected to all other ranks
	 * (pair.c). */
	atomic_int connected_ranks;

	/* Constant; bit i % 64 is set if a rank is on device i.  0 if the
	 * launch lock does not order this clique's launches, because the clique
	 * has one rank, or ranks in other processes. */
	uint64_t devices;

	/* Number of this clique's open launch window, or 0.  Guarded by the
	 * lock of launch_lock.c, like the next three members. */
	unsigned window;

	/* The next clique in the queue for a turn to launch. */
	struct clique *next_turn;

	bool has_turn; /* true if this clique's turn to launch has started */

	/* Time at which this clique's launch window opened, or 0 if it is not
	 * open. */
	uint64_t opened_ns;

	/* ---- the watchdog and the prober --------------------------------- */

	/* Atomic; 1 + the number of the rank whose native communicator the
	 * prober is querying, or 0.  Works as a lock; seq_cst, see cause.h. */
	atomic_int probing;

	/* Atomic; true if a deadline was shortened, so the watchdog must check
	 * the clique immediately.  Set before cause_wake(). */
	atomic_bool is_shorter;

	struct clique_counts counts;

	/* ---- guarded by the lock of clique_tree.c ------------------------ */

	struct clique *next_entered;

	/* The clique that this one was split from, or NULL.  Constant from the
	 * time it is set until both cliques are closed. */
	struct clique *parent;

	/* First in the list of cliques that were split from this one, and next
	 * in the parent's list. */
	struct clique *children, *next_child;

	/* List of cliques that have ended, but whose memory is kept until this
	 * clique's memory is freed. */
	struct clique *kept;

	/* ---- ranks that launch together ---------------------------------- */

	/* The launch barrier's word (launch_barrier.c), in a cache line of its
	 * own. */
	_Alignas(64) struct waited_word opened;

	struct cohort_comm comms[];
};

struct clique_options {
	const char *name;
	unsigned slots;
	bool allow_capture;
	bool no_start_marks;
	int launch; /* enum cohort_launch */
	struct cohort_deadlines deadlines;
	bool deadlines_are_fixed;
	int generation;
	uint64_t identity;
	struct comm_config config;
	int list_way; /* enum cohort_many */

	/* The clique that this one is split from, or NULL. */
	struct clique *parent;

	/* If other processes have ranks: the number of ranks in all processes,
	 * and the ID by which clique_create() connects them.  Otherwise 0 and
	 * NULL. */
	int world;
	const ncclUniqueId *id;
	bool (*is_futile)(void *of, bool is_native); /* see connect_world */
	void *of;

	/* The handle that aborts connecting, or NULL. */
	const struct cohort_abort *abort;
};

/* Create a clique with the @n @ranks.  Connect them, unless they are connected
 * already.  In both cases, take ownership of their resources; on an error, free
 * them. */
int clique_create(const struct platform *platform, struct new_rank *ranks,
                  int n, const struct clique_options *options,
                  struct clique **out);

void clique_get(struct clique *q);

void clique_put(struct clique *q);

/* Acquire a reference for an abandoned thread (a worker, or an owner of a
 * rank), which may still use the clique and every clique split from it. */
void clique_get_abandoned(struct clique *q);

void clique_put_abandoned(struct clique *q);

/* Wait for the reaper of a RELEASED clique, and release the group's reference.
 * If an abandoned thread still uses the clique or its parent, the clique's
 * memory stays until that thread is done. */
void clique_retire(struct clique *q);

/* Free a clique, of which only the first @comms ranks were initialized. */
void clique_free(struct clique *q, int comms);

/* Abandon a clique that did not end as RELEASED: its memory is never freed. */
void clique_leak(struct clique *q);

/* Return the cause, or NULL if the clique has not ended or after an orderly
 * close. */
const struct cohort_cause *clique_cause(const struct clique *q);

/* Return the cause with its full text, or NULL.  If no thread has taken the
 * snapshot of completed operations, take it first
 * (clique_record_completions()), because the text describes the unfinished
 * operations.  Not async-signal-safe. */
const struct cohort_cause *clique_explained_cause(struct clique *q);

/* Set the explained cause as this thread's error, and return its status;
 * COHORT_OK if there is no cause. */
int clique_error(struct clique *q);

/*
 * End the clique with the cause @cause, with a text made from @format.  May be
 * called from any thread.
 *
 * Returns:
 *   COHORT_OK       this is now the cause
 *   COHORT_ALREADY  the clique already has a cause, or is closing
 */
int clique_fire(struct clique *q, const struct cohort_cause *cause,
                const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Return the current state; waits while it is NOTING.  If the abort deadline
 * has passed before the clique is quiesced, moves it to WEDGED first. */
enum clique_state clique_update_state(struct clique *q);

/* Return true if the native communicators are freed in this state.  LEAKED and
 * WEDGED have greater values than RECLAIMED, but free nothing. */
static inline bool clique_is_reclaimed(enum clique_state state)
{
	return state == CLIQUE_RECLAIMED || state == CLIQUE_RELEASED;
}

bool clique_set_state(struct clique *q, int from, int to);

/* Make sure that the snapshot of completed operations exists, before any abort
 * flag is raised.  Waits if another thread is taking it. */
void clique_record_completions(struct clique *q);

/*
 * Store the communicators of an unfinished or failed split, one per rank (NULL
 * if a rank has none).  When the clique ends, the reaper aborts them after the
 * ranks' own communicators, and frees the array.  Return false if the reaper
 * has already called clique_take_orphans(): then all abort flags are up, and
 * the caller still owns @natives.
 */
bool clique_leave_orphans(struct clique *q, ncclComm_t *natives);

/* Take back the communicators that clique_leave_orphans() stored.  Return false
 * if the reaper has already taken them. */
bool clique_reclaim_orphans(struct clique *q, ncclComm_t *natives);

/* Take the communicators that clique_leave_orphans() stored, or NULL if there
 * are none, and make later calls of that function fail.  Only for the reaper
 * and clique_free(). */
ncclComm_t *clique_take_orphans(struct clique *q);

/* Free the ranks' streams, events and device memory.  Reaper only. */
void clique_release(struct clique *q);

/* Free the memory that only calls and the watchdog use, if the clique is
 * RECLAIMED.  It must have a cause (so that no rank can make a call), and the
 * watchdog must no longer sample it.  Its tickets keep their results. */
void clique_forget_calls(struct clique *q);

/*
 * Return the result for an operation that had not completed when the clique got
 * its cause, and set it as this thread's error.
 *
 * Returns:
 *   COHORT_TIMED_OUT  the clique is not QUIESCED yet (sets no error)
 *   COHORT_WEDGED     the abort did not finish in time
 *   COHORT_STATE      the group was closed
 *   a cause's status  the clique is QUIESCED
 */
int clique_end_status(const struct clique *q, enum clique_state state);

/* Wait until clique_end_status() no longer returns COHORT_TIMED_OUT, and return
 * its result. */
int clique_await_end(struct clique *q);

/* Wait until the clique reaches @state or a later state, or @deadline_ns
 * passes.  Return the state. */
enum clique_state clique_await(struct clique *q, enum clique_state state,
                               uint64_t deadline_ns);

static inline int clique_launch(const struct clique *q)
{
	return q->together ? COHORT_LAUNCH_TOGETHER : COHORT_LAUNCH_AHEAD;
}

static inline bool clique_is_child(const struct clique *q)
{
	return q->comms->above;
}

/* Return the number that rank @rank has in the root clique (the ancestor that
 * was not split from another clique).  Return -1 if @q has no such rank, or if
 * the number is unknown because the rank is in another process. */
int clique_world(const struct clique *q, int rank);

/* Store in @to the numbers in @q of the ranks in @set, which are numbered in
 * @from, a clique of the same tree.  Omit ranks that are not in @q, and ranks
 * whose number in the root clique is unknown.  Return false if there are such
 * unknown numbers in @q or @from. */
bool clique_translate(const struct clique *q, uint64_t *to,
                      const struct clique *from, const uint64_t *set);

/* Return the communicator of rank @rank, or NULL if the rank is in another
 * process or does not exist. */
const struct cohort_comm *clique_rank(const struct clique *q, int rank);

/* Return the rank that has the number @world in the root clique.  Return NULL
 * if the rank is in another process or not in @q. */
const struct cohort_comm *clique_rank_of_world(const struct clique *q,
                                               int world);

/* Append the ranks in @set by their numbers in the root clique.  If their
 * numbers in @q differ, append these as well: see rank_set_name(). */
void clique_add_ranks(struct text *t, const struct clique *q,
                      const uint64_t *set);

#define RANK_NAME_SIZE 112

/* Write the name of @rank to @name, in the format of clique_add_ranks(), and
 * return @name. */
const char *clique_name_rank(const struct clique *q, int rank,
                             char name[RANK_NAME_SIZE]);

/* Start the reaper of a clique that has a cause or is closing, once.  Does not
 * block.  Not async-signal-safe. */
void clique_reap(struct clique *q);

/* Start an orderly end of the clique, unless it has ended already. */
void clique_close(struct clique *q);

/* Declare that no thread will query tickets again, so that the ranks' resources
 * are released once the clique is RECLAIMED.  Call it once. */
void clique_set_unused(struct clique *q);

#endif
