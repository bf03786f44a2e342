/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_LIMIT_H
#define CLI_BENCH_LIMIT_H

/*
 * The limit: the fewest loads and stores with which a collective can be made, by the
 * ranks' threads on the ranks' memory.  Each thread does a fixed share, and none waits.
 *
 * No algorithm that reads and writes the ranks' buffers can be faster.  The values that
 * are computed have no meaning.
 */

#include "cli/bench/call.h"

/* Where a rank sends from and receives to. */
struct limit_place {
	const char *send;
	char *recv;
};

/* Carry out the share of @rank of @ranks; @block is in bytes. */
void limit_run(const struct collective *c, const struct limit_place *places,
               int rank, int ranks, int root, size_t block);

/* Carry out @bytes of an all-reduce from offset @from on. */
void limit_reduce(const struct limit_place *places, int ranks, size_t from,
                  size_t bytes);

/* Like limit_run(), but with the host platform's arithmetic: carries out this
 * rank's share of a collective. */
void direct_run(const struct collective *c, const struct limit_place *places,
                int rank, int ranks, const struct call *call);

#endif
