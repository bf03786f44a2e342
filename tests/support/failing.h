/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAILING_H
#define FAILING_H

/*
 * A platform table that counts its calls and fails one of them
 *
 * It stands in front of a real table and passes everything on, but for the
 * one call that failing_at() names: that one answers with an error and is not
 * made.  Functions that return a text, and progress(), cannot fail and are not
 * counted.
 *
 * An NCCL call that fails inside an open group takes the group with it, as in
 * NCCL: the group's end on that thread reports an error and nothing of the
 * group happens.  A failed ncclGroupEnd does end the group.
 *
 * One for the whole program.  failing_wrap() and failing_at() are for a time
 * when no other thread makes calls; the rest is for any thread.
 */

#include "platform/platform.h"

/* The table in front of @real, and forget all counts. */
const struct platform *failing_wrap(const struct platform *real);

/*
 * failing_at - make a call fail, once
 * @only: count only calls of this function ("ncclAllReduce", "mark"); NULL all
 * @n:    the @n-th of them from now on; 1 is the next, 0 none
 * @nccl: what it answers if it is an NCCL function
 * @cuda: what it answers if it is a CUDA function, mark or await_mark
 */
void failing_at(const char *only, unsigned long n, int nccl, int cuda);

/* As failing_at(), but only calls of this thread count and fail. */
void failing_here(const char *only, unsigned long n, int nccl, int cuda);

/* The function that failed; NULL if none has since it was asked for. */
const char *failing_fired(void);

/* Calls since failing_wrap(): of @only, or of all with NULL. */
unsigned long failing_calls(const char *only);

#endif
