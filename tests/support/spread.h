/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPREAD_H
#define SPREAD_H

/*
 * Tests whose groups span several processes
 *
 * With TEST_PROCESSES=N in the environment, a suite runs each test in N
 * processes at the same time. The ranks of a group from ranks_open() are
 * divided among the processes. A test must check only the results of ranks in
 * its own process, or store its results in SPREAD_SHARED variables. If a check
 * fails in any of the processes, the test fails.
 */

#include <stdatomic.h>
#include <stddef.h>

/* Attribute of a static variable that the processes of a test share */
#define SPREAD_SHARED __attribute__((section("spread_shared"), aligned(4096)))

/* A barrier, initially zero. If it is in shared memory, ranks of all processes
 * can use it. */
struct spread_barrier {
	atomic_uint arrived;
};

/* Return the number of processes that run the test. */
int spread_processes(void);

/* Return the first of a group's @n ranks in this process. */
int spread_first(int n);

/* Return the rank after the last of a group's @n ranks in this process. */
int spread_end(int n);

/* Wait until @n threads wait at the barrier. */
void spread_wait(struct spread_barrier *barrier, int n);

/* Allocate @bytes of zeros at the same address in all processes. All processes
 * must call this in the same order. */
void *spread_alloc(size_t bytes);

/* Free memory from spread_alloc(). Has no effect if the test runs in several
 * processes. */
void spread_free(void *memory);

/* Skip the test if it runs in several processes. @why is the reason. */
void spread_not(const char *why);

#endif
