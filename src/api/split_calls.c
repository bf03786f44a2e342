/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort_comm_split(): communicators of some of a communicator's ranks
 *
 * The child is a clique with a watch of its own.  It ends when its parent does
 * (core/clique_tree.h), and otherwise as the clique of ranks that have joined
 * by id: when its last rank is closed.
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

/* The ranks of one color, by their rank in the child. */
struct members {
	int n;
	int *index; /* among the parent's ranks of this process */
	int *device;
	int *rank;
	int *origin;
	struct connected *connected;
};

static void members_free(struct members *m)
{
	free(m->index);
	free(m->connected);
}

static bool members_init(struct members *m, int most)
{
	size_t n = (size_t)most;

	*m = (struct members){
		.index = malloc(4 * n * sizeof(int)),
		.connected = malloc(n * sizeof(struct connected)),
	};
	if (!m->index || !m->connected) {
		members_free(m);
		return false;
	}
	m->device = m->index + n;
	m->rank = m->device + n;
	m->origin = m->rank + n;
	return true;
}

/* Insert rank number @i of @parent, in the order of the ranks in the child. */
static void members_add(struct members *m, const struct clique *parent,
                        const struct split_rank *ranks, int i)
{
	int k;

	for (k = m->n++; k && m->rank[k - 1] > ranks[i].rank; k--) {
		m->index[k] = m->index[k - 1];
		m->device[k] = m->device[k - 1];
		m->rank[k] = m->rank[k - 1];
		m->origin[k] = m->origin[k - 1];
		m->connected[k] = m->connected[k - 1];
	}
	m->index[k] = i;
	m->device[k] = ranks[i].device;
	m->rank[k] = ranks[i].rank;
	m->origin[k] = parent->comms[i].origin;
	m->connected[k] = ranks[i].connected;
}

/* Return an identity that all processes compute alike, since they split equally
 * often. */
static uint64_t identity_of(const struct clique *parent, int color)
{
	const uint64_t round = atomic_load(&parent->splits) + 1;

	return hash_step(hash_step(parent->identity, round), (uint64_t)color);
}

/* Room for a color after the parent's name, with the zero. */
#define COLOR_SIZE 15

static int open_child(struct clique *parent, const struct members *m, int color,
                      int world)
{
	const struct generation *of = parent->owning_generation;
	char name[sizeof(parent->name)]; /* the parent's, and the color */
	const struct clique_options options = {
		.name = name,
		.slots = parent->slots,
		.allow_capture = parent->allow_capture,
		.no_start_marks = !parent->starts_are_marked,
		.launch = clique_launch(parent),
		.deadlines = parent->deadlines,
		.deadlines_are_fixed = parent->deadlines_are_fixed,
		.generation = parent->generation,
		.identity = identity_of(parent, color),
		.config = parent->config,
		.list_way = parent->list_way,
		.origins = m->origin,
		.parent = parent,
		.above = m->index,
		.connected = m->connected,
		.ranks = m->rank,
		.world = world,
	};
	struct watch_options watch = of->options;
	struct generation *g;
	int i, rc;

	watch.log.form = LOG_NONE; /* the parent's end is logged */
	text_copy(name, sizeof(name) - COLOR_SIZE, parent->name);
	text_add(&(struct text){ name + strlen(name), COLOR_SIZE }, ".%d",
	         color);
	rc = generation_open(parent->platform, m->device, m->n, &options,
	                     &watch, of->peers, &g);
	if (rc != COHORT_OK)
		return rc;
	g->clique->ends_with_last = true;
	clique_tree_adopt(parent, g->clique);
	for (i = 0; i < m->n; i++)
		split_set_child(parent, m->index[i], &g->clique->comms[i]);
	return COHORT_OK;
}

/* True if a rank before number @i has its color. */
static bool is_repeated(const struct split_rank *ranks, int i)
{
	int k;

	for (k = 0; k < i; k++)
		if (ranks[k].connected.native &&
		    ranks[k].color == ranks[i].color)
			return true;
	return false;
}

/* Open every color, or give it back, even after another one has failed. */
static int open_children(struct clique *parent, const struct split_rank *ranks,
                         int n)
{
	struct members m;
	int i, k, rc, first = COHORT_OK;

	generation_sweep(parent);
	if (!members_init(&m, n))
		return split_discard(parent, ranks, n);
	for (i = 0; i < n; i++) {
		if (!ranks[i].connected.native || is_repeated(ranks, i))
			continue;
		m.n = 0;
		for (k = i; k < n; k++)
			if (ranks[k].connected.native &&
			    ranks[k].color == ranks[i].color)
				members_add(&m, parent, ranks, k);
		rc = open_child(parent, &m, ranks[i].color, ranks[i].size);
		if (first == COHORT_OK)
			first = rc;
	}
	members_free(&m);
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
		                 "comm_split: a batch is open on rank %d",
		                 comm->rank);
	return submit(comm, 1, &op, NULL);
}
