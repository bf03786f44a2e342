/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SPAN_H
#define SIM_EXEC_SPAN_H

/*
 * Worlds whose ranks are in several processes of one machine
 *
 * Each process has a struct world, with the members that are in that process.
 * The structures span_* below are in memory that the processes share, except
 * struct span_window.  The buffers of all ranks are also shared: each process
 * maps the memory of the other processes in windows.
 *
 * A round has one call.  A small call is done as an inline round
 * (inline_round.h), with slots in the shared memory.  For any other call, a
 * rank arrives by writing the call into its own slot.  Once all ranks have
 * arrived, each rank processes its share of the round (piece.h), which reads
 * from all ranks and writes to all ranks.  The round ends when all shares are
 * done.  If there are more ranks than cores, the last rank to arrive processes
 * the whole round unless it is large, because the system would otherwise have
 * to schedule every other rank once more.  If a rank's bounce buffers hold only
 * a part of a large call, the round processes that part, and the ranks arrive
 * again for the rest.
 *
 * The receiver of a message copies the data.
 *
 * A process can be stopped or killed at any time, so there are no locks here.
 * Threads of other processes cannot be woken: waiting threads and the poller
 * poll instead.
 *
 *  A.  A rank writes to another rank's buffers only while its own word "inside"
 *      is set.  After it has set the word, and before each piece, it checks
 *      whether the world is broken.  A rank that is aborted first breaks the
 *      world, and then waits until no other rank is inside, but for at most one
 *      second, because the other rank's process might be stopped.
 *  B.  A rank uses data that it has read from another rank's buffers only if a
 *      later check finds that the world is not broken or, for a message, that
 *      no launch of the other rank was cut short.  In that case, the other rank
 *      had not yet released its buffers when they were read.
 */

#include "sim/exec/slot.h"

/* Largest number of messages from one rank to another that are posted but not
 * taken. */
#define SPAN_POSTS 8

/* The call that a rank makes in a round. */
struct span_slot {
	/* Atomic; number of the round, counted from 1.  Stored with release
	 * after the call is written; loaded with acquire before another rank
	 * reads the call. */
	_Alignas(CACHE_LINE) _Atomic uint64_t number;
	/* The call.  Its buffers are those of the elements that are processed
	 * next. */
	struct call call;
	/* Number of elements that these buffers hold.  The round processes the
	 * smallest such number of all ranks. */
	size_t room;
};

/* Words of a rank that other processes read.  Written by the thread that drives
 * the rank's stream. */
struct span_rank {
	/* Double-buffered: when a rank enters round k, all ranks have read the
	 * slot that it wrote for round k - 2. */
	struct span_slot slots[2];

	/* Atomic; number of the last round in which the rank has finished its
	 * share.  The release publishes the results that the rank has
	 * written. */
	_Alignas(CACHE_LINE) _Atomic uint64_t done;

	/* Atomic, seq_cst; true while the rank may write to other ranks'
	 * buffers. */
	atomic_bool inside;

	/* Atomic, seq_cst; not 0 once a launch of the rank was cut short.  From
	 * then on, data read from its buffers must not be used. */
	atomic_int is_cut;

	/* Atomic; true if a scripted fault has struck the rank (struct
	 * member). */
	atomic_bool is_struck;

	/* The rank's process, as an index into the windows of struct world, and
	 * the rank's device.  Constant once the ranks have connected. */
	int process;
	int device;
};

/* The messages from one rank to one other rank. */
struct span_lane {
	/* Atomic; total number of messages posted.  Written by the sender.  The
	 * release publishes the posts. */
	_Alignas(CACHE_LINE) _Atomic uint64_t posted;
	/* posted sends, with addresses in the sender's process */
	struct call posts[SPAN_POSTS];
	/* Atomic; total number of messages taken.  Written by the receiver.
	 * The release allows the sender to reuse the posts. */
	_Alignas(CACHE_LINE) _Atomic uint64_t taken;
};

/* The shared memory of a world, initially zero.  The lanes follow the ranks,
 * and the slots of inline rounds follow the lanes. */
struct span_shared {
	/* The members n and is_crowded are constant. */
	int n;
	bool is_crowded; /* the world has more ranks than cores */

