/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STALL_H
#define WATCH_STALL_H

/*
 * Why the front, or a transfer, makes no progress: the ranks that are to blame
 */

#include "watch/verdict.h"

struct cycle;

/* Store in @v which ranks have called the front, or the transfer, and which
 * ranks it waits for. */
void stall_front(const struct snapshot *s, struct cohort_verdict *v);
void stall_transfer(const struct snapshot *s, struct cohort_verdict *v);

/* True if nobody is to blame because less than half of the ranks have called
 * the front, and the others are alive and do something else: these may be
 * right. */
bool stall_is_minority(const struct snapshot *s,
                       const struct cohort_verdict *v);

/* True if that may be so by what can be seen of other processes, which must be
 * asked. */
bool stall_may_be_minority(const struct snapshot *s);

/* If a rank is missing only because the thread that would call for it waits in
 * the call of another rank, add "; one thread calls for ranks 0 and 1: ...". */
void stall_add_hint(struct text *t, const struct snapshot *s);

/* The ranks whose threads may tell why: those to blame, or all that have not
 * called. */
void stall_suspects(const struct snapshot *s, const struct cohort_verdict *v,
                    uint64_t *set);

/* Add rows to the block of a verdict: see render.h. */
void stall_add_notes(struct text *t, const struct snapshot *s,
                     const struct expiry *due, const struct cohort_verdict *v);
void stall_add_transfer(struct text *t, const struct snapshot *s);

/* True if the rank makes no call any more, which needs no other evidence. */
bool stall_is_gone(const struct rank_snapshot *r);

/* What a rank is at fault for if the front waits for it: enum
 * cohort_verdict_kind. */
int stall_kind(const struct snapshot *s, const struct rank_snapshot *r);

/* And if the transfer waits for its half @h of it. */
int stall_half_kind(const struct snapshot *s, const struct half *h);

/* "rank 1 (...) has started, and not finished"; with @h NULL: "rank 1 (...) has
 * not called its send: ...", or its receive if not @sends. */
void stall_add_half(struct text *t, const struct snapshot *s,
                    const struct rank_snapshot *r, bool sends,
                    const struct half *h);

/* True if ranks of other processes have called something else than this one's:
 * that is the verdict then, whatever else they wait for. */
bool stall_has_different(const struct snapshot *s);

/* True if no rank of this process is at fault, so that the others' may tell
 * more: about the front, or about the transfer. */
bool stall_is_remote(const struct snapshot *s, bool is_transfer);

/* ---- for the front and transfers --------------------------------------- */

/* What keeps a rank from calling. */
int stall_kind_of_absence(const struct rank_snapshot *r);

/* True if a rank of that kind cannot call any more. */
bool stall_is_departure(int kind);

/* True if others wait for @x, of another process: it has not called, or, if
 * @all_joined, it has not started, or its process is stopped. */
bool stall_is_at_fault(const struct remote_rank *x, bool all_joined);

/* The rank to blame if its whole process is at fault, because that is stopped
 * or has closed its group; NULL if that is not so. */
const struct remote_rank *stall_remote_process(const struct snapshot *s,
                                               const struct cohort_verdict *v);

/* If ranks that the front, or the transfer, waits for wait for others
 * themselves, blame the last ones of that chain. */
void stall_blame_culprits(const struct snapshot *s, struct cohort_verdict *v);

/* Ranks that wait for each other are at fault together: a cycle takes the place
 * of what was found before. */
void stall_find_cycle(const struct snapshot *s, bool is_transfer,
                      struct cycle *cycle, struct cohort_verdict *v);

#endif
