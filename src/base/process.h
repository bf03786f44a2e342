/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/* Detect a forked child of the process that uses the library: a child does not
 * have the library's threads, and must not access the devices */

#include <stdbool.h>
#include <stdint.h>

/* Watch for forks from now on.  May be called any number of times. */
void process_watch(void);

/* Return true in a forked child of a watched process, unless the child shares
 * the parent's memory.  Costs two loads, or a system call if the kernel cannot
 * wipe pages.  May be called from any thread or signal handler. */
bool process_is_forked(void);

/* Return true in any child, even one that shares the parent's memory.  Makes a
 * system call, which is too slow for collectives. */
bool process_is_child(void);

/* Return a random number that distinguishes this process even from earlier
 * processes with the same pid; 0 if none is available.  A fork does not change
 * it. */
uint64_t process_number(void);

/* Return COHORT_FORKED if process_is_forked(), otherwise COHORT_OK. */
int process_check(void);

/* Return COHORT_FORKED if process_is_child(), otherwise COHORT_OK. */
int process_check_closely(void);

#endif
