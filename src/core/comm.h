/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_COMM_H
#define CORE_COMM_H

/*
 * A communicator: one rank of a clique
 *
 * At most one thread is inside a communicator: the one that holds its lock
 * (comm_lock.h).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "core/agree_words.h"
#include "core/call_shape.h"
#include "core/list_launch.h"
#include "core/recorder.h"
#include "core/redop.h"
#include "core/staging.h"
#include "platform/platform.h"

struct batch;
struct clique;
struct pairs;
struct registration;

/* Maximum number of unfinished waits of streams that can be tracked. */
#define AFTER_WORDS 32

/* Number of canceled reducer steps that a rank keeps for other ranks to
 * check. */
#define CANCELLED 2

#define MAX_PUSHED 16

/* Limits on the duration of a collective; 0 stands for the group's limit.  A
 * limit that a rank pushes as 0 is replaced with the limit below it on the
 * stack. */
struct limits {
	uint64_t join_ns;
	uint64_t exec_ns;
};

/*
 * The lock of a communicator.  Members are written by the thread that enters,
 * leaves or is inside, and read by any thread that wants to enter, by the
 * reaper and by the watchdog.  All members are atomic.  Every call reads this
 * cache line.
 */
struct comm_lock {
	/* 1 while a thread is inside the communicator, even in a native call.
	 * seq_cst, see cause.h. */
	_Alignas(64) atomic_int held;

	/* Thread ID of the last thread that was inside the communicator, or 0.
	 * Relaxed, because it is for diagnostics only. */
	atomic_int tid;

	/* The thread that is in a call with host memory, or 0.  While this
	 * thread waits, it does not hold the lock, so an abort need not wait
	 * for it, but no other thread may enter.  See comm_reserve(). */
	_Atomic uintptr_t staging_thread;

	/* The thread that the communicator is bound to, or 0.  Cleared when
	 * that thread exits.  Accessed with relaxed order. */
	_Atomic uintptr_t owner;

	/* Thread ID of the last owner.  Relaxed, because it is for diagnostics
	 * only. */
	atomic_int owner_tid;

	/* The program's thread that holds the lock for native calls, or 0. */
	_Atomic uintptr_t native_user;

	/* The thread that has a batch open, or 0.  Set by the thread inside the
	 * communicator; cleared by the thread with the batch. */
	_Atomic uintptr_t batching;

	/* Number of threads that use the communicator without the lock, see
	 * comm_hold().  seq_cst, like @held. */
	atomic_int holders;

	atomic_bool closed;

	/* True while a thread closes the communicator.  seq_cst: the closing
	 * thread sets this, then loads @holders; a new holder increments
	 * @holders, then loads this.  So at least one of the two sees the
	 * other. */
	atomic_bool closing;

	/* True while a library thread must launch a call whose caller has timed
	 * out before the launch.  As long as it is true, comm->left belongs to
	 * that library thread.  seq_cst: the reaper checks it like @held, see
	 * cause.h. */
	atomic_bool is_detached;
};

/* Progress of a rank's operations: queued, started and done. */
struct comm_tickets {
	/*
	 * Pinned memory, written by marks on the device, and read by any thread
	 * with acquire.  The pointers are constant.  The index is the ticket
	 * modulo the slots.
	 *
	 *  done:    low 32 bits of the slot's newest ticket that is done
	 *  started: low 32 bits of the slot's newest ticket that has started
	 */
	uint32_t *done;
	uint32_t *started;

	/* Snapshot of the completed operations, one bit per slot: see
	 * last_then. */
	uint64_t *done_then;

	/*
	 * Atomic; the last ticket given out.  Stored with release after the
	 * call was queued, so that a thread that loads it with acquire knows
	 * that the operation and its mark are queued.  In a cache line of its
	 * own, so that threads that poll tickets do not slow down the thread
	 * that makes calls.
	 */
	_Alignas(64) _Atomic uint64_t last;

	/* Atomic; all tickets up to this one are known to be done.  Written by
	 * any thread that has waited for all tickets.  Stored with release and
	 * loaded with acquire, so that a thread that need not wait also sees
	 * what the operations wrote. */
	_Atomic uint64_t all_done;

	/* True if a failed launch may have queued work without the mark that
	 * follows completed work.  Written before the clique gets its cause; read by the reaper
	 * once no thread is inside the communicator. */
	bool unmarked;

	/* True if the event was recorded after all unmarked work, so that the
	 * event shows when this work is done. */
	bool unmarked_event;

