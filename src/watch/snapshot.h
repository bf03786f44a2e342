/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SNAPSHOT_H
#define WATCH_SNAPSHOT_H

/*
 * What a clique's ranks are doing, as far as memory tells: no native call is made
 * and no lock is taken, so nothing that hangs can keep one from being taken
 *
 * Of the collectives in flight the oldest counts, the *front*: the first that is
 * not done on every rank.  Those behind it wait for it.
 */

#include "base/thread.h"
#include "core/clique.h"
#include "watch/adaptive.h"
#include "watch/stops.h"

struct stack_report;

/* Room for what a rank waits for. */
#define AWAITED_SIZE 160

struct rank_snapshot {
	int rank;
	int device;

	/* Of the front. */
	bool joined;  /* has called it; the rest is 0 if not */
	bool meets;   /* waits for the other ranks' calls before it launches */
	bool in_call; /* its native call has not returned */
	bool started;
	bool done;
	uint64_t arrived_ns;
	struct limits limits;
	struct record call;

	bool inside;  /* a thread is inside a call of the communicator */
	bool staged;  /* that only waits there, in one with host memory */
	bool native;  /* that is between native enter and leave */
	bool waiting; /* a thread waits for a ticket */
	bool idle;    /* nobody is inside and nothing is in flight */
	bool closed;
	struct record last;   /* the last call of any kind; ticket 0: none */
	char tag[TAG_SIZE];   /* of that */
	char label[TAG_SIZE]; /* likewise */
	uint64_t captured;    /* calls that went into CUDA graphs */

	/* Of its oldest operation with sends or receives in flight, if it is at
	 * that: the call, ticket 0: none, and the peers that have not called their
	 * halves, or have and are not at them; by p2p_snapshot_take(). */
	struct record transfers;
	uint64_t awaits_call[COHORT_RANK_WORDS];
	uint64_t awaits_start[COHORT_RANK_WORDS];

	/* Of the thread it is bound to, else of the last that called; by
	 * snapshot_threads(). */
	bool bound;
	int tid;   /* 0: none has called */
	int alive; /* 1, 0; -1: not looked at */
	char thread[THREAD_NAME_SIZE];
	char state[THREAD_STATE_SIZE];
	const struct stack_report *stack; /* NULL: it was not asked; see
	                                     symbolizer.h */

	/* What it waits for before its next call, "": not known; by
	 * snapshot_awaited(). */
	char awaits[AWAITED_SIZE];
};

/* True if that thread is the rank's: no other may call, or it is inside a call.  Else
 * the rank's next call may come from any thread. */
static inline bool rank_has_thread(const struct rank_snapshot *r)
{
	return r->tid && (r->bound || r->inside);
}

/* Of the transfers in flight the one whose time is up first, of those in each rank's
 * oldest operation with any. */
struct transfer_snapshot {
	uint64_t number; /* of the pair, 0: none is in flight */
	int rank;
	int peer;
	bool sends; /* the rank; else it receives */
	size_t count;
	int type;
	bool is_local; /* the peer is of this process */
	bool met;      /* and has called its half, or is of another */
	uint64_t index;
	uint64_t ticket;
	uint64_t since_ns; /* its clock, from when that runs, */
	uint64_t allowed_ns;
	uint64_t lost_ns; /* that it stood still, as the process did */

	/* Of the two halves: the rank's and the peer's. */
	struct half {
		bool in_call; /* its native call has not returned */
		bool started;
		bool done;
	} own, other;

	/* What the watchdog remembers. */
	bool slow;
	bool warned;
	unsigned expired; /* how often */
};

/* What is kept of a rank's transfers from one look to the next. */
struct transfer_memory {
	uint64_t next;    /* the first that is not known to be done */
	uint64_t ticket;  /* of the oldest in flight when last looked at */
	uint64_t held_ns; /* when something older was last seen in flight */
};

