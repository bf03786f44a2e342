/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CLIQUE_H
#define CORE_CLIQUE_H

/*
 * A clique: the native communicators of a group, one per rank, and all that
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
 * Whoever sets the cause wakes the clique's reaper, a thread of its own and the
 * only one that aborts or destroys its native communicators.
 *
 *  A. The cause is written once, and never changes.
 *  B. One abort or one destroy per native communicator, by the reaper only.
 *  C. From QUIESCED on no operation of the clique can touch a user's buffer.
 *  D. WEDGED frees nothing: what cannot be stopped keeps what it uses.
 *  E. LEAKED is quiesced, but the platform refused to free.
 *  F. In LIVE and CAUSED no flag is up: what is done is truly done.  What was
 *     done when NOTING began is in the notes, and from NOTED on they alone decide
 *     which tickets answer COHORT_OK.  So an answer never changes.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "core/agree_words.h"
#include "core/call_shape.h"
#include "core/cause.h"
#include "core/config.h"
#include "core/list_cache.h"
#include "core/list_launch.h"
#include "core/recorder.h"
#include "core/redop.h"
#include "core/staging.h"
#include "core/wait_reason.h"
#include "platform/platform.h"

struct batch;
struct connected;
struct pairs;
struct registration;

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

/* How far the end of what was split has come, once all ranks have closed it. */
enum over {
	OVER_NOT,
	OVER_CLOSED,    /* nobody will use it any more, */
	OVER_UNWATCHED, /* nor look at it: it may give back what it has */
	OVER_TAKEN,     /* somebody takes it one step further */
};

/* Waits of streams for tickets that are told apart. */
#define AFTER_WORDS 32

/* Steps of a reducer that a rank has cancelled and that others may look for. */
#define CANCELLED 2

/* Deadlines that a rank may have pushed. */
#define MAX_PUSHED 16

/* How long a collective may take; of pushed ones 0: as the group says. */
struct limits {
	uint64_t join_ns;
	uint64_t exec_ns;
};

/* What a rank hands to the platform; the platform's part is first. */
struct rank_launch {
	struct native_launch native;
	const struct cohort_comm *comm;
	const struct op *op;
};

/* One rank. */
struct cohort_comm {
	/* Constant after creation. */
	struct clique *clique;
	int rank;
	int origin; /* its rank in the first generation */
	int device;
	ncclComm_t native;
	cudaStream_t stream; /* its own; until nobody can use it any more */
	cudaEvent_t event;   /* for cohort_after_stream(), inside the gate */
	void *barrier;       /* device memory that barriers reduce */
	bool is_released;    /* the last two are given back; by the reaper,
	                        then by whoever frees the clique */

	/* Pinned; slot ticket & mask holds the low half of the newest ticket of
	 * that slot that is done.  Written by the device, read by anyone. */
	uint32_t *done;

	/* Likewise: the newest collective that has started. */
	uint32_t *started;

	/* Atomic, both; each step by the number of a collective in it, 0: none: those
	 * that this rank's reducers have cancelled last, and the last that they have
	 * finished on a stream.  Rarely written, next to what is constant.  seq_cst,
	 * see cancel.c. */
	_Atomic uint64_t cancelled[CANCELLED];
	_Atomic uint64_t streamed;

	/* Atomic words inside; see recorder.h and agree_words.h. */
	struct recorder recorder;
	struct agree_slot *agreed;
	struct call_shapes shapes; /* atomic words inside; see call_shape.h */

	/* Atomic; collectives called and compared with the other ranks'.
	 * Written inside the gate, read by the others: in no cache line with what
	 * they read of this rank otherwise. */
	_Alignas(64) _Atomic uint64_t collectives;

	/* Owned by the thread inside the gate: every other rank had compared
	 * this many when it was last looked at. */
	uint64_t compared;

	/* Atomic; the collective that it waits to launch, until all ranks have called
	 * it, 0: none.  Written inside the gate.  Relaxed: for people. */
	_Atomic uint64_t meeting;

	/* Atomic; 1 while a thread is inside a native call or about to make
	 * one.  seq_cst, see cause.h. */
	_Alignas(64) atomic_int gate;

	/* Atomic; the thread in a call with host memory, 0: none is.  While it waits
	 * there the gate is empty, so that an abort need not wait for it, but lets no
	 * other thread in.  See gate_keep(). */
	_Atomic uintptr_t keeper;

	/* Atomic; the last thread that was inside, by its number in the system,
	 * 0: none was.  Relaxed: for people. */
	atomic_int tid;

	/* Atomic; waits for tickets for which some looks were not enough: begun, and
	 * ended.  Relaxed: for people. */
	_Atomic uint64_t waits;
	_Atomic uint64_t waits_ended;

