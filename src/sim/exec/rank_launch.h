/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_RANK_LAUNCH_H
#define SIM_EXEC_RANK_LAUNCH_H

/*
 * Launches: the calls that one rank makes in one group on one communicator,
 * queued on a stream as one work item
 *
 * The launches of a communicator run one after the other in the order queued,
 * even on different streams: they take turns.  A launch has two parts that do
 * not wait for each other.  All ranks carry out its collectives together, one
 * after the other (rendezvous.c).  Each of its sends and receives waits only
 * for its partner (p2p.c).
 */

#include "base/atomics.h"
#include "sim/exec/rank_call.h"
#include "sim/exec/stream_queue.h"

/* The threads that may copy a message whose two ends were matched.  A "thread
 * of an end" is a thread that drives the stream of that end's launch. */
enum claim {
	/* A thread of either end may copy, with the world's lock held. */
	CLAIM_OPEN,
	/* Like CLAIM_OPEN, but a thread of the send may also copy without the
	 * lock. */
	CLAIM_GIVEN,
	CLAIM_TAKEN, /* only the thread that has claimed the message may copy */
	CLAIM_DONE,  /* no thread may copy, because the message is done */
};

/* One end of a message: a send or a receive of one rank.  It fits in one cache
 * line, because threads of both ends read it. */
struct transfer {
	/* Constant once queued. */
	struct launch *launch;
	char *buffer; /* the data; a send never writes to it */
	size_t count;
	short peer;
	unsigned char type;
	bool is_send;

	/* Atomic; an enum claim.  In a receive, it only shows whether the
	 * message is done.  An atomic compare-and-swap changes it from GIVEN to
	 * TAKEN; all other changes are made with the world's lock held. */
	atomic_int claim;

	/* Guarded by the world's lock.  Once a thread has claimed the message,
	 * only this thread uses the members partner, to, bytes and copied. */
	struct transfer *partner; /* the other end, or NULL */
	union {
		/* next transfer in the lane, while this one has no partner */
		struct transfer *next;
		/* Address to copy the data to, in a send with a partner. */
		char *to;
	};
	union {
		size_t bytes; /* message size, in a send with a partner */
		/* In a world of several processes: number of this message among
		 * all messages between the two ranks in this direction. */
		uint64_t number;
	};
	/* Number of bytes copied so far.  Used in a send that has a partner,
	 * and in a receive if the ranks are in several processes. */
	size_t copied;
};

_Static_assert(
	sizeof(struct transfer) <= CACHE_LINE &&
		COHORT_SIM_MAX_DEVICES <= SHRT_MAX && ncclNumTypes <= UCHAR_MAX,
	"a transfer is one cache line, and its members hold what they must");

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

/* How a rank has arrived at a round. */
enum way {
	WAY_NONE,   /* the rank has not arrived */
	WAY_INLINE, /* by a slot with one call and its data (inline_round.h) */
	WAY_SPLIT,  /* by a slot with one call (split_round.h) */
	WAY_LIST,   /* by a slot with all calls of the launch (split_round.h) */
	WAY_SPAN,   /* by a slot that other processes read (span.h) */
};

/* Progress of a launch in its current round, in a world of several
 * processes. */
enum span_stage {
	SPAN_STAYS, /* the rank has not arrived */
	/* The rank has arrived, and its data is in a slot (inline_round.h). */
	SPAN_INLINE,
	/* The rank has arrived, but some other rank has not. */
	SPAN_COMES,
	/* All ranks have arrived, but the rank's share is not finished. */
	SPAN_WORKS,
	/* The share is finished, or the last rank to arrive processes the whole
	 * round. */
	SPAN_DONE,
};

struct launch {
	struct launch *next; /* next launch of the same group */

	/* List of launches for reuse.  Owned by the thread that uses the
	 * communicator (rank_launch.c). */
	struct launch *next_given;

	/* Serial number of this launch on its communicator. */
	uint64_t round;

	/* The streams that the calls name.  The launch runs on the last one,
	 * which waits for the other streams before the launch; the other
	 * streams wait for the last one after the launch. */
	struct stream **streams;
	size_t stream_count, stream_room;

	struct call *calls; /* the collectives of the launch */
	size_t call_count, call_room;
	size_t bytes;  /* total bytes of all calls */
	uint64_t what; /* word that describes all calls (call_what()) */
	uint64_t runs; /* hash of the positions at which runs start */

	struct transfer *transfers;
	size_t transfer_count, transfer_room;
	/* number of sends to the launch's own rank, minus receives from it */
	int to_self;

