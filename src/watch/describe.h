/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_DESCRIBE_H
#define WATCH_DESCRIBE_H

/*
 * Puts the contents of a snapshot into words: times, calls, ranks and their
 * threads
 *
 * The texts of all verdicts are made with these functions.
 */

#include "watch/snapshot.h"

/* Add a time: "20 ms", "10.0 s". */
void describe_time(struct text *t, uint64_t ns);

/* Add how long ago @time_ns was when the snapshot was taken. */
void describe_age(struct text *t, const struct snapshot *s, uint64_t time_ns);

/* Add the call: "all_reduce of 4 float32, sum".  If its record was overwritten,
 * add "a call that is no longer on record". */
void describe_call(struct text *t, const struct record *call);

/* Add a rank by its number in the root group, from which @s's clique was split:
 * "rank 3", or "rank 3 (1 in "dp.1")" if its number in the clique differs. */
void describe_number(struct text *t, const struct snapshot *s, int rank);

/* Add a set of ranks in the format of describe_number(): "ranks 0-1, 3". */
void describe_numbers(struct text *t, const struct snapshot *s,
                      const uint64_t *set);

/*
 * Add a rank by name, with its thread and device.
 *
 *  usually             rank 2 (thread 4711 "dp/2", device 2)
 *  if any thread may   rank 2 (device 2, last seen in thread 4711 "loader/1",
 *  call for it         which is alive)
 *  in a split group    rank 2 (0 in "dp.1", thread 4711 "dp/2", device 2)
 *  for another process rank 2 (pid 4710, thread 4711 "dp/2", device 2)
 */
void describe_name_of(struct text *t, const struct snapshot *s,
                      const struct rank_snapshot *r);

/* Add what the rank's thread is doing, and its stack, as far as they are known:
 * "; its thread is asleep in futex; its stack: f < g". */
void describe_thread(struct text *t, const struct rank_snapshot *r);

/* Add what a rank does instead of making its missing call. */
void describe_absence(struct text *t, const struct snapshot *s,
                      const struct rank_snapshot *r);

/* Add the rank's name and its progress in the front (snapshot.h).  If the rank
 * has not called the front, add what it does instead. */
void describe_rank(struct text *t, const struct snapshot *s,
                   const struct rank_snapshot *r);

/* Add the rank's name and the progress of @h, its half of a transfer: "rank 1
 * (...) has started, but not finished".  If @h is NULL, add what the rank does
 * instead of calling its half, which is a send if @sends is true. */
void describe_half(struct text *t, const struct snapshot *s,
                   const struct rank_snapshot *r, bool sends,
                   const struct half *h);

#endif
