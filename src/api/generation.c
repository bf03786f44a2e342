/* SPDX-License-Identifier: Apache-2.0 */

#include "api/generation.h"

#include <stdlib.h>

#include "api/communicator.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/clique_tree.h"
#include "core/comm_lock.h"
#include "core/hazard.h"
#include "core/owner.h"
#include "processes/peers.h"

/* Free a clique that is RECLAIMED or will be soon, after its reaper has
 * released the ranks' resources.  Return false if the reaper does not finish
 * within the abort deadline. */
static bool free_clique(struct clique *q)
{
	uint64_t deadline = clock_deadline(q->deadlines.abort_ns);

	clique_set_unused(q);
	if (clique_await(q, CLIQUE_RELEASED, deadline) != CLIQUE_RELEASED)
		return false;
	clique_retire(q);
	return true;
}

/* End and free a clique that is not watched yet and has had no call. */
static void discard(struct clique *q)
{
	clique_close(q);
	if (!free_clique(q))
		clique_leak(q);
}

int generation_open(const struct platform *platform, struct new_rank *ranks,
                    int n, const struct clique_options *options,
                    const struct watch_options *watch_options,
                    struct peers *peers, struct generation **out)
{
	struct generation *g;
	struct clique *q;
	int rc = clique_create(platform, ranks, n, options, &q);

	if (rc != COHORT_OK)
		return rc;
	g = calloc(1, sizeof(*g));
	rc = g ? COHORT_OK
	       : error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	if (rc == COHORT_OK && peers)
		/* Use options->parent, because q->parent is set only later, by
		 * clique_tree_adopt(). */
		rc = peers_attach(peers, q,
		                  options->parent ? options->parent->end
		                                  : NULL);
	if (rc == COHORT_OK) {
		rc = watch_start(q, watch_options, &g->watch);
		if (rc != COHORT_OK && peers)
			peers_detach(peers, q);
	}
	if (rc != COHORT_OK) {
		free(g);
		discard(q);
		return rc;
	}
	g->peers = peers;
	g->clique = q;
	g->options = *watch_options;
	/* Cliques that are later split from this one do not defer their
	 * callbacks. */
	g->options.is_deferred = false;
	q->owning_generation = g;
	*out = g;
	return COHORT_OK;
}

static struct generation *generation_of(const struct clique *q)
{
	return q ? q->owning_generation : NULL;
}

static struct generation *first_child(const struct generation *g)
{
	return generation_of(clique_tree_first(g->clique));
}

static struct generation *next_child(const struct generation *g)
{
	return generation_of(clique_tree_next(g->clique));
}

/* Call @fn for the generation, after all its children. */
static void visit(struct generation *g, void (*fn)(struct generation *g))
{
	struct generation *child;

	for (child = first_child(g); child; child = next_child(child))
		visit(child, fn);
	fn(g);
}

/* Return true if a thread is in a call on @c.  After a cause, ignore a thread
 * that waits in a host-memory call on a bound rank: it will return soon, and
 * the bound rank is kept until then, even after the close. */
static bool is_occupied(const struct cohort_comm *c)
{
	return cause_or_closing(c->clique->end) && atomic_load(&c->lock.owner)
	               ? atomic_load(&c->lock.held) ||
	                         atomic_load(&c->lock.holders)
	               : comm_is_in_use(c);
}

/* Return a rank with a thread inside a call, or NULL.  Ignore abandoned
 * threads.  Ignore all threads if the abort was given up (WEDGED). */
static const struct cohort_comm *occupied(struct clique *q)
{
	int i;

	if (clique_update_state(q) == CLIQUE_WEDGED)
		return NULL;
	for (i = 0; i < q->size; i++)
		if (is_occupied(&q->comms[i]) &&
		    !atomic_load(&q->comms[i].thread.abandoned))
			return &q->comms[i];
	return NULL;
}

const struct cohort_comm *generation_occupied(const struct generation *g)
{
	const struct cohort_comm *c = occupied(g->clique);
	const struct generation *child;

	if (c) /* do not walk the list: the thread may be adding a child */
		return c;
	for (child = first_child(g); child && !c; child = next_child(child))
		c = generation_occupied(child);
	return c;
}

