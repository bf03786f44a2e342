/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STOPS_H
#define WATCH_STOPS_H

/*
 * Stops: when this process did not run, although one of its threads meant to.
 * A signal or a debugger stopped it, or the machine stood still.  Such time is
 * nobody's fault and counts for no deadline.  Pure functions
 *
 *  A. A clock is never moved past the end of the last stop, so a hang is found
 *     at most one full deadline after that.
 *  B. A clock is moved only by time that nobody has watched, so it goes on
 *     between stops, however many there are.
 *  C. A thread that always oversleeps is on a busy machine, not in a process
 *     that was stopped: after STOPS_IN_A_ROW stops without an ordinary sleep in
 *     between, no more stops are found.
 */

#include <stdbool.h>
#include <stdint.h>

#define STOPS_KEPT 8
#define STOPS_IN_A_ROW 64

struct stops {
	/* The last stops, in order of time; they do not overlap. */
	struct stop {
		uint64_t from_ns; /* the thread ran at this time, */
		uint64_t to_ns;   /* and next at this one */
	} kept[STOPS_KEPT];
	int n;
	unsigned in_a_row;
};

/* What the kernel says about a process and one of its threads; both times only
 * grow. */
struct activity {
	uint64_t cpu_ns; /* that the process's threads have run, all together */
	/* That the thread was ready to run, and waited for a core. */
	uint64_t delayed_ns;
};

/*
 * Return for how long, between two readings, the process was certainly not
 * stopped: its threads ran on at most @cores cores, and a thread of a stopped
 * process is not ready to run.  A thread that is late by no more than that was
 * starved on a busy machine.
 */
uint64_t stops_active_ns(const struct activity *before,
                         const struct activity *now, int cores);

/*
 * The thread ran at @from_ns, meant to run again at @asked_ns (equal to
 * @from_ns: it did not mean to sleep), and runs now, at @now_ns.  If it is more
 * than @gross_ns late, note a stop and return true.
 */
bool stops_note(struct stops *s, uint64_t from_ns, uint64_t asked_ns,
                uint64_t now_ns, uint64_t gross_ns);

/* Move the start of a clock, @since_ns, forward by the time that the process
 * stood still since then. */
uint64_t stops_shift(const struct stops *s, uint64_t since_ns);

#endif
