/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SNAPSHOT_H
#define WATCH_SNAPSHOT_H

/*
 * A snapshot: the state of a clique's ranks, read from memory alone
 *
 * Taking a snapshot takes no lock and makes no native call, so a hang can never
 * keep the watchdog from taking one.
 *
 * The *front* is the oldest collective in flight: the first one that is not
 * done on every rank.  Later collectives wait for it.
 *
 * A *transfer* is a send and the matching receive, which are its two *halves*.
 *
 * The *root group* is the group that a clique was split from, directly or
 * through other splits.  A rank has one number in the root group and one in its
 * own clique.
 */

#include "base/thread.h"
#include "core/clique.h"
#include "core/remote.h"
#include "watch/adaptive.h"
#include "watch/stops.h"

struct stack_report;

/* Size of the text about tags that differ, in bytes. */
#define TAGS_SIZE 240

/* Size of the text about the reason why a rank waits, in bytes. */
#define AWAITED_SIZE 160

#define ELSEWHERE_SIZE 112

/* One rank of the clique. */
struct rank_snapshot {
	int rank;
	int world; /* the rank's number in the root group */
	int device;

	/* True if the rank has called the front collective.  If not, the
	 * members up to .call are 0. */
	bool joined;
	/* The rank has called, and waits for the other ranks' calls before it
	 * launches the front collective. */
	bool meets;
	/* the native call of the front collective has not returned */
	bool in_call;
	bool started;
	bool done;
	uint64_t arrived_ns;
	struct limits limits;
	struct record call;

	bool inside;  /* a thread is inside a call of the communicator */
	bool staged;  /* a thread waits in a call with host memory */
	bool native;  /* the program holds the native communicator */
	bool waiting; /* the rank's thread waits for a ticket */
	bool helped;  /* another thread waits for this bound rank's ticket */
	bool idle;    /* no thread is inside and nothing is in flight */
	bool closed;
	bool returned;    /* the rank's worker has returned 0 in this run */
	bool is_run_over; /* the worker has returned 0 in the last run */
	/* The rank's sends and receives cannot be matched by number. */
	bool is_uncompared;
	/* The rank's last call of any kind.  Its ticket is 0 if there was
	 * none. */
	struct record last;
	char tag[TAG_SIZE]; /* tag of the last call, or "" */
	/* Tag of the rank's next call, or "". */
	char tag_now[TAG_SIZE];
	char label[TAG_SIZE]; /* label of the last call, or "" */
	uint64_t captured;    /* number of calls captured into CUDA graphs */

	/* The members from here to .state describe the thread that the rank is
	 * bound to or, if it is bound to none, the thread that made the rank's
	 * last call.  snapshot_threads() sets .alive, .thread and .state. */
	bool bound; /* no other thread may call for the rank */
	/* Pid of the thread if it is in another process, otherwise 0. */
	int64_t pid;
	/* True if the rank has called nothing in this communicator; .tid is
	 * then the last thread that called in the parent. */
	bool is_new;
	int tid;   /* 0 if no thread has called */
	int alive; /* 1 if the thread is alive, else 0; -1 if not checked */
	char thread[THREAD_NAME_SIZE];
	char state[THREAD_STATE_SIZE];
	/* The thread's stack, see symbolizer.h; NULL if it was not taken. */
	const struct stack_report *stack;

	/* True if the rank has left after another communicator had ended, and
	 * was not blamed for that end.  Set by waits_take(). */
	bool gave_up;

	/* What the thread does in another communicator, such as "is inside
	 * all_reduce of "dp"", or "".  Set by waits_take() for the ranks that
	 * the front collective or the transfer waits for. */
	char elsewhere[ELSEWHERE_SIZE];

	/* Reason why the program has not made the rank's next call; "" if not
	 * known.  Set by snapshot_awaited(). */
	char awaits[AWAITED_SIZE];
};

/* Return true if thread r->tid is the one that will make the rank's next call,
 * because the rank is bound to it or it is inside a call.  If false, any thread
 * may make the next call. */
static inline bool rank_has_thread(const struct rank_snapshot *r)
{
	return r->tid && (r->bound || r->inside);
}

/* Return true if the rank's thread cannot make its next call soon, because it
 * waits for a ticket or is inside another call. */
static inline bool rank_is_blocked(const struct rank_snapshot *r)
{
	return r->waiting || r->inside;
}

/* Return true if the rank will make no further call. */
static inline bool rank_has_left(const struct rank_snapshot *r)
{
	return r->closed || r->returned;
}

/* Return true if the rank has left, or if its thread ended with the last
 * cohort_group_run().  In the second case, another thread or run may still make
 * the rank's next call. */
