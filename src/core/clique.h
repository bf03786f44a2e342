/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CLIQUE_H
#define CORE_CLIQUE_H

/*
 * A clique: the communicators of a group, one per rank (comm.h), and all that
 * decides how they end
 *
 *	     first cause        what is done is          flags up
 *	LIVE ---------> CAUSED ----> NOTING ----> NOTED ---------> FLAGGED
 *	                             being noted    |                 | nobody in,
 *	             the abort deadline has passed  |                 | nothing in
 *	                                            v                 v flight
 *	                                          WEDGED <------- or QUIESCED
 *	                                                              |
 *	                                                              v
 *	                                              RECLAIMED, or LEAKED
 *	                                                  | close
 *	                                                  v
 *	                                              RELEASED
 *
 * LIVE and CAUSED are told apart by the cause pointer, the rest by the state.
 * Setting the cause wakes the watchdog, which runs the clique's reaper: a job of
 * the crew that alone aborts or destroys its native communicators.
 *
 *  A. The cause is written once, and never changes.
 *  B. One abort or one destroy per native communicator, by the reaper only.
 *  C. From QUIESCED on no operation of the clique can touch a buffer of the
 *     program.
 *  D. WEDGED frees nothing: what cannot be stopped keeps what it uses.
 *  E. LEAKED is quiesced, but the platform refused to free.
 *  F. In LIVE and CAUSED no flag is up: what is done is truly done.  What was
 *     done when NOTING began is in the notes, and from NOTED on they alone
 *     decide which tickets answer COHORT_OK.  So an answer never changes.
 */

#include <stdatomic.h>

#include "base/backoff.h"
#include "base/crew.h"
#include "core/cause.h"
#include "core/comm.h"
#include "core/config.h"
#include "platform/platform.h"

struct connected;
struct generation;
struct remote;
struct remote_agreement;

enum clique_state {
	CLIQUE_LIVE, /* or CAUSED */
	CLIQUE_NOTING,
	CLIQUE_NOTED,
	CLIQUE_FLAGGED,
	CLIQUE_QUIESCED,
	CLIQUE_RECLAIMED,
	CLIQUE_RELEASED,
	CLIQUE_LEAKED,
	CLIQUE_WEDGED,
};

/* How far the end of a split clique has come, once all its ranks have closed
 * it. */
enum over {
	OVER_NOT,
	OVER_CLOSED,    /* no rank will use it again */
	OVER_UNWATCHED, /* nor does the watchdog look at it: it may be freed */
	OVER_TAKEN,     /* a thread is taking it one step further */
};

/* Which comes first: the reaper's end, or that no thread asks about tickets. */
enum unused {
	UNUSED_NOT,
	UNUSED,        /* the reaper also releases */
	UNUSED_REAPED, /* the reaper has ended without that */
};

/* Room for the kinds of verdicts. */
#define COUNTED_KINDS 32

/* How often the watchdog has reported something. */
struct clique_counts {
	/* By kind, without warnings.  Atomic; written by the watchdog; relaxed:
	 * for diagnostics only. */
	_Atomic uint64_t verdicts[COUNTED_KINDS];
	_Atomic uint64_t warnings;
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
	int size;           /* ranks in this process */
	int world_size;     /* ranks in all processes */
	int generation;     /* of the group, from 1 */
	unsigned serial;    /* no other clique of this process has it */
	uint64_t identity;  /* the same in all processes of the group, where no
	                        other clique of the group has it */
	unsigned slots;     /* per rank, a power of two */
	bool allow_capture; /* calls on streams that are being captured */
	bool starts_are_marked; /* calls mark their streams as they start */
	bool together;          /* no rank launches before all have called */
	bool ends_with_last; /* no group owns it: it ends when its last rank is
	                         closed */
	struct generation *owning_generation; /* that it belongs to */
	size_t bytes;                         /* of this structure */
	char name[64];
	struct cohort_deadlines deadlines;
	bool deadlines_are_fixed; /* by the environment: no push changes them */
	struct comm_config config;
	int list_way;             /* enum cohort_many */
	_Atomic uint64_t *agreed; /* words: see agree_words.h */

	/* NULL until the first send or recv of a rank.  See pair.h. */
	struct halves *_Atomic halves;

	/* What the ranks of other processes do; NULL: the group has one
	 * process.  And what is known of them where they can be seen. */
	const struct remote *remote;
	struct remote_agreement *others;

	struct cohort_abort *end; /* the cause; a reference */

	/* ---- the end: any thread, the reaper ----------------------------- */

	/* Atomic; enum clique_state, moved by compare-and-swap. */
	atomic_int state;

	/* Atomic; by rank, the native communicators of a split that has failed,
	 * or is being connected, NULL: none.  Set, and taken back, by the
	 * thread that connects; the reaper takes them and leaves a value that
	 * stands for none.  Release and acquire: what is in them. */
	ncclComm_t *_Atomic orphans;

	/* Atomic; the reaper was run. */
	atomic_bool is_reaped;

