/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_COMM_H
#define CORE_COMM_H

/*
 * A communicator: one rank of a clique
 *
 * "Inside" is the one thread that has entered the communicator (comm_lock.h).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/agree_words.h"
#include "core/call_shape.h"
#include "core/list_launch.h"
#include "core/recorder.h"
#include "core/redop.h"
#include "core/staging.h"
#include "core/wait_reason.h"
#include "platform/platform.h"

struct batch;
struct clique;
struct pairs;
struct registration;

/* How many waits of streams for tickets are told apart. */
#define AFTER_WORDS 32

/* How many cancelled steps of a rank's reducers other ranks may still look
 * for. */
#define CANCELLED 2

/* How many deadlines a rank may have pushed. */
#define MAX_PUSHED 16

/* How long a collective may take.  0 if the group's limit counts: a push has
 * taken its zeros from the limits below it on the stack. */
struct limits {
	uint64_t join_ns;
	uint64_t exec_ns;
};

/*
 * Who is inside: written on entering and leaving, or by whoever is inside; read
 * by any thread that wants to enter, by the reaper and by the watchdog.
 * Atomic.  Every call reads this cache line.
 */
struct comm_lock {
	/* 1 while a thread is inside a native call or about to make one.
	 * seq_cst, see cause.h. */
	_Alignas(64) atomic_int held;

	/* The last thread that was inside, by its number in the system, 0: none
	 * was.  Relaxed: for diagnostics only. */
	atomic_int tid;

	/* The thread in a call with host memory, 0: none is.  While that thread
	 * waits there nobody is inside, so that an abort need not wait for it,
	 * but no other thread may enter.  See comm_keep(). */
	_Atomic uintptr_t staging_thread;

	/* The bound thread, 0: none.  Also cleared at the end of that thread.
	 * Relaxed. */
	_Atomic uintptr_t owner;

	/* The thread that is inside for native calls of the program's, 0:
	 * none. */
	_Atomic uintptr_t native_user;

	/* The thread that has a batch open, 0: none has.  Opened inside, and
	 * closed by that thread. */
	_Atomic uintptr_t batching;

	atomic_bool closed;

	/* A thread of the library's is to launch a call whose caller has left;
	 * until then comm->left is that thread's.  seq_cst: to the reaper it is
	 * as @held, see cause.h. */
	atomic_bool is_detached;
};

/* Which operations are queued, have started, and are done. */
struct comm_tickets {
	/*
	 * Constant; pinned memory, whose words the device writes by marks, and
	 * any thread reads with acquire.
	 *
	 * done:    word ticket & mask holds the low half of the newest ticket
	 *          of that slot that is done
	 * started: the newest collective that has started, by the same slots
	 */
	uint32_t *done;
	uint32_t *started;

	/* A bit for each slot, see last_then. */
	uint64_t *done_then;

	/*
	 * Written inside, after a call has been queued; read by any thread that
	 * waits for tickets.  Apart from the lock's cache line, or those who
	 * wait would slow down those who call.
	 *
	 * Atomic; the last ticket given out.  Release, acquire: the operation
	 * and its mark are queued.
	 */
	_Alignas(64) _Atomic uint64_t last;

	/* Atomic; written by any thread that has waited for all tickets: up to
	 * here they are done.  Relaxed: a hint. */
	_Atomic uint64_t all_done;

	/* Read by the reaper, once nobody is inside; written before the clique
	 * gets its cause.  Something may have been queued whose end no mark
	 * tells; then the event does, if it could be recorded. */
	bool unmarked;
	bool unmarked_event;

	/* The ticket that was the last one when something else was queued
	 * behind it on the own stream, by waits.  Inside only. */
	uint64_t last_behind;

	/* Written by the thread that moves the clique to NOTING, as done_then
	 * is; constant from NOTED on, and read by any thread then.  What last
	 * was before any abort flag was up; done_then has the bits of the slots
	 * whose newest ticket, up to this one, was done.  And whether its
	 * thread was held in a call or a wait. */
	uint64_t last_then;
	bool was_blocked;
};

