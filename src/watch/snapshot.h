/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SNAPSHOT_H
#define WATCH_SNAPSHOT_H

/*
 * A snapshot: what a clique's ranks are doing, read from memory alone.  It
 * takes no lock and makes no native call, so nothing that hangs can keep the
 * watchdog from taking one
 *
 * The oldest collective in flight is the *front*: the first one that is not
 * done on every rank.  The collectives behind it wait for it.
 */

#include "base/thread.h"
#include "core/clique.h"
#include "core/remote.h"
#include "watch/adaptive.h"
#include "watch/stops.h"

struct stack_report;

/* Room for tags that differ. */
#define TAGS_SIZE 240

/* Room for the reason why a rank waits. */
#define AWAITED_SIZE 160

struct rank_snapshot {
	int rank;
	int world; /* its rank in the group that its clique was split from */
	int device;

	/* The rank's part in the front. */
	bool joined; /* it has called the front; if not, the rest is 0 */
	bool meets; /* it waits for the other ranks' calls before it launches */
	bool in_call; /* its native call has not returned */
	bool started;
	bool done;
	uint64_t arrived_ns;
	struct limits limits;
	struct record call;

	bool inside;  /* a thread is inside a call of the communicator, */
	bool staged;  /* where it only waits for a call with host memory, */
	bool native;  /* or the program holds the native communicator */
	bool waiting; /* a thread waits for a ticket */
	bool idle;    /* nobody is inside and nothing is in flight */
	bool closed;
	bool returned;      /* its worker has returned 0 */
	bool is_uncompared; /* its sends and receives cannot be told apart */
	struct record last; /* the last call of any kind; ticket 0: none */
	char tag[TAG_SIZE]; /* the last call's tag, "": none */
	/* The tag of the next call, "" if there is none. */
	char tag_now[TAG_SIZE];
	char label[TAG_SIZE]; /* the last call's label, "": none */
	uint64_t captured;    /* calls that went into CUDA graphs */

	/* The rank's oldest operation in flight with sends or receives, if no
	 * older collective is in flight: its call, ticket 0: none; the peers
	 * that have not called their halves; and the peers that have called
	 * them but have not come to them.  Set by p2p_snapshot_take(). */
	struct record transfers;
	uint64_t awaits_call[COHORT_RANK_WORDS];
	uint64_t awaits_start[COHORT_RANK_WORDS];

	/* The thread that the rank is bound to, or else the last one that
	 * called.  Set by snapshot_threads(). */
	bool bound;
	/* It has called nothing in this communicator, and its thread is the
	 * last one that called in the parent. */
	bool is_new;
	int tid;   /* 0: none has called */
	int alive; /* 1, 0; -1: not looked at */
	char thread[THREAD_NAME_SIZE];
	char state[THREAD_STATE_SIZE];
	const struct stack_report *stack; /* NULL: it was not taken; see
	                                     symbolizer.h */

	/* What the rank waits for before its next call, "": not known.  Set by
	 * snapshot_awaited(). */
	char awaits[AWAITED_SIZE];
};

/* True if that thread is the rank's own: no other may call, or it is inside a
 * call.  If false, the rank's next call may come from any thread. */
static inline bool rank_has_thread(const struct rank_snapshot *r)
{
	return r->tid && (r->bound || r->inside);
}

/* True if the rank makes no further call. */
static inline bool rank_has_left(const struct rank_snapshot *r)
{
	return r->closed || r->returned;
}

/* The transfer whose deadline passes first, among those in each rank's oldest
 * operation with transfers. */
struct transfer_snapshot {
	uint64_t number; /* within the pair of ranks; 0: none is in flight */
	int rank;
	int peer;
	bool sends; /* the rank sends; false: it receives */
	size_t count;
	int type;
	bool is_local; /* the peer is in this process */
	bool met; /* the peer has called its half, or is in another process */
	enum said {
		SAID_NOTHING,
		SAID_CALLED,
		SAID_LATE, /* called, and not started */
		SAID_LEFT, /* its communicator is closed: it may have called */
	} said; /* what a peer in another process has said of its half */
	uint64_t index;
	uint64_t ticket;
	uint64_t since_ns; /* when its clock began to run */
	uint64_t allowed_ns;
	uint64_t lost_ns; /* how long the clock stood still with the process */

	/* The two halves: the rank's and the peer's. */
	struct half {
		bool in_call; /* its native call has not returned */
		bool started;
		bool done;
	} own, other;

	/* What the watchdog remembers. */
	bool slow;
	bool warned;
	unsigned expired; /* how often the deadline has passed */
};

/* What is kept about a rank's transfers from one snapshot to the next. */
struct transfer_memory {
	uint64_t next;    /* the first one that is not known to be done */
	uint64_t ticket;  /* the oldest one in flight in the last snapshot */
	uint64_t held_ns; /* when an older operation was last seen in flight */

	/* What peers in other processes have said of their halves of that
	 * operation: enum said, by the transfer's index modulo the size. */
	uint64_t asked_ticket;
	unsigned char said[COHORT_MAX_RANKS];
};

