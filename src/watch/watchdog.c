/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the process's one watchdog thread, and starts and stops watches
 *
 * The thread exists while any clique is watched.  It checks each watch when
 * that watch is due.  Work that may take time or hang is a job of the crew
 * (base/crew.h), so a hang in one group does not delay a verdict of another.
 */

#include "watch/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/clique_tree.h"
#include "core/owner.h"
#include "watch/gave_up.h"
#include "watch/watch_clique.h"

/* Size of the replies of other processes, in bytes.  Ranks of this process may
 * wait in any clique of the family, so there is room for all ranks. */
#define REMOTE_BYTES (COHORT_MAX_RANKS * sizeof(struct remote_rank))

static void watch_free(struct watch *g)
{
	pages_free(g->remote, REMOTE_BYTES);
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
	if (q->remote) {
		g->remote = pages_alloc(REMOTE_BYTES);
		ok &= g->remote != NULL;
	}
	if (!ok) {
		watch_free(g);
		return NULL;
	}
	/* The watch is due now, so that the clique is sampled immediately. */
	g->ran_ns = g->next_ns = clock_now();
	g->now.slow_ns = options->slow_ns;
	atomic_init(&g->log_state,
	            options->is_deferred ? 0 : WATCH_IS_RELEASED);
	return g;
}

/* ---- the thread ------------------------------------------------------- */

/* Guards the list of watches.  Held while the watchdog samples the cliques. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* List of all watches.  Guarded by lock. */
static struct watch *watches;
static bool must_stop;

/* Signaled when a watch reaches WATCH_OVER. */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Lock held while the watchdog's thread is started or joined.  Acquired before
 * `lock`. */
static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;

/* The watchdog's thread.  Guarded by life_lock. */
static pthread_t watchdog;
static bool runs;

/* Return true if the watch must be checked now.  Once the clique is ending, its
 * state may change at any time, so the watch is always due. */
static bool is_due(struct watch *g)
{
	return atomic_exchange(&g->clique->is_shorter, false) ||
	       clock_now() >= g->next_ns || g->phase == WATCH_ENDING ||
	       g->evidence || cause_or_closing(g->clique->end);
}

/* Return the time of the next check. */
static uint64_t check_if_due(struct watch *g)
{
	const uint64_t next = prober_check(&g->prober);

	dumper_poll(g->dumper);
	if (g->phase == WATCH_OVER)
		return next;
	if (is_due(g))
		watchdog_check(g);
	if (g->phase == WATCH_OVER)
		pthread_cond_broadcast(&changed);
	return MIN(next, g->next_ns);
}

/* Check all watches.  Return the time at which the next one is due. */
static uint64_t check_all(void)
{
	uint64_t next = UINT64_MAX, due;
	struct watch *g;

	for (g = watches; g; g = g->next)
		if (cause_or_closing(g->clique->end))
			clique_reap(g->clique);
	for (g = watches; g; g = g->next) {
		due = check_if_due(g);
		next = MIN(next, due);
	}
	return next;
}