/* The collectives of this rank, compared with those of the others:
 * agree_words.h. */
struct comm_agreement {
	struct agree_slot *slots; /* constant; atomic inside */

	/*
	 * Written inside, read by the other ranks: in a cache line of its own,
	 * so that a call does not slow down who reads anything else of this
	 * rank.
	 *
	 * Atomic; how many collectives were called and compared with the other
	 * ranks'.  Release, acquire: see agree().
	 */
	_Alignas(64) _Atomic uint64_t collectives;

	/* Number of collectives that every other rank had compared at the last
	 * check.  Read inside only. */
	uint64_t compared;

	/* Atomic; the collective that this rank waits to launch until all ranks
	 * have called it, 0: none.  Relaxed: for diagnostics only. */
	_Atomic uint64_t meeting;
};

/* Deadlines that the rank has pushed, and pauses.  Atomic, but for those that
 * are read inside only; written inside, read by the watchdog and by
 * snapshots. */
struct deadline_stack {
	/* Inside only: the last one counts; and how often the rank was
	 * paused. */
	struct limits pushed[MAX_PUSHED];
	unsigned count;
	unsigned paused;

	/* The shortest deadline that is pushed, else COHORT_FOREVER.  The
	 * watchdog is woken after a change. */
	_Atomic uint64_t shortest_ns;

	/* The last pushed deadlines, 0 if none: for the rank's communicators
	 * that were split from this one. */
	_Atomic uint64_t join_ns;
	_Atomic uint64_t exec_ns;

	/* The shortest deadline that was ever popped, else COHORT_FOREVER; and
	 * the last collective and the last transfer that may have been called
	 * under it.  Written in this order, before the one above. */
	_Atomic uint64_t popped_shortest_ns;
	_Atomic uint64_t popped_last;
	_Atomic uint64_t popped_transfers;

	/* The collective that is called first after deadlines are popped or the
	 * rank resumes: its time says nothing of how long others take, and no
	 * adapted deadline is for it. */
	_Atomic uint64_t excused;
};

/* Waits of streams for tickets: inside only, but for the words. */
struct stream_waits {
	/* Pinned: the k-th wait sets word k % AFTER_WORDS to k when it is over.
	 * While a word is missing, tickets.done must stay allocated. */
	uint32_t *words;

	uint32_t count;
	bool have_lost; /* one has lost its word to a later wait */
	cudaEvent_t event;
};

/* Sends and receives: pair.h. */
struct transfers {
	struct pairs *_Atomic pairs; /* NULL until the first one */

	/* Inside only; see pair_connect(). */
	bool has_connected_all;

	/* Atomic; the program has sent or received by native calls or graphs,
	 * so the numbers of sends and receives no longer say which of them
	 * meet. */
	atomic_bool is_uncompared;
};

/* While this rank waits inside for the others to split, the last rank to come
 * reads and writes these. */
struct comm_split {
	int color, key;
	struct cohort_comm *child;
	unsigned count;
};

/* What has become of its thread.  Written by any thread; atomic. */
struct comm_thread {
	/* Waits for tickets that took more than a few looks: begun, and ended.
	 * The watchdog, and the notes of an end, tell by them whether the
	 * thread waits. */
	_Atomic uint64_t waits;
	_Atomic uint64_t waits_ended;

	/* What the rank waits for before its next call. */
	struct wait_reason_slot wait_reason;

	/* The thread that it was bound to has exited. */
	atomic_bool orphaned;

	/* Its worker was left behind. */
	atomic_bool abandoned;

	/* Its worker has returned 0, and no later run has begun: the rank makes
	 * no further call. */
	atomic_bool returned;

	/* Guarded by the lock of owner.c: its list; and the clique that the
	 * bound thread keeps, as it was left behind when the group was closed,
	 * NULL: none. */
	struct cohort_comm *next_owned;
	struct clique *kept_by;
};

struct cohort_comm {
	/*
	 * Written while the clique is made, then constant; read by any thread.
	 */
	struct clique *clique;

	/* Atomic; calls are refused, and the clique is freed once no call uses
	 * it.  Reads as zero after that, as @clique does. */
	atomic_bool is_forgotten;