	/* Atomic; enum unused. */
	atomic_int unused;

	/* The job that reaps, and the one that releases what the reaper has
	 * left because the clique was still in use. */
	struct job reaper, releaser;

	/* Atomic; where the reaper is: the native function and the rank's place
	 * in comms (-1: the call is of no rank), NULL: in none.  Relaxed: for
	 * people. */
	const char *_Atomic reaping;
	atomic_int reaping_place;

	/* ---- the group's side: whoever opens, closes and respawns -------- */

	/* Atomic; references: the group's, those of children and their
	 * children, and of threads that were left behind, which are also
	 * counted alone. */
	atomic_int users;
	atomic_int stragglers;

	/* Atomic; number of reducers and allocations that the program has not
	 * freed. */
	atomic_int held;

	/* The program may use its pointers to the communicators even after the
	 * clique was freed.  Their memory reads as zero then, so comm_check()
	 * refuses them. */
	bool is_forgotten;

	/* Atomic; ranks whose communicator is not closed. */
	atomic_int open;

	/* Atomic; there is a later generation, or the group was closed; and
	 * which of these it is: a respawn sets both, the second one first. */
	atomic_bool stale;
	atomic_bool replaced;

	/* Atomic; enum over.  Written under the lock of clique_tree.c, or by
	 * the thread that has taken it. */
	atomic_int over;

	/* Atomic; the thread that has split the group, 0: none has.  Relaxed:
	 * for people. */
	atomic_int split_tid;

	/* ---- the ranks: written with their locks held ----------------------- */

	/* Atomic; how many ranks are paused, and when the last one went on.
	 * Written in this order: time, count (release). */
	atomic_int paused;
	_Atomic uint64_t resumed_ns;

	/* Atomic; how many ranks have pushed deadlines.  Lowered after what
	 * they say is excused (release). */
	atomic_int pushed;

	/* Atomic; total number of ranks that have entered a split, over all
	 * splits; and number of splits completed. */
	atomic_int split_arrived;
	atomic_uint splits;

	/* Atomic; how many ranks are connected to all others (pair.c). */
	atomic_int connected_ranks;

	/* Constant: bit i % 64 for device i of a rank, 0 if the order of
	 * launches on them is not this process's alone. */
	uint64_t devices;

	/* Guarded by the lock of launch_lock.c: the number of its stay there,
	 * 0: none; the next clique in the queue for turns; whether this one's
	 * has begun, and when its window opened, 0: it has not. */
	unsigned window;
	struct clique *next_turn;
	bool has_turn;
	uint64_t opened_ns;

	/* ---- the watchdog and the prober --------------------------------- */

	/* Atomic; the rank, plus 1, of whose native communicator the prober
	 * asks something, 0: none.  A lock: seq_cst, see cause.h. */
	atomic_int probing;

	/* Atomic; a deadline has become shorter: the watchdog looks at once.
	 * Set before cause_wake(). */
	atomic_bool is_shorter;

	/* Atomic inside. */
	struct clique_counts counts;

	/* ---- guarded by the lock of clique_tree.c ------------------------ */

	/* The parent is constant once it is set, until both are closed. */
	struct clique *next_entered;
	struct clique *parent;
	struct clique *children, *next_child;
	struct clique *kept;

	/* ---- ranks that launch together ---------------------------------- */

	/* See launch_barrier.c.  In no cache line with anything else. */
	_Alignas(64) struct waited_word opened;

	struct cohort_comm comms[];
};

/* What clique_create() needs. */
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
	int list_way;       /* enum cohort_many */
	const int *origins; /* of each rank, NULL: the rank itself */

	/* The clique that this one is split from, and the place of each rank in
	 * its comms; NULL and NULL if it is not split from another. */
	struct clique *parent;
	const int *above;

	/* If there are ranks elsewhere: the numbers of those here, and how many
	 * there are in all.  NULL and 0: these are all. */
	const int *ranks;
	int world;

	/* What the ranks have got by connecting, which is the clique's from now
	 * on, also if it cannot be made.  NULL: connect them, with the ranks
	 * elsewhere by @id; those here follow ranks[0] then. */
	const struct connected *connected;
	const ncclUniqueId *id;
	const atomic_bool *is_vain; /* see struct connect_world */

	/* The handle that aborts the connecting, NULL if there is none. */
	const struct cohort_abort *abort;
};

/* Open native communicators over @devices.  On error nothing is left. */
int clique_create(const struct platform *platform, const int *devices, int n,
                  const struct clique_options *options, struct clique **out);

/* Take a reference, and put it. */
void clique_get(struct clique *q);
void clique_put(struct clique *q);

/* Take and put a reference for a thread that was left behind, in a worker or
 * bound to a rank: it may use the clique and all that was split from it. */
void clique_get_straggler(struct clique *q);
void clique_put_straggler(struct clique *q);

/* Await the reaper of a clique that is RELEASED, and put the group's reference.
 * Memory that a thread was left behind in stays, also if that thread is in the
 * parent. */
