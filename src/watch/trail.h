/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_TRAIL_H
#define WATCH_TRAIL_H

/*
 * The waits of other processes' ranks, followed from process to process
 *
 * Ranks here wait for a rank of another process, which may wait in a
 * communicator that this process has no rank in, for a rank of a third process.
 * Each process is asked in turn, until one has a rank that waits for nobody, or
 * the trail comes back to where it has been: then the ranks wait in a cycle.
 */

#include "watch/snapshot.h"

/* What to ask other processes for a verdict on the front, or the transfer. */
enum trail_start {
	TRAIL_NONE,      /* nothing: a rank here is at fault */
	TRAIL_FRONT,     /* what their ranks do about it */
	TRAIL_ELSEWHERE, /* about what ranks here wait in instead */
};

/* What to ask: about the front or the transfer, or about what ranks here wait
 * in, in the order of the snapshot's culprits; and its names, for texts. */
struct trail_questions {
	int n;
	struct trail_question {
		struct missing in;
		char call[WAITS_CALL];
	} of[WAITS_CULPRITS];
};

enum trail_start trail_start(const struct snapshot *s, const struct clique *q,
                             bool is_transfer,
                             struct trail_questions *questions);

/*
 * Ask the other processes the questions in turn, until the ranks in one of them
 * are at fault; store what they answer in @out, which has room for @room ranks,
 * and follow the waits of those that have not called.  May be called from any
 * thread; blocks, until @of has a cause at most, and takes the lock of
 * clique_tree.c.  Returns how many ranks there are.  If an answer is missing,
 * the trail ends with a culprit whose rank is -1.
 * @trail:  set to where the waits lead
 * @of:     the clique that there will be a verdict on
 * @silent: see struct remote
 */
int trail_follow(struct trail *trail, const struct clique *of,
                 const struct trail_questions *questions,
                 struct remote_rank *out, int room, struct text *silent);

#endif
