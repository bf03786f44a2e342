/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SPAN_H
#define SIM_EXEC_SPAN_H

/*
 * Worlds whose ranks are in several processes of one machine
 *
 * Such a world has a struct world in each process, with the members that are
 * there, and words in memory that the processes share: this file's.  The
 * buffers of all ranks are shared, too: a process maps the others' memory in
 * windows.
 *
 * Rounds have one call each, and a small one is an inline round
 * (inline_round.h), with slots in the shared memory.  Else a rank arrives by
 * writing its call into a slot of its own; once the slots of all ranks have
 * come, each does its own share of the round (piece.h), which reads from all
 * ranks and writes to all; and the round is over when all have done that.  Each
 * word is written by one rank's driver alone.  Where there are more ranks than
 * cores, the last rank to come does a round that is not large alone: the system
 * would have to run each of the others once more.  A message is copied by the
 * receiver.
 *
 * A process may be stopped or killed at any time, so nothing here is a lock.
 * Nobody wakes the threads of another process: those that wait look, and so
 * does the poller.
 *
 *  A.  A rank writes to another's buffers only while its word inside says so.
 *      It looks whether the world is broken after it has set the word and
 *      before each piece; a rank that is aborted breaks the world first, and
 *      then waits until no other is inside, for at most a second: the other's
 *      process may be stopped.
 *  B.  What was read from another's buffers counts only if the world was not
 *      broken afterwards or, for a message, that rank was not cut short: until
 *      then it has not let go of them.
 */

#include "sim/exec/slot.h"

/* Messages of one rank to another that may be posted before the first is
 * taken. */
#define SPAN_POSTS 8

/* What a rank has called for a round. */
struct span_slot {
	/* Atomic; the number of the round, counted from 1.  Release: the call;
	 * acquire where other ranks read that. */
	_Alignas(CACHE_LINE) _Atomic uint64_t number;
	struct call call;
};

/* What a rank tells the others.  Written by its driver. */
struct span_rank {
	/* Used in turn: a rank that arrives for a round has seen the one before
	 * end, for which all had read the slots of the round before that. */
	struct span_slot slots[2];

	/* Atomic; the last round of which it has done its share.  Release: what
	 * it has written. */
	_Alignas(CACHE_LINE) _Atomic uint64_t done;

	/* Atomic, seq_cst; it may write to others' buffers. */
	atomic_bool inside;

	/* Atomic, seq_cst; a launch of its was cut short, and its buffers are
	 * nobody's any more. */
	atomic_int is_cut;

	/* Atomic; as in struct member. */
	atomic_bool is_struck;

	/* Constant once the ranks have met: its process, by the windows; and
	 * its device. */
	int process;
	int device;
};

/* The messages of one rank to another. */
struct span_lane {
	/* Atomic; how many were posted, ever, written by the sender; and taken,
	 * by the receiver.  Release: the posts; the use of them. */
	_Alignas(CACHE_LINE) _Atomic uint64_t posted;
	struct call posts[SPAN_POSTS]; /* with addresses of the sender's */
	_Alignas(CACHE_LINE) _Atomic uint64_t taken;
};

/* The shared memory of a world, zeroed at first; behind the ranks come the
 * lanes, and behind those the slots of inline rounds, if there are few
 * ranks. */
struct span_shared {
	/* Constant. */
	int n;
	bool is_crowded; /* there are more ranks than cores */

	/* Atomic, seq_cst; a rank was aborted. */
	atomic_bool is_broken;

	/* Atomic; how many ranks were released, in all processes. */
	atomic_int released;

	/* Atomic; how often a rank has come for a round that its last rank does
	 * alone.  Acquire and release: the slots of those that have come.  And
	 * the last one that was done so.  Release: what was written. */
	_Alignas(CACHE_LINE) _Atomic uint64_t came;
	_Atomic uint64_t done_alone;

	_Alignas(CACHE_LINE) struct span_rank ranks[];
};

/* The memory of a process, as this one sees it. */
struct span_window {
	uintptr_t there; /* where it begins in that process, */
	uintptr_t here;  /* and where in this one */
	size_t bytes;
	int life; /* a descriptor that hangs up when the process ends */
};

/* How much shared memory a world of @n ranks takes; and where in it the lanes
 * end. */
static inline size_t span_lanes_end(int n)
{
	return sizeof(struct span_shared) +
	       (size_t)n * sizeof(struct span_rank) +
	       (size_t)n * (size_t)n * sizeof(struct span_lane);
}

static inline size_t span_bytes(int n)
{
	return span_lanes_end(n) +
	       (n <= SLOT_RANKS ? 2 * (size_t)n * sizeof(struct slot) : 0);
}

/* The slots of a world of few ranks. */
static inline struct slot *span_slots(struct span_shared *shared)
{
	return (struct slot *)(void *)((char *)shared +
	                               span_lanes_end(shared->n));
}

/*
 * What the floor above does for buffers that other processes cannot map
 *
 * lend      - store @call with buffers that they can, and what is to be sent in
 *             them; false without memory
 * take_back - give up those of @lent that are not @call's; if it is @done, with
 *             the results in those of @call
 *
 * Both are called by the driver of the call's launch, perhaps with the world's
 * lock held.
 */
struct span_lender {
	bool (*lend)(const struct member *member, const struct call *call,
	             struct call *lent);
	void (*take_back)(const struct member *member, const struct call *call,
	                  const struct call *lent, bool done);
};

/* True if the memory [@p, @p + @bytes) of the rank of @member can be reached by
 * all processes of its world. */
bool span_reaches(const struct member *member, const void *p, size_t bytes);

/* A launch of @member is cut short: others take no message from its buffers
 * from now on. */
void span_abort(const struct member *member);

/* Break the world in all processes; and whether one has. */
static inline void span_break(const struct world *w)
{
	atomic_store(&w->span->is_broken, true);
}

static inline bool span_is_broken(const struct world *w)
{
	return atomic_load(&w->span->is_broken);
}

/*
 * Called by the driver of a launch
 *
 * span_arrive     - arrive for the round of the next call
 * span_do         - do what can be done of that round: true if it is over.
 *                   Stores whether this driver leaves some of it
 * span_is_touched - the launch is to be cut short: true while another rank may
 *                   write to its buffers
 * span_leave      - then: it is
 * span_post       - the launch has joined: number its transfers
 * span_messages   - do what can be done of them: true if some is left
 */
void span_arrive(const struct world *world, struct launch *launch);
bool span_do(struct world *world, struct launch *launch,
             const struct drive *drive, bool *left_out);
bool span_is_touched(const struct world *world, struct launch *launch);
void span_leave(struct launch *launch);
void span_post(struct launch *launch);
bool span_messages(struct launch *launch, const struct drive *drive);

#endif
