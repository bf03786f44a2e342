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
 * loads; a system call only where the kernel does not wipe pages.  Any thread, any
 * signal handler. */
bool process_is_forked(void);

/* True also in a child that shares the memory, by a system call: not for what is called
 * at every step. */
bool process_is_child(void);

/* A random number that tells this process from others, also from former ones with its
 * pid; 0: there are none to be had.  The same after a fork. */
uint64_t process_number(void);

/* COHORT_FORKED where process_is_forked() is true, or process_is_child(); else
 * COHORT_OK. */
int process_check(void);
int process_check_closely(void);

#endif
