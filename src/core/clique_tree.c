/* SPDX-License-Identifier: Apache-2.0 */

#include "core/clique_tree.h"

#include <pthread.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "core/clique.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* List of all cliques whose resources are not freed.  Guarded by lock. */
static struct clique *all;

void clique_tree_enter(struct clique *q)
{
	SCOPED_LOCK(&lock);
	list_add(all, q, next_entered);
}

/* Retain the cause of a split clique in the root clique's ranks, because a call
 * may still return it after the split clique is freed. */
static void retain_cause(const struct clique *q)
{
	const struct cohort_comm *c;
	struct cohort_comm *top;

	if (!clique_cause(q))
		return;
	for (c = q->comms; c < q->comms + q->size; c++) {
		for (top = c->above; top && top->above; top = top->above)
			;
		if (!top)
			continue;
		if (top->former)
			cause_put(top->former);
		top->former = q->end;
		cause_get(q->end);
	}
}

void clique_tree_leave(struct clique *q)
{
	const struct clique *found;

	SCOPED_LOCK(&lock);
	list_find(found, all, next_entered, found == q);
	list_remove(all, found, next_entered);
	if (found)
		retain_cause(q);
}

static bool share_a_device(const struct clique *a, const struct clique *b)
{
	int i, k;

	for (i = 0; i < a->size; i++)
		for (k = 0; k < b->size; k++)
			if (a->comms[i].device == b->comms[k].device)
				return true;
	return false;
}

/* Return true if the clique's abort flags will be raised and are not up yet. */
static bool is_being_flagged(const struct clique *q)
{
	return clique_cause(q) && atomic_load(&q->state) < CLIQUE_FLAGGED;
}

bool clique_tree_is_flagged(const struct clique *q)
{
	const struct clique *other;
	bool is_flagged = true;

	pthread_mutex_lock(&lock);
	for (other = all; other && is_flagged; other = other->next_entered)
		is_flagged = other == q || other->platform != q->platform ||
		             !is_being_flagged(other) ||
		             !share_a_device(q, other);
	pthread_mutex_unlock(&lock);
	return is_flagged;
}

void clique_tree_visit(const struct clique *q,
                       void (*fn)(const struct clique *other, void *arg),
                       void *arg)
{
	const struct clique *other;

	SCOPED_LOCK(&lock);
	for (other = all; other; other = other->next_entered)
		if (other != q && other->platform == q->platform &&
		    share_a_device(q, other))
			fn(other, arg);
}

void clique_tree_call_all(void (*fn)(const struct clique *first, void *arg),
                          void *arg)
{
	SCOPED_LOCK(&lock);
	fn(all, arg);
}

/* End @child with the cause of its parent.  Ranks are numbered as in @child. */
static void end_child(const struct clique *parent, struct clique *child)
{
	const struct cohort_cause *cause = clique_cause(parent);
	struct cohort_cause what = {
		.status = cause->status,
		.kind = cause->kind,
		.rank = -1,
		.world_rank = cause->world_rank,
		.nccl = cause->nccl,
		.cuda = cause->cuda,
		.worker = cause->worker,
	};
	const struct cohort_comm *c;

	for (c = child->comms; c < child->comms + child->size; c++) {
		if (c->world_rank == cause->world_rank)
			what.rank = c->rank;
		if (c->above && rank_set_has(cause->missing, c->above->rank))
			rank_set_add(what.missing, c->rank);
	}
	text_set(what.text, sizeof(what.text), "\"%s\"" CLIQUE_ENDED_ABOVE "%s",
	         parent->name, cause->text);
	cause_set(child->end, &what);
}

void clique_tree_end(struct clique *q)
{
	struct clique *child;

	SCOPED_LOCK(&lock);
	for (child = q->children; child; child = child->next_child)
		end_child(q, child);
}

void clique_tree_adopt(struct clique *parent, struct clique *child)
{
	clique_get(parent);
	SCOPED_LOCK(&lock);
	child->parent = parent;
	list_add(parent->children, child, next_child);
	/* If the parent's reaper walked the list before the child was added,
	 * the parent's cause was set even earlier, so this thread sees it. */
	if (clique_cause(parent))
		end_child(parent, child);
}

void clique_tree_detach(struct clique *child)
{
	if (!child->parent)
		return;
	SCOPED_LOCK(&lock);
	list_remove(child->parent->children, child, next_child);
}

static bool is_at_locked(const struct clique *q, int state)
{
	const struct clique *child;

	/* The acquire shows this thread what the reaper did before it changed
	 * the state. */
	if (atomic_load_explicit(&q->state, memory_order_acquire) != state)
		return false;
	for (child = q->children; child; child = child->next_child)
		if (!is_at_locked(child, state))
			return false;
	return true;
}

struct clique *clique_tree_claim(struct clique *parent, int over, int state)
{
	struct clique *child;

	pthread_mutex_lock(&lock);
	for (child = parent->children; child; child = child->next_child)
		if (atomic_load(&child->over) == over &&
		    is_at_locked(child, state))
			break;
	if (child)
		atomic_store(&child->over, OVER_TAKEN);
	pthread_mutex_unlock(&lock);
	return child;
}

/* Append references to all cliques split from @q to @out, after the first @n.
 * Return the new number. */
static int get_all_locked(struct clique *q, struct clique **out, int n,
                          int most)
{
	struct clique *child;

	for (child = q->children; child && n < most;
	     child = child->next_child) {
		clique_get(child);
		out[n++] = child;
		n = get_all_locked(child, out, n, most);
	}
	return n;
}

int clique_tree_get_all(struct clique *q, struct clique **out, int most)
{
	SCOPED_LOCK(&lock);
	return get_all_locked(q, out, 0, most);
}

bool clique_tree_call(struct clique *q, void (*fn)(struct clique *q, void *arg),
                      void *arg)
{
	struct clique *other;

	pthread_mutex_lock(&lock);
	list_find(other, all, next_entered, other == q);
	if (other)
		fn(q, arg);
	pthread_mutex_unlock(&lock);
	return other;
}

static bool has_locked(const struct clique *q, const struct cohort_abort *end)
{
	const struct clique *child;

	if (q->end == end)
		return true;
	for (child = q->children; child; child = child->next_child)
		if (has_locked(child, end))
			return true;
	return false;
}

bool clique_tree_has(const struct clique *q, const struct cohort_abort *end)
{
	SCOPED_LOCK(&lock);
	return has_locked(q, end);
}

struct clique *clique_tree_first(const struct clique *parent)
{
	return parent->children;
}

struct clique *clique_tree_next(const struct clique *child)
{
	return child->next_child;
}

struct clique *clique_tree_root(const struct clique *q)
{
	while (q->parent)
		q = q->parent;
	return (struct clique *)(uintptr_t)q;
}

void clique_tree_retain(struct clique *root, struct clique *child)
{
	struct clique *parent = child->parent;
	int i;

	pthread_mutex_lock(&lock);
	child->parent = NULL; /* the parent may be freed before the child */
	for (i = 0; i < child->size; i++)
		child->comms[i].above = NULL;
	list_add(root->kept, child, next_child);
	pthread_mutex_unlock(&lock);
	/* This is not the last reference, because the group owns one. */
	clique_put(parent);
}

void clique_tree_free(struct clique *root)
{
	struct clique *child, *next;

	for (child = root->kept; child; child = next) {
		next = child->next_child;
		clique_put(child);
	}
}
