/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STRESS_H
#define STRESS_H

/*
 * Helpers of the stress programs: duration, random numbers, checks
 *
 * Each program tests one race. Its argument is the number of seconds to run
 * (default 1), or a number of rounds such as "2000r". It exits with 0 after a
 * line that begins with the number of rounds, or with 1 after a line that says
 * which check failed.
 */

#include <stdbool.h>
#include <stdint.h>

/*
 * Return true until the seconds or rounds of argv[1] have passed. Call this
 * once per round. If argv[1] is in seconds, at least one round runs.
 */
bool stress_continue(int argc, char **argv);

/* Return the next number of the random sequence that @state determines. */
uint32_t stress_random(uint64_t *state);

/* Print a message and end the program. */
void stress_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/*
 * Spin for @n iterations, which delays one of several racing threads by a small
 * random time.
 */
void stress_spin(uint32_t n);

#endif
