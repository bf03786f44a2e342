/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAILING_H
#define FAILING_H

/*
 * A platform table that counts its calls and fails one of them
 *
 * The table stands in front of a real one and passes every call on, except for
 * the call that failing_at() names: that call answers with an error and is not
 * made.  Functions that return a text, and progress(), cannot fail and are not
 * counted.
 *
 * An NCCL call that fails inside an open group takes the group with it, as in
 * NCCL: the end of the group on that thread reports an error, and none of its
 * calls is made.  A failed ncclGroupEnd does end the group.
 *
 * There is one such table for the whole program.  Call failing_wrap() and
 * failing_at() only while no other thread makes calls; any thread may call the
 * rest at any time.
 */

#include "platform/platform.h"

/* Put the table in front of @real, and forget all counts. */
const struct platform *failing_wrap(const struct platform *real);

/* Have groups that are opened from now on launch lists by these limits. */
void failing_limit_lists(const struct list_limits *limits);

/*
 * failing_at - make a call fail, once
 * @only: count only calls of this function ("ncclAllReduce", "mark"); NULL all
 * @n:    the @n-th of them from now on; 1 is the next, 0 none
 * @nccl: what it answers if it is an NCCL function
 * @cuda: what it answers if it is a CUDA function, mark or await_mark
 */
void failing_at(const char *only, unsigned long n, int nccl, int cuda);

/* Like failing_at(), but only calls of this thread count and fail. */
void failing_here(const char *only, unsigned long n, int nccl, int cuda);

/* The function that failed; NULL if none has failed since the last question. */
const char *failing_fired(void);

/* Calls of @only since failing_wrap(); with NULL, of all functions. */
unsigned long failing_calls(const char *only);

#endif
