/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starting and stopping the threads that watch over a clique
 */

#include "watch/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "core/clique_tree.h"
#include "core/owner.h"
#include "watch/gave_up.h"
#include "watch/peers.h"
#include "watch/watchdog.h"

static void watch_free(struct watch *g)
{
	free(g->remote);
	verdict_fini(&g->explanation);
	verdict_fini(&g->verdict);
	observer_fini(&g->observer);
	snapshot_fini(&g->closing);
	snapshot_fini(&g->now);
	free(g);
}

static struct watch *watch_alloc(struct clique *q,
                                 const struct watch_options *options)
{
	struct watch *g = calloc(1, sizeof(*g));
	bool ok;

	if (!g)
		return NULL;
	g->clique = q;
	g->options = *options;
	ok = snapshot_init(&g->now, q);
	ok &= snapshot_init(&g->closing, q);
	ok &= observer_init(&g->observer, &options->adaptive);
	ok &= verdict_init(&g->verdict, q->size);
	ok &= verdict_init(&g->explanation, q->size);
	if (options->peers && q->world > q->size) {
		g->remote = calloc((size_t)(q->world - q->size),
		                   sizeof(*g->remote));
		ok &= g->remote != NULL;
	}
	if (!ok) {
		watch_free(g);
		return NULL;
	}
	g->ran_ns = clock_now(); /* or nearly: the thread starts at once */
	g->now.warn_percent = options->warn_percent;
	g->now.slow_ns = options->slow_ns;
	atomic_init(&g->log_state, options->is_held ? 0 : WATCH_IS_RELEASED);
	return g;
}

/* The others have less time to note what was done than an abort may take. */
static void await_others(struct clique *q, void *peers)
{
	const uint64_t half = q->deadlines.abort_ns / 2;
	const uint64_t patience = peers_patience_ns(peers);

	peers_tell(peers, q, clique_whole_cause(q));
	peers_note(peers, q, clock_deadline(half < patience ? half : patience));
}

static void prepare_end(struct clique *q, struct peers *peers)
{
	if (q->world == q->size)
		return;
	q->before_flags_arg = peers;
	atomic_store_explicit(&q->before_flags, await_others,
	                      memory_order_release);
}

int watch_start(struct clique *q, const struct watch_options *options,
                struct watch **out)
{
	struct watch *g = watch_alloc(q, options);
	int err, rc;

	owner_exits = gave_up_by_exit;
	if (!g)
		return error_set(COHORT_NO_MEMORY, "no memory for a watchdog");
	rc = dumper_start(q, &options->dump, &g->dumper);
	if (rc != COHORT_OK)
		goto err_after_alloc;
	rc = notifier_start(&g->notifier, &g->options, q, g->dumper);
	if (rc != COHORT_OK)
		goto err_after_dumper;
	rc = symbolizer_start(&g->symbolizer, options->stack_signal, q->name);
	if (rc != COHORT_OK)
		goto err_after_notifier;
	rc = prober_start(&g->prober, q);
	if (rc != COHORT_OK)
		goto err_after_symbolizer;
	if (options->peers)
		prepare_end(q, options->peers);
	rc = options->peers
	             ? peers_attach(options->peers, q, options->parent_end)
	             : COHORT_OK;
	if (rc != COHORT_OK)
		goto err_after_prober;
	err = thread_start(&g->watchdog, watchdog_main, g, "%.8s/watch",
	                   q->name);
	if (err) {
		rc = error_set(COHORT_SYSTEM,
		               "cannot start the watchdog's thread: %s",
		               strerror(err));
		goto err_after_peers;
	}
	*out = g;
	return COHORT_OK;

err_after_peers:
	if (options->peers)
		peers_detach(options->peers, q);
err_after_prober:
	prober_stop(&g->prober, UINT64_MAX);
err_after_symbolizer:
	symbolizer_stop(&g->symbolizer, UINT64_MAX);
err_after_notifier:
	notifier_stop(&g->notifier, UINT64_MAX);
err_after_dumper:
	dumper_stop(g->dumper, UINT64_MAX);
err_after_alloc:
	watch_free(g);
	return rc;
}

/* Keep a watch that is left behind in a list, so that a leak checker does not take it
 * for a mistake. */
static void watch_leave(struct watch *g)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct watch *left; /* guarded by lock */

	pthread_mutex_lock(&lock);
	g->next_left = left;
	left = g;
	pthread_mutex_unlock(&lock);
}

void watch_release(struct watch *g)
{
	notifier_release(&g->notifier);
	log_end(g, WATCH_IS_RELEASED);
}

const char *watch_stop(struct watch *g, uint64_t deadline_ns)
{
	const char *left = NULL;

	/* The watchdog ends by itself, because the clique has ended. */
	pthread_join(g->watchdog, NULL);
	if (g->options.peers)
		peers_detach(g->options.peers, g->clique);
	/* A hang below may take all the time, in which the dumper ends. */
	dumper_end(g->dumper);
	if (!prober_stop(&g->prober, deadline_ns))
		left = "what the prober asks";
	if (!symbolizer_stop(&g->symbolizer, deadline_ns))
		left = "the search for names of functions";
	if (!notifier_stop(&g->notifier, deadline_ns))
		left = "on_verdict";
	dumper_stop(g->dumper, deadline_ns);
	if (left)
		watch_leave(g);
	else
		watch_free(g);
	return left;
}

int watch_check_callback(const struct clique *q)
{
	const struct cohort_abort *end = notifier_telling();

	if (!end || !clique_tree_has(q, end))
		return COHORT_OK;
	return error_set(COHORT_STATE,
	                 "called by on_verdict, on_abort or on_slow");
}

void watch_wake(struct clique *q)
{
	sem_post(&q->end->watch);
}
