/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/*
 * Whether this is still the process that the library was used in: in the child of
 * a fork the threads are gone and the devices are not to be touched
 */

#include <stdbool.h>
#include <stdint.h>

/* Watch for forks from now on.  Any number of times. */
void process_watch(void);

/* True in a child of a process that was watched, but one that shares its memory.  Two
 * loads, no system call.  Any thread, any signal handler. */
bool process_is_forked(void);

/* A random number that tells this process from others, also from former ones with its
 * pid; 0: there are none to be had.  The same after a fork. */
uint64_t process_number(void);

/* COHORT_FORKED there, else COHORT_OK. */
int process_check(void);

#endif
