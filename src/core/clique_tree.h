/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CLIQUE_TREE_H
#define CORE_CLIQUE_TREE_H

/*
 * Cliques that know of each other: parents, the children that were split from
 * them, and neighbours on the same devices
 *
 * One lock guards all lists.  It is held for a walk through a list, and for
 * ending cliques, neither of which blocks; never across a native call or an
 * allocation.
 *
 *  A. A child of a parent that has a cause has a cause, or is about to get it:
 *     from the parent's reaper, or from the thread that makes it a child.
 *  B. What is in a list may be looked at until it is taken out of it.
 */

#include <stdbool.h>

struct clique;
struct cohort_abort;

/* Let neighbours find the clique, and end that. */
void clique_tree_enter(struct clique *q);
void clique_tree_leave(struct clique *q);

/* Make @child a child of @parent: the parent's end is the child's end, and the
 * parent's memory stays while the child does.  And end that. */
void clique_tree_adopt(struct clique *parent, struct clique *child);
void clique_tree_part(struct clique *child);

/* Take a child one step further: one that is at @over and @state, as all that
 * was split from it is.  It is OVER_TAKEN until the caller sets it.  NULL:
 * there is none. */
struct clique *clique_tree_take(struct clique *parent, int over, int state);

/* End the children of @q, which has a cause. */
void clique_tree_end(struct clique *q);

/* True if every other clique that is being aborted on any of @q's devices has
 * raised its flags, or never will. */
bool clique_tree_is_flagged(const struct clique *q);

/* Call @fn for every other clique on any of @q's devices, with the lock held:
 * @fn must not block. */
void clique_tree_visit(const struct clique *q,
                       void (*fn)(const struct clique *other, void *arg),
                       void *arg);

/* Call @fn for the list of all cliques with the lock held: @first and, from
 * each, its .next_entered.  @fn must not block. */
void clique_tree_look_at_all(void (*fn)(const struct clique *first, void *arg),
                             void *arg);

/* Store up to @most references to what was split from @q, and from that, each
 * clique before what was split from it.  Returns how many. */
int clique_tree_get_all(struct clique *q, struct clique **out, int most);

/* Call @fn for @q with the lock held, if what @q has was not given back yet:
 * @fn must not block.  False: it was given back. */
bool clique_tree_look(struct clique *q, void (*fn)(struct clique *q, void *arg),
                      void *arg);

/* True if @end belongs to @q, or to what was split from it. */
bool clique_tree_has(const struct clique *q, const struct cohort_abort *end);

/* The first child, and the next one; NULL: there is none.  While no child is
 * made or closed. */
struct clique *clique_tree_first(const struct clique *parent);
struct clique *clique_tree_next(const struct clique *child);

/* The clique that has no parent, from which @q was split, or @q itself. */
struct clique *clique_tree_root(const struct clique *q);

/* Keep the memory of @child, which has ended and has parted from its parent, as
 * long as that of @root; and free what is kept so. */
void clique_tree_keep(struct clique *root, struct clique *child);
void clique_tree_free(struct clique *root);

#endif
