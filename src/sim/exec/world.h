/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_WORLD_H
#define SIM_EXEC_WORLD_H

/*
 * Worlds, where ranks meet, and their members: what there is of each rank
 *
 * A member is the part of a communicator that its launches need to find the others'.
 */

#include "sim/exec/launch.h"

struct lane;
struct slot;
struct split_round;

/* One rank of a world. */
struct member {
	/* Set when the ranks have met, and constant from then on; the world is NULL before,
	 * for ever if they do not meet, and again once it is freed.  The rank of one that
	 * joins by an id is known before. */
	struct world *world;
	int rank;
	int device;      /* constant */
	uint64_t number; /* of the world, which a member may outlive */

	/* Atomic; raised to abort it from any thread (release), polled by whoever works or
	 * waits for this rank (acquire).  A pulse raises it and takes it back. */
	atomic_bool aborted;

	/* Atomic; a scripted fault has made a call of its fail, for strict mode.  Relaxed: it
	 * only keeps checks from being made. */
	atomic_bool struck;

	/* Atomic, seq_cst; the stream on which the last launch has joined.  Set
	 * before a look at the abort flag, read by who has raised one. */
	_Alignas(CACHE_LINE) struct stream *_Atomic at;

	/* Owned by who drives its launch: the rounds it has come to, of which a slot
	 * has the number. */
	uint64_t slots;

	/* The last launch that has joined: read by the last rank to arrive and by
	 * those inside; NULL once it is over where that is asked, in strict mode
	 * and with transfers. */
	struct launch *joined;

	/* Atomic, seq_cst; launches that are over: the next one has its turn.
	 * Moved by who ends one, which then looks for followers. */
	_Atomic uint64_t turn;

	/* Atomic, seq_cst; there may be followers: set under the world's lock
	 * before a last look at what they wait for. */
	atomic_bool followed;

	/* Guarded by the world's lock. */
	struct stream *followers; /* their first work waits for any of this */

	/* Its transfers without a partner: p2p.c.  Guarded by the world's lock; set
	 * once, by the thread that uses the communicator. */
	struct lane *lanes;

	/* Atomic; launches that nothing of the simulator's looks at any more.  Release:
	 * what they wrote. */
	_Atomic uint64_t ended;

	/* Owned by the thread that uses the communicator, which writes to it with every
	 * launch.  The stock is memory that costs nothing until it is used, and then no
	 * allocation. */
	_Alignas(CACHE_LINE) _Atomic uint64_t
		rounds; /* atomic; launches queued: relaxed, a number */
	struct launch *first_given, *last_given;
	struct launch *stock;
	size_t stock_used;
	void *stock_memory;  /* what to free */
	struct launch *kept; /* to be queued again: see launch_keep() */
};

/* Launches a rank may have in flight before more are allocated: as many as its
 * stream can hold. */
#define MEMBER_STOCK STREAM_SLOTS

/* True if something that this rank launched is not done (acquire: what was); to other
 * threads than its own it may be out of date. */
static inline bool member_has_work(const struct member *m)
{
	return atomic_load_explicit(&m->ended, memory_order_acquire) !=
	       atomic_load_explicit(&m->rounds, memory_order_relaxed);
}

static inline bool member_is_aborted(const struct member *m)
{
	/* seq_cst, see at. */
	return atomic_load(&m->aborted);
}

/* True if a scripted fault has made a call of its fail or differ: its next ones may be
 * out of step with the others'. */
static inline bool member_is_struck(const struct member *m)
{
	return atomic_load_explicit(&m->struck, memory_order_relaxed);
}

/* Kick those who wait for anything of @member.  With the world's lock held. */
void member_kick_followers_locked(struct member *member);
void member_kick_locked(struct member *member);

/* End the program in strict mode, with a line about a call of @function of a rank, or of
 * none (NULL). */
