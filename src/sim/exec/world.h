/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_WORLD_H
#define SIM_EXEC_WORLD_H

/* Worlds, where ranks meet, and their members, one for each rank
 *
 * A member is what exec knows of a rank's communicator.
 */

#include "base/atomics.h"
#include "sim/exec/rank_launch.h"

struct lane;
struct slot;
struct split_round;
struct connections;
struct span_shared;
struct span_window;
struct span_lender;

/* One rank of a world. */
struct member {
	/* Set by the floor above when the ranks have met, and constant from
	 * then on.  The world is NULL before, for ever if they do not meet, and
	 * again once it is freed.  The rank of one that joins by an id is known
	 * before. */
	struct world *world;
	int rank;
	int device;      /* constant */
	uint64_t number; /* of the world, which a member may outlive */

	/* Atomic; raised by any thread to abort the rank (release), polled by
	 * the threads that work or wait for the rank (acquire).  A pulse raises
	 * it and takes it back. */
	atomic_bool aborted;

	/* Atomic; a scripted fault has made a call of its fail, for strict
	 * mode.  Relaxed: it only keeps checks from being made. */
	atomic_bool struck;

	/* Atomic, seq_cst; the stream on which the last launch has joined.  Set
	 * before a look at the abort flag, read by the thread that has raised
	 * one. */
	_Alignas(CACHE_LINE) struct stream *_Atomic at;

	/* Owned by the driver of its launch: how many rounds it has come to,
	 * which is the number of its last slot. */
	uint64_t slots;

	/* Written by the driver of its launch: the last launch that has joined.
	 * Read by the last rank to arrive and by the threads inside.  With
	 * transfers, and in strict mode, NULL once that launch is over. */
	struct launch *joined;

	/* Atomic, seq_cst; launches that are over: the next one has its turn.
	 * Moved by the thread that ends one, which then looks for followers. */
	_Atomic uint64_t turn;

	/* Atomic, seq_cst; there may be followers: set under the world's lock
	 * before a last look at what they wait for. */
	atomic_bool followed;

	/* Guarded by the world's lock. */
	/* Their first work waits for the turn or the flag. */
	struct stream *followers;

	/* Its transfers without a partner: p2p.c.  Guarded by the world's lock;
	 * set once, by the thread that uses the communicator. */
	struct lane *lanes;

	/* Atomic; how many launches no thread of the simulator looks at any
	 * more.  Release: what they wrote. */
	_Atomic uint64_t ended;

	/* Owned by the thread that uses the communicator, which writes to it
	 * with every launch.  The stock is memory that costs nothing until it
	 * is used, and then no allocation. */
	_Alignas(CACHE_LINE) _Atomic uint64_t
		rounds; /* atomic; launches queued: relaxed, a number */
	struct launch *first_given, *last_given;
	struct launch *stock;
	size_t stock_used;
	void *stock_memory; /* what to free */
};

/* Launches a rank may have in flight before more are allocated: as many as its
 * stream can hold. */
#define MEMBER_STOCK STREAM_SLOTS

/* True if something that this rank launched is not done (acquire: what is
 * done).  For threads other than the rank's own the answer may be out of
 * date. */
static inline bool member_has_work(const struct member *m)
{
	return load_acquire(&m->ended) != load_relaxed(&m->rounds);
}

static inline bool member_is_aborted(const struct member *m)
{
	/* seq_cst, see at. */
	return atomic_load(&m->aborted);
}

/* True if a scripted fault has made a call of its fail or differ: its next ones
 * may be out of step with the others'. */
static inline bool member_is_struck(const struct member *m)
{
	return load_relaxed(&m->struck);
}

/* Kick the streams that wait for a turn of @member; and also the one on which
 * its last launch has joined.  With the world's lock held. */
void member_kick_followers_locked(struct member *member);
void member_kick_locked(struct member *member);

/* End the program in strict mode, with a line about a call of @function of a
 * rank, or of none (NULL). */
