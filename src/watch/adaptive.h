/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_ADAPTIVE_H
#define WATCH_ADAPTIVE_H

/*
 * Adaptive limits: how long collectives of one kind and size took so far, as
 * far as the watchdog sees it, and how long the front may take by that
 *
 *  limit = min(most, max(floor, factor x longest)), after warmup observations
 *
 * The longest is the maximum over two windows, the one that is being filled and
 * the one before it.  Such a maximum forgets, and takes two numbers; the
 * filters of BBR keep theirs in three (Cardwell et al., ACM Queue 14-5, 2016).
 * A mean with a deviation, as TCP keeps for round trips (RFC 6298), or a
 * distribution, as the phi accrual detector keeps for heartbeats, would be
 * closer to the usual time.  But unusual things make collectives late: a
 * garbage collection, a slow disk.  A late collective that is taken for a hang
 * costs a run; a hang that is found later costs some seconds.
 *
 * An estimate:
 *
 *  A. An operation that takes no longer than the longest one of a window stays
 *     within the limit, by the factor: an outlier widens the limit at once.
 *  B. The longest time is forgotten after two windows.  Each window has at
 *     least WINDOW_COUNT observations and is at least WINDOW_NS long.
 *  C. The first operation of its kind is no observation: it sets up what later
 *     ones use.
 *
 * The observer keeps one estimate for each kind of operation and each power of
 * two of its total bytes.  An operation without earlier ones of its kind and
 * size has none.
 *
 *  D. The path of a call does nothing for the observer.  It takes arrivals from
 *     what ranks have written for each other, and ends from the recorder, which
 *     may learn of an end late or never (recorder.h, D).
 *  E. Where a time is not known exactly, the observation takes the longest that
 *     it can have been, and the clock the shortest.  So no limit expires by
 *     less than what the watchdog cannot see.
 *  F. Some of the operations that ended since the last sample are not observed,
 *     but the one that was the front at that sample always is.  So every
 *     operation that lasts from one sample to the next is observed, and that
 *     time is shorter than the floor.
 *  G. An excused operation is not observed and has no adaptive limit: the first
 *     collective; those that were called before deadlines were popped or a rank
 *     resumed, and the rank's first after it; splits; captured calls; batches
 *     whose sizes differ between ranks.
 *  H. Time in which the process did not run counts neither for an observation
 *     nor for a clock.
 */

#include "core/clique.h"
#include "watch/stops.h"

#define WINDOW_COUNT 1024
#define WINDOW_NS (600 * UINT64_C(1000000000))

/* The time between two samples, at most. */
#define OBSERVE_NS (25 * UINT64_C(1000000))

struct expiry;
struct snapshot;

/* What the program has asked for. */
struct adaptive {
	unsigned factor; /* 0: no adaptive limits */
	unsigned warmup;
	uint64_t floor_ns;
};

/* ---- an estimate: pure functions -------------------------------------- */

struct estimate {
	bool is_begun; /* the first operation was there */
	uint64_t seen; /* observations, in all */
	uint64_t began_ns;
	struct window {
		uint64_t count;
		uint64_t longest_ns;
	} now, before;
};

/* Add an observation of @took_ns, made at @now_ns. */
void estimate_add(struct estimate *e, uint64_t took_ns, uint64_t now_ns);

/* Both windows as one. */
struct window estimate_window(const struct estimate *e);

/* The limit, where @most_ns is the limit without an estimate. */
uint64_t estimate_limit(const struct estimate *e, const struct adaptive *a,
                        uint64_t most_ns);

/* ---- the observer ----------------------------------------------------- */

/* What collectives like the front have taken, and what the front may take by
 * that. */
struct adapted {
	struct limits limits; /* 0: no adaptive limit */
	uint64_t since_ns;    /* when it was first seen as the front: the clocks
	                         start no earlier */
	struct adaptive asked;
	struct window join, exec;
	int likeness; /* see adaptive.c */
};

/* The estimates of one kind and size. */
struct comparable {
	struct estimate join, exec;
};

/* The front, as it was at the last sample. */
struct front {
	uint64_t number;   /* 0: there was none */
	int likeness;      /* its kind and size, -1: none */
	uint64_t seen_ns;  /* it was the front by then, */
	uint64_t moved_ns; /* but not before this */
	uint64_t first_ns; /* the first and the last of its ranks' calls */
	uint64_t last_ns;
	bool all_joined;
};

/* Owned by the watchdog. */
struct observer {
	struct adaptive asked;
	struct comparable *all; /* NULL: nothing is observed */
	uint64_t looked_ns;     /* the time of the last sample, */
	uint64_t done;      /* the last collective that had ended everywhere, */
	struct front front; /* and the first that had not */
};

/* False without memory; a factor of 0 needs none. */
bool observer_init(struct observer *o, const struct adaptive *asked);
void observer_fini(struct observer *o);

/* Observe what has ended, after snapshot_take(), and store in @s what the front
 * may take. */
void observer_look(struct observer *o, struct snapshot *s,
                   const struct clique *q);

/* "8 x 30 ms, observed over 512 all_reduce operations of up to 64 KiB; at least
 * ..." */
void adaptive_add(struct text *t, const struct snapshot *s,
                  const struct expiry *due);

#endif
