/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_LIMIT_H
#define CLI_BENCH_LIMIT_H

/*
 * The limit: the loads and stores that a collective takes at the least, by the same
 * threads on the same memory, each a fixed share, and nobody waits for anybody
 *
 * Its time is what no algorithm can beat that reads and writes the ranks' buffers.
 * What is computed of them does not matter, and means nothing.
 */

#include "cli/bench/call.h"

/* Where a rank sends from and receives to. */
struct limit_place {
	const char *send;
	char *recv;
};

/* The share of @rank of @ranks; @block is in bytes. */
void limit_run(const struct collective *c, const struct limit_place *places,
               int rank, int ranks, int root, size_t block);

/* Of an all-reduce, @bytes from @from on. */
void limit_reduce(const struct limit_place *places, int ranks, size_t from,
                  size_t bytes);

/* The same as limit_run(), but sums are what the host platform makes of them: what a collective
 * comes to that is called directly. */
void direct_run(const struct collective *c, const struct limit_place *places,
                int rank, int ranks, const struct call *call);

#endif
