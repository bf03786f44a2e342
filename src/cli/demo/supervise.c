/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The supervisor's loop: run the workers, and go on after a failure
 *
 * The group says which ranks are to blame.  These are dropped, and the others go on in a
 * new generation from the weights of a rank that is furthest ahead.  A step is done on
 * a rank when its reduction is done, so ranks are at most one step apart.
 */

#include "cli/demo/supervise.h"

#include <stdlib.h>

#include "cli/common/cli.h"

/* ---- whom to go on without -------------------------------------------- */

static bool set_has(const uint64_t *set, int rank)
{
	return set[rank / 64] >> rank % 64 & 1;
}

/* Collect the ranks that the cause blames and those that did not come back, and return
 * how many.  (A cause may blame no rank, and then have all of them missing.)  They are
 * numbered as in the generation that has ended. */
static int find_lost(const struct plan *plan, const struct cohort_cause *cause,
                     int *lost)
{
	int *abandoned = lost + plan->now_size;
	int gone =
		cohort_group_abandoned(plan->group, abandoned, plan->now_size);
	int n = 0;

	for (int r = 0; r < plan->now_size; r++) {
		bool is_lost = r == cause->rank ||
		               (cause->rank >= 0 && set_has(cause->missing, r));

		for (int i = 0; i < gone; i++)
			is_lost |= abandoned[i] == r;
		if (is_lost)
			lost[n++] = r;
	}
	return n;
}

/* ---- what happened ---------------------------------------------------- */

/* The time at which the last rank inside the library had its answer. */
static uint64_t last_answer(const struct plan *plan, uint64_t cause_ns)
{
	uint64_t last = 0;

	for (int r = 0; r < plan->now_size; r++) {
		const struct rank *rank = plan->ranks[plan->now[r]];

		if (rank->called_ns < cause_ns && rank->answered_ns > last)
			last = rank->answered_ns;
	}
	return last;
}

/* Record the first failure, which is the one that the report is about. */
static void record(const struct plan *plan, const struct cohort_cause *cause,
                   struct demo_result *result)
{
	if (result->cause.status != COHORT_OK)
		return;
	result->cause = *cause;
	result->returned_ns = demo_ns();
	result->fault_ns = atomic_load(&plan->fault_ns);
	result->unblocked_ns = last_answer(plan, cause->time_ns);
	result->abandoned_count = cohort_group_abandoned(
		plan->group, result->abandoned, plan->options->ranks);
}

/* ---- the loop --------------------------------------------------------- */

/* Free what the worker of a rank that died could not free. */
static void free_memory(struct rank *rank)
{
	if (!rank->has_died || !rank->device)
		return;
	cohort_reducer_free(rank->reducer);
	cohort_free(rank->comm, rank->device);
	rank->reducer = NULL;
	rank->device = NULL;
}

/* Renumber the remaining ranks in their order, and choose the rank that has the
 * weights. */
static void plan_next(struct plan *plan, const int *lost, int n)
{
	int size = plan->now_size, i = 0;

	plan->now_size = 0;
	plan->root = 0;
	for (int r = 0; r < size; r++) {
		struct rank *rank = plan->ranks[plan->now[r]];
		struct rank *root = plan->ranks[plan->now[plan->root]];

		if (i < n && lost[i] == r) {
			i++;
			free_memory(rank);
			continue;
		}
		plan->now[plan->now_size] = plan->now[r];
		if (!plan->now_size || rank->step > root->step)
			plan->root = plan->now_size;
		plan->now_size++;
	}
	plan->first_step = plan->ranks[plan->now[plan->root]]->step;
}

static void plan_log(struct plan *plan)
{
	plan->generations[plan->generation_count++] = (struct generation_log){
		.first_step = plan->first_step,
		.ranks = plan->now_size,
	};
}

/* Open the next generation without the ranks to blame.  An enum cli_exit. */
static int go_on(struct plan *plan, const struct cohort_cause *cause)
{
	int *lost = calloc(2 * (size_t)plan->now_size, sizeof(*lost));
	int n, rc, status = CLI_FAILED;

	if (!lost) {
		cli_complain("demo", "out of memory");
		return CLI_FAILED;
	}
	n = find_lost(plan, cause, lost);
	if (n == plan->now_size || plan->generation_count == MAX_GENERATIONS) {
		cli_complain("demo", "%s", cause->text);
		goto out;
	}
	rc = cohort_group_respawn(plan->group, lost, n);
	if (rc != COHORT_OK) {
		cli_complain("demo", "%s", cohort_last_error());
		goto out;
	}
	plan_next(plan, lost, n);
	status = CLI_OK;
out:
	free(lost);
	return status;
}

int supervise(struct plan *plan, struct demo_result *result)
{
	struct cohort_cause cause;
	int rc, status = CLI_OK;

	for (;;) {
		plan_log(plan);
		rc = cohort_group_run(plan->group, train_worker, plan, &cause);
		if (rc == COHORT_OK)
			break;
		if (cause.status == COHORT_OK) {
			cli_complain("demo", "%s", cohort_last_error());
			return CLI_FAILED;
		}
		record(plan, &cause, result);
		status = go_on(plan, &cause);
		if (status != CLI_OK)
			break;
		if (result->respawned_ns)
			continue;
		result->respawned_ns = demo_ns();
		result->resumed_step = plan->first_step;
		result->resumed_ranks = plan->now_size;
	}
	result->generation_count = plan->generation_count;
	result->final_ranks = plan->now_size;
	return status;
}

void supervise_release(struct plan *plan)
{
	if (!atomic_load(&plan->is_stalled))
		return;
	sem_post(&plan->release);
	sem_wait(&plan->released);
}