	int rank;
	int origin;     /* its rank in the first generation */
	int world_rank; /* in the group that this was split from */

	/* The same rank in the parent clique; NULL in a clique that was not
	 * split from another. */
	struct cohort_comm *above;

	/* If the clique was not split from another: the end of the rank's
	 * clique that has left clique_tree.c last with a cause; a reference, or
	 * NULL.  Guarded by the lock of that file. */
	struct cohort_abort *former;
	int device;
	ncclComm_t native;
	cudaStream_t stream; /* its own; NULL once nobody can use it */
	void *barrier;       /* device memory that barriers reduce */

	struct comm_lock lock;
	struct comm_tickets tickets;
	struct comm_agreement agreement;
	struct deadline_stack deadlines;
	struct transfers transfers;
	struct comm_thread thread;

	/* Written inside, read by any thread: each has atomic words inside, and
	 * says how they are read.  And calls that went into CUDA graphs;
	 * relaxed: for diagnostics only. */
	struct recorder recorder;
	struct call_shapes shapes;
	_Atomic uint64_t captured;

	/*
	 * Read and written inside only, or by the reaper with nobody inside: it
	 * deregisters, and frees the memory of the device.
	 */
	struct redop redops[MAX_REDOPS];
	struct registration *registrations;
	struct flats flats;
	struct staging staging;
	struct detached_call left; /* see lock.is_detached */
	struct stream_waits after;
	struct comm_split split;
	/* Of the thread in lock.batching; made with its first. */
	struct batch *batch;

	/*
	 * Written by the reducers of this rank, read by those of the other
	 * ranks.  Atomic, seq_cst: see cancel.c.  The collectives in the steps
	 * that were cancelled last, and in the last step that was finished on a
	 * stream; 0: none.
	 */
	_Atomic uint64_t cancelled[CANCELLED];
	_Atomic uint64_t streamed;

	/* The prober's: what comm_oldest() was at its last look, and since
	 * when. */
	uint64_t oldest;
	uint64_t oldest_ns;

	/* By the reaper, then by whoever frees the clique: the event and the
	 * barrier are given back. */
	bool is_released;
};

/* Words of done_then. */
#define DONE_WORDS(slots) (((slots) + 63) / 64)

/* How many words a rank with @slots needs that the device writes. */
static inline size_t comm_words(unsigned slots)
{
	return 2 * (size_t)slots + AFTER_WORDS;
}

/* The ticket that a rank has been at longest, the next one if a thread is in a
 * call and nothing is in flight, or 0. */
uint64_t comm_oldest(const struct cohort_comm *comm);

/* True if nobody is inside @comm and nothing of it is in flight, as far as
 * words tell. */
bool comm_is_idle(const struct cohort_comm *comm);

/* True if @ticket is done: by the words as they are, or as they were before any
 * abort flag was raised (only in a state in which that is known). */
bool comm_ticket_done(const struct cohort_comm *comm, uint64_t ticket);
bool comm_ticket_was_done(const struct cohort_comm *comm, uint64_t ticket);

/* True if @ticket's operation has started, as far as marks tell. */
bool comm_ticket_started(const struct cohort_comm *comm, uint64_t ticket);

/* Record that @ticket and the tickets before it that are done were done at
 * @now_ns, unless that is recorded already; and the same for all that is in
 * flight, with what has started.  While the words are allocated. */
void comm_saw_done(struct cohort_comm *comm, uint64_t ticket, uint64_t now_ns);
void comm_see(struct cohort_comm *comm, uint64_t now_ns);

/* Help the stream of @ticket's operation until that is done, or until
 * @until_ns. */
void comm_ticket_help(struct cohort_comm *comm, uint64_t ticket,
                      uint64_t until_ns);

/* Return the limits of the next call of @comm: those that the rank has pushed
 * on it, else on the communicators that it was split from, else the group's.
 * If the call @connects ranks, it may be carried out until the init
 * deadline. */
struct limits comm_limits(const struct cohort_comm *comm, bool connects);

#endif
