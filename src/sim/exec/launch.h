/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_LAUNCH_H
#define SIM_EXEC_LAUNCH_H

/*
 * Launches: what one rank calls in one group on one communicator, queued on a
 * stream as one piece of work
 *
 * The launches of a communicator take their turns in the order queued, on
 * whatever streams.  A launch has two parts, which do not wait for each other: its
 * collectives, which the ranks do one after the other and all together (rendezvous.c),
 * and its sends and receives, of which each waits for its partner alone (p2p.c).
 */

#include "sim/exec/call.h"
#include "sim/exec/mark.h"
#include "sim/exec/stream.h"

/* Whose turn it is to copy a message that has both ends. */
enum claim {
	CLAIM_OPEN, /* the driver's of either end, who holds the world's lock */
	CLAIM_GIVEN, /* so, or without the lock that of the send */
	CLAIM_TAKEN, /* a thread copies */
	CLAIM_DONE,  /* nobody's any more */
};

/* One end of a message: a send or a receive of one rank.  No more than a cache line, as
 * those of the other end look at it. */
struct transfer {
	/* Constant once queued. */
	struct launch *launch;
	char *buffer; /* of a send only read */
	size_t count;
	short peer;
	unsigned char type;
	bool is_send;

	/* Atomic; an enum claim, of a receive only whether it is done.  To TAKEN from
	 * GIVEN by an exchange, else written with the world's lock held. */
	atomic_int claim;

	/* Guarded by the world's lock; what a message that is taken is made of, and
	 * copied, is for who has taken it. */
	struct transfer *partner; /* the other end, once there is one */
	union {
		struct transfer *next; /* until then: that waits for it, too */
		char *to;              /* then, of a send: where it goes */
	};
	size_t bytes, copied; /* of a send, with a partner */
};

_Static_assert(sizeof(struct transfer) <= CACHE_LINE &&
                       COHORT_SIM_MAX_DEVICES <= SHRT_MAX &&
                       ncclNumTypes <= UCHAR_MAX,
               "it is one, and all fits");

/* The call that it was. */
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
	WAY_COUNTED, /* by a counter; also of a round that another one opens */
	WAY_INLINE,  /* with a slot: inline_round.h */
	WAY_SPLIT,   /* the same: split_round.h */
	WAY_LISTED,  /* by both, with several calls: split_round.h */
	WAY_WHOLE, /* with a slot, and all with the same calls: a split round */
};

struct launch {
	struct launch *next; /* in the group */
	struct launch *next_kept;

	/* Owned by the thread that uses the communicator: see launch.c. */
	struct launch *next_given;
	bool is_in_line;
	bool is_kept; /* not to be given out; see replay.h */

	uint64_t round; /* which launch of the communicator it is */

	/* The streams named by its calls; it runs on the last, and the others
	 * are joined before and after. */
	struct stream **streams;
	size_t stream_count, stream_room;

	struct call *calls;   /* collectives */
	struct place *places; /* of each */
	size_t call_count, call_room, place_room;
	size_t bytes;  /* of all of them */
	uint64_t hash; /* of what all places say; see launch_is_same() */
	uint64_t runs; /* of where they begin */

	struct transfer *transfers;
	size_t transfer_count, transfer_room;
	int to_self; /* sends to itself less receives from itself */

	/* Where all are while they are few. */
	struct stream *own_streams[2];
	struct call own_calls[4];
	struct place own_places[4];

	struct cohort_fault
		fault;   /* of its last call that had one, or kind 0 */
	uint64_t due_ns; /* of a delay, once it has begun */

	struct ends ends;

	/* Atomic; who still uses it: the group, and once queued the stream. */
	atomic_int users;

	/* Owned by who drives its stream; calls_done, if there are transfers and in
	 * strict mode, written with the world's lock held. */
	bool joined;
	bool follows; /* maybe: the stream waits in the list of its communicator */
	bool is_told;      /* to the others: that it is for their own threads */
	unsigned patience; /* looks at pieces left to others */
	uint64_t phase; /* of the world when the round it waits for is over */
	size_t calls_done;
	_Atomic enum way
		way;   /* atomic; how it has arrived.  Relaxed: strict mode
	                         asks, too */
	uint64_t slot; /* the number of the round, of slots */

	/* All that those at the other ends of its transfers look at, and write, in as
	 * few cache lines as can be. */
	_Alignas(CACHE_LINE) struct transfer own_transfers[2];

	struct member *member;

	/* Atomic; all is done.  Acquire and release, and with transfers set under the
	 * world's lock. */
	atomic_bool over;

	/* Atomic; how many of its transfers can go on, and of how many receives the
	 * sender is to do that: written with the world's lock held.  Relaxed: who
	 * finds some takes it, or looks at the claim. */
	atomic_int ready, given;

	/* Guarded by the world's lock, of a launch that has joined with it: transfers
	 * that are not done, and one for its collectives. */
	size_t left;
};

static inline enum way launch_way(const struct launch *l)
{
	return atomic_load_explicit(&l->way, memory_order_relaxed);
}

static inline void launch_set_way(struct launch *l, enum way way)
{
	atomic_store_explicit(&l->way, way, memory_order_relaxed);
}

static inline bool launch_is_over(const struct launch *l)
{
	/* Acquire: what was written, and the turn. */
	return atomic_load_explicit(&l->over, memory_order_acquire);
}

/* What a launch brings to a round: its next call, said to be one of several if there
 * are more. */
static inline struct place launch_place(const struct launch *l)
{
	struct place place = l->places[l->calls_done];

	if (l->call_count - l->calls_done > 1)
		place.what = MANY_CALLS;
	return place;
}

/* True if two launches are the same calls, as far as that can be told without a look
 * at them: that of different ones have the same hash is not to be expected.  False
 * does not mean that they are not. */
static inline bool launch_is_same(const struct launch *a,
                                  const struct launch *b)
{
	return a->hash && a->hash == b->hash &&
	       a->call_count == b->call_count && a->bytes == b->bytes &&
	       !a->calls_done && !b->calls_done;
}

/* A launch for @member with nothing in it, or NULL without memory. */
struct launch *launch_get(struct member *member);

/* To be queued once more, with the same calls in it. */
void launch_renew(struct launch *launch);

/* One user less; the last one leaves it for the next. */
void launch_put(struct launch *launch);

/* Keep it, so that it is not given out for anything else, in flight or at rest; and do
 * so no more. */
void launch_keep(struct launch *launch);
void launch_unkeep(struct launch *launch);

/* True if nobody uses it (acquire: the last use). */
static inline bool launch_is_at_rest(const struct launch *l)
{
	return !atomic_load_explicit(&l->users, memory_order_acquire);
}

/* Add to it; false without memory. */
bool launch_add_stream(struct launch *launch, struct stream *stream);
bool launch_add_call(struct launch *launch, const struct call *call);
bool launch_add_transfer(struct launch *launch, const struct call *call);

/*
 * The end of a launch
 *
 * launch_end_locked - one of what is left of it is done, by the driver of a stream of
 *                     @by: if that was all, the next launch of its rank has its turn
 * launch_end_whole  - all of it is done at once: it has no transfers, and no other thread
 *                     knows of it
 * launch_cut_locked - it is cut short: what is left is never done
 * launch_done       - by the driver of its stream, once it is over: the stream uses it
 *                     no more
 *
 * With the world's lock held where the name says so.
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

/* The launches of @member, which are its stock: false without memory. */
bool launches_init(struct member *member);
void launches_free(struct member *member);

#endif
