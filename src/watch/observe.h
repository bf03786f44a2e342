/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_OBSERVE_H
#define WATCH_OBSERVE_H

/*
 * How long a clique's collectives take, as far as the watchdog sees it, and what the
 * front may take by that
 *
 * Estimates are apart for what is comparable: calls of one kind with a total of bytes
 * between the same two powers of two.  What was never called so has none.
 *
 *  A. Nothing is done for it on the path of a call: arrivals are those that ranks have
 *     written for each other, ends those of the recorder, which come late if at all
 *     (recorder.h, D).
 *  B. What is not known exactly is taken for the observation as the longer time, for a
 *     clock as the shorter one.  So a clock that would run out by less than what the
 *     watchdog cannot see does not.
 *  C. Of what was done since the last look some are not observed, but never the one
 *     that was the front then: whatever takes longer than from one look to the next is
 *     observed, and that is shorter than the floor.
 *  D. What is excused is not observed, nor has it a limit by the estimates: the first
 *     collective, whatever was called before deadlines were popped or a rank resumed,
 *     and what that called first after it; splits, calls that were captured, and
 *     batches that differ in size.
 *  E. Of both, time in which the process did not run does not count.
 */

#include "watch/estimate.h"
#include "watch/snapshot.h"

/* Looks are no further apart. */
#define OBSERVE_NS (25 * UINT64_C(1000000))

struct comparable {
	struct estimate join, exec;
};

/* The front, as it was when it was looked at. */
struct front {
	uint64_t number;   /* 0: there was none */
	int likeness;      /* which are comparable, -1: none */
	uint64_t seen_ns;  /* it was the front already, */
	uint64_t moved_ns; /* but not before */
	uint64_t first_ns; /* of its ranks' calls */
	uint64_t last_ns;
	bool all_joined;
};

/* Owned by the watchdog. */
struct observer {
	struct adaptive asked;
	struct comparable *all; /* NULL: nothing is observed */
	uint64_t looked_ns;     /* when last */
	uint64_t done;          /* what was done then, */
	struct front front;     /* and what was not */
};

/* False without memory; nothing is needed for a factor of 0. */
bool observer_init(struct observer *o, const struct adaptive *asked);
void observer_fini(struct observer *o);

/* Have a look at what is done, after snapshot_take(); @s is told of what the front may
 * take. */
void observer_look(struct observer *o, struct snapshot *s,
                   const struct clique *q);

/* "8 x 30 ms, observed over 512 all_reduce calls of up to 64 KiB; at least ..." */
struct expiry;
void observe_add(struct text *t, const struct snapshot *s,
                 const struct expiry *due);

#endif