enum wait_way {
	WAITS_FOR, /* in a collective */
	WAITS_FROM,
	WAITS_TO,
};

/* A rank that has two communicators on one device. */
struct crossing_side {
	int rank;          /* in this communicator */
	int there;         /* in the other one, -1: none */
	uint64_t here_ns;  /* when it called the front here, 0: not yet */
	uint64_t there_ns; /* when it called the front there, 0: not yet */
	bool is_held; /* one thread calls for both, and it waits for a ticket or
	                 is inside another call */
	bool started_here, started_there;
	struct record call_there;
};

/* Another communicator on some of these devices whose front one rank has called
 * and another rank has called only later, or not yet.  The two ranks have
 * called the front here in the opposite order. */
struct crossing {
	bool exists;
	char group[64];
	char ended[512]; /* why the other group has ended, if the crossing was
	                    found there first; else "", and the rest counts */
	uint64_t collective;         /* the other communicator's front */
	struct crossing_side first;  /* the rank that called here first */
	struct crossing_side second; /* the rank that called there first */
};

/* Culprits, and waits on the way to them, that are described.  Of a batch that
 * a rank waits behind no more peers in other processes are asked. */
#define WAITS_CULPRITS 16
#define WAITS_LINKS 16

/* A rank that others wait for, and that waits for nobody. */
struct culprit {
	int world; /* its rank in the group that all was split from, or -1 */
	int rank;  /* its rank in the group where it is missing */
	char call[WAITS_CALL];   /* what it has not called */
	struct rank_snapshot at; /* .rank is -1 if it is in another process */
	bool has_called;         /* it has called, but has not started */

	/* If it is in another process: where it is missing, and what it says
	 * that it does. */
	struct missing in;
	int kind; /* what it is at fault for; 0 if it has not been asked */
	char text[160];
};

/* Ranks that wait for another one in the same operation. */
struct wait_link {
	uint64_t worlds[COHORT_RANK_WORDS]; /* the ranks that wait */
	uint64_t behind[COHORT_RANK_WORDS]; /* ranks of their process that wait
	                                       for them, or for each other */
	uint64_t identity, number; /* of the operation that they wait in */
	char call[WAITS_CALL];     /* where they wait */
	int for_world;             /* -1 if that is not known */
	enum wait_way way;
};

/* What the ranks that the front, or the transfer, waits for are waiting for. */
struct waits {
	int culprit_count; /* those in .culprits */
	struct culprit culprits[WAITS_CULPRITS];
	uint64_t here[COHORT_RANK_WORDS]; /* all culprits that are ranks of the
	                                     snapshot's clique */
	int link_count; /* 0 if none of them waits elsewhere */
	struct wait_link links[WAITS_LINKS];
	bool is_cycle; /* the links are a cycle, */
	/* Of collectives of two communicators, one of them this. */
	bool is_crossing;
};

/* The waits that begin at an operation which ranks of other processes have not
 * called. */
struct trail {
	struct missing from;
	int world;    /* the first of these ranks, or -1 */
	bool returns; /* it is a cycle that comes back to .from */
	struct waits waits;
};

struct snapshot {
	/* Constant. */
	const char *group;
	/* For texts that other processes show; 0: for this one's. */
	int64_t pid;
	/* With pid: for texts that other machines show; or "". */
	const char *host;
	int generation;
	int size;  /* ranks in this process */
	int world; /* ranks in all */
	uint64_t abort_ns;
	bool is_child; /* the clique was split from another one */
	int split_tid; /* the thread that split the group, 0: none did */
	unsigned warn_percent;
	uint64_t slow_ns; /* what takes longer is slow; 0: nothing is */
	bool starts_are_marked;

	/* What the watchdog remembers about the front. */
	bool slow;
	bool warned;
	unsigned expired; /* how often the deadline has passed */

	/* When the process did not run, as the watchdog has noticed. */
	struct stops stops;

	/* The front's adaptive limits.  Set by observer_look(). */
	struct adapted adapted;

	uint64_t now_ns;
	uint64_t resumed_ns; /* when a paused rank last resumed */
	bool paused;         /* some rank is paused */
	uint64_t front;      /* number of the collective, 0: none in flight */
	/* The last time at which the front waited for something else: an older
	 * collective in flight, or a transfer of its batch that the peer had
	 * not called. */
	uint64_t moved_ns;
	bool all_joined; /* all ranks of this process have called the front */
	bool has_left; /* some rank makes no further call, and some rank may */
	/* Tags that differ in a collective before the front, "" if there are
	 * none; set by snapshot_tags(). */
	char tags[TAGS_SIZE];
	/* Ranks of other processes that have, as far as can be seen. */
	int others_joined;
	/* So they have, and as far as can be seen some rank of another process
	 * has not. */
	bool others_miss;
	bool others_left; /* so it has not, and never will */
	/* When the last rank of another process called it, 0: that cannot be
	 * seen. */
	uint64_t others_ns;
	bool closing;        /* the clique ends in peace */
	const char *reaping; /* the reaper's native call, NULL: none */
	int reaping_rank;
	int probing;        /* the rank that the prober asks about, -1: none */
	const char *asking; /* the native call that the prober is in */
	uint64_t probing_since_ns;
	const char *telling; /* the callback that is running, or was last */
	/* When it was called, 0 if none is running. */
	uint64_t telling_since_ns;

