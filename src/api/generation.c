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

/* Have the reaper release the ranks' resources, then free a clique that is
 * RECLAIMED or soon will be.  False if the reaper does not finish within the
 * abort deadline: the clique is then leaked. */
static bool give_back(struct clique *q)
{
	uint64_t deadline = clock_deadline(q->deadlines.abort_ns);

	clique_set_unused(q);
	if (clique_await(q, CLIQUE_RELEASED, deadline) != CLIQUE_RELEASED) {
		clique_leak(q);
		return false;
	}
	clique_retire(q);
	return true;
}

/* End a clique that is not watched yet, and on which nothing was called. */
static void discard(struct clique *q)
{
	clique_close(q);
	give_back(q);
}

int generation_open(const struct platform *platform, const int *devices, int n,
                    const struct clique_options *options,
                    const struct watch_options *watch_options,
                    struct peers *peers, struct generation **out)
{
	struct generation *g;
	struct clique *q;
	int rc = clique_create(platform, devices, n, options, &q);

	if (rc != COHORT_OK)
		return rc;
	g = calloc(1, sizeof(*g));
	rc = g ? COHORT_OK
	       : error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	if (rc == COHORT_OK && peers)
		rc = peers_attach(peers, q, q->parent ? q->parent->end : NULL);
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
	g->options.is_deferred = false; /* for what is split from it */
	q->owning_generation = g;
	*out = g;
	return COHORT_OK;
}

/* ---- children --------------------------------------------------------- */

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

/* A thread waiting in a host-memory call returns once there is a cause.  If its
 * rank is bound, it may return after the close, because the rank is kept. */
static bool is_occupied(const struct cohort_comm *c)
{
	return cause_or_closing(c->clique->end) && atomic_load(&c->lock.owner)
	               ? atomic_load(&c->lock.held)
	               : comm_is_taken(c);
}

/* Find a rank with a thread inside it.  A thread that was inside when the abort
 * was given up stays there and does not count; nor does one that was left
 * behind. */
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

	if (c) /* and may be making a child */
		return c;
	for (child = first_child(g); child && !c; child = next_child(child))
		c = generation_occupied(child);
	return c;
}

/* ---- ending ----------------------------------------------------------- */