	/* Atomic; calls that went into CUDA graphs.  Relaxed: for people. */
	_Atomic uint64_t captured;

	/* Owned by the thread inside the gate: deadlines that were pushed, the
	 * last one counts, and how often it was paused. */
	struct limits pushed[MAX_PUSHED];
	unsigned pushed_count;
	unsigned paused;

	/* Owned by the thread inside the gate: what it launches; see call.h. */
	struct rank_launch launch;

	/* Owned by the thread inside the gate: reductions of its own, and memory
	 * that is registered. */
	struct redop redops[MAX_REDOPS];
	struct registration *registrations;

	/* Owned by the thread inside the gate, then given back as the device's
	 * words are. */
	struct flats flats;

	/* Owned by the thread inside the gate. */
	struct list_cache cached;

	/* Likewise, for calls with host memory: see there. */
	struct staging staging;

	/* Atomic; a thread of the library's is to launch a call whose caller has left,
	 * which is that thread's until then.  Set inside the gate.  seq_cst, see cause.h:
	 * as the gate, for the reaper. */
	atomic_bool is_left;
	struct left_call left;

	/* Owned by the thread inside the gate, and while it waits there by the rank
	 * that came last: what it is to be split by, and what came of it. */
	int split_color, split_key;
	struct cohort_comm *split_child;
	unsigned split_count;

	/* Atomic; NULL until its first send or recv.  See pair.h. */
	struct pairs *_Atomic pairs;

	/* Atomic; the thread that has a batch open, 0: none has.  It begins inside
	 * the gate.  The batch is that thread's, and made with the first. */
	_Atomic uintptr_t batching;
	struct batch *batch;

	/* Atomic; the shortest that is pushed, else COHORT_FOREVER.  Written
	 * inside the gate, read by the watchdog, which is then woken. */
	_Atomic uint64_t pushed_shortest_ns;

	/* Atomic; the shortest that was ever popped, else COHORT_FOREVER, and
	 * the last collective that may have been called under it.  Written inside
	 * the gate, in this order and before the word above. */
	_Atomic uint64_t popped_shortest_ns;
	_Atomic uint64_t popped_last;
	_Atomic uint64_t popped_transfers; /* likewise, of those */

	/* Atomic; the last collective that says nothing of how long others take,
	 * and that no adapted deadline is for: the one that is called first after
	 * deadlines are popped or the rank resumes.  Written inside the gate. */
	_Atomic uint64_t excused;

	/* Atomic; the bound thread, 0: none.  Written inside the gate, and at the
	 * end of that thread.  The list is guarded by the lock of owner.c. */
	_Atomic uintptr_t owner;
	struct cohort_comm *next_owned;

	/* Guarded by that lock: the clique that this thread keeps as one that was left
	 * behind, as the group was closed; NULL: none. */
	struct clique *kept_by;

	/* Atomic; the thread that it was bound to has exited. */
	atomic_bool orphaned;

	/* Atomic inside: what it waits for before its next call. */
	struct wait_reason_slot wait_reason;

	/* Atomic; written inside the gate. */
	atomic_bool closed;

	/* Atomic; its worker was left behind. */
	atomic_bool abandoned;

	/* Atomic; the thread that holds the gate for native calls, 0: none. */
	_Atomic uintptr_t native_user;

	/* Atomic; the last ticket given out.  Written inside the gate (release)
	 * after the operation and its mark are queued. */
	_Atomic uint64_t last;

	/* Written inside the gate before the clique gets a cause, read by the
	 * reaper once the gate is empty: something may have been queued that no
	 * mark will tell the end of.  Then the event does, if it could be
	 * recorded. */
	bool unmarked;
	bool unmarked_event;

	/* Pinned: words set behind waits of streams for tickets, the k-th such
	 * wait by setting word k % AFTER_WORDS to k.  While one is missing, done
	 * must stay where it is.  The count is owned by the thread inside the
	 * gate; so is the flag that a wait has lost its word to a later one. */
	uint32_t *after;
	uint32_t after_count;
	bool after_lost;

	/* Atomic; tickets up to here are known to be done.  Relaxed: a hint. */
	_Atomic uint64_t all_done;

	/* Owned by the prober: what comm_oldest() was when it last looked, and since
	 * when. */
	uint64_t oldest;
	uint64_t oldest_ns;

	/* Written while NOTING by whoever made that move; constant from NOTED
	 * on. */
	uint32_t *done_then;
	uint64_t last_then;
};

/* Kinds of verdicts that are counted. */
#define COUNTED_KINDS 32

/* What the watchdog has told of. */
struct clique_counts {
	/* Atomic; written by the watchdog.  Relaxed: for people. */
	_Atomic uint64_t verdicts[COUNTED_KINDS]; /* but warnings, by kind */
	_Atomic uint64_t warnings;
	_Atomic uint64_t slow;
	_Atomic uint64_t stops;
};