static inline bool rank_is_gone(const struct rank_snapshot *r)
{
	return rank_has_left(r) ||
	       (r->is_run_over && !r->bound && r->alive == 0);
}

/* The transfer whose deadline passes first.  For each rank, only the oldest
 * operation with sends or receives is considered. */
struct transfer_snapshot {
	/* Number of the transfer among all from one rank to the other, or 0 if
	 * no transfer is in flight. */
	uint64_t number;
	int rank;
	int peer;
	bool sends; /* true if the rank sends, false if it receives */
	size_t count;
	int type;
	bool is_local; /* the peer is in this process */
	bool met; /* the peer has called its half, or is in another process */
	enum reply {
		REPLY_NONE,
		REPLY_CALLED,
		/* The peer has called its half, but not started it. */
		REPLY_LATE,
		/* The peer's communicator was closed, maybe after the call. */
		REPLY_LEFT,
	} reply; /* report of a peer in another process about its half */
	uint64_t index;
	uint64_t ticket;
	uint64_t since_ns; /* time at which the transfer's clock began to run */
	uint64_t allowed_ns;
	uint64_t lost_ns; /* how long the process was not running */

	/* The halves of the rank and of the peer. */
	struct half {
		bool in_call; /* the native call of the half has not returned */
		bool started;
		bool done;
	} own, other;

	/* The following members record what the watchdog has already reported
	 * about the transfer. */
	bool slow;
	unsigned expired; /* number of times that the deadline has passed */
};

/* State of a rank's transfers that is kept from one snapshot to the next. */
struct transfer_memory {
	uint64_t next;   /* index of the first transfer not known to be done */
	uint64_t ticket; /* oldest ticket in flight at the last snapshot */
	/* Last time at which an operation before the transfer was in flight. */
	uint64_t held_ns;

	/* Replies (enum reply) of peers in other processes about their halves
	 * of operation .asked_ticket.  A transfer's place in the array is its
	 * index modulo the array size. */
	uint64_t asked_ticket;
	unsigned char reply[COHORT_MAX_RANKS];
};

/* Kind of a call in which one rank waits for another. */
enum wait_way {
	WAITS_FOR,  /* for a rank, in a collective */
	WAITS_FROM, /* in a receive from a rank */
	WAITS_TO,   /* in a send to a rank */
};

/* One of the two ranks of a struct crossing.  It has two communicators on one
 * device: "here" is the snapshot's, "there" is the other one. */
struct crossing_side {
	int rank;  /* the rank's number in this communicator */
	int there; /* the rank's number in the other communicator, or -1 */
	/* Time at which the rank called in this ("here") communicator, or 0 if
	 * it has not called. */
	uint64_t here_ns;
	/* Time at which the rank called in the other ("there") communicator,
	 * or 0 if it has not called. */
	uint64_t there_ns;
	/* True if one thread calls in both communicators, and waits for the
	 * rank's call here (there) or for a later one. */
	bool is_held_here, is_held_there;
	bool is_one_thread; /* false if two threads have called */
	bool started_here, started_there;
	struct record call_there;
};

/* Two communicators that share devices and that two ranks use in opposite
 * orders.  The first rank has called the front collective here, but the front
 * collective of the other communicator only later or not yet.  The second rank
 * has done the reverse. */
struct crossing {
	bool exists;
	char group[64]; /* name of the other communicator's group */
	/* Text of the cause if the crossing has ended the other group (then
	 * only .there_first is set below, to the ranks that it blames),
	 * otherwise "". */
	char ended[512];
	/* Identity of the other clique, and number of its front collective; 0
	 * if no rank uses another communicator first. */
	uint64_t identity, collective;
	/* Ranks that are in both communicators.  Of these, the ranks that have
	 * called this communicator's front collective first, and the ranks that
	 * have called the other communicator's first.  The order of the
	 * majority is right. */
	uint64_t members[COHORT_RANK_WORDS];
	uint64_t here_first[COHORT_RANK_WORDS];
	uint64_t there_first[COHORT_RANK_WORDS];
	struct crossing_side first;  /* the rank that called here first */
	struct crossing_side second; /* the rank that called there first */
};

/* Maximum number of culprits that are described.  Also the maximum number of
 * peers in other processes that are asked about one batch of transfers. */
#define WAITS_CULPRITS 16

/* Maximum number of waits that lead to the described culprits. */
#define WAITS_LINKS 16

/* A rank that other ranks wait for and that waits for no rank itself. */
struct culprit {
	int world; /* the rank's number in the root group, or -1 if not known */
	int rank;  /* number in the group in which the rank is missing */
	char call[WAITS_CALL]; /* name of the call that the rank has not made */
	/* .rank is -1 if the rank is in another process */
	struct rank_snapshot at;
	bool has_called; /* true if the rank has called, but has not started */

