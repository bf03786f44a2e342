/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAILING_H
#define FAILING_H

/*
 * A platform table that counts calls and can make one of them fail
 *
 * The table forwards every call to a real table, except the call that
 * failing_at() has chosen, which returns an error. Functions that return a
 * string and progress() are not counted and cannot fail.
 *
 * If an NCCL call fails inside an open group, the whole group fails, as in
 * NCCL: the thread's ncclGroupEnd() returns an error, and none of the group's
 * calls is made. If ncclGroupEnd() itself fails, it still closes the group.
 *
 * A program has only one of these tables. Call failing_wrap() and failing_at()
 * only while no other thread makes calls. Any thread can call all other
 * functions at any time.
 */

#include "platform/platform.h"

/* Wrap the table around @real, and reset all counts. Return the table. */
const struct platform *failing_wrap(const struct platform *real);

/* Set the limits of lists for all groups that are opened later. */
void failing_limit_lists(const struct list_limits *limits);

/*
 * failing_at - make one call fail
 * @only: count only calls of this function, such as "ncclAllReduce", or count
 *        all calls if NULL
 * @n:    number of the counted call that fails, starting with 1, or 0 for none
 * @nccl: result of the failing call if it is an NCCL function
 * @cuda: result of the failing call if it is a CUDA function, mark or
 *        await_mark
 */
void failing_at(const char *only, unsigned long n, int nccl, int cuda);

/* Do what failing_at() does, but count only this thread's calls. */
void failing_here(const char *only, unsigned long n, int nccl, int cuda);

/* Return the function that has failed since the last failing_at(), or NULL. */
const char *failing_fired(void);

/* Return the number of calls of @only, or of all functions if it is NULL, since
 * failing_wrap(). */
unsigned long failing_calls(const char *only);

#endif