static void *watchdog_main(void *unused)
{
	uint64_t next = 0;
	bool stops = false;

	(void)unused;
	while (!stops) {
		cause_sleep(next);
		pthread_mutex_lock(&lock);
		stops = must_stop;
		next = check_all();
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* Add the watch, and start the thread if needed.  Return 0 or an errno
 * value. */
static int add(struct watch *g)
{
	int err = 0;

	pthread_mutex_lock(&life_lock);
	if (!runs) {
		/* Needs no lock, because the only thread that reads this flag
		 * is not running. */
		must_stop = false;
		err = thread_start(&watchdog, watchdog_main, NULL,
		                   "cohort/watch");
		runs = !err;
	}
	if (!err) {
		pthread_mutex_lock(&lock);
		list_add(watches, g, next);
		pthread_mutex_unlock(&lock);
		cause_wake();
	}
	pthread_mutex_unlock(&life_lock);
	return err;
}

/* End the watchdog's thread, unless a watch was added in the meantime. */
static void stop_unused(void)
{
	pthread_mutex_lock(&life_lock);
	pthread_mutex_lock(&lock);
	must_stop = runs && !watches;
	pthread_mutex_unlock(&lock);
	if (must_stop) {
		cause_wake();
		pthread_join(watchdog, NULL);
		runs = false;
	}
	pthread_mutex_unlock(&life_lock);
}

/* Wait until the watch reaches WATCH_OVER, and remove it from the list. */
static void remove_over(struct watch *g)
{
	bool is_last;

	pthread_mutex_lock(&lock);
	while (g->phase != WATCH_OVER)
		pthread_cond_wait(&changed, &lock);
	list_remove(watches, g, next);
	is_last = !watches;
	pthread_mutex_unlock(&lock);
	if (is_last)
		stop_unused();
}

/* ---- life ------------------------------------------------------------- */

int watch_start(struct clique *q, const struct watch_options *options,
                struct watch **out)
{
	struct watch *g = watch_alloc(q, options);
	int err, rc;

	atomic_store(&owner_exits, gave_up_by_exit);
	if (!g)
		return error_set(COHORT_NO_MEMORY, "no memory for a watchdog");
	rc = dumper_start(q, &options->dump, &g->dumper);
	if (rc != COHORT_OK)
		goto err_after_alloc;
	rc = notifier_start(&g->notifier, &g->options, q, g->dumper);
	if (rc != COHORT_OK)
		goto err_after_dumper;
	symbolizer_start(&g->symbolizer, options->stack_signal);
	rc = prober_start(&g->prober, q);
	if (rc != COHORT_OK)
		goto err_after_symbolizer;
	err = add(g);
	if (err) {
		rc = error_set(COHORT_SYSTEM,
		               "cannot start the watchdog's thread: %s",
		               strerror(err));
		goto err_after_prober;
	}
	*out = g;
	return COHORT_OK;

err_after_prober:
	prober_stop(&g->prober, UINT64_MAX);
err_after_symbolizer:
	symbolizer_stop(&g->symbolizer, UINT64_MAX);
	notifier_stop(&g->notifier, UINT64_MAX);
err_after_dumper:
	dumper_stop(g->dumper, UINT64_MAX);
err_after_alloc:
	watch_free(g);
	return rc;
}

void watch_release(struct watch *g)
{
	notifier_release(&g->notifier);
	watch_log_end(g, WATCH_IS_RELEASED);
}

const char *watch_stop(struct watch *g, uint64_t deadline_ns)
{
	const char *left = NULL;

	remove_over(g);
	/* End the dumper first, because the calls below may use up all the time
	 * if they hang. */
	dumper_end(g->dumper);
	if (!prober_stop(&g->prober, deadline_ns))
		left = "a query for errors";
	crew_await(&g->gathering, UINT64_MAX); /* the job cannot hang */
	if (!symbolizer_stop(&g->symbolizer, deadline_ns))
		left = "the lookup of function names";
	if (!notifier_stop(&g->notifier, deadline_ns))
		left = "on_verdict";
	dumper_stop(g->dumper, deadline_ns);
	if (left)
		leak_on_purpose(g);
	else
		watch_free(g);
	return left;
}

int watch_check_callback(const struct clique *q)
{
	const struct cohort_abort *end = notifier_current();

	if (!end || !clique_tree_has(q, end))
		return COHORT_OK;
	return error_set(COHORT_STATE,
	                 "this call is not allowed in on_verdict");
}

void watch_wake(struct clique *q)
{
	atomic_store(&q->is_shorter, true);
	cause_wake();
}

static void set_shorter(const struct clique *first, void *root)
{
	struct clique *q = (struct clique *)(uintptr_t)first;

	for (; q; q = q->next_entered)
		if (clique_tree_root(q) == root)
			atomic_store(&q->is_shorter, true);
}

void watch_wake_all(const struct clique *root)
{
	clique_tree_call_all(set_shorter, (void *)(uintptr_t)root);
	cause_wake();
}
