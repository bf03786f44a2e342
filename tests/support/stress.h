/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STRESS_H
#define STRESS_H

/*
 * What the stress programs share: how long to run, random numbers, checks
 *
 * Each is called with the seconds to run (default 1), or as in "2000r" with a
 * number of rounds; names one race; and exits with 0 after a line that begins
 * with the rounds it did, or with 1 after saying what did not hold.
 */

#include <stdbool.h>
#include <stdint.h>

/* True until the seconds or rounds of argv[1] are over; of seconds the first round
 * always runs.  To be asked once a round. */
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
