/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CLIQUE_TREE_H
#define CORE_CLIQUE_TREE_H

/*
 * Relations between cliques: parents, the children that were split from them,
 * and neighbors (cliques that share a device)
 *
 * One lock guards all lists.  It is held while walking a list and while ending
 * cliques, which does not block, but never across a native call or an
 * allocation.
 *
 *  A. If a parent has a cause, each child either has a cause or will soon get
 *     one, from the parent's reaper or from the thread that adds the child.
 *  B. A clique in a list may be read until it is removed from the list.
 */

#include <stdbool.h>

struct clique;
struct cohort_abort;

/* Add the clique to the list of all cliques, so that neighbors find it. */
void clique_tree_enter(struct clique *q);

void clique_tree_leave(struct clique *q);

/* Make @child a child of @parent: it ends when the parent ends, and the
 * parent's memory stays as long as the child's. */
void clique_tree_adopt(struct clique *parent, struct clique *child);

void clique_tree_detach(struct clique *child);

/* Find a child whose teardown has reached step @over, and which is in state
 * @state, as are all cliques split from it.  Mark it OVER_TAKEN; the caller
 * must store the next step.  Return NULL if there is no such child. */
struct clique *clique_tree_claim(struct clique *parent, int over, int state);

/* End the children of @q with its cause. */
void clique_tree_end(struct clique *q);

/* Return false if another clique on one of @q's devices has a cause, but has
 * not raised its abort flags yet. */
bool clique_tree_is_flagged(const struct clique *q);

/* Call @fn for every other clique on one of @q's devices.  Holds the tree's
 * lock, so @fn must not block. */
void clique_tree_visit(const struct clique *q,
                       void (*fn)(const struct clique *other, void *arg),
                       void *arg);

/* The text of a cause that a clique inherits from its parent is "\"PARENT\"",
 * this string, and the text of the parent's cause. */
#define CLIQUE_ENDED_ABOVE ", from which this was split, has ended: "

/* Call @fn with the first clique of the list of all cliques; @fn can follow
 * .next_entered from there.  Holds the tree's lock, so @fn must not block. */
void clique_tree_call_all(void (*fn)(const struct clique *first, void *arg),
                          void *arg);

/* Acquire references to the cliques split from @q at any depth, parents first,
 * and store up to @most of them.  Return the number stored. */
int clique_tree_get_all(struct clique *q, struct clique **out, int most);

/* If @q's resources are not freed yet, call @fn for @q and return true;
 * otherwise return false.  Holds the tree's lock, so @fn must not block. */
bool clique_tree_call(struct clique *q, void (*fn)(struct clique *q, void *arg),
                      void *arg);

/* Return true if @end is the cause block of @q or of a clique split from it. */
bool clique_tree_has(const struct clique *q, const struct cohort_abort *end);

/* Return the first child, or NULL.  The caller must ensure that no child is
 * added or closed. */
struct clique *clique_tree_first(const struct clique *parent);

/* Return the next child of @child's parent, or NULL.  The caller must ensure
 * that no child is added or closed. */
struct clique *clique_tree_next(const struct clique *child);

/* Return the root of @q's tree: the ancestor without a parent, or @q itself. */
struct clique *clique_tree_root(const struct clique *q);

/* Keep the memory of @child as long as the memory of @root.  The child has
 * ended and was removed from its parent's list. */
void clique_tree_retain(struct clique *root, struct clique *child);

/* Free the memory of all cliques that were kept with @root. */
void clique_tree_free(struct clique *root);

#endif
