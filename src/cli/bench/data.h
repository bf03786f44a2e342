/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_DATA_H
#define CLI_BENCH_DATA_H

/*
 * What the ranks send when results are checked, and what they must receive
 *
 * The data are small whole numbers, whose reductions every type holds exactly
 * in any order; or any bits, if data are only copied.  They repeat after a
 * prime number of elements, so that data in a wrong place are noticed.  The
 * expected values are computed here, in integers, without the library.
 */

#include <stddef.h>

enum { PATTERN_PERIOD = 1021 };

struct pattern {
	size_t size; /* of one element */
	unsigned char bytes[PATTERN_PERIOD * 8];
};

/* The pattern that @rank of @ranks sends; @op is an enum cohort_op, or -1 if
 * data are only copied. */
void pattern_of_rank(struct pattern *pattern, int type, int op, int rank,
                     int ranks);

/* The reduction of all ranks' patterns. */
void pattern_of_fold(struct pattern *pattern, int type, int op, int ranks);

/* Write @count elements of the pattern. */
void pattern_put(const struct pattern *pattern, void *to, size_t count);

/* Count those of @count elements that differ from the pattern's elements from
 * @first on. */
size_t pattern_wrong(const struct pattern *pattern, const void *at,
                     size_t first, size_t count);

#endif