	/* What ranks of other processes have answered about the front, if they
	 * were asked.  Set by the watchdog. */
	const struct remote_rank *remote;
	int remote_count;
	const char *silent; /* the processes that have not answered, or NULL */

	/* The stacks of the process's other threads; NULL if they were not
	 * asked.  Set by the watchdog. */
	const struct stack_traces *traces;
	const struct trail *trail; /* or NULL */

	/* The half of another transfer that the transfer's peer, a rank of
	 * another process, waits for and the transfer's rank has not come to.
	 * Set by p2p_snapshot_keep(). */
	struct {
		bool exists;
		bool sends; /* the transfer's rank */
		uint64_t number;
	} kept;

	struct transfer_snapshot transfer;
	struct crossing crossing; /* set by crossing_take() */
	struct waits waits;       /* set by waits_take() */
	struct rank_snapshot *ranks;
	struct transfer_memory *transfers;

	/* For each rank, the number of the first collective that is not known
	 * to be done; kept from one snapshot to the next. */
	uint64_t *next;
};

/* True if all ranks have called the front, as far as can be seen. */
static inline bool snapshot_has_all(const struct snapshot *s)
{
	return s->all_joined && !s->others_miss;
}

/* Return what is known of a rank of another process, or NULL. */
const struct remote_rank *snapshot_remote(const struct snapshot *s, int rank);

/* Return the rank's number in the group that all was split from, or -1 if it is
 * not known. */
int snapshot_world(const struct snapshot *s, int rank);

/* Room for snapshots of @clique; false without memory. */
bool snapshot_init(struct snapshot *s, const struct clique *clique);
void snapshot_fini(struct snapshot *s);

/* Take a snapshot.  What the watchdog remembers about the front is reset when
 * the front changes and when its clocks start anew. */
void snapshot_take(struct snapshot *s, struct clique *clique);

/* The front of a clique, without an earlier snapshot; the first collective that
 * is not known to be done on one rank; and one of its ranks, as snapshot_take()
 * would show it. */
uint64_t snapshot_front(const struct clique *clique);
uint64_t snapshot_undone(const struct cohort_comm *comm);
void snapshot_part(struct rank_snapshot *r, const struct cohort_comm *comm,
                   uint64_t front);

/* One rank, with what its thread is doing and what it waits for: all that is
 * known about the rank but its transfers and its stack. */
void snapshot_closely(struct rank_snapshot *r, struct cohort_comm *comm,
                      uint64_t front);

/* Rank @rank in @s; NULL: it is in another process. */
const struct rank_snapshot *snapshot_rank(const struct snapshot *s, int rank);

/* The first record of the front; its ticket is 0 if none is on record. */
const struct record *snapshot_front_call(const struct snapshot *s);

/*
 * Transfers, in p2p_snapshot.c:
 *
 * p2p_snapshot_take   - the last part of snapshot_take()
 * p2p_snapshot_next   - set @x to the next transfer in the oldest operation of
 *                       @comm with transfers that waits for its peer, to the
 *                       first one if its number is 0; @front: the rank's oldest
 *                       collective that is not done; false: there is none
 * p2p_snapshot_half   - the half that @comm has, number @number of those that
 *                       it sends to @peer, or else receives from it; false: it
 *                       has not called that
 * p2p_snapshot_awaits - what @out's rank, @comm's, waits for of rank @peer
 * p2p_snapshot_keep   - set s->kept, for @comm's rank and @peer, as it has
 * answered
 * p2p_snapshot_note   - note what the peer of s->transfer, in another process,
 *                       has answered of its half; false: nothing new.  Then the
 *                       next snapshot has the transfer that the operation waits
 *                       for by all that is known
 */
void p2p_snapshot_take(struct snapshot *s, const struct clique *clique);
bool p2p_snapshot_next(const struct cohort_comm *comm, uint64_t front,
                       struct transfer_snapshot *x);
bool p2p_snapshot_half(const struct cohort_comm *comm, bool sends, int peer,
                       uint64_t number, struct half *out);
void p2p_snapshot_awaits(const struct cohort_comm *comm, int peer,
                         struct remote_rank *out);
void p2p_snapshot_keep(struct snapshot *s, const struct cohort_comm *comm,
                       const struct remote_rank *peer);
bool p2p_snapshot_note(struct snapshot *s, const struct clique *clique);

/* Add what the ranks' threads are doing.  This asks the system, which takes its
 * time.  The answer is kept until another thread calls for the rank. */
void snapshot_threads(struct snapshot *s);
void snapshot_thread(struct rank_snapshot *r);

/* Look for tags that differ between ranks in one of the last collectives before
 * the front: there the ranks were at different places in the program. */
void snapshot_tags(struct snapshot *s, const struct clique *clique);

/* Add what the ranks wait for in the program. */
void snapshot_awaited(struct snapshot *s, struct clique *clique);

#endif
