/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_DESCRIBE_H
#define WATCH_DESCRIBE_H

/*
 * Words for what a snapshot shows: times, calls, ranks and their threads.
 * Verdicts of all kinds are put together from these.
 */

#include "watch/snapshot.h"

/* "20 ms", "10.0 s". */
void describe_time(struct text *t, uint64_t ns);

/* How long ago @time_ns was. */
void describe_age(struct text *t, const struct snapshot *s, uint64_t time_ns);

/* "all_reduce of 4 float32, sum", or that the call has no record any more. */
void describe_call(struct text *t, const struct record *call);

/* Add "rank 3", or "rank 3 (1 in "dp.1")" if the rank of the group that all was
 * split from has another number; and the same for a set of ranks. */
void describe_number(struct text *t, const struct snapshot *s, int rank);
void describe_numbers(struct text *t, const struct snapshot *s,
                      const uint64_t *set);

/* "rank 2 (thread 4711 "dp/2", device 2)"; where any thread may call: "rank 2
 * (device 2, last seen in thread 4711 "loader/1", which is alive)".  In a child
 * whose numbers differ: "rank 2 (0 in "dp.1", thread ...)".  With a snapshot
 * that is for another process: "rank 2 (pid 4710, thread 4711 "dp/2", device
 * 2)". */
void describe_name_of(struct text *t, const struct snapshot *s,
                      const struct rank_snapshot *r);

/* What the rank's thread is doing, and its stack: "; its thread is asleep in
 * futex; its stack: f < g".  What is not known is left out. */
void describe_thread(struct text *t, const struct rank_snapshot *r);

/* What a rank that has not called is doing instead. */
void describe_absence(struct text *t, const struct snapshot *s,
                      const struct rank_snapshot *r);

/* Name the rank, and what it is doing about the front if it has called that, or
 * else instead. */
void describe_rank(struct text *t, const struct snapshot *s,
                   const struct rank_snapshot *r);

#endif
