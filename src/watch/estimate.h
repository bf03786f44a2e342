/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_ESTIMATE_H
#define WATCH_ESTIMATE_H

/*
 * How long something may take, by how long the like of it took: pure functions
 *
 *	limit = min(most, max(floor, factor x longest)), after warmup observations
 *
 * The longest is that of two windows, the one that is being filled and the one before:
 * a maximum that forgets, kept in two numbers as the filters of BBR keep theirs in
 * three (Cardwell et al., ACM Queue 14-5, 2016).  A mean and a deviation, as of round
 * trips (RFC 6298), or a distribution, as of heartbeats (phi accrual), would be closer
 * to what is usual.  But collectives are late by what is not usual, a garbage
 * collection or a slow disk, and one that is taken for a hang costs a run, one that is
 * found later some seconds.
 *
 *  A. What took no longer than the longest of a window stays within the limit by the
 *     factor: an outlier widens it at once.
 *  B. It is forgotten after two windows, each of which has at least WINDOW_COUNT
 *     observations and is at least WINDOW_NS long.
 *  C. The first of its kind is no observation: it sets up what the others use.
 */

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_COUNT 1024
#define WINDOW_NS (600 * UINT64_C(1000000000))

/* What is asked for. */
struct adaptive {
	unsigned factor; /* 0: nothing is */
	unsigned warmup;
	uint64_t floor_ns;
};

struct estimate {
	bool is_begun; /* the first was there */
	uint64_t seen; /* observations, in all */
	uint64_t began_ns;
	struct window {
		uint64_t count;
		uint64_t longest_ns;
	} now, before;
};

/* At @now_ns it is seen that one more took @took_ns. */
void estimate_add(struct estimate *e, uint64_t took_ns, uint64_t now_ns);

/* Of both windows. */
struct window estimate_window(const struct estimate *e);

/* What is allowed, where @most_ns is without an estimate. */
uint64_t estimate_limit(const struct estimate *e, const struct adaptive *a,
                        uint64_t most_ns);

#endif
