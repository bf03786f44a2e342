/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_EXPLAIN_H
#define CORE_EXPLAIN_H

/*
 * The description of what the ranks were doing when their clique got its cause
 *
 * A clique may be ended by a signal handler, which says why, but not what the
 * ranks were doing.  That is added when what is done is noted, before any
 * thread is told of the cause.
 */

struct clique;

/* Add to the text of a cause that names no call which calls were unfinished, by
 * the notes.  While NOTING, by the thread that made that move. */
void explain(struct clique *q);

#endif
