/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_RANK_LAUNCH_H
#define SIM_EXEC_RANK_LAUNCH_H

/*
 * Launches: what one rank calls in one group on one communicator, queued on a
 * stream as one piece of work
 *
 * The launches of a communicator take turns in the
 * order queued, whatever streams they are on.  A launch has two parts, which do
 * not wait for each other: its collectives, which all ranks do together, one
 * after the other (rendezvous.c), and its sends and receives, each of which
 * waits only for its partner (p2p.c).
 */

#include "base/atomics.h"
#include "sim/exec/rank_call.h"
#include "sim/exec/stream_queue.h"

/* Which end may copy a message that both ends have come to. */
enum claim {
	CLAIM_OPEN, /* the driver of either end, with the world's lock held */
	/* As CLAIM_OPEN, or the driver of the send without the lock. */
	CLAIM_GIVEN,
	CLAIM_TAKEN, /* the thread that has taken it, and copies */
	CLAIM_DONE,  /* nobody any more */
};

/* One end of a message: a send or a receive of one rank.  No more than a cache
 * line, as the driver of the other end looks at it. */
struct transfer {
	/* Constant once queued. */
	struct launch *launch;
	char *buffer; /* of a send only read */
	size_t count;
	short peer;
	unsigned char type;
	bool is_send;

	/* Atomic; an enum claim; in a receive it only says whether it is done.
	 * Goes from GIVEN to TAKEN by an exchange, is written else with the
	 * world's lock held. */
	atomic_int claim;

	/* Guarded by the world's lock; once a message is taken, its partner,
	 * to, bytes and copied are for the thread that has taken it. */
	struct transfer *partner; /* the other end, once there is one */
	union {
		struct transfer *next; /* until then: the next in the lane */
		char *to;              /* then, of a send: where it goes */
	};
	union {
		size_t bytes;    /* of a send, with a partner */
		uint64_t number; /* in a world of several processes: among
		                    those that its rank sends to the peer, or
		                    receives from it */
	};
	size_t copied; /* of a send with a partner, or in such a world of a
	                  receive */
};

_Static_assert(
	sizeof(struct transfer) <= CACHE_LINE &&
		COHORT_SIM_MAX_DEVICES <= SHRT_MAX && ncclNumTypes <= UCHAR_MAX,
	"a transfer is one cache line, and its members hold what they must");

/* The call that a transfer was made of. */
static inline struct call transfer_call(const struct transfer *t)
{
	return (struct call){
		.kind = t->is_send ? CALL_SEND : CALL_RECV,
		.send = t->is_send ? t->buffer : NULL,
		.recv = t->is_send ? NULL : t->buffer,
		.count = t->count,
		.type = t->type,
		.root = t->peer,
	};
}

/* How a rank arrives for a round. */
enum way {
	/* By a counter; also for a round that another rank opens. */
	WAY_COUNTED,
	WAY_INLINE, /* with a slot: inline_round.h */
	WAY_SPLIT,  /* with a slot: split_round.h */
	WAY_LISTED, /* by both, with several calls: split_round.h */
	/* With a slot, and all ranks have the same calls: split_round.h. */
	WAY_WHOLE,
	WAY_SPAN, /* with a slot that other processes read: span.h */
};

/* In a world of several processes: how far a launch is with a round. */
enum span_stage {
	SPAN_STAYS,  /* its rank has not come */
	SPAN_INLINE, /* it has come, with its data in a slot: inline_round.h */
	SPAN_COMES,  /* not all ranks have come */
	SPAN_WORKS,  /* they have, and its rank's share is not done */
	SPAN_DONE,   /* that is done, or the last rank to come does all */
};

struct launch {
	struct launch *next; /* in the group */

	/* Owned by the thread that uses the communicator: see rank_launch.c. */
	struct launch *next_given;

	/* The number of this launch among those of its communicator. */
	uint64_t round;

	/* The streams named by its calls; it runs on the last, and the others
	 * are joined before and after. */
	struct stream **streams;
	size_t stream_count, stream_room;

	struct call *calls;   /* collectives */
	struct place *places; /* of each */
	size_t call_count, call_room, place_room;
	size_t bytes;  /* of all calls */
	uint64_t hash; /* of what all places say: see launch_is_same() */
	uint64_t runs; /* a hash of where the runs begin */

	struct transfer *transfers;
	size_t transfer_count, transfer_room;
	int to_self; /* sends to itself less receives from itself */

