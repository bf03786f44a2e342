/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_RENDER_H
#define WATCH_RENDER_H

/*
 * Writes the text of a verdict about the front collective (snapshot.h) or a
 * transfer in two forms: a line for errors and logs, and a block of several
 * lines
 *
 *   HANG   rank 2 has not called all_reduce 349 of "demo" (generation 1)
 *   why    it is busy in the program: thread 26235 "demo/2" is asleep in futex
 *   where  train_worker (train.c:372)
 *          worker_run (worker.c:157)
 *   since  501 ms (limit 500 ms)
 *   wait   ranks 0-1, 3, in all_reduce of 1000 float32, sum, tag "bucket 1/1"
 */

#include "watch/verdict.h"

/* Write the two forms of the verdict in out->v to out->line and out->text. */
void render_stall(const struct snapshot *s, const struct expiry *due,
                  struct verdict *out);

/* Add the operation that the rank to blame, v->rank, has not called:
 * "all_reduce 3 of "dp.1"". */
void render_missed(struct text *t, const struct snapshot *s,
                   const struct expiry *due, const struct cohort_verdict *v);

/* Add a short description of what a rank of this process does, for a line that
 * another process writes: "rank 2 (pid 26235) is asleep in futex". */
void render_brief(struct text *t, const struct snapshot *s,
                  const struct rank_snapshot *r);

#endif