	/* Value of @last when a wait for other work was last queued on the
	 * communicator's own stream.  While it equals @last, an event recorded
	 * on this stream would also wait for that other work.  Accessed only by
	 * the thread inside the communicator. */
	uint64_t last_behind;

	/* Snapshot of @last, taken before any abort flag is raised.  The bit of
	 * a slot in done_then is set if the slot's newest ticket up to
	 * last_then was done.  Written by the thread that moves the clique to
	 * NOTING; read only from NOTED on, when it is constant. */
	uint64_t last_then;

	/* True if the rank's thread was inside a call or a wait when the
	 * snapshot of completed operations was taken. */
	bool was_blocked;
};

/* State for comparing this rank's collectives with those of other ranks:
 * agree_words.h. */
struct comm_agreement {
	struct agree_slot *slots; /* constant pointer; atomic members */

	/*
	 * Atomic; number of collectives that were called and compared with the
	 * other ranks' calls.  Written by the thread inside the communicator
	 * with release, read by the other ranks with acquire: see agree().  In
	 * a cache line of its own, so that a call does not slow down threads
	 * that read other members of this rank.
	 */
	_Alignas(64) _Atomic uint64_t collectives;

	/* Number of collectives that every other rank had compared at the last
	 * check.  Accessed only by the thread inside the communicator. */
	uint64_t compared;

	/* Atomic; number of the collective that this rank has called, but that
	 * is not launched until the other ranks call it; or 0.  Relaxed,
	 * because it is for diagnostics only. */
	_Atomic uint64_t meeting;
};

/* Pushed deadlines and pauses of a rank.  Written by the thread inside the
 * communicator; the watchdog and snapshots read the members that are atomic. */
struct deadline_stack {
	/* The stack of pushed deadlines; the last one is in effect.  Accessed
	 * only by the thread inside the communicator. */
	struct limits pushed[MAX_PUSHED];
	unsigned count;

	/* Number of pauses that have not been resumed.  Accessed only by the
	 * thread inside the communicator. */
	unsigned paused;

	/* Atomic; the shortest deadline on the stack, or COHORT_FOREVER.  A
	 * push wakes the watchdog after the change. */
	_Atomic uint64_t shortest_ns;

	/* Atomic; the deadlines at the top of the stack, or 0.  Communicators
	 * that were split from this one use them as well. */
	_Atomic uint64_t join_ns;
	_Atomic uint64_t exec_ns;

	/* Atomic; the shortest deadline that was ever popped, or
	 * COHORT_FOREVER.  A pop writes this, the next two members, and then
	 * shortest_ns, in this order. */
	_Atomic uint64_t popped_shortest_ns;

	/* Atomic; number of the last collective that may have been called under
	 * the shortest popped deadline. */
	_Atomic uint64_t popped_last;

	/* Atomic; number of the last transfer that may have been called under
	 * the shortest popped deadline. */
	_Atomic uint64_t popped_transfers;

	/* Atomic; number of the first collective after a pop or a resume.
	 * Adaptive deadlines ignore its duration, which is not typical. */
	_Atomic uint64_t excused;
};

/* Waits of streams for tickets.  All members except the words are accessed only
 * by the thread inside the communicator. */
struct stream_waits {
	/* Pinned memory.  The k-th wait stores k in word k % AFTER_WORDS when
	 * the wait ends.  tickets.done must stay allocated until all these
	 * stores have happened. */
	uint32_t *words;

	uint32_t count;

	/* True if the end of a wait can no longer be observed, because a later
	 * wait has reused its word, or its mark could not be queued. */
	bool have_lost;
	cudaEvent_t event;
};

/* Sends and receives of a rank: pair.h. */
struct transfers {
	struct pairs *_Atomic pairs; /* NULL until the first send or receive */

	/* True if the rank is connected to all other ranks: see pair_connect().
	 * Accessed only by the thread inside the communicator. */
	bool has_connected_all;

	/* Atomic; true if the program may have sent or received by native
	 * calls, or has done so in CUDA graphs.  The numbers of its transfers
	 * then no longer show which send pairs with which receive. */
	atomic_bool is_uncompared;
};

/* A rank's arguments and result of a split.  The rank that arrives last reads
 * and writes them, while all other ranks wait inside their communicators. */
struct comm_split {
	int color, key;
	struct cohort_comm *child;
	unsigned count; /* number of splits that the rank has entered */
};

