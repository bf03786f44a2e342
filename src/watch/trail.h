/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_TRAIL_H
#define WATCH_TRAIL_H

/*
 * Follows the waits of ranks from process to process
 *
 * If a rank of this process waits for a rank of another process, the other rank
 * may itself wait for a rank of a third process, in a communicator that this
 * process has no part in.  So each process is asked in turn, until one of them
 * has a rank that waits for no other, or until the trail reaches an operation
 * for the second time, which shows that the ranks wait in a cycle.
 */

#include "watch/snapshot.h"

/* Subject of the questions to other processes before a verdict on the front
 * collective or the transfer. */
enum trail_start {
	TRAIL_NONE,  /* no question: a rank of this process is at fault */
	TRAIL_FRONT, /* the front collective or the transfer */
	/* Operations in which ranks of this process wait, instead of calling
	 * the front collective or the transfer. */
	TRAIL_ELSEWHERE,
};

/* Questions to other processes: operations that their ranks may not have
 * called, in the order of the snapshot's culprits. */
struct trail_questions {
	int n;
	struct trail_question {
		struct missing in;
		char call[WAITS_CALL]; /* the operation's name, for messages */
	} of[WAITS_CULPRITS];
};

/* Return the kind of question to ask other processes about @s, a snapshot of
 * @q, and store the questions in @questions. */
enum trail_start trail_start(const struct snapshot *s, const struct clique *q,
                             bool is_transfer,
                             struct trail_questions *questions);

/*
 * trail_follow - ask other processes until the ranks at fault are found
 * @trail:     set to the waits that lead to the ranks at fault
 * @of:        clique that the verdict is on
 * @questions: asked in turn, until one leads to the ranks at fault
 * @out:       set to the replies to the last question
 * @room:      number of replies that fit in @out
 * @silent:    set to the processes that do not reply, see struct remote
 *
 * May be called from any thread.  Blocks, but only until @of has a cause.
 * Takes the lock of clique_tree.c.
 *
 * Returns the number of ranks in @out.  If a reply that the trail needs is
 * missing, the trail ends with a culprit whose rank is -1.
 */
int trail_follow(struct trail *trail, const struct clique *of,
                 const struct trail_questions *questions,
                 struct remote_rank *out, int room, struct text *silent);

#endif