static inline void count_up(_Atomic uint64_t *count)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

struct clique {
	/* Constant after creation. */
	const struct platform *platform;
	int size;           /* ranks in this process */
	int world;          /* ranks in all */
	unsigned serial;    /* no other of this process has it */
	unsigned slots;     /* per rank, a power of two */
	bool allow_capture; /* calls on streams that are being captured */
	bool together;      /* no rank launches before all have called */
	void *keeper; /* the generation that it is of; constant once it is in
	                   use */
	bool ends_with_last; /* when the last rank is closed: there is no group
	                        that it is of; likewise */
	struct cohort_deadlines deadlines;
	int generation;
	struct comm_config config;
	struct list_policy list_policy, list_policy_asked;
	_Atomic uint64_t *agreed; /* words: see agree_words.h */
	atomic_int
		split_tid; /* atomic; the thread that has split the group, 0: none
	                         has.  Relaxed: for people */
	char name[64];
	pthread_t reaper;
	struct cohort_abort *end; /* the cause; a reference */

	/* Atomic; whoever may still look at it: its group, its children and their
	 * children, and threads that were left behind, which are also counted by
	 * themselves. */
	atomic_int users;
	atomic_int stragglers;

	sem_t unused; /* posted once, by close */

	/* Atomic; enum clique_state, moved by compare-and-swap. */
	atomic_int state;

	/* Atomic; the rank, plus 1, of whose native communicator the prober asks
	 * something, 0: none.  A gate: seq_cst, see cause.h. */
	atomic_int probing;

	/* Atomic; where the reaper is: the native function and the rank (-1: not
	 * of one), NULL: in none.  Relaxed: for people. */
	const char *_Atomic reaping;
	atomic_int reaping_rank;

	/* Atomic; how many ranks are paused, and when the last one went on.
	 * Written in this order: time, count (release). */
	atomic_int paused;
	_Atomic uint64_t resumed_ns;

	/* Atomic; how many ranks have pushed deadlines.  Lowered after what they
	 * say is excused (release). */
	atomic_int pushed;

	/* Atomic inside. */
	struct clique_counts counts;

	/* Atomic; ranks whose communicator is not closed. */
	atomic_int open;

	/* Atomic; there is a later generation, or the group was closed; and which of
	 * these it is: a respawn sets both, the second one first. */
	atomic_bool stale;
	atomic_bool replaced;

	/* Atomic; enum over.  Written under the lock of clique_tree.c or by whoever has
	 * taken it. */
	atomic_int over;

	/* Atomic; how many ranks have come to split, all times together, and how
	 * often all have been told what came of it. */
	atomic_int split_arrived;
	atomic_uint splits;

	/* Atomic; by rank, the native communicators of a split that has failed, NULL:
	 * none.  Set once; the reaper takes it and leaves a value that is none.
	 * Release and acquire: what is in it. */
	ncclComm_t *_Atomic orphans;

	/* Guarded by the lock of window.c: the number of its stay there, 0: none. */
	unsigned window;

	/* Guarded by the lock of clique_tree.c; the parent is constant once it is
	 * set, until both are closed. */
	struct clique *next_entered;
	struct clique *parent;
	struct clique *children, *next_child;
	struct clique *kept;

	/* Guarded by the list of those that were leaked. */
	struct clique *next_leaked;

	/* Atomic; see together.c.  In no cache line with anything else. */
	_Alignas(64) _Atomic uint64_t opened;

	struct cohort_comm comms[];
};

/* What clique_create() needs. */
struct clique_options {
	const char *name;
	unsigned slots;
	bool allow_capture;
	int launch; /* enum cohort_launch */
	struct cohort_deadlines deadlines;
	int generation;
	struct comm_config config;
	struct list_policy list_policy; /* 0: the platform's */
	const int *origins; /* of each rank, NULL: the rank itself */

	/* Of ranks that are connected already: what they have got, which is the
	 * clique's from now on, also if it cannot be made; their ranks, and of
	 * how many.  NULL and 0: connect them. */
	const struct connected *connected;
	const int *ranks;
	int world;
};

/* How many words a rank with @slots needs that the device writes. */
static inline size_t clique_words(unsigned slots)
{
	return 2 * (size_t)slots + AFTER_WORDS;
}

/* Open native communicators over @devices and start the reaper.  On error
 * nothing is left. */
int clique_create(const struct platform *platform, const int *devices, int n,
                  const struct clique_options *options, struct clique **out);

/* A reference, and its end. */
void clique_get(struct clique *q);
void clique_put(struct clique *q);

/* The same for a thread that was left behind, in a worker or bound to a rank: it may
 * use the clique and all that was split from it. */
void clique_get_straggler(struct clique *q);
void clique_put_straggler(struct clique *q);

