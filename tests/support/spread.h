/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPREAD_H
#define SPREAD_H

/*
 * Tests whose groups are spread over processes
 *
 * With TEST_PROCESSES=N in the environment, a suite runs each test in N processes at once,
 * which share out the ranks of a group that ranks_open() opens; so a test should look at the results of the ranks of its own process, or keep what
 * all ranks look at in SPREAD_SHARED variables.  A check that fails in one of the processes
 * fails the test.
 */

#include <stdatomic.h>
#include <stddef.h>

/* Before a static variable: the processes of a test share it. */
#define SPREAD_SHARED __attribute__((section("spread_shared"), aligned(4096)))

/* A barrier for the ranks of all processes, if it is shared; zero at first. */
struct spread_barrier {
	atomic_uint come;
};

/* How many processes run the test. */
int spread_processes(void);

/* The ranks of a group of @n ranks that this process has: the first, and the one after
 * the last.  All ranks, if the test is not spread. */
int spread_first(int n);
int spread_end(int n);

/* Wait until @n threads have called. */
void spread_wait(struct spread_barrier *barrier, int n);

/* @bytes of zeros that are at the same address in all processes, which make the same
 * calls; what spread_free() frees if the test is not spread. */
void *spread_alloc(size_t bytes);
void spread_free(void *memory);

/* Skip the test where it is spread: @why in a word. */
void spread_not(const char *why);

#endif
