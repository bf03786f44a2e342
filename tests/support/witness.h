/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WITNESS_H
#define WITNESS_H

/*
 * Which threads call NCCL and CUDA: a table in front of the platform's counts
 * the calls of all threads except the test's own
 */

/* Put the table in front, before the first group. */
void witness_install(void);

/* The calling thread belongs to the test. */
void witness_ignore(void);

/*
 * How many calls other threads have made, except those with which every thread
 * begins, and the name of the last call, or "none".
 */
unsigned long witness_calls(const char **last_out);

#endif
