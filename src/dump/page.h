/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_PAGE_H
#define DUMP_PAGE_H

/*
 * What is in the files of a dump, in PyTorch's words and ours
 */

#include <stddef.h>

struct flight;
struct flight_rank;
struct json;

/* All that is known of one rank. */
void page_rank(struct json *j, const struct flight *f,
               const struct flight_rank *r, const char *description);

/* The last @most operations of each rank. */
void page_merged(struct json *j, const struct flight *f, size_t most,
                 const char *description);

#endif