/* The reason why a rank waits.  Embedded in a structure with the details. */
struct wait_reason {
	/* Append the reason ("parameter 'a' to be marked ready") or nothing.
	 * Called on any thread; must not block. */
	void (*add)(const struct wait_reason *reason, struct text *t);
};

/*
 * The reason why a rank's next call has not been made yet: set by the thread
 * that will make the call, read by the watchdog
 *
 *  A. A reader takes no lock and never waits.
 *  B. Once wait_reason_set() has returned, no thread reads the previous reason.
 */
struct wait_reason_slot {
	/* Both atomic, seq_cst: a reader increments readers, then loads the
	 * reason; the writer stores the reason, then loads readers. */
	const struct wait_reason *_Atomic now; /* NULL if no reason is known */
	atomic_uint readers;
};

/* A rank's calls of cohort_comm_subset().  Written by api/join.c and
 * api/subset.c.  For diagnostics only. */
struct comm_subset {
	/* The ranks that these calls wait for. */
	_Atomic uint64_t awaits[COHORT_RANK_WORDS];

	/* The last call that has failed: its time, or 0; the ranks that it
	 * waited for; the rank at fault (its number in the root group), or -1;
	 * and an enum cohort_verdict_kind, or 0. */
	_Atomic uint64_t failed_ns;
	_Atomic uint64_t missed[COHORT_RANK_WORDS];
	atomic_int culprit, kind;
};

/* State of the rank's thread.  All members that any thread may write are
 * atomic. */
struct comm_thread {
	/* Number of waits for tickets that were started, except waits that end
	 * after a few polls.  The watchdog and the snapshot of completions
	 * compare it with waits_ended to see whether the thread is waiting. */
	_Atomic uint64_t waits;

	/* Number of the waits counted in @waits that have ended, or that do not
	 * block the rank because a thread other than the rank's own waits. */
	_Atomic uint64_t waits_ended;

	/* While the rank is bound: number of other threads that wait, and
	 * thread ID of the one that began last. */
	atomic_int helpers, helper_tid;

	/* Ticket of the last wait that has timed out, or 0. */
	_Atomic uint64_t timed_out;

	struct wait_reason_slot wait_reason;

	/* True if the thread that the rank was bound to has exited. */
	atomic_bool orphaned;

	atomic_bool abandoned;

	/* True if the rank's worker has returned 0.  The rank makes no further
	 * call while the run continues. */
	atomic_bool returned;

	/* True if the rank's worker has returned 0 in a run that is over. */
	atomic_bool is_run_over;

	/* Next in the list of owned communicators.  Guarded by the lock of
	 * owner.c. */
	struct cohort_comm *next_owned;

	/* The clique that stays allocated because the bound thread was
	 * abandoned when the group was closed, or NULL.  Guarded by the lock of
	 * owner.c. */
	struct clique *kept_by;
};

struct cohort_comm {
	/* From here to @barrier, members are constant once the clique is
	 * created, unless their comments say otherwise.  Any thread may read
	 * them. */
	struct clique *clique;

	/* Atomic; true if calls are refused and the clique is freed as soon as
	 * no call uses it.  After the free, this and @clique read as zero. */
	atomic_bool is_forgotten;

	int rank;

	int origin; /* the rank's number in the first generation */

	/* The rank's number in the root group, from which its group was
	 * split. */
	int world_rank;

	/* This rank in the parent clique, or NULL if there is no parent. */
	struct cohort_comm *above;

	struct comm_subset subset;

	/* Cause block of the latest clique that was split from this rank's
	 * clique, ended with a cause, and was freed; NULL if there is none.
	 * Used only in a root clique.  Owns a reference.  Guarded by the lock
	 * of clique_tree.c. */
	struct cohort_abort *former;
	int device;
	ncclComm_t native;

	/* The rank's own stream; NULL once no thread can use it. */
	cudaStream_t stream;
	void *barrier; /* device memory that barriers reduce */

	struct comm_lock lock;
	struct comm_tickets tickets;
	struct comm_agreement agreement;
	struct deadline_stack deadlines;
	struct transfers transfers;
	struct comm_thread thread;

	/* Written by the thread inside the communicator, read by any thread
	 * without a lock. */
	struct recorder recorder;
	struct call_shapes shapes;

	/* Number of calls that went into CUDA graphs.  Relaxed, because it is
	 * for diagnostics only. */
	_Atomic uint64_t captured;

