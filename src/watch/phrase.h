/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_PHRASE_H
#define WATCH_PHRASE_H

/*
 * Parts of a verdict's text
 */

#include "watch/snapshot.h"

/* "20 ms", "10.0 s"; and how long ago something was. */
void phrase_time(struct text *t, uint64_t ns);
void phrase_age(struct text *t, const struct snapshot *s, uint64_t time_ns);

/* "rank 2 (thread 4711 "dp/2", device 2)"; where any thread may call: "rank 2 (device 2,
 * last seen in thread 4711 "loader/1", which is alive)". */
void phrase_name(struct text *t, const struct rank_snapshot *r);

/* Whether its thread lives, if it has one, and where the rank is. */
void phrase_place(struct text *t, const struct rank_snapshot *r);

/* What its thread is doing, and its stack: "; its thread is asleep in futex; its stack:
 * f < g"; nothing where that is not known. */
void phrase_thread(struct text *t, const struct rank_snapshot *r);

/* What a rank that has not called is doing instead. */
void phrase_absence(struct text *t, const struct snapshot *s,
                    const struct rank_snapshot *r);

#endif