	/* Atomic, seq_cst; true if a rank was aborted. */
	atomic_bool is_broken;

	/* Atomic; number of ranks that were aborted or destroyed, in all
	 * processes. */
	atomic_int released;

	/* Atomic; total number of arrivals at rounds that the last rank to
	 * arrive processes alone.  Acquire and release: this rank sees the
	 * slots of all other ranks. */
	_Alignas(CACHE_LINE) _Atomic uint64_t came;
	/* Atomic; number of the last round that one rank processed alone.  The
	 * release publishes the results that this rank wrote. */
	_Atomic uint64_t done_alone;

	_Alignas(CACHE_LINE) struct span_rank ranks[];
};

/* The memory of a process, as mapped in this process. */
struct span_window {
	uintptr_t there; /* start address in the process that owns the memory */
	uintptr_t here;  /* start address in this process */
	size_t bytes;
	/* File descriptor on which poll() reports POLLHUP once the process has
	 * ended. */
	int life;
};

/* Return the offset of the end of the lanes in the shared memory of a world of
 * @n ranks. */
static inline size_t span_lanes_end(int n)
{
	return sizeof(struct span_shared) +
	       (size_t)n * sizeof(struct span_rank) +
	       (size_t)n * (size_t)n * sizeof(struct span_lane);
}

/* Return the size of the shared memory of a world of @n ranks. */
static inline size_t span_bytes(int n)
{
	return span_lanes_end(n) + 2 * (size_t)n * sizeof(struct slot);
}

/* Return the slots for inline rounds in the shared memory of a world. */
static inline struct slot *span_slots(struct span_shared *shared)
{
	return (struct slot *)(void *)((char *)shared +
	                               span_lanes_end(shared->n));
}

/*
 * Bounce buffers, which replace buffers that other processes cannot map
 *
 * The layer above implements these functions (nccl/buffers.c).  They are called
 * by the thread that drives the stream of the call, perhaps with the world's
 * lock held.
 */
struct bounce_ops {
	/* Store @call in @bounced, with bounce buffers where needed, and copy
	 * the data to send into them.  If the elements of a large call are
	 * independent of each other, the bounce buffers might have room only
	 * for the first elements; @bounced->count is their number.  Return
	 * false if out of memory. */
	bool (*map)(const struct member *member, const struct call *call,
	            struct call *bounced);

	/* Free the bounce buffers in @bounced.  If @done, first copy the
	 * results for @call->count elements to the buffers of @call. */
	void (*unmap)(const struct member *member, const struct call *call,
	              const struct call *bounced, bool done);
};

/* Return true if all processes of the world can access [@p, @p + @bytes) in the
 * memory of @member's rank. */
bool span_reaches(const struct member *member, const void *p, size_t bytes);

/* Prevent other ranks from using data that they have read from @member's
 * buffers.  Called when a launch of @member is cut short. */
void span_abort(const struct member *member);

/* Mark the world as broken, for all of its processes. */
static inline void span_break(const struct world *w)
{
	atomic_store(&w->span->is_broken, true);
}

static inline bool span_is_broken(const struct world *w)
{
	return atomic_load(&w->span->is_broken);
}

/* Arrive at the round of the launch's next call.  Called by the thread that
 * drives the launch. */
void span_arrive(const struct world *world, struct launch *launch);

/* Advance the launch's round as far as possible without waiting.  Returns true
 * if the round has ended, and stores whether this thread leaves work that could
 * be done now.  Called by the thread that drives the launch. */
bool span_do(struct world *world, struct launch *launch,
             const struct drive *drive, bool *left_out);

/* Return true while another rank might be writing to buffers of a launch that
 * will be cut short, but for at most one second. */
bool span_is_touched(const struct world *world, struct launch *launch);

/* Free the bounce buffers of a launch that is cut short. */
void span_leave(struct launch *launch);

/* Assign a number to each transfer of a launch that joins. */
void span_post(struct launch *launch);

/* Advance the launch's transfers as far as possible without waiting.  Returns
 * true if this thread leaves work that could be done now.  Called by the thread
 * that drives the launch. */
bool span_messages(struct launch *launch, const struct drive *drive);

#endif
