/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_ADAPTIVE_H
#define WATCH_ADAPTIVE_H

/*
 * Adaptive limits: the time that a collective may take, computed from the times
 * of earlier collectives of its kind and size
 *
 *  limit = min(most, max(floor, factor x longest)), after warmup observations
 *
 * "most" is the deadline that applies without adaptive limits.  "longest" is
 * the longest time in two windows: the one that is being filled and the one
 * before it.  It is a maximum, as in the filters of BBR (Cardwell et al., ACM
 * Queue 14-5, 2016), rather than a mean with a deviation (RFC 6298) or a
 * distribution, because late collectives have unusual causes, such as a garbage
 * collection or a slow disk.  A false alarm costs a run; a late alarm costs
 * seconds.
 *
 * Estimates:
 *
 *  A. The factor is at least 1, so a new longest time widens the limit
 *     immediately.
 *  B. A longest time is forgotten after two windows.  A window has at least
 *     WINDOW_COUNT observations and covers at least WINDOW_NS.
 *  C. The first operation of a kind and size is not observed, because it also
 *     sets up resources.
 *
 * The observer has an estimate for each kind of operation and each power of two
 * of its total bytes:
 *
 *  D. Observation adds no cost to a call.  The observer reads arrivals from the
 *     words that ranks publish to each other, and ends from the recorder.
 *  E. If a time is not known exactly, an observation assumes the longest
 *     possible time, and a running clock the shortest.  So no limit expires too
 *     early.
 *  F. Every operation that lasts from one sample to the next is observed.  Some
 *     shorter ones are not.  Samples are closer together than the floor.
 *  G. An excused operation is not observed and has no adaptive limit.  These
 *     operations are excused: the first collective, splits, captured calls,
 *     batches whose sizes differ between ranks and, if a rank has popped its
 *     deadlines or resumed, its first collective after that and all earlier
 *     ones.
 *  H. Time during which the process was stopped does not count.
 */

#include "core/clique.h"
#include "watch/stops.h"

#define WINDOW_COUNT 1024
#define WINDOW_NS (600 * UINT64_C(1000000000))

/* Maximum time between two samples. */
#define OBSERVE_NS (25 * UINT64_C(1000000))

struct expiry;
struct snapshot;

/* The program's settings for adaptive limits. */
struct adaptive {
	unsigned factor; /* 0 if there are no adaptive limits */
	unsigned warmup; /* number of observations before there is a limit */
	uint64_t floor_ns;
};

/* ---- an estimate: pure functions -------------------------------------- */

struct estimate {
	bool is_begun;     /* the first operation was seen, see C above */
	uint64_t seen;     /* number of observations */
	uint64_t began_ns; /* time at which the window .now was started */
	struct window {
		uint64_t count;
		uint64_t longest_ns;
	} now, before;
};

/* Record in @e, at @now_ns, that an operation took @took_ns. */
void estimate_add(struct estimate *e, uint64_t took_ns, uint64_t now_ns);

/* Return the two windows merged into one. */
struct window estimate_window(const struct estimate *e);

/* Return the limit.  It is at most @most_ns, and equal to @most_ns if there is
 * no estimate yet. */
uint64_t estimate_limit(const struct estimate *e, const struct adaptive *a,
                        uint64_t most_ns);

/* ---- the observer ----------------------------------------------------- */

/* Adaptive limits of the front (snapshot.h), and the data that they are
 * computed from. */
struct adapted {
	struct limits limits; /* a member is 0 if there is no limit */
	/* Time of the first sample with this front collective.  No clock of an
	 * adaptive limit starts earlier. */
	uint64_t since_ns;
	struct adaptive asked;
	struct window join, exec;
	/* Kind and size class of the front collective; see op_class() in
	 * adaptive.c. */
	int op_class;
};

/* Estimates for operations of one kind and size. */
struct comparable {
	struct estimate join, exec;
};

/* State of the front collective at the last sample. */
struct front {
	uint64_t number;  /* number of the collective; 0 if there was none */
	int op_class;     /* kind and size; -1 if it is not observed */
	uint64_t seen_ns; /* time of the first sample with this front */
	/* Earliest time at which the collective may have become the front. */
	uint64_t moved_ns;
	uint64_t first_ns; /* earliest call of the front collective by a rank */
	uint64_t last_ns;  /* latest call of the front collective by a rank */
	bool all_joined;
};

/* Observer of the operations of one clique.  Owned by the watchdog. */
struct observer {
	struct adaptive asked;
	struct comparable *all; /* NULL if nothing is observed */
	uint64_t sampled_ns;    /* time of the last sample */
	/* Number of the last collective that had ended on all ranks. */
	uint64_t done;
	struct front front; /* the front collective at the last sample */
};

/* Prepare the observer.  Return false if out of memory.  No memory is needed if
 * the factor is 0. */
bool observer_init(struct observer *o, const struct adaptive *asked);
void observer_fini(struct observer *o);

/* Observe the operations that have ended, and store in @s the adaptive limits
 * of the front collective.  Call it after snapshot_take(). */
void observer_update(struct observer *o, struct snapshot *s,
                     const struct clique *q);

/* If the limit in @due is adaptive, add how it was computed: " (8 x 30 ms,
 * observed over 512 all_reduce operations of up to 64 KiB; at least ...)". */
void adaptive_add(struct text *t, const struct snapshot *s,
                  const struct expiry *due);

#endif