/* The end of a clique that is RELEASED, but for those references, also of what it
 * was split from; its reaper is joined. */
void clique_retire(struct clique *q);

/* Free a clique that never came about, with the first @comms ranks made. */
void clique_free(struct clique *q, int comms);

/* Leave a clique that has come to any other end as it is, for ever. */
void clique_leak(struct clique *q);

/* The cause, or NULL; an orderly end is none. */
const struct cohort_cause *clique_cause(const struct clique *q);

/* The same with all that is to be said of it, once what is done was noted, and as this
 * thread's error, COHORT_OK for none.  Not in a signal handler. */
const struct cohort_cause *clique_whole_cause(struct clique *q);
int clique_error(struct clique *q);

/*
 * End the clique, unless it has ended: COHORT_OK for the one that did, else
 * COHORT_ALREADY.  The text is made from @format.  Any thread.
 */
int clique_fire(struct clique *q, const struct cohort_cause *cause,
                const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The state now, never NOTING: that is waited for.  If the clique has a cause
 * whose abort deadline has passed, this is what makes it WEDGED. */
enum clique_state clique_look(struct clique *q);

/* True if the native communicators are freed: neither LEAKED nor WEDGED, which come
 * behind. */
static inline bool clique_is_reclaimed(enum clique_state state)
{
	return state == CLIQUE_RECLAIMED || state == CLIQUE_RELEASED;
}

/* Go from one state to another, if it is the one. */
bool clique_move(struct clique *q, int from, int to);

/* Note what is done, before any flag is raised, unless that has happened; see it
 * done. */
void clique_note(struct clique *q);

/* The ticket that a rank has been at longest, the next one if a thread is in a call
 * and nothing is in flight, or 0. */
uint64_t comm_oldest(const struct cohort_comm *comm);

/* True if nobody is inside @comm and nothing of it is in flight, as far as words
 * tell. */
bool comm_is_idle(const struct cohort_comm *comm);

/*
 * Leave @natives, one for each rank and some of them NULL, to the reaper, which aborts
 * them behind the ranks' own and frees the array.  False: it was there already, all
 * flags are up, and they are still the caller's.
 *
 * clique_take_orphans() - what was left, or NULL; nothing can be left from now on
 */
bool clique_leave_orphans(struct clique *q, ncclComm_t *natives);
ncclComm_t *clique_take_orphans(struct clique *q);

/* Give back what the ranks have of the platform.  Reaper only. */
void clique_release(struct clique *q);

/* Give back what only calls and the watchdog need, of a clique that nobody can call on
 * any more: it is RECLAIMED, so that nobody is inside, has a cause, and is not watched.
 * Its tickets keep their answers.  Nothing happens to any other. */
void clique_forget_calls(struct clique *q);

/* What a clique with a cause in @state answers to whoever has work in it: the
 * cause's status once it is quiesced, COHORT_WEDGED, or COHORT_TIMED_OUT: not
 * yet. */
int clique_answer(const struct clique *q, enum clique_state state);

/* The same, waited for. */
int clique_await_answer(struct clique *q);

/* Wait until the clique is in @state or beyond, or the deadline. */
enum clique_state clique_await(struct clique *q, enum clique_state state,
                               uint64_t deadline_ns);

/* True if @ticket is done: by the words as they are, or as they were before any
 * abort flag was raised (only in a state in which that is known). */
bool comm_ticket_done(const struct cohort_comm *comm, uint64_t ticket);
bool comm_ticket_was_done(const struct cohort_comm *comm, uint64_t ticket);

/* True if @ticket's operation has started, as far as marks tell. */
bool comm_ticket_started(const struct cohort_comm *comm, uint64_t ticket);

/* Note that @ticket, and what is done before it, is done at @now_ns, unless somebody
 * has; and what is seen of all that is in flight.  While its words are there. */
void comm_saw_done(struct cohort_comm *comm, uint64_t ticket, uint64_t now_ns);
void comm_see(struct cohort_comm *comm, uint64_t now_ns);

/* Help the stream of a ticket's operation until it is done, or until then. */
void comm_ticket_help(struct cohort_comm *comm, uint64_t ticket,
                      uint64_t until_ns);

/* How long the next call of @comm may take, if that is its first. */
struct limits comm_limits(const struct cohort_comm *comm, bool is_first);

/* How its ranks launch: COHORT_LAUNCH_TOGETHER or _AHEAD. */
static inline int clique_launch(const struct clique *q)
{
	return q->together ? COHORT_LAUNCH_TOGETHER : COHORT_LAUNCH_AHEAD;
}

/* The rank of that number, NULL: it is not of this process. */
const struct cohort_comm *clique_rank(const struct clique *q, int rank);

/* The reaper's thread. */
void *reaper_main(void *clique);

#endif
