/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STRESS_H
#define STRESS_H

/*
 * What the stress programs share: how long to run, random numbers, checks
 *
 * Each is called with the seconds to run (default 1), names one race, and exits
 * with 0, or with 1 after saying what did not hold.
 */

#include <stdbool.h>
#include <stdint.h>

/* True until the seconds of argv[1] are over; the first round always runs. */
bool stress_go_on(int argc, char **argv);

/* The next number of a sequence that starts from @state's value. */
uint32_t stress_random(uint64_t *state);

/* Say what did not hold and end the program. */
void stress_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/* Let @n iterations of nothing pass: a small random distance between threads
 * that race, not a wait for anything. */
void stress_spin(uint32_t n);

#endif
