/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STOPS_H
#define WATCH_STOPS_H

/*
 * When this process did not run, as far as a thread can tell that meant to run
 * meanwhile: stopped by a signal or a debugger, or on a machine that stood still.
 * Such time is nobody's fault, and counts for no deadline.  Pure functions
 *
 *  A. A clock is never moved past the end of the last stop: what hangs is found at
 *     the latest its whole time after that.
 *  B. Only what nobody has watched is given back, so that the clock goes on between
 *     stops, however many there are.
 *  C. Who always oversleeps has a busy machine, not a process that was stopped:
 *     after STOPS_IN_A_ROW of them without an ordinary one no more are found.
 */

#include <stdbool.h>
#include <stdint.h>

#define STOPS_KEPT 8
#define STOPS_IN_A_ROW 64

struct stops {
	/* The last ones, in order of time, none of them in another. */
	struct stop {
		uint64_t from_ns; /* the thread was running then, */
		uint64_t to_ns;   /* and again */
	} kept[STOPS_KEPT];
	int n;
	unsigned in_a_row;
};

/*
 * The thread was running at @from_ns, meant to be again at @asked_ns (the same: did
 * not mean to pause), and is at @now_ns.  If that is more than @gross_ns late, note a
 * stop, and return true.
 */
bool stops_note(struct stops *s, uint64_t from_ns, uint64_t asked_ns,
                uint64_t now_ns, uint64_t gross_ns);

/* When a clock that has run since @since_ns would have begun, had it stood still
 * while the process did. */
uint64_t stops_shift(const struct stops *s, uint64_t since_ns);

#endif
