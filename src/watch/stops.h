/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STOPS_H
#define WATCH_STOPS_H

/*
 * Finds stops: periods during which this process was not running although one
 * of its threads was due to run
 *
 * The cause is a signal, a debugger, or a suspended machine.  Deadlines do not
 * count this time.  All functions are pure.
 *
 *  A. A clock is never moved past the end of the last stop, so a hang is found
 *     at most one full deadline after that.
 *  B. A clock is moved only by the length of stops, and runs between them, no
 *     matter how many there are.
 *  C. A thread that always oversleeps is on a busy machine, not in a process
 *     that was stopped: after STOPS_IN_A_ROW stops without an ordinary sleep in
 *     between, no more stops are recorded.
 */

#include <stdbool.h>
#include <stdint.h>

#define STOPS_KEPT 8
#define STOPS_IN_A_ROW 64

struct stops {
	/* A period during which the process was not running.  Stops are in
	 * chronological order and do not overlap. */
	struct stop {
		uint64_t from_ns; /* the thread last ran at this time */
		uint64_t to_ns;   /* the thread ran again at this time */
	} kept[STOPS_KEPT];
	int n;
	unsigned in_a_row;
};

/* CPU use of a process and one thread, as the kernel reports it.  Both times
 * only grow. */
struct activity {
	uint64_t cpu_ns; /* CPU time of all threads together */
	/* Time that the thread was ready to run, but waited for a core. */
	uint64_t delayed_ns;
};

/*
 * Return how long, between two readings, the process was certainly not stopped.
 * This is computed from the CPU time and from the thread's wait for a core:
 * threads on @cores cores need at least the CPU time divided by @cores, and a
 * thread of a stopped process is never ready to run.  A thread that wakes late
 * by no more than this was starved on a busy machine.
 */
uint64_t stops_active_ns(const struct activity *before,
                         const struct activity *now, int cores);

/*
 * Record a stop and return true if the thread runs again more than @gross_ns
 * late.
 *
 * @from_ns:  time at which the thread last ran
 * @asked_ns: time at which it was due to run again; equal to @from_ns if it did
 *            not sleep
 * @now_ns:   the time now
 * @gross_ns: delay that is normal on a busy machine
 */
bool stops_record(struct stops *s, uint64_t from_ns, uint64_t asked_ns,
                  uint64_t now_ns, uint64_t gross_ns);

/* Return @since_ns, the start of a clock, moved forward by the length of the
 * stops after it. */
uint64_t stops_shift(const struct stops *s, uint64_t since_ns);

#endif
