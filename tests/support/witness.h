/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WITNESS_H
#define WITNESS_H

/*
 * Who calls NCCL and CUDA: a table in front of the platform's that counts the calls
 * of all threads but those of the test
 */

/* Put it in front; before the first group. */
void witness_install(void);

/* The calling thread is the test's. */
void witness_ignore(void);

/* How many calls others have made, but for those by which a thread begins, and the name
 * of the last one, or "none". */
unsigned long witness_calls(const char **last_out);

#endif
