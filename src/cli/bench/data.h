/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_DATA_H
#define CLI_BENCH_DATA_H

/*
 * What the ranks send when results are checked, and what they must get
 *
 * Small whole numbers whose reductions every type holds exactly, in whatever order;
 * for what is only copied any bits.  They repeat after a number of elements that is
 * prime, so that what lands in the wrong place shows.  The expected values are
 * computed here, in integers, without the library.
 */

#include <stddef.h>

enum { PATTERN_PERIOD = 1021 };

struct pattern {
	size_t size; /* of an element */
	unsigned char bytes[PATTERN_PERIOD * 8];
};

/* What @rank of @ranks sends; @op is enum cohort_op, or -1 for what is copied. */
void pattern_of_rank(struct pattern *pattern, int type, int op, int rank,
                     int ranks);

/* The reduction of all of those. */
void pattern_of_fold(struct pattern *pattern, int type, int op, int ranks);

/* @count elements. */
void pattern_put(const struct pattern *pattern, void *to, size_t count);

/* How many of @count elements are not the pattern's from its @first on. */
size_t pattern_wrong(const struct pattern *pattern, const void *at,
                     size_t first, size_t count);

#endif
