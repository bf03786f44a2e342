/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WITNESS_H
#define WITNESS_H

/*
 * Counts the NCCL and CUDA calls of the library's threads
 *
 * A table in front of the platform's table counts the calls of all threads that
 * have not called witness_ignore().
 */

/* Install the table, before the first group is opened. */
void witness_install(void);

/* Exclude the calling thread's calls from the count. */
void witness_ignore(void);

/*
 * Return the number of calls by other threads, without the calls that every
 * library thread makes when it starts. *@last_out is the name of the last
 * counted call, or "none".
 */
unsigned long witness_calls(const char **last_out);

#endif