	/* Room for all of these while they are few. */
	struct stream *own_streams[2];
	struct call own_calls[4];
	struct place own_places[4];

	/* The fault of its last call that had one, or kind 0. */
	struct cohort_fault fault;
	uint64_t due_ns; /* of a delay, once it has begun */

	/* Atomic; how many use it: the group and, once it is queued, the
	 * stream. */
	atomic_int users;

	/* Owned by the driver of its stream.  calls_done is written with the
	 * world's lock held if there are transfers, and in strict mode. */
	bool joined;
	/* The stream may be in the list of its member's followers. */
	bool follows;
	/* The other ranks were told that it is for their own threads. */
	bool is_told;
	unsigned patience; /* looks at pieces that were left to others */
	/* The world's when the round that this waits for is over. */
	uint64_t phase;
	size_t calls_done;
	/* Atomic; how it has arrived.  Relaxed: strict mode reads it from other
	 * threads. */
	_Atomic enum way way;
	uint64_t slot; /* the number of its slot */
	enum span_stage stage;
	size_t shared; /* bytes of the share that are done */
	/* When it waits no more for others' threads, once it is cut short; or
	 * 0. */
	uint64_t cut_ns;

	/* From here on: what the drivers of the other ends of its transfers
	 * read and write, in as few cache lines as possible. */
	_Alignas(CACHE_LINE) struct transfer own_transfers[2];

	struct member *member;

	/* Atomic; all is done.  Acquire and release; set under the world's lock
	 * if there are transfers. */
	atomic_bool over;

	/* Atomic; how many of its transfers can go on here, and how many of its
	 * receives are left to the sender: written with the world's lock held.
	 * Relaxed: a driver that finds some then takes the lock, or looks at
	 * the claim. */
	atomic_int ready, given;

	/* Guarded by the world's lock if it has joined with that held: how many
	 * transfers are not done, and one more for its collectives. */
	size_t left;
};

static inline enum way launch_way(const struct launch *l)
{
	return load_relaxed(&l->way);
}

static inline void launch_set_way(struct launch *l, enum way way)
{
	store_relaxed(&l->way, way);
}

static inline bool launch_is_over(const struct launch *l)
{
	/* Acquire: what was written, and the turn. */
	return load_acquire(&l->over);
}

/* What a launch brings to a round: the place of its next call, which says
 * MANY_CALLS if there are more. */
static inline struct place launch_place(const struct launch *l)
{
	struct place place = l->places[l->calls_done];

	if (l->call_count - l->calls_done > 1)
		place.what = MANY_CALLS;
	return place;
}

/* True if two launches have the same calls, as their hashes tell: launches that
 * differ are not expected to have the same hash.  False says nothing. */
static inline bool launch_is_same(const struct launch *a,
                                  const struct launch *b)
{
	return a->hash && a->hash == b->hash &&
	       a->call_count == b->call_count && a->bytes == b->bytes &&
	       !a->calls_done && !b->calls_done;
}

/* An empty launch of @member, or NULL without memory. */
struct launch *launch_get(struct member *member);

/* One user less; without users it may be given out again. */
void launch_put(struct launch *launch);

/* True if a launch has no users (acquire: the last use). */
static inline bool launch_is_at_rest(const struct launch *l)
{
	return !load_acquire(&l->users);
}

/* Add to a launch; false without memory. */
bool launch_add_stream(struct launch *launch, struct stream *stream);
bool launch_add_call(struct launch *launch, const struct call *call);
bool launch_add_transfer(struct launch *launch, const struct call *call);

/*
 * The end of a launch
 *
 * launch_end_locked - a transfer or all collectives are done, by the driver of
 *                     a stream of
 *                     @by: if nothing is left, it is the turn of the rank's
 * next launch
 * launch_end_whole  - all of it is done: it has no transfers, and no other
 *                     thread knows of it
 * launch_cut_locked - it is cut short: what is left is never done
 * launch_done       - by the driver of its stream, once it is over: the stream
 *                     does not use it any more
 *
 * The world's lock is held where the name ends in _locked.
 */
void launch_end_locked(struct launch *launch, const struct member *by);
void launch_end_whole(struct launch *launch);
void launch_cut_locked(struct launch *launch);
void launch_done(struct launch *launch);

/* True if some of its collectives are not done. */
static inline bool launch_has_calls(const struct launch *l)
{
	return l->calls_done < l->call_count;
}

/* Make the stock of launches of @member, false without memory; and free it. */
bool launches_init(struct member *member);
void launches_free(struct member *member);

#endif
