/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STRESS_H
#define STRESS_H

/*
 * What the stress programs share: how long to run, random numbers, checks
 *
 * Each program takes the seconds to run (default 1), or a number of rounds such
 * as "2000r"; it names one race; and it exits with 0 after a line that begins
 * with the rounds it ran, or with 1 after a line that says what did not hold.
 */

#include <stdbool.h>
#include <stdint.h>

/*
 * True until the seconds or rounds of argv[1] are over; with seconds, the first
 * round always runs.  Ask once a round.
 */
bool stress_go_on(int argc, char **argv);

/* The next number of a sequence that starts from @state's value. */
uint32_t stress_random(uint64_t *state);

/* Say what did not hold and end the program. */
void stress_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/*
 * Spin for @n iterations: a small random distance between threads that race,
 * not a wait for anything.
 */
void stress_spin(uint32_t n);

#endif