	/* The operation in which the rank is missing, for questions to other
	 * processes. */
	struct missing in;
	/* An enum cohort_verdict_kind; 0 if the rank's process was not
	 * asked. */
	int kind;
	char text[160]; /* description of the rank by its process */
};

/* A group of ranks that wait for one rank in one operation. */
struct wait_link {
	/* The ranks that wait, by their numbers in the root group. */
	uint64_t worlds[COHORT_RANK_WORDS];
	/* Other ranks of the same process that wait for the ranks in .worlds,
	 * or for one another. */
	uint64_t behind[COHORT_RANK_WORDS];
	/* The operation in which the ranks wait: the identity of its clique,
	 * and its number there. */
	uint64_t identity, number;
	char call[WAITS_CALL]; /* name of the operation */
	int for_world; /* the rank that the group waits for; -1 if not known */
	enum wait_way way;
};

/* The reasons why the ranks that the front collective or the transfer waits for
 * make no progress: chains of waits, and the culprits at the ends of the
 * chains. */
struct waits {
	int culprit_count; /* number of entries in .culprits */
	struct culprit culprits[WAITS_CULPRITS];
	/* All culprits that are ranks of the snapshot's clique. */
	uint64_t here[COHORT_RANK_WORDS];
	int link_count; /* 0 if none of the awaited ranks waits for another */
	struct wait_link links[WAITS_LINKS];
	bool is_cycle; /* the links form a cycle */
};

/* A chain of waits that is followed through other processes.  It starts at an
 * operation that ranks of other processes have not called. */
struct trail {
	struct missing from;
	/* Number in the root group of the first rank in .from, or -1. */
	int world;
	bool returns; /* the waits are a cycle that leads back to .from */
	struct waits waits;
};

/* State of a clique at one time. */
struct snapshot {
	/* The clique, its limits and the program's settings.  These members are
	 * constant. */
	const char *group;
	/* Process id for texts that other processes print, or 0. */
	int64_t pid;
	/* Host name for texts that other machines print, or "". */
	const char *host;
	/* Phrase for a rank whose number is not known, or NULL if it is in
	 * another process. */
	const char *unknown;
	int generation; /* 0 if there are no generations */
	int size;       /* number of ranks in this process */
	int world;      /* number of ranks in all processes */
	uint64_t abort_ns;
	bool is_child; /* the clique was split from another one */
	int split_tid; /* thread that split the group, 0 if it was not split */
	/* Time after which an operation is reported as slow, 0 for never. */
	uint64_t slow_ns;
	/* True if each operation marks its start on the stream. */
	bool starts_are_marked;

	/* The following members record what the watchdog has already reported
	 * about the front collective. */
	bool slow;
	unsigned expired; /* number of times that the deadline has passed */

	/* Periods during which the process was not running. */
	struct stops stops;

	/* Adaptive limits of the front collective.  Set by
	 * observer_update(). */
	struct adapted adapted;

	uint64_t now_ns;
	uint64_t resumed_ns; /* time at which a paused rank last resumed */
	bool paused;         /* some rank is paused */
	uint64_t front; /* number of the collective; 0 if none is in flight */
	/* The last time at which the front collective was seen to wait for
	 * another operation: for an older collective in flight, or for a
	 * transfer of its batch that the peer had not called. */
	uint64_t moved_ns;
	bool all_joined; /* all ranks of this process have called the front */
	/* True if some ranks, but not all, will make no further call. */
	bool has_left;
	/* Text about tags that differ between ranks in a collective before the
	 * front collective, or "".  Set by snapshot_tags(). */
	char tags[TAGS_SIZE];
	/* Number of ranks of other processes that were seen to have called the
	 * front collective. */
	int others_joined;
	/* True if all ranks of this process have called the front collective,
	 * but some rank of another process has not, as far as can be seen. */
	bool others_miss;
	/* True if a rank of another process has left without calling the front
	 * collective. */
	bool others_left;
	/* Time of the last call of the front collective in another process, 0
	 * if not seen. */
	uint64_t others_ns;
	bool closing;        /* the clique is being closed without a cause */
	const char *reaping; /* native call that the reaper is in, or NULL */
	int reaping_rank;    /* rank that the reaper's call is for, or -1 */
	int probing;         /* rank that the prober asks about, or -1 */
	const char *asking;  /* native call that the prober is in */
	uint64_t probing_since_ns;

	int section_tid; /* result of memory_section_thread() */
	/* Time at which on_verdict was called, 0 if it is not running. */
	uint64_t callback_since_ns;