struct clique_options generation_child_options(struct clique *parent)
{
	return (struct clique_options){
		.slots = parent->slots,
		.allow_capture = parent->allow_capture,
		.no_start_marks = !parent->starts_are_marked,
		.launch = clique_launch(parent),
		.deadlines = parent->deadlines,
		.deadlines_are_fixed = parent->deadlines_are_fixed,
		.generation = parent->generation,
		.config = parent->config,
		.list_way = parent->list_way,
		.parent = parent,
	};
}

int generation_open_child(struct new_rank *ranks, int n,
                          const struct clique_options *options,
                          struct generation **out)
{
	struct clique *parent = options->parent;
	const struct generation *of = generation_of(parent);
	struct watch_options watch = of->options;
	int rc;

	watch.log.form = LOG_NONE; /* only the end of the parent is logged */
	rc = generation_open(parent->platform, ranks, n, options, &watch,
	                     of->peers, out);
	if (rc != COHORT_OK)
		return rc;
	(*out)->clique->ends_with_last = true;
	clique_tree_adopt(parent, (*out)->clique);
	return COHORT_OK;
}

/* Wait until all operations of every rank are done.  If the close deadline
 * passes first, return COHORT_TIMED_OUT and store the rank that is not done in
 * @c_out. */
static int await_all(struct clique *q, struct cohort_comm **c_out)
{
	uint64_t deadline = clock_deadline(q->deadlines.close_ns);
	int r, rc = COHORT_OK;

	for (r = 0; r < q->size && rc == COHORT_OK; r++) {
		*c_out = &q->comms[r];
		rc = comm_await_all(*c_out, deadline);
	}
	return rc;
}

static int end(struct clique *q)
{
	struct cohort_cause cause = {
		.status = COHORT_ABORTED,
		.kind = COHORT_VERDICT_ABORTED,
	};
	struct cohort_comm *c;
	char name[RANK_NAME_SIZE];
	int rc = await_all(q, &c);

	if (rc == COHORT_OK)
		clique_close(q);
	if (rc != COHORT_TIMED_OUT || clique_cause(q))
		return COHORT_OK; /* the clique had already ended, as its calls
		                   * have reported */
	cause.rank = c->rank;
	cause.ticket = atomic_load(&c->tickets.last);
	rc = error_set(COHORT_ABORTED,
	               "the close deadline of %llu ms passed while operations "
	               "of %s were in flight",
	               (unsigned long long)(q->deadlines.close_ns / 1000000),
	               clique_name_rank(q, c->rank, name));
	if (clique_fire(q, &cause, "%s", cohort_last_error()) == COHORT_OK)
		error_set(rc, "%s", clique_explained_cause(q)->text);
	return rc;
}

int generation_end(struct generation *g)
{
	struct generation *child;
	int rc = COHORT_OK, ended;

	/* End the children, unless the reaper has already done so. */
	if (clique_cause(g->clique))
		clique_tree_end(g->clique);
	for (child = first_child(g); child; child = next_child(child)) {
		ended = generation_end(child);
		if (ended != COHORT_OK)
			rc = ended;
	}
	ended = end(g->clique);
	return ended != COHORT_OK ? ended : rc;
}

/* Stop watching a clique that has ended.  Return false if a thread of the watch
 * does not stop; the watch is then leaked. */
static bool stop_watch(struct generation *g)
{
	uint64_t deadline = clock_deadline(g->clique->deadlines.abort_ns);

	if (g->watch && clique_update_state(g->clique) == CLIQUE_WEDGED)
		watch_explain(g->watch, g->wedged, sizeof(g->wedged));
	if (g->watch)
		g->left = watch_stop(g->watch, deadline);
	if (g->watch && g->peers)
		peers_detach(g->peers, g->clique);
	g->watch = NULL;
	return !g->left;
}

/* Stop watching a RECLAIMED clique, and have its reaper release the ranks'
 * resources. */
static void stop_and_release(struct generation *g)
{
	stop_watch(g);
	clique_set_unused(g->clique);
}

/* Mark the clique as stale, and keep its communicators that are bound to other
 * threads. */
static void retain_bound(struct generation *g)
{
	atomic_store(&g->clique->stale, true);
	owner_keep(g->clique);
}