void clique_retire(struct clique *q);

/* Free a clique that never came about, with the first @comms ranks made. */
void clique_free(struct clique *q, int comms);

/* Leave a clique that has ended in another state as it is, for ever. */
void clique_leak(struct clique *q);

/* The cause, or NULL; an orderly end is no cause. */
const struct cohort_cause *clique_cause(const struct clique *q);

/* The cause with its full explanation, available after the completion snapshot
 * (clique_record_completions()), which this takes if nobody has.  Not in a
 * signal handler. */
const struct cohort_cause *clique_explained_cause(struct clique *q);

/* The whole cause as this thread's error: its status, or COHORT_OK without
 * one. */
int clique_error(struct clique *q);

/* Give the clique this cause, with the text of @format, which ends it:
 * COHORT_OK; or COHORT_ALREADY, as it has a cause.  Any thread. */
int clique_fire(struct clique *q, const struct cohort_cause *cause,
                const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The state now; waits while it is NOTING.  If the clique has a cause whose
 * abort deadline has passed, this moves it to WEDGED. */
enum clique_state clique_update_state(struct clique *q);

/* True if the native communicators are freed.  LEAKED and WEDGED are larger
 * states in which they are not. */
static inline bool clique_is_reclaimed(enum clique_state state)
{
	return state == CLIQUE_RECLAIMED || state == CLIQUE_RELEASED;
}

/* Move from state @from to @to.  False: it was in another state. */
bool clique_move(struct clique *q, int from, int to);

/* Note which operations are done, before any abort flag is raised.  On return
 * they are noted, by this thread or by another. */
void clique_record_completions(struct clique *q);

/* Leave @natives, one for each rank and some of them NULL, to the reaper, which
 * aborts them after the ranks' own and frees the array.  False: the reaper has
 * taken what there was, all flags are up, and @natives is still the
 * caller's. */
bool clique_leave_orphans(struct clique *q, ncclComm_t *natives);

/* Take back what was left.  False: the reaper has it. */
bool clique_reclaim_orphans(struct clique *q, ncclComm_t *natives);

/* Take what was left, or NULL; nothing can be left from now on.  Reaper only,
 * and whoever frees the clique. */
ncclComm_t *clique_take_orphans(struct clique *q);

/* Give back the ranks' streams, events and memory of the platform.  Reaper
 * only. */
void clique_release(struct clique *q);

/* Give back the memory that only calls and the watchdog need, if the clique is
 * RECLAIMED, so that nobody holds a lock.  It must have a cause, so that
 * nobody can call, and not be watched any more.  Its tickets keep their
 * answers. */
void clique_forget_calls(struct clique *q);

/* What is answered for an operation that was not done when the clique got its
 * cause: the cause's status once the clique is QUIESCED, COHORT_WEDGED, or
 * COHORT_TIMED_OUT before that.  And that answer, waited for. */
int clique_end_status(const struct clique *q, enum clique_state state);
int clique_await_answer(struct clique *q);

/* Wait until the clique is in @state or a later one, or until the deadline;
 * returns the state. */
enum clique_state clique_await(struct clique *q, enum clique_state state,
                               uint64_t deadline_ns);

/* COHORT_LAUNCH_TOGETHER or COHORT_LAUNCH_AHEAD. */
static inline int clique_launch(const struct clique *q)
{
	return q->together ? COHORT_LAUNCH_TOGETHER : COHORT_LAUNCH_AHEAD;
}

/* True if @q was split from another clique. */
static inline bool clique_is_child(const struct clique *q)
{
	return q->comms->above;
}

/* The number of rank @rank in the clique that has no parent; -1 if @rank is
 * none, or that is not known, see remote.h. */
int clique_world(const struct clique *q, int rank);

/* The rank of that number; NULL: it is in another process. */
const struct cohort_comm *clique_rank(const struct clique *q, int rank);

/* The rank that has the number @world in the clique that has no parent; NULL if
 * it is in another process, or none in @q. */
const struct cohort_comm *clique_rank_of_world(const struct clique *q,
                                               int world);

/* Add the ranks in @set by their numbers in the clique that has no parent, and
 * by those in @q if these differ: see rank_set_name(). */
void clique_add_ranks(struct text *t, const struct clique *q,
                      const uint64_t *set);

/* Room for the name of a rank. */
#define RANK_NAME_SIZE 112

/* Store the text of clique_add_ranks() for @rank in @name, and return @name. */
const char *clique_name_rank(const struct clique *q, int rank,
                             char name[RANK_NAME_SIZE]);

/* Run the reaper of a clique that has a cause, or is closing, unless it was run
 * before.  Does not block; not in a signal handler. */
void clique_reap(struct clique *q);

/* End the clique in order, unless it has ended already. */
void clique_close(struct clique *q);

/* No thread will ask about tickets: have what the ranks have released once the
 * clique is RECLAIMED.  Once. */
void clique_set_unused(struct clique *q);

#endif
