/* SPDX-License-Identifier: Apache-2.0 */

#include "core/clique.h"

#include <stdlib.h>

#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "core/clique_tree.h"
#include "core/connect.h"

static int comm_init(struct cohort_comm *c)
{
	struct clique *q = c->clique;
	int rc;

	atomic_store(&c->deadlines.shortest_ns, COHORT_FOREVER);
	atomic_store(&c->deadlines.popped_shortest_ns, COHORT_FOREVER);
	rc = recorder_init(&c->recorder, q->slots);
	if (rc == COHORT_OK)
		rc = call_shapes_init(&c->shapes, q->slots);
	if (rc != COHORT_OK)
		return rc;
	c->tickets.done_then =
		calloc(DONE_WORDS(q->slots), sizeof(*c->tickets.done_then));
	c->agreement.slots =
		pages_alloc(q->slots * sizeof(*c->agreement.slots));
	if (!c->tickets.done_then || !c->agreement.slots)
		return error_set(COHORT_NO_MEMORY, "no memory for %u tickets",
		                 q->slots);
	return COHORT_OK;
}

static void move_resources(struct cohort_comm *c, const struct connected *from)
{
	c->native = from->native;
	c->stream = from->stream;
	c->after.event = from->event;
	c->barrier = from->barrier;
	c->tickets.done = from->words;
	c->tickets.started = c->tickets.done + c->clique->slots;
	c->after.words = c->tickets.started + c->clique->slots;
}

static int open_native(struct clique *q, struct new_rank *ranks,
                       const struct clique_options *options)
{
	const ncclUniqueId *id = options->id;
	const struct connect_world world = {
		.id = id ? *id : (ncclUniqueId){ { 0 } },
		.size = q->world_size,
		.is_futile = options->is_futile,
		.of = options->of,
	};
	const struct patience patience = { q->deadlines.init_ns,
		                           options->abort };

	return connect_ranks(q->platform, ranks, q->size, id ? &world : NULL,
	                     &q->config, comm_words(q->slots), &patience,
	                     q->name);
}

/* Return a number that identifies a clique of this process in dumps. */
static unsigned next_serial(void)
{
	/* Atomic; the last serial number.  Relaxed, because it orders nothing
	 * else. */
	static atomic_uint last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static struct clique *clique_alloc(const struct platform *platform,
                                   const struct new_rank *ranks, int n,
                                   const struct clique_options *options)
{
	const size_t bytes =
		sizeof(struct clique) + (size_t)n * sizeof(struct cohort_comm);
	struct clique *q = pages_acquire(bytes);
	struct cohort_comm *c;
	int i;

	if (!q)
		return NULL;
	q->bytes = bytes;
	q->platform = platform;
	q->serial = next_serial();
	q->size = n;
	q->world_size = options->world ? options->world : n;
	q->slots = options->slots;
	q->allow_capture = options->allow_capture;
	q->starts_are_marked = !options->no_start_marks;
	q->together = options->launch
	                      ? options->launch == COHORT_LAUNCH_TOGETHER
	                      : !platform->launches_ahead;
	q->deadlines = options->deadlines;
	q->deadlines_are_fixed = options->deadlines_are_fixed;
	q->generation = options->generation;
	q->identity = options->identity;
	q->config = options->config;
	q->list_way = options->list_way;
	atomic_store(&q->users, 1);
	atomic_store(&q->open, n);
	text_copy(q->name, sizeof(q->name), options->name);
	text_replace_controls(q->name);
	for (i = 0, c = q->comms; i < n; i++, c++) {
		c->clique = q;
		c->device = ranks[i].device;
		if (n > 1 && n == q->world_size)
			q->devices |= UINT64_C(1) << c->device % 64;
		c->rank = ranks[i].rank;
		c->origin = ranks[i].origin;
		c->above = ranks[i].above;
		c->world_rank = c->above ? c->above->world_rank : c->rank;
	}
	q->end = cause_create();
	q->agreed = agree_words(q->slots);
	if (q->end && q->agreed)
		return q;
	clique_free(q, 0);
	return NULL;
}

/* Allocate memory for the ranks and raise *@made to the number of ranks to
 * clean up.  Done before the ranks are connected, because a connection cannot
 * be undone quickly if an allocation fails. */
static int prepare(struct clique *q, int *made)
{
	int rc = COHORT_OK;

	while (rc == COHORT_OK && *made < q->size)
		/* Count the rank first, so that a partial init is undone. */
		rc = comm_init(&q->comms[(*made)++]);
	/* The clique needs the crew, because its reaper runs on a crew
	 * thread. */
	return rc == COHORT_OK ? crew_get() : rc;
}

static int get_connected(struct clique *q, struct new_rank *ranks,
                         const struct clique_options *options)
{
	int i, rc = ranks->connected.native ? COHORT_OK
	                                    : open_native(q, ranks, options);

	for (i = 0; rc == COHORT_OK && i < q->size; i++)
		move_resources(&q->comms[i], &ranks[i].connected);
	if (rc != COHORT_OK)
		crew_put();
	return rc;
}

int clique_create(const struct platform *platform, struct new_rank *ranks,
                  int n, const struct clique_options *options,
                  struct clique **out)
{
	struct clique *q = clique_alloc(platform, ranks, n, options);
	int made = 0, rc;

	rc = q ? prepare(q, &made)
	       : error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	if (rc != COHORT_OK && ranks->connected.native)
		connect_discard(platform, ranks, n);
	if (rc == COHORT_OK)
		rc = get_connected(q, ranks, options);
	if (rc == COHORT_OK) {
		clique_tree_enter(q);
		*out = q;
		return COHORT_OK;
	}
	if (q)
		clique_free(q, made);
	return rc;
}
