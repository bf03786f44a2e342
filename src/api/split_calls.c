/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements cohort_comm_split(): creates communicators for subsets of the
 * ranks
 *
 * The child is a clique with its own watch.  It ends with its parent
 * (core/clique_tree.h), or when its last rank is closed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/communicator.h"
#include "api/generation.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "core/batch.h"
#include "core/clique_tree.h"
#include "core/split.h"
#include "core/submit.h"

/* Store the ranks with the color of rank @i in @members, in the order of their
 * ranks in the child.  Return their number. */
static int find_members(struct clique *parent, const struct split_rank *ranks,
                        int i, struct new_rank *members)
{
	int n = 0, k, at;

	for (k = i; k < parent->size; k++) {
		if (!ranks[k].connected.native ||
		    ranks[k].color != ranks[i].color)
			continue;
		for (at = n++; at && members[at - 1].rank > ranks[k].rank; at--)
			members[at] = members[at - 1];
		members[at] = (struct new_rank){
			.device = ranks[k].device,
			.rank = ranks[k].rank,
			.origin = parent->comms[k].origin,
			.above = &parent->comms[k],
			.connected = ranks[k].connected,
		};
	}
	return n;
}

/* Return an identity for the child.  All processes compute the same identity,
 * because they have made the same number of splits. */
static uint64_t identity_of(const struct clique *parent, int color)
{
	const uint64_t round = atomic_load(&parent->splits) + 1;

	return hash_step(hash_step(parent->identity, round), (uint64_t)color);
}

/* Number of bytes for the color that is appended to the parent's name, with the
 * terminating zero. */
#define COLOR_SIZE 15

static int open_child(struct clique *parent, struct new_rank *members, int n,
                      int color, int world)
{
	char name[sizeof(parent->name)]; /* the parent's name and the color */
	struct clique_options options = generation_child_options(parent);
	struct generation *g;
	int i, rc;

	options.name = name;
	options.identity = identity_of(parent, color);
	options.world = world;
	text_copy(name, sizeof(name) - COLOR_SIZE, parent->name);
	text_add(&(struct text){ name + strlen(name), COLOR_SIZE }, ".%d",
	         color);
	rc = generation_open_child(members, n, &options, &g);
	for (i = 0; rc == COHORT_OK && i < n; i++)
		members[i].above->split.child = &g->clique->comms[i];
	return rc;
}

/* Return true if a rank before @i has the same color as rank @i. */
static bool is_repeated(const struct split_rank *ranks, int i)
{
	int k;

	for (k = 0; k < i; k++)
		if (ranks[k].connected.native &&
		    ranks[k].color == ranks[i].color)
			return true;
	return false;
}

/* Open a child for every color.  Continue after a failure; return the first
 * error. */
static int open_children(struct clique *parent, const struct split_rank *ranks,
                         struct new_rank *members)
{
	int i, n, rc, first = COHORT_OK;

	generation_sweep(parent);
	for (i = 0; i < parent->size; i++) {
		if (!ranks[i].connected.native || is_repeated(ranks, i))
			continue;
		n = find_members(parent, ranks, i, members);
		rc = open_child(parent, members, n, ranks[i].color,
		                ranks[i].size);
		if (first == COHORT_OK)
			first = rc;
	}
	return first;
}

int cohort_comm_split(struct cohort_comm *comm, int color, int key,
                      struct cohort_comm **child)
{
	static const struct cohort_tensor none = { .type = COHORT_I8 };
	const struct split_call call = { color, key, child, open_children };
	const struct op op = {
		.kind = OP_SPLIT,
		.tensors = &none,
		.n = 1,
		.split = &call,
	};
	int rc = comm_check_fork(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!child)
		return error_set(COHORT_INVALID, "comm_split: child is NULL");
	if (color < 0 && color != COHORT_NO_COLOR)
		return error_set(COHORT_INVALID,
		                 "comm_split: color is %d, but must be 0 or "
		                 "more, or COHORT_NO_COLOR",
		                 color);
	if (batch_is_open(comm))
		return error_set(COHORT_STATE,
		                 "comm_split: a batch is open on rank %d: end "
		                 "it first",
		                 comm->rank);
	return submit(comm, 1, &op, NULL);
}
