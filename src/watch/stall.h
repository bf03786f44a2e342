/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STALL_H
#define WATCH_STALL_H

/*
 * Finds out why the front (snapshot.h) or a transfer makes no progress, and
 * which ranks are to blame
 */

#include "watch/verdict.h"

/* Set in @v the verdict on the front collective of @s: its kind, the rank to
 * blame, the ranks that have called the collective, and the ranks that it waits
 * for. */
void stall_front(const struct snapshot *s, struct cohort_verdict *v);

/* Return true if all ranks are about to launch the front collective, and a
 * memory section of another thread holds them back. */
bool stall_is_held_back(const struct snapshot *s);

/* Set in @v the verdict on the transfer of @s: its kind, the rank to blame, the
 * ranks that have called the transfer, and the ranks that the transfer waits
 * for. */
void stall_transfer(const struct snapshot *s, struct cohort_verdict *v);

/* Return true if no rank is to blame, because the majority may be right: less
 * than half of the ranks have called the front collective, and the other ranks
 * are alive and do something else, or most ranks have left. */
bool stall_is_minority(const struct snapshot *s,
                       const struct cohort_verdict *v);

/* Return the rank that holds up all other ranks that have not called the front
 * collective, because it holds Python's interpreter lock and they wait for it.
 * Return NULL if there is none, or if not all of these ranks have a stack. */
const struct rank_snapshot *stall_lock_holder(const struct snapshot *s);

/* Store in @set the ranks whose threads may show the reason for the stall: the
 * blamed ranks or, if there are none, all ranks that have not called. */
void stall_suspects(const struct snapshot *s, const struct cohort_verdict *v,
                    uint64_t *set);

/* Return true if the rank makes no further call.  This alone shows that it is
 * at fault. */
bool stall_is_gone(const struct rank_snapshot *r);

/* Return the cohort_verdict_kind of a rank that the front collective waits
 * for. */
int stall_kind(const struct snapshot *s, const struct rank_snapshot *r);

/* Return the cohort_verdict_kind of a rank whose half @h the transfer waits
 * for. */
int stall_half_kind(const struct snapshot *s, const struct half *h);

/* Return the first rank of another process whose call differs from the call of
 * this process's ranks, or NULL.  If there is such a rank, the verdict is
 * COHORT_VERDICT_DIFFERENT_CALL. */
const struct remote_rank *stall_first_different(const struct snapshot *s);

/* Store in @set the ranks of other processes without a reply.  Return their
 * number. */
int stall_find_unknown(const struct snapshot *s, uint64_t *set);

/* Return true if the rank is inside its first send to a rank of another
 * process, or its first receive from one.  NCCL connects the two ranks in such
 * a call, and waits for the peer's call. */
bool stall_may_connect(const struct transfer_snapshot *x);

/* Return true if no rank of this process is at fault for the front collective
 * or, if @is_transfer, for the transfer.  Ranks of other processes may be at
 * fault. */
bool stall_is_remote(const struct snapshot *s, bool is_transfer);

/* ---- for the front and transfers --------------------------------------- */

/* Return the cohort_verdict_kind of a rank that has not called. */
int stall_kind_of_absence(const struct rank_snapshot *r);

/* Return the cohort_verdict_kind of a culprit at the end of waits. */
int stall_kind_of_culprit(const struct culprit *x);

/* Return true if a rank that is at fault for @kind can make no further call. */
bool stall_is_departure(int kind);

/* Return true if @x, a rank of another process, keeps the front collective from
 * finishing.  If @all_joined is false, return true if @x has not called.  If it
 * is true, return true if @x has not started, though no older collective delays
 * it, or if its process is stopped. */
bool stall_is_at_fault(const struct remote_rank *x, bool all_joined);

/* Return the blamed rank if the fault is that its process is stopped or has
 * closed its group; otherwise NULL. */
const struct remote_rank *stall_remote_process(const struct snapshot *s,
                                               const struct cohort_verdict *v);

/* If the ranks that the front collective or the transfer waits for also wait
 * for other ranks, blame the ranks at the ends of these waits.  Blame no rank
 * if the blamed rank has left after the end of a communicator for which no rank
 * was to blame. */
void stall_blame_culprits(const struct snapshot *s, struct cohort_verdict *v);

#endif
