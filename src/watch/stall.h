/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STALL_H
#define WATCH_STALL_H

/*
 * Why the front, or a transfer, does not go on: the two halves of verdict_stalled().
 * Each stores in @out which ranks it waits for and writes that to @t.
 */

#include "watch/verdict.h"

struct cycle;

void stall_front(const struct snapshot *s, const struct expiry *due,
                 struct verdict *out, struct text *t);
void stall_transfer(const struct snapshot *s, const struct expiry *due,
                    struct verdict *out, struct text *t);

/* What a rank is at fault for if the front waits for it: enum cohort_verdict_kind. */
int stall_kind(const struct snapshot *s, const struct rank_snapshot *r);

/* And if the transfer waits for its half @h of it. */
int stall_half_kind(const struct snapshot *s, const struct half *h);

/* "rank 1 (...) has started, and not finished"; with @h NULL: "rank 1 (...) has not
 * called its send: ...", or its receive if not @sends. */
void stall_add_half(struct text *t, const struct snapshot *s,
                    const struct rank_snapshot *r, bool sends,
                    const struct half *h);

/* Begin the text with the process that is stopped, if the verdict blames one. */
void stall_add_stopped(struct text *t, const struct snapshot *s,
                       const struct cohort_verdict *v);

/* True if no rank of this process is at fault, so that the others' may tell more: about
 * the front, or about the transfer. */
bool stall_is_remote(const struct snapshot *s, bool is_transfer);

/* ---- for the front and transfers --------------------------------------- */

/* What keeps a rank from calling. */
int stall_kind_of_absence(const struct rank_snapshot *r);

/* What is known of a rank of another process, NULL: nothing. */
const struct remote_rank *stall_remote(const struct snapshot *s, int rank);

/* Ranks that wait for each other are at fault together: a cycle takes the place of what
 * was found before. */
void stall_find_cycle(const struct snapshot *s, bool is_transfer,
                      struct cycle *cycle, struct cohort_verdict *v);

/* ": never called; waited for 10.0 s, limit 10.0 s", and whether one rank is at
 * fault. */
void stall_add_kind(struct text *t, const struct snapshot *s,
                    const struct expiry *due, const struct cohort_verdict *v);

#endif
