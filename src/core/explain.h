/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_EXPLAIN_H
#define CORE_EXPLAIN_H

/*
 * What the ranks were doing when their clique got its cause, for people
 *
 * Whoever ends a clique may be in a signal handler, and says why, not amid what.
 * That is added when what is done is noted: before anybody is told.
 */

struct clique;

/* Add to the text of a cause that is of no call which calls were unfinished, by the
 * notes.  While NOTING, by whoever made that move. */
void explain(struct clique *q);

#endif
