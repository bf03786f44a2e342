/* SPDX-License-Identifier: Apache-2.0 */

#include "api/generation.h"

#include <stdlib.h>

#include "api/comm.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/owner.h"

/* Have the reaper give back what the ranks have, and free a clique that is reclaimed,
 * or soon will be.  False if it does not come to that, and is leaked. */
static bool give_back(struct clique *q)
{
	uint64_t deadline = clock_deadline(q->deadlines.abort_ns);

	sem_post(&q->unused);
	if (clique_await(q, CLIQUE_RELEASED, deadline) != CLIQUE_RELEASED) {
		clique_leak(q);
		return false;
	}
	clique_retire(q);
	return true;
}

/* Unwatched as yet, and nothing was called. */
static void discard(struct clique *q)
{
	cause_set_closing(q->end);
	give_back(q);
}

int generation_open(const struct platform *platform, const int *devices, int n,
                    const struct clique_options *options,
                    const struct guard_options *guard_options,
                    struct generation **out)
{
	struct generation *g;
	struct clique *q;
	int rc = clique_create(platform, devices, n, options, &q);

	if (rc != COHORT_OK)
		return rc;
	g = calloc(1, sizeof(*g));
	rc = g ? guard_start(q, guard_options, &g->guard)
	       : error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	if (rc != COHORT_OK) {
		free(g);
		discard(q);
		return rc;
	}
	g->clique = q;
	*out = g;
	return COHORT_OK;
}

/* ---- ending ----------------------------------------------------------- */

/* Wait for every rank's last ticket.  COHORT_TIMED_OUT and the rank if one is
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

int generation_end(struct generation *g)
{
	struct clique *q = g->clique;
	struct cohort_cause cause = {
		.status = COHORT_ABORTED,
		.kind = COHORT_VERDICT_ABORTED,
	};
	struct cohort_comm *c;
	int rc = await_all(q, &c);

	if (rc == COHORT_OK)
		cause_set_closing(q->end);
	if (rc != COHORT_TIMED_OUT || clique_cause(q))
		return COHORT_OK; /* it was over already, which is no news */
	cause.rank = c->rank;
	cause.ticket = atomic_load(&c->last);
	rc = error_set(COHORT_ABORTED,
	               "closed after %llu ms with operations of rank %d in "
	               "flight",
	               (unsigned long long)(q->deadlines.close_ns / 1000000),
	               c->rank);
	clique_fire(q, &cause, "%s", cohort_last_error());
	return rc;
}

bool generation_unguard(struct generation *g)
{
	uint64_t deadline = clock_deadline(g->clique->deadlines.abort_ns);

	if (g->guard && clique_look(g->clique) == CLIQUE_WEDGED)
		guard_explain(g->guard, g->wedged, sizeof(g->wedged));
	if (g->guard)
		g->is_guard_left = !guard_stop(g->guard, deadline);
	g->guard = NULL;
	return !g->is_guard_left;
}

/* Why it has not come to its end, as this thread's error. */
static int explain(struct generation *g)
{
	if (clique_look(g->clique) == CLIQUE_LEAKED)
		return error_set(COHORT_WEDGED,
		                 "the native communicators of generation %d "
		                 "could not be freed and are leaked",
		                 g->clique->generation);
	if (g->guard)
		guard_explain(g->guard, g->wedged, sizeof(g->wedged));
	return error_set(COHORT_WEDGED, "%s; it is leaked", g->wedged);
}

int generation_free(struct generation *g)
{
	struct clique *q = g->clique;
	uint64_t deadline = clock_deadline(q->deadlines.abort_ns);
	int generation = q->generation, rc = COHORT_OK;
	bool unguarded;

	owner_forget(q);
	atomic_store(&q->stale, true);
	if (clique_await(q, CLIQUE_RECLAIMED, deadline) != CLIQUE_RECLAIMED)
		rc = explain(g);
	unguarded = generation_unguard(g);
	if (rc != COHORT_OK)
		clique_leak(q);
	else if (!give_back(q))
		rc = error_set(COHORT_WEDGED,
		               "the memory of generation %d could not be given "
		               "back and is leaked",
		               generation);
	if (rc == COHORT_OK && !unguarded)
		rc = error_set(COHORT_WEDGED,
		               "on_verdict has not returned: its thread is "
		               "left behind");
	free(g);
	return rc;
}