/* Wait for every rank's last ticket.  COHORT_TIMED_OUT, and the rank, if one is
 * not done in time. */
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
		return COHORT_OK; /* had already ended, as its calls reported */
	cause.rank = c->rank;
	cause.ticket = atomic_load(&c->tickets.last);
	rc = error_set(COHORT_ABORTED,
	               "closed after %llu ms with operations of %s in flight",
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

	/* The clique's reaper may not have ended the children yet. */
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

/* Stop the watch over a clique that has ended; false if that is not possible,
 * and the watch is left as it is. */
static bool unguard(struct generation *g)
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

/* End the watch over a RECLAIMED clique and its children, and let their reapers
 * give back what they have. */
static void let_go(struct generation *g)
{
	struct generation *child;

	for (child = first_child(g); child; child = next_child(child))
		let_go(child);
	unguard(g);
	clique_set_unused(g->clique);
}

int generation_end_later(struct generation *g)
{
	int rc = generation_end(g);

	atomic_store(&g->clique->stale, true);
	owner_keep(g->clique);
	/* The last use of the clique here: another thread may free it from now
	 * on. */
	atomic_store(&g->clique->over, OVER_CLOSED);
	return rc;
}

void generation_sweep(struct clique *parent)
{
	struct clique *q;

	while ((q = clique_tree_take(parent, OVER_CLOSED, CLIQUE_RECLAIMED))) {
		let_go(generation_of(q));
		atomic_store(&q->over, OVER_UNWATCHED);
	}
	while ((q = clique_tree_take(parent, OVER_UNWATCHED, CLIQUE_RELEASED)))
		generation_free(generation_of(q));
}

void generation_pass(struct generation *g)
{
	struct generation *child;

	for (child = first_child(g); child; child = next_child(child))
		generation_pass(child);
	atomic_store(&g->clique->replaced, true);
	atomic_store(&g->clique->stale, true);
	if (unguard(g))
		clique_forget_calls(g->clique);
}

/* ---- forgetting ------------------------------------------------------- */

/* Return true if @holds does for the generation and for all its children. */
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

/* Return true if no thread uses the generation, and the program owns no
 * resource of it. */
static bool is_unused(const struct generation *g)
{
	const struct clique *q = g->clique;
	int r;

	if (g->watch || g->left || occupied(g->clique) ||
	    atomic_load(&q->held) > 0 || atomic_load(&q->stragglers) ||
	    !clique_is_reclaimed(clique_update_state(g->clique)))
		return false;
	for (r = 0; r < q->size; r++)
		if (q->comms[r].registrations ||
		    atomic_load(&q->comms[r].thread.abandoned))
			return false;
	return true;
}

/* Return true if no thread is in a call on a communicator of the generation. */
static bool has_no_call(const struct generation *g)
{
	return !hazard_is_announced(g->clique, g->clique->bytes);
}

/* Return true if nothing is left to wait for on the devices. */
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

/* Detach owner threads from the generation and its children, and make the
 * program's pointers to their communicators safe to use after the free. */
static void detach(struct generation *g)
{
	struct generation *child;

	for (child = first_child(g); child; child = next_child(child))
		detach(child);
	owner_forget(g->clique);
	g->clique->is_forgotten = true;
}

/* Refuse all calls on the generation and give back what it has.  False if a
 * call is in progress. */
static bool withdraw(struct generation *g)
{
	bool is_free = all_of(g, is_unused);

	/* Refuse new calls before looking for the ones in progress. */
	set_forgotten(g, is_free);
	if (!is_free || !all_of(g, has_no_call))
		return false;
	/* The last of those may have allocated memory. */
	is_free = all_of(g, is_unused);
	set_forgotten(g, is_free);
	if (!is_free)
		return false;
	detach(g);
	let_go(g);
	return true;
}

/* How long a respawn waits for that at most; another group may use the
 * devices. */
#define RELEASE_NS UINT64_C(1000000000)

/* Wait until the device memory of the generation and its children is freed.
 * Freeing may block the launches of ranks that launch ahead. */
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

/* ---- why it has not ended --------------------------------------------- */

/* Set this thread's error to why the generation has not come to its end. */
static int explain(struct generation *g)
{
	if (clique_update_state(g->clique) == CLIQUE_LEAKED)
		return error_set(COHORT_WEDGED,
		                 "the native communicators of generation %d "
		                 "could not be freed and are leaked",
		                 g->clique->generation);
	if (g->watch)
		watch_explain(g->watch, g->wedged, sizeof(g->wedged));
	return error_set(COHORT_WEDGED, "%s; it is leaked", g->wedged);
}

/* ---- held up by a neighbour ------------------------------------------- */

static void note_busy(const struct clique *other, void *arg)
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

/* True if the clique has come to its end, but for NCCL's frees, which wait for
 * what a neighbour has on the same devices. */
static bool is_held_up(struct clique *q)
{
	bool is_busy = false;

	if (clique_update_state(q) != CLIQUE_QUIESCED ||
	    atomic_load(&clique_tree_root(q)->stragglers))
		return false;
	clique_tree_visit(q, note_busy, &is_busy);
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

/* Have a thread wait until the clique is freed, and free the rest.  False: none
 * could be started. */
static bool leave_to_thread(struct generation *g)
{
	struct clique *q = g->clique;
	pthread_t thread;

	if (!unguard(g))
		return false;
	/* Its parent goes before it. */
	clique_tree_part(q);
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
		if (is_held_up(q) && leave_to_thread(g))
			return COHORT_OK;
		rc = explain(g);
	}
	unguarded = unguard(g);
	if (rc != COHORT_OK) {
		/* @g is leaked, too: a split that is stuck in the clique looks
		 * at it. */
		clique_leak(q);
		return rc;
	}
	if (!give_back(q))
		rc = error_set(COHORT_WEDGED,
		               "the memory of generation %d could not be given "
		               "back and is leaked",
		               generation);
	else if (!unguarded)
		rc = error_set(COHORT_WEDGED,
		               "%s has not returned: its thread is left behind",
		               g->left);
	free(g);
	return rc;
}

/* Keep whatever is bound to other threads, before any clique of the tree is
 * freed: an owner in one clique may be using the others. */
static void keep_owned(struct generation *g)
{
	struct generation *child;

	for (child = first_child(g); child; child = next_child(child))
		keep_owned(child);
	atomic_store(&g->clique->stale, true);
	owner_keep(g->clique);
}

int generation_free(struct generation *g)
{
	struct generation *child;
	int rc = COHORT_OK, freed;

	keep_owned(g);
	/* Each child takes itself out of the list. */
	while ((child = first_child(g))) {
		freed = generation_free(child);
		if (freed != COHORT_OK)
			rc = freed;
	}
	freed = free_one(g);
	return freed != COHORT_OK ? freed : rc;
}
