/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_WORLD_H
#define SIM_EXEC_WORLD_H

/*
 * Worlds and members: the part of a communicator's state that this folder uses
 *
 * All ranks of a communicator share a world, in which they synchronize for
 * their collectives.  A world has a member for each rank.
 */

#include "base/atomics.h"
#include "sim/exec/rank_launch.h"

struct lane;
struct slot;
struct split_round;
struct connections;
struct span_shared;
struct span_window;
struct bounce_ops;

/* One rank of a world. */
struct member {
	/* The members world and rank are set by the layer above when the ranks
	 * have connected, and are constant from then on.  The world is NULL
	 * until then, and again after it is freed.  If the rank joins by a
	 * unique id, rank is set earlier. */
	struct world *world;
	int rank;
	int device; /* constant; the rank's device */
	/* Serial number of the world.  It is copied here because the member can
	 * outlive the world. */
	uint64_t number;

	/* Atomic, seq_cst; set by any thread to abort the rank, and polled by
	 * threads that work or wait for the rank.  Cleared again (release)
	 * after an abort that only interrupts the rank's work
	 * (comm_pulse()). */
	atomic_bool aborted;

	/* Atomic; true if a scripted fault has been applied to a call of this
	 * rank.  Relaxed, because it only makes strict mode skip checks. */
	atomic_bool struck;

	/* Atomic, seq_cst; stream of the rank's last launch that has joined the
	 * others.  A driver sets it before it checks @aborted; a thread that
	 * aborts the rank reads it after setting @aborted.  So one of the two
	 * sees the other's store. */
	_Alignas(CACHE_LINE) struct stream *_Atomic at;

	/* Number of rounds at which the rank has arrived.  It is also the
	 * number of the rank's last slot.  Owned by the thread that drives the
	 * rank's launch. */
	uint64_t slots;

	/* In strict mode: the rank's launch that has joined (started to take
	 * part) and has not ended, or NULL.  Guarded by the world's lock. */
	struct launch *joined;

	/* Atomic, seq_cst; number of the rank's launches that have ended.  The
	 * launch with this number (launch.round) can join next.  A thread that
	 * advances it without the world's lock then checks @followed. */
	_Atomic uint64_t turn;

	/* Atomic, seq_cst; false only if the list of followers is empty.  Set
	 * under the world's lock, before a final check of whether a stream must
	 * wait for its launch's turn. */
	atomic_bool followed;

	/* Streams whose head item is a launch that waits for its turn.  An
	 * abort also kicks them.  Guarded by the world's lock. */
	struct stream *followers;

	/* Transfers that have no partner yet (p2p.c).  Guarded by the world's
	 * lock; set once, by the thread that uses the communicator. */
	struct lane *lanes;

	/* Atomic; number of launches that no thread of the simulator will
	 * access again.  The release publishes the results of these
	 * launches. */
	_Atomic uint64_t ended;

	/* The members below are owned by the thread that uses the communicator,
	 * which writes to them with every launch. */
	_Alignas(CACHE_LINE) _Atomic uint64_t
		rounds; /* atomic, relaxed; number of launches queued */
	struct launch *first_given, *last_given;
	struct launch *stock;
	size_t stock_used;
	void *stock_memory; /* pointer to pass to free() */
};

/* Number of launches that a rank may have in flight before more memory is
 * allocated: as many as fit in the queue of a stream. */
#define MEMBER_STOCK STREAM_SLOTS

/* Return true if a launch of this rank is not done.  The acquire makes the
 * results of all finished launches visible.  In threads other than the rank's
 * own, the result might be outdated. */
static inline bool member_has_work(const struct member *m)
{
	return load_acquire(&m->ended) != load_relaxed(&m->rounds);
}

static inline bool member_is_aborted(const struct member *m)
{
	/* seq_cst, as the comment on member.at requires. */
	return atomic_load(&m->aborted);
}

/* Return true if a scripted fault has made a call of this rank fail or differ.
 * Its later calls might then be out of step with those of other ranks. */
static inline bool member_is_struck(const struct member *m)
{
	return load_relaxed(&m->struck);
}

/* Kick the streams whose head item is a launch of @member that waits for its
 * turn.  Called with the world's lock held. */
void member_kick_followers_locked(struct member *member);