int generation_end_later(struct generation *g)
{
	int rc = generation_end(g);

	retain_bound(g);
	/* After this store another thread may free the clique. */
	atomic_store(&g->clique->over, OVER_CLOSED);
	return rc;
}

void generation_sweep(struct clique *parent)
{
	struct clique *q;

	while ((q = clique_tree_claim(parent, OVER_CLOSED, CLIQUE_RECLAIMED))) {
		visit(generation_of(q), stop_and_release);
		atomic_store(&q->over, OVER_UNWATCHED);
	}
	while ((q = clique_tree_claim(parent, OVER_UNWATCHED, CLIQUE_RELEASED)))
		generation_free(generation_of(q));
}

static void mark_replaced(struct generation *g)
{
	atomic_store(&g->clique->replaced, true);
	atomic_store(&g->clique->stale, true);
	if (stop_watch(g))
		clique_forget_calls(g->clique);
}

void generation_mark_replaced(struct generation *g)
{
	visit(g, mark_replaced);
}

static bool all_of(const struct generation *g,
                   bool (*holds)(const struct generation *))
{
	const struct generation *child;

	if (!holds(g))
		return false;
	for (child = first_child(g); child; child = next_child(child))
		if (!all_of(child, holds))
			return false;
	return true;
}

/* Return true if no thread uses the generation and the program owns no
 * resources of it. */
static bool is_unused(const struct generation *g)
{
	const struct clique *q = g->clique;
	int r;

	if (g->watch || g->left || occupied(g->clique) ||
	    atomic_load(&q->held) > 0 || atomic_load(&q->abandoned_threads) ||
	    !clique_is_reclaimed(clique_update_state(g->clique)))
		return false;
	for (r = 0; r < q->size; r++)
		if (q->comms[r].registrations ||
		    atomic_load(&q->comms[r].thread.abandoned))
			return false;
	return true;
}

static bool has_no_call(const struct generation *g)
{
	return !hazard_is_announced(g->clique, g->clique->bytes);
}

static bool is_released(const struct generation *g)
{
	return clique_update_state(g->clique) == CLIQUE_RELEASED;
}

static void set_forgotten(struct generation *g, bool is_forgotten)
{
	struct generation *child;
	int r;

	for (child = first_child(g); child; child = next_child(child))
		set_forgotten(child, is_forgotten);
	for (r = 0; r < g->clique->size; r++)
		atomic_store(&g->clique->comms[r].is_forgotten, is_forgotten);
}

/* Detach owner threads from the generation, and make the program's pointers to
 * its communicators safe to use after the free. */
static void detach(struct generation *g)
{
	owner_forget(g->clique);
	g->clique->is_forgotten = true;
}

/* Refuse all further calls on the generation and release its resources.  Return
 * false if it is in use. */
static bool withdraw(struct generation *g)
{
	bool is_free = all_of(g, is_unused);

	/* Refuse new calls before checking for calls in progress. */
	set_forgotten(g, is_free);
	if (!is_free || !all_of(g, has_no_call))
		return false;
	/* Check again, because the last calls may have allocated memory. */
	is_free = all_of(g, is_unused);
	set_forgotten(g, is_free);
	if (!is_free)
		return false;
	visit(g, detach);
	visit(g, stop_and_release);
	return true;
}

/* Maximum time that a respawn waits in await_release().  The wait is limited,
 * because another group may keep the devices busy. */
#define RELEASE_NS UINT64_C(1000000000)

/* Wait until the device memory of the generation and its children is freed.
 * Otherwise the frees could block launches of new ranks
 * (COHORT_LAUNCH_AHEAD). */
static void await_release(const struct generation *g, uint64_t deadline_ns)
{
	const struct generation *child;

	clique_await(g->clique, CLIQUE_RELEASED, deadline_ns);
	for (child = first_child(g); child; child = next_child(child))
		await_release(child, deadline_ns);
}

bool generation_forget(struct generation *g)
{
	const struct clique *q = g->clique;

	if (!q->is_forgotten && withdraw(g))
		await_release(g, clock_deadline(RELEASE_NS));
	if (!q->is_forgotten || !all_of(g, is_released))
		return false;
	generation_free(g);
	return true;
}

