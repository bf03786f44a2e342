/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/*
 * Whether this is still the process that the library was used in: in the child
 * of a fork there are no other threads, and the devices must not be touched
 */

#include <stdbool.h>
#include <stdint.h>

/* Watch for forks from now on.  Any number of times. */
void process_watch(void);

/* True in a child of a process that was watched, unless the child shares its
 * memory.  Two loads; a system call only where the kernel does not wipe pages.
 * Any thread, any signal handler. */
bool process_is_forked(void);

/* True also in a child that shares the memory.  Makes a system call: not for
 * what is called in every step. */
bool process_is_child(void);

/* A random number that tells this process from others, also from earlier ones
 * with its pid; 0: none could be had.  Does not change in a fork. */
uint64_t process_number(void);

/* COHORT_FORKED where process_is_forked() is true, or process_is_child(); else
 * COHORT_OK. */
int process_check(void);
int process_check_closely(void);

#endif