void member_die(const char *function, const struct member *member,
                const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* The part of a round that is left to one rank, at first. */
struct share {
	/* Atomic; pieces left, 0 or fewer: none.  Claimed by whoever is inside.
	 * Relaxed: they know the round from the gate, others only ask. */
	_Alignas(CACHE_LINE) atomic_long left;
	long pieces;
	size_t begin, end; /* in the bytes of the round */
};

/* Of a rank where ranks wait for cores: how often it has arrived, and on which core
 * its last driver was then.  Atomic; relaxed: who waits guesses from them. */
struct seat {
	_Alignas(CACHE_LINE) _Atomic uint64_t arrivals;
	atomic_int core;
};

/* What is done together: calls that all ranks have in common. */
struct round {
	const struct world *world;
	size_t span;    /* calls */
	size_t bytes;   /* see piece.h */
	bool is_single; /* one call, of every rank the same: this, and places */
	bool is_joined; /* several, whose runs are the same on all ranks */
	struct call only;
	const struct place *places; /* by rank */
	const struct call *calls;   /* several, as one of the ranks has them */
	const struct place *const *lists; /* and the places of each rank's */
};

/* Where the ranks meet. */
struct world {
	/* Constant after creation. */
	int n;
	bool is_crowded; /* more ranks than cores */
	uint64_t number; /* in the order of creation, which all groups follow */

	/* In strict mode: what the floor above checks when a launch arrives.  NULL:
	 * nothing. */
	void (*check_arrival)(const struct launch *launch);

	/* Atomic; how many were aborted or destroyed. */
	atomic_int released;

	/* By rank; as long as the world.  The shares and lists are as the round. */
	struct member **members;
	struct share *shares;
	const struct place **lists;
	struct seat *seats;               /* NULL: there is a core for each */
	struct slot *slots;               /* two a rank, or NULL: see slot.h */
	struct split_round *split_rounds; /* NULL: there are none */

	/* Guards what is said to be guarded by the world's lock; in strict mode
	 * all of the world but the work on pieces.  With what is written under it,
	 * in no cache line with what all read. */
	_Alignas(CACHE_LINE) pthread_mutex_t lock;

	/* Atomic; threads that may touch buffers of messages, in strict mode. */
	atomic_int copying;

	/* The round.  Written by who opens it before it is open, read by those
	 * inside, and until the next one by those who were. */
	_Alignas(CACHE_LINE) struct round round;
	size_t pieces; /* of all shares */

	/* Atomic, seq_cst; the rounds that have ended, and whether one is open:
	 * what those who wait look at, and nothing else. */
	_Alignas(CACHE_LINE) _Atomic uint64_t phase;

	/* What those who arrive write, together: of two ranks one cache line. */

	/* Atomic, seq_cst; see rendezvous.c: who is inside and what is finished of the
	 * round, whether it is open, and whether all is broken. */
	_Alignas(CACHE_LINE) _Atomic uint64_t gate;

	/* Atomic; how many have arrived, ever, but with nothing else than slots.
	 * Acquire and release: what they bring. */
	_Atomic uint64_t arrived;

	/* Atomic; the last round for which all came with slots and that somebody
	 * has to open.  Relaxed: who has changed it does. */
	_Atomic uint64_t opened;

	/* By rank; written by who arrives, read by the last to arrive and by
	 * those inside. */
	struct place places[];
};

#define NO_WORLD UINT64_MAX /* the number of one that has not met */

/* A world for @n ranks, or NULL without memory; and free it. */
struct world *world_create(int n);
void world_free(struct world *world);

/*
 * A rank was aborted
 *
 * world_break     - no round is begun any more
 * world_is_broken - whether that is so
 * world_abort     - world_break(), and let every rank see it once stream_settle() is
 *                   called without any lock
 */
void world_break(struct world *world);
bool world_is_broken(const struct world *world);
void world_abort(struct world *world);

/* Let every rank see what has changed; let the streams of the others go on. */
void world_kick_all(struct world *world);
void world_kick_others(const struct world *world, int rank);

/* What the gate adds up (round.c): the bit that says that a rank was aborted. */
#define GATE_BROKEN (UINT64_C(1) << 63)

#endif