/* Set this thread's error to the reason why the generation has not ended. */
static int explain(struct generation *g)
{
	if (clique_update_state(g->clique) == CLIQUE_LEAKED)
		return error_set(COHORT_WEDGED,
		                 "the native communicators of generation %d "
		                 "could not be freed and are leaked",
		                 g->clique->generation);
	if (g->watch)
		watch_explain(g->watch, g->wedged, sizeof(g->wedged));
	return error_set(COHORT_WEDGED, "%s; generation %d is leaked",
	                 g->wedged, g->clique->generation);
}

static void find_busy(const struct clique *other, void *arg)
{
	bool *is_busy = arg;
	const struct cohort_comm *c = other->comms;
	uint64_t last;

	if (atomic_load(&other->state) == CLIQUE_WEDGED)
		return;
	for (; c < other->comms + other->size; c++) {
		last = atomic_load_explicit(&c->tickets.last,
		                            memory_order_acquire);
		*is_busy |= last && !comm_ticket_done(c, last);
	}
}

/* Return true if the only remaining work for the clique is to free memory of
 * NCCL and of the ranks, which waits for operations of another clique on the
 * same devices. */
static bool waits_for_neighbor(struct clique *q)
{
	const int state = clique_update_state(q);
	bool is_busy = false;

	if ((state != CLIQUE_QUIESCED && state != CLIQUE_RECLAIMED) ||
	    atomic_load(&clique_tree_root(q)->abandoned_threads))
		return false;
	clique_tree_visit(q, find_busy, &is_busy);
	return is_busy;
}

static void *end_late(void *arg)
{
	struct generation *g = arg;
	struct clique *q = g->clique;

	if (clique_await(q, CLIQUE_RELEASED, COHORT_FOREVER) == CLIQUE_RELEASED)
		clique_retire(q);
	else
		clique_leak(q);
	free(g);
	return NULL;
}

/* Start a thread that waits until the clique is freed and then frees the
 * generation.  Return false if no thread could be started. */
static bool free_on_thread(struct generation *g)
{
	struct clique *q = g->clique;
	pthread_t thread;

	if (!stop_watch(g))
		return false;
	/* Remove the clique from the tree, because its parent will be freed
	 * first. */
	clique_tree_detach(q);
	clique_set_unused(q);
	if (thread_start(&thread, end_late, g, "%.8s/late", q->name))
		return false;
	pthread_detach(thread);
	return true;
}

static int free_one(struct generation *g)
{
	struct clique *q = g->clique;
	uint64_t deadline = clock_deadline(q->deadlines.abort_ns);
	int generation = q->generation, rc = COHORT_OK;
	bool unguarded;

	if (!clique_is_reclaimed(clique_await(q, CLIQUE_RECLAIMED, deadline))) {
		if (waits_for_neighbor(q) && free_on_thread(g))
			return COHORT_OK;
		rc = explain(g);
	}
	unguarded = stop_watch(g);
	if (rc != COHORT_OK) {
		/* Leak @g as well, because a split that is stuck in the clique
		 * reads it. */
		clique_leak(q);
		return rc;
	}
	if (!free_clique(q)) {
		if (waits_for_neighbor(q) && free_on_thread(g))
			return COHORT_OK;
		clique_leak(q);
		rc = error_set(COHORT_WEDGED,
		               "the memory of generation %d could not be freed "
		               "and is leaked",
		               generation);
	} else if (!unguarded) {
		rc = error_set(COHORT_WEDGED,
		               "%s has not returned: its thread is abandoned",
		               g->left);
	}
	free(g);
	return rc;
}

int generation_free(struct generation *g)
{
	struct generation *child;
	int rc = COHORT_OK, freed;

	/* Do this before any clique of the tree is freed, because the owner of
	 * a rank in one clique may be using the other cliques. */
	visit(g, retain_bound);
	/* The loop ends, because freeing a child removes it from the list. */
	while ((child = first_child(g))) {
		freed = generation_free(child);
		if (freed != COHORT_OK)
			rc = freed;
	}
	freed = free_one(g);
	return freed != COHORT_OK ? freed : rc;
}

int generation_discard(struct generation *g, int status)
{
	char error[512];

	text_set(error, sizeof(error), "%s", cohort_last_error());
	cause_set_aborted(g->clique->end,
	                  "another process has failed to open the generation");
	generation_end(g);
	generation_free(g);
	return error_set(status, "%s", error);
}