	/* Reports of ranks of other processes about the front collective, if
	 * these processes were asked.  Set by the watchdog. */
	const struct remote_rank *remote;
	int remote_count;
	/* Names of the processes that have not replied, or NULL. */
	const char *silent;

	/* All stacks, if the stacks of threads that belong to no rank were also
	 * taken; otherwise NULL.  Set by the watchdog. */
	const struct stack_traces *traces;
	const struct trail *trail; /* waits in other processes, or NULL */

	struct transfer_snapshot transfer;
	struct crossing crossing; /* set by crossing_take() */
	struct waits waits;       /* set by waits_take() */
	struct rank_snapshot *ranks;
	struct transfer_memory *transfers;

	/* For each rank, the number of the first collective that is not known
	 * to be done.  Kept from one snapshot to the next. */
	uint64_t *next;
};

/* Return true if all ranks have called the front collective, as far as can be
 * seen. */
static inline bool snapshot_has_all(const struct snapshot *s)
{
	return s->all_joined && !s->others_miss;
}

/* Return the report about a rank of another process, or NULL if there is
 * none. */
const struct remote_rank *snapshot_remote(const struct snapshot *s, int rank);

/* Return the number of @rank in the root group, or -1 if it is not known. */
int snapshot_world(const struct snapshot *s, int rank);

/* Allocate memory for snapshots of @clique.  Returns false if out of memory. */
bool snapshot_init(struct snapshot *s, const struct clique *clique);
void snapshot_fini(struct snapshot *s);

/* Take a snapshot.  If the front collective has changed or its clocks restart,
 * also clear the record of what the watchdog has reported about the front. */
void snapshot_take(struct snapshot *s, struct clique *clique);

/* Return the front collective of @clique, or 0 if there is none.  Needs no
 * earlier snapshot. */
uint64_t snapshot_front(const struct clique *clique);

/* Return the number of the first collective that @comm has not finished, even
 * if it has not called that collective. */
uint64_t snapshot_undone(const struct cohort_comm *comm);

/* Store in @r what a snapshot would show of @comm's rank if collective @front
 * were the front collective.  Pass 0 for no front collective. */
void snapshot_part(struct rank_snapshot *r, const struct cohort_comm *comm,
                   uint64_t front);

/* Return true if the rank of @comm will make no further call. */
bool snapshot_has_left(const struct cohort_comm *comm);

/* Like snapshot_part(), but also add what the rank's thread is doing and what
 * it waits for.  Does not set the rank's transfers and stack. */
void snapshot_details(struct rank_snapshot *r, struct cohort_comm *comm,
                      uint64_t front);

/* Return rank @rank of @s, or NULL if it is in another process. */
const struct rank_snapshot *snapshot_rank(const struct snapshot *s, int rank);

/* Return the record of the front collective from the first rank that has one.
 * Its ticket is 0 if no rank has one. */
const struct record *snapshot_front_call(const struct snapshot *s);

/* Record the transfers of @clique's ranks in @s, for snapshot_take(). */
void p2p_snapshot_take(struct snapshot *s, const struct clique *clique);

/*
 * Find the next transfer that waits for its peer, in the oldest operation of
 * @comm that has transfers.  Returns false if there is no other such transfer,
 * or if the rank waits for an older collective.
 *
 * @front: the rank's oldest collective that is not done
 * @x:     the previous transfer, or one with number 0 for the first; set to the
 *         next one
 */
bool p2p_snapshot_next(const struct cohort_comm *comm, uint64_t front,
                       struct transfer_snapshot *x);

/* Store in @out the progress of @comm's half of a transfer: the send @number to
 * @peer or, if @sends is false, the receive @number from @peer.  Return false
 * if @comm has not called that half. */
bool p2p_snapshot_half(const struct cohort_comm *comm, bool sends, int peer,
                       uint64_t number, struct half *out);

/* Store the reply of the peer of s->transfer, a rank of another process, about
 * its half.  Return false if the reply says nothing new.  Otherwise the
 * operation may wait for another of its transfers, so the caller must take the
 * snapshot again. */
bool p2p_snapshot_store_reply(struct snapshot *s, const struct clique *clique);

/* Add what the ranks' threads are doing.  This queries the system, which takes
 * time.  Later snapshots keep the result for a rank until another thread calls
 * for the rank. */
void snapshot_threads(struct snapshot *s);

/* Add what the thread of one rank is doing, as snapshot_threads() does. */
void snapshot_thread(struct rank_snapshot *r);

/* Find tags that differ between ranks in one of the last collectives before the
 * front collective.  They show that the ranks were at different places in the
 * program. */
void snapshot_tags(struct snapshot *s, const struct clique *clique);

/* Add what the program waits for before each rank's next call. */
void snapshot_awaited(struct snapshot *s, struct clique *clique);

#endif