void member_die(const char *function, const struct member *member,
                const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* The part of a round that is left to one rank, at first. */
struct share {
	/* Atomic; pieces left, none if it is 0 or less.  Claimed by the threads
	 * inside.  Relaxed: those know the round from the gate, others only
	 * ask. */
	_Alignas(CACHE_LINE) atomic_long left;
	long pieces;
	size_t begin, end; /* in the bytes of the round */
};

/* How often a rank has arrived, in a world with more ranks than cores, and on
 * which core its driver was then.  Atomic; relaxed: threads that wait
 * guess from them. */
struct seat {
	_Alignas(CACHE_LINE) _Atomic uint64_t arrivals;
	atomic_int core;
};

/* What is done together: calls that all ranks have in common. */
struct round {
	const struct world *world;
	size_t span;  /* calls */
	size_t bytes; /* see piece.h */
	/* One call, the same on every rank: only, with places. */
	bool is_single;
	/* Several calls, whose runs are the same on all ranks. */
	bool is_joined;
	struct call only;
	const struct place *places; /* by rank */
	/* Several calls, as one of the ranks has them. */
	const struct call *calls;
	const struct place *const *lists; /* and each rank's places of them */
	const struct call *const
		*each; /* each rank's call, in a world of several
	                                   processes */
};

/* Where the ranks meet. */
struct world {
	/* Constant after creation. */
	int n;
	int here;        /* members, in this process */
	bool is_crowded; /* more ranks than cores */
	uint64_t number; /* in the order of creation */
	uint64_t order;  /* which all groups follow, in all its processes */

	/* In strict mode: what the floor above checks when a launch arrives.
	 * NULL: nothing. */
	void (*check_arrival)(const struct launch *launch);

	/* Atomic; how many were aborted or destroyed. */
	atomic_int released;

	/* Guarded by lock: what is connected, kept by the floor above. */
	struct connections *connections;

	/* Constant once set by the floor above: where ranks are in several
	 * processes, what those share, their memory, and how memory becomes
	 * such (span.h).  NULL: all ranks are here. */
	struct span_shared *span;
	const struct span_window *windows;
	const struct span_lender *lender;

	/* By rank; they live as long as the world.  NULL for a member that is
	 * in another process.  Shares and lists are written and read as the
	 * round is. */
	struct member **members;
	struct share *shares;
	const struct place **lists;
	struct seat *seats;               /* NULL: there is a core for each */
	struct slot *slots;               /* two a rank, or NULL: see slot.h */
	struct split_round *split_rounds; /* NULL: there are none */

	/* The world's lock; in strict mode it guards all of the world but the
	 * work on pieces.  In no cache line with what all ranks read. */
	_Alignas(CACHE_LINE) pthread_mutex_t lock;

	/* Atomic; threads that may touch buffers of messages, in strict
	 * mode. */
	atomic_int copying;

	/* The round.  Written by the thread that opens it before it is open,
	 * read by the threads inside, and until the next round by those that
	 * were inside. */
	_Alignas(CACHE_LINE) struct round round;
	size_t pieces; /* of all shares */

	/* Atomic, seq_cst; how many rounds have ended, and whether one is open
	 * (round.h): all that waiting threads look at. */
	_Alignas(CACHE_LINE) _Atomic uint64_t phase;

	/* What arriving ranks write, together: one cache line for two ranks. */

	/* Atomic, seq_cst; how many threads are inside, how many pieces of the
	 * round are finished, whether it is open, and whether the world is
	 * broken: see round.c. */
	_Alignas(CACHE_LINE) _Atomic uint64_t gate;

	/* Atomic; how many ranks have arrived by the counter, ever.  Acquire
	 * and release: what they bring. */
	_Atomic uint64_t arrived;

	/* Atomic; the last round for which all ranks came with slots, and that
	 * one of them has to open.  Relaxed: the thread that has changed it
	 * opens the round. */
	_Atomic uint64_t opened;

	/* By rank; written by the rank that arrives, read by the last one to
	 * arrive and by the threads inside. */
	struct place places[];
};

#define NO_WORLD UINT64_MAX /* the number of one that has not met */

/* A world for @n ranks, @here of which are in this process, and all of which
 * may use @cores, or NULL without memory; and free it.  @span: NULL if all
 * ranks are here. */
struct world *world_create(int n, int here, int cores,
                           struct span_shared *span);
void world_free(struct world *world);

/*
 * A rank was aborted
 *
 * world_break     - no round is begun any more
 * world_is_broken - whether that is so
 * world_abort     - world_break(), and let every rank see it once
 *                   stream_settle() is called without any lock
 */
void world_break(struct world *world);
bool world_is_broken(const struct world *world);
void world_abort(struct world *world);

/* Let every rank see what has changed; let the streams of the others go on. */
void world_kick_all(struct world *world);
void world_kick_others(const struct world *world, int rank);

/* What the gate adds up (round.c): the bit that says that a rank was
 * aborted. */
#define GATE_BROKEN (UINT64_C(1) << 63)

#endif