	/*
	 * Accessed by the thread inside the communicator.  Once no thread is
	 * inside, the reaper uses these members to deregister memory and to
	 * free device memory.
	 */
	struct redop redops[MAX_REDOPS];
	struct registration *registrations;
	struct flats flats;
	struct staging staging;
	struct detached_call left; /* see lock.is_detached */

	struct stream_waits after;
	struct comm_split split;

	/* The batch of the thread in lock.batching; allocated when the first
	 * batch is opened. */
	struct batch *batch;

	/*
	 * Atomic, seq_cst; numbers of the last collectives in the reducer steps
	 * that were canceled most recently, or 0.  Written by this rank's
	 * reducers, read by the reducers of other ranks: see cancel.c.
	 */
	_Atomic uint64_t cancelled[CANCELLED];

	/* Number of the last collective in the last reducer step that was
	 * finished on a stream, or 0. */
	_Atomic uint64_t streamed;

	/* Last result of comm_oldest() that the prober has seen. */
	uint64_t oldest;

	/* Time since which comm_oldest() has returned @oldest to the prober. */
	uint64_t oldest_ns;

	/* True if the event and the barrier memory are freed.  Written by the
	 * reaper, or by the thread that frees the clique. */
	bool is_released;
};

#define DONE_WORDS(slots) (((slots) + 63) / 64)

/* Return this rank's communicator in the root group, from which its group was
 * split. */
static inline const struct cohort_comm *comm_root(const struct cohort_comm *c)
{
	while (c->above)
		c = c->above;
	return c;
}

/* Return the ID of the thread that the rank is bound to or, if it is bound to
 * none, of the last thread that made a call for it; 0 if there is none.  These
 * threads can differ, because helper threads of a reducer also launch
 * operations of a bound rank. */
static inline int comm_thread(const struct cohort_comm *c)
{
	return atomic_load(&c->lock.owner) ? atomic_load(&c->lock.owner_tid)
	                                   : atomic_load(&c->lock.tid);
}

/* Return the number of device-written words for a rank with @slots slots. */
static inline size_t comm_words(unsigned slots)
{
	return 2 * (size_t)slots + AFTER_WORDS;
}

/* Return the oldest ticket that is not done.  If no operation is in flight,
 * return the next ticket if a thread is inside a call, or 0 otherwise. */
uint64_t comm_oldest(const struct cohort_comm *comm);

/* Return true if no thread is inside @comm and none of its operations is in
 * flight, as far as marks show. */
bool comm_is_idle(const struct cohort_comm *comm);

/* Return true if the mark of @ticket shows that it is done.  After an abort
 * flag was raised, use comm_ticket_was_done(). */
bool comm_ticket_done(const struct cohort_comm *comm, uint64_t ticket);

/* Return true if @ticket was done before any abort flag was raised, according
 * to the snapshot that clique_record_completions() takes.  Call it from NOTED
 * on. */
bool comm_ticket_was_done(const struct cohort_comm *comm, uint64_t ticket);

/* Return true if @ticket's operation has started, as far as marks show. */
bool comm_ticket_started(const struct cohort_comm *comm, uint64_t ticket);

/* Record @now_ns as the completion time of @ticket and of the tickets before
 * it, back to the first one that is not done or has a time already.
 * tickets.done must still be allocated. */
void comm_record_done(struct cohort_comm *comm, uint64_t ticket,
                      uint64_t now_ns);

/* For each operation in flight whose completion or start has happened but has
 * no recorded time, record @now_ns as that time.  tickets.done must still be
 * allocated. */
void comm_record_progress(struct cohort_comm *comm, uint64_t now_ns);

/* Run work of the stream of @ticket's operation on this thread, if the platform
 * supports this, until the operation is done or @until_ns has passed. */
void comm_ticket_progress(struct cohort_comm *comm, uint64_t ticket,
                          uint64_t until_ns);

/* Return the limits of the next call of @comm: the limits pushed on it, else
 * those pushed on the communicators that it was split from, else the group's.
 * If the call @connects ranks, its execution limit is at least the init
 * deadline. */
struct limits comm_limits(const struct cohort_comm *comm, bool connects);

/* Set the reason why the rank waits, or NULL.  Called by one thread at a time.
 * Waits for readers of the previous reason, which takes microseconds. */
void wait_reason_set(struct wait_reason_slot *slot,
                     const struct wait_reason *reason);

/* Append the current reason, if there is one.  May be called from any
 * thread. */
void wait_reason_add(struct wait_reason_slot *slot, struct text *t);

#endif