/* One rank of two communicators on the same device. */
struct crossing_side {
	int rank;          /* here */
	int there;         /* in the other, -1: none */
	uint64_t here_ns;  /* when it has called the front, 0: not yet */
	uint64_t there_ns; /* likewise that of the other */
	bool is_held; /* by the same thread, which waits for a ticket or is inside
	                 another call */
	bool started_here, started_there;
	struct record call_there;
};

/* Another communicator on some of the same devices, in which one rank has called
 * what another has not yet, or only later; here it is the other way round. */
struct crossing {
	bool exists;
	char group[64];
	char ended
		[512]; /* that was found there, and was its end; else "", and the
	                    rest counts */
	uint64_t collective;         /* the front of that */
	struct crossing_side first;  /* here first, */
	struct crossing_side second; /* there first */
};

struct snapshot {
	/* Constant. */
	const char *group;
	int generation;
	int size;  /* ranks in this process */
	int world; /* ranks in all */
	uint64_t abort_ns;
	int split_tid; /* the thread that has split the group, 0: none has */
	unsigned warn_percent;
	uint64_t slow_ns; /* 0: nothing is */
	bool starts_are_marked;

	/* What the watchdog remembers of the front. */
	bool slow;
	bool warned;
	unsigned expired; /* how often */

	/* What it has noticed: when the process did not run. */
	struct stops stops;

	/* And what it has observed; by observer_look(). */
	struct adapted adapted;

	uint64_t now_ns;
	uint64_t resumed_ns; /* when the last rank that was paused went on */
	bool paused;         /* one is */
	uint64_t front;      /* number of the collective, 0: none in flight */
	uint64_t moved_ns;   /* when an older one was last seen in flight, or a
	                        transfer of its batch that the peer has not
	                        called: the front has waited for that */
	bool all_joined;
	bool closing;        /* it ends in peace */
	const char *reaping; /* where the reaper is, NULL: in no native call */
	int reaping_rank;
	int probing; /* of which rank the prober asks something, -1: none */
	const char *asking; /* the function that it is in, if it asks */
	uint64_t probing_since_ns;
	uint64_t telling_since_ns; /* on_verdict is running, 0: it is not */

	struct transfer_snapshot transfer;
	struct crossing crossing; /* by crossing_take() */
	struct rank_snapshot *ranks;
	struct transfer_memory *transfers;

	/* Of each rank the number of the first collective that is not known to
	 * be done; kept from one look to the next. */
	uint64_t *next;
};

/* Room for snapshots of @clique; false without memory. */
bool snapshot_init(struct snapshot *s, const struct clique *clique);
void snapshot_fini(struct snapshot *s);

/* Take a snapshot.  What the watchdog remembers is forgotten with a new front, and
 * when its clocks start anew. */
void snapshot_take(struct snapshot *s, struct clique *clique);

/* The front of a clique of which nothing is known, and what one of its ranks is doing
 * about that; the rest of @r as snapshot_take() would have it. */
uint64_t snapshot_front(const struct clique *clique);
void snapshot_part(struct rank_snapshot *r, const struct cohort_comm *comm,
                   uint64_t front);

/* The same with what its thread is doing, and what it waits for: all that is known of a
 * rank but for transfers and its stack. */
void snapshot_closely(struct rank_snapshot *r, struct cohort_comm *comm,
                      uint64_t front);

/* What is known of rank @rank; NULL: it is of another process. */
const struct rank_snapshot *snapshot_rank(const struct snapshot *s, int rank);

/* What snapshot_take() does about transfers, after the rest. */
void p2p_snapshot_take(struct snapshot *s, const struct clique *clique);

/* Look at the ranks' threads, too: asks the system, which takes its time.  What was
 * seen is kept until a rank is called by another thread. */
void snapshot_threads(struct snapshot *s);

/* Ask, too, what the ranks wait for outside the library. */
void snapshot_awaited(struct snapshot *s, struct clique *clique);

#endif