	/* Storage for the arrays of small launches, used until more room is
	 * needed. */
	struct stream *own_streams[2];
	struct call own_calls[4];

	/* The scripted fault of the last call that has one.  Its kind is 0 if
	 * no call has a fault. */
	struct cohort_fault fault;
	/* end of a fault's delay, once the delay has started */
	uint64_t due_ns;

	/* Atomic; reference count.  The group holds a reference and, once the
	 * launch is queued or captured, so does the stream or graph. */
	atomic_int users;

	/* The members below are owned by the thread that drives the launch's
	 * stream.  In strict mode, or if the launch has transfers, calls_done
	 * is written with the world's lock held. */
	bool joined;
	/* True if the stream might be in the member's list of followers. */
	bool follows;
	/* True once the other ranks' streams were kicked for this launch. */
	bool others_kicked;
	/* Number of checks in which this launch has left pieces to other
	 * ranks. */
	unsigned patience;
	size_t calls_done;
	/* True if each call is a round, because other ranks group their calls
	 * differently. */
	bool one_by_one;
	/* True if the slots of all other ranks had already arrived when this
	 * rank arrived. */
	bool is_last;
	/* Atomic and relaxed; other threads read it only in strict mode. */
	_Atomic enum way way;
	uint64_t slot; /* number of the launch's slot */
	enum span_stage stage;
	size_t shared; /* number of bytes of its share that the rank has done */
	/* In a world of several processes: number of elements of the next call
	 * that earlier rounds have processed, and number of elements that this
	 * round processes. */
	size_t earlier, elements;
	/* Time until which an aborted rank waits for threads of other
	 * processes; 0 until the first check after the abort. */
	uint64_t cut_ns;

	/* The members below are used by threads of the ranks with which this
	 * rank exchanges messages.  They are in as few cache lines as
	 * possible. */
	_Alignas(CACHE_LINE) struct transfer own_transfers[2];

	struct member *member;

	/* Atomic; true if the launch is done or was cut short.  Acquire and
	 * release; set under the world's lock if the launch has transfers. */
	atomic_bool over;

	/* Atomic; number of transfers that the launch's own thread can copy,
	 * and number of receives that are left to the sender.  Written with the
	 * world's lock held.  Relaxed: a thread that reads a number above 0
	 * then takes the lock or checks the claim. */
	atomic_int ready, given;

	/* Number of transfers that are not done, plus one if some collective is
	 * not done.  Guarded by the world's lock if the launch joined with the
	 * lock held. */
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
	/* Acquire the launch's results. */
	return load_acquire(&l->over);
}

struct launch *launch_get(struct member *member);

/* Drop a reference.  A launch without references can be reused. */
void launch_put(struct launch *launch);

/* Return true if a launch has no users.  The acquire pairs with the release of
 * the last user's reference. */
static inline bool launch_is_at_rest(const struct launch *l)
{
	return !load_acquire(&l->users);
}

bool launch_add_stream(struct launch *launch, struct stream *stream);

bool launch_add_call(struct launch *launch, const struct call *call);

bool launch_add_transfer(struct launch *launch, const struct call *call);

/* End one transfer, or all collectives, of a launch.  If nothing else of the
 * launch is left, pass the turn to the rank's next launch.  Called with the
 * world's lock held, by a thread that drives a stream of @by. */
void launch_end_locked(struct launch *launch, const struct member *by);

/* End a launch that has no transfers and to which no other thread has a
 * reference. */
void launch_end_whole(struct launch *launch);

/* Cut a launch short: the calls that are not done will never be done.  Called
 * with the world's lock held. */
void launch_cut_locked(struct launch *launch);

/* Release a launch that has ended.  Called by the thread that drives the
 * launch's stream, which must not use the launch afterwards. */
void launch_done(struct launch *launch);

static inline bool launch_has_calls(const struct launch *l)
{
	return l->calls_done < l->call_count;
}

bool launches_init(struct member *member);
void launches_free(struct member *member);

/* ---- rendezvous.c ---- */

/* Step function of a launch: arrive, and carry out its calls together with
 * other ranks. */
enum step rendezvous_step(struct stream *stream, struct work *work,
                          const struct drive *drive);

/*
 * End the program if the calling thread, which has waited for @stream since
 * @since_ns, can never continue: it is the program's only thread, and the
 * stream's head item needs a call of another rank that has not been made.  (One
 * thread may make the calls of several ranks only in a group.)  If there are
 * other threads, the function does nothing, because any of them might make the
 * call.  For strict mode only.
 */
void rendezvous_check_wait(struct stream *stream, uint64_t since_ns);

#endif