/* Kick the streams whose head item is a launch of @member that waits for its
 * turn, and the stream of @member's last launch that has joined the other
 * ranks.  Called with the world's lock held. */
void member_kick_locked(struct member *member);

/* End the program in strict mode.  The message names @function and, unless
 * @member is NULL, its rank. */
void member_abort_program(const char *function, const struct member *member,
                          const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* Number of times that a rank has arrived at a round, and the core on which it
 * last arrived.  Used only if a world has more ranks than cores.  Atomic and
 * relaxed, because they are only hints for waiting threads. */
struct seat {
	_Alignas(CACHE_LINE) _Atomic uint64_t arrivals;
	atomic_int core;
};

/* The shared state of the ranks of a communicator. */
struct world {
	/* Constant after creation. */
	int n;
	int here;        /* number of members in this process */
	bool is_crowded; /* the world has more ranks than cores */
	uint64_t number; /* serial number of the world */
	/* Sort key of the world: a group queues its launches in ascending order
	 * of their worlds' keys.  Identical in all processes of the world. */
	uint64_t order;

	/* Callback for each launch that arrives in strict mode, so that the
	 * layer above can check the launch.  NULL if there is nothing to
	 * check. */
	void (*check_arrival)(const struct launch *launch);

	/* Atomic; number of ranks that were aborted or destroyed. */
	atomic_int released;

	/* Connections made so far, kept by the layer above.  Guarded by
	 * lock. */
	struct connections *connections;

	/* If the ranks are in several processes (span.h): the state that these
	 * processes share, the memory of each process as mapped here, and the
	 * functions for bounce buffers.  Constant once set by the layer above.
	 * NULL if all ranks are in this process. */
	struct span_shared *span;
	const struct span_window *windows;
	const struct bounce_ops *bounce;

	/* Indexed by rank.  Members live as long as the world; a member in
	 * another process is NULL. */
	struct member **members;
	struct seat *seats; /* seats, or NULL if each rank has a core */
	struct slot *slots; /* slots, two for each rank (slot.h) */
	struct split_round *split_rounds;

	/* The world's lock.  In strict mode it guards the whole world except
	 * the work on pieces.  It is on another cache line than the members
	 * that all ranks read. */
	_Alignas(CACHE_LINE) pthread_mutex_t lock;

	/* Atomic; number of threads that might access buffers of messages, in
	 * strict mode. */
	atomic_int copying;

	/* Atomic; number of the last split round that one thread has begun to
	 * process alone. */
	_Alignas(CACHE_LINE) _Atomic uint64_t begun;

	/* Atomic; number of the last split round that is complete.  Stored by
	 * the thread that processed the round alone or, if there are more ranks
	 * than cores, by the first thread that found it complete.  The release
	 * publishes the results. */
	_Alignas(CACHE_LINE) _Atomic uint64_t over;

	/* Atomic, seq_cst; true if a rank was aborted.  It is in a cache line
	 * that is never written while the world is intact. */
	_Alignas(CACHE_LINE) atomic_bool is_broken;
};

#define NO_WORLD UINT64_MAX /* number for ranks without a world */

/*
 * world_create - create a world of @n ranks
 * @here:  number of ranks in this process
 * @cores: number of cores that the ranks may use together
 * @span:  the state that several processes share, or NULL if all ranks are here
 *
 * Returns NULL if out of memory.
 */
struct world *world_create(int n, int here, int cores,
                           struct span_shared *span);
void world_free(struct world *world);

/* Mark the world as broken, so that no more rounds start.  Called for a rank
 * that is aborted. */
void world_break(struct world *world);

/* Return true if world_break() was called, in any of the world's processes. */
bool world_is_broken(const struct world *world);

/* Call world_break(), and kick the streams of all ranks so that the ranks see
 * that the world is broken.  The caller must then call stream_settle() without
 * holding a lock. */
void world_abort(struct world *world);

/* Kick the streams of all ranks, so that the ranks see a change. */
void world_kick_all(struct world *world);

/* Kick the streams of all ranks in this process except @rank. */
void world_kick_others(const struct world *world, int rank);

/* Return true if the thread that drives the stream of @rank should poll for a
 * while before it does anything else. */
bool world_may_watch(const struct world *world, int rank,
                     const struct drive *drive);

#endif
