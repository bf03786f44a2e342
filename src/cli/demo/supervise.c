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

#include <cohort/bootstrap.h>

#include "cli/common/cli.h"
#include "cli/common/processes.h"

/* ---- whom to go on without -------------------------------------------- */

static bool set_has(const uint64_t *set, int rank)
{
	return set[rank / 64] >> rank % 64 & 1;
}

/* Collect the ranks that the cause blames and those that did not come back, and return
 * how many.  (A cause may blame no rank, and then have all of them missing.)  They are
 * numbered as in the generation that has ended, which had @size; @lost has room for
 * twice as many. */
static int find_lost(const struct plan *plan, const struct cohort_cause *cause,
                     int size, int *lost)
{
	int *abandoned = lost + size;
	int gone = cohort_group_abandoned(plan->group, abandoned, size);
	int n = 0;

	for (int r = 0; r < size; r++) {
		bool is_lost = r == cause->rank ||
		               (cause->rank >= 0 && set_has(cause->missing, r));

		for (int i = 0; i < gone; i++)
			is_lost |= abandoned[i] == r;
		if (is_lost)
			lost[n++] = r;
	}
	return n;
}

/* True if all of @own's ranks are among @lost. */
static bool are_all_lost(const struct cohort_process *own, const int *lost,
                         int n)
{
	int count = 0;

	for (int i = 0; i < n; i++)
		count += lost[i] >= own->first_rank &&
		         lost[i] < own->first_rank + own->ranks;
	return count == own->ranks;
}

/* ---- what happened ---------------------------------------------------- */

/* Record the first failure, in which the ranks have their first numbers: the report is
 * about that. */
static void record(const struct plan *plan, const struct cohort_cause *cause,
                   struct demo_result *result)
{
	int n;

	if (result->cause.status != COHORT_OK)
		return;
	result->cause = *cause;
	result->returned_ns = demo_ns();
	n = cohort_group_abandoned(plan->group, result->abandoned,
	                           plan->options->ranks);
	for (int i = 0; i < n; i++)
		plan->ranks[result->abandoned[i]].is_left_behind = true;
}

/* ---- the loop --------------------------------------------------------- */

/* Free what the workers of ranks that died could not free. */
static void free_memory(struct plan *plan)
{
	for (int r = 0; r < plan->own_ranks; r++) {
		struct rank *rank = &plan->ranks[plan->first_rank + r];

		if (!rank->has_died || !rank->device)
			continue;
		cohort_reducer_free(rank->reducer);
		cohort_free(rank->comm, rank->device);
		rank->reducer = NULL;
		rank->device = NULL;
	}
}

static void plan_log(struct plan *plan)
{
	plan->generations[plan->generation_count++] = (struct generation_log){
		.first_step = plan->first_step,
		.ranks = plan->now_size,
	};
}

/* Open the next generation without the ranks to blame.  If all ranks of this process are,
 * the other processes go on once it has closed the group.  An enum cli_exit. */
static int go_on(struct plan *plan, const struct cohort_cause *cause,
                 bool *left_out)
{
	struct cohort_process all[MAX_PROCESSES];
	int n = plan->options->processes, size = 0, rc, status = CLI_FAILED;
	int *lost = calloc(2 * (size_t)plan->options->ranks, sizeof(*lost));

	cohort_group_processes(plan->group, all, n);
	for (int i = 0; i < n; i++)
		size += all[i].ranks;
	if (!lost) {
		cli_complain("demo", "out of memory");
		return CLI_FAILED;
	}
	n = find_lost(plan, cause, size, lost);
	if (n == size || plan->generation_count == MAX_GENERATIONS) {
		cli_complain("demo", "%s", cause->text);
		goto out;
	}
	*left_out = are_all_lost(&all[plan->process], lost, n);
	if (!*left_out) {
		rc = cohort_group_respawn(plan->group, lost, n);
		if (rc != COHORT_OK) {
			cli_complain("demo", "%s", cohort_last_error());
			goto out;
		}
	}
	free_memory(plan);
	status = CLI_OK;
out:
	free(lost);
	return status;
}

int supervise(struct plan *plan, struct demo_result *result)
{
	struct cohort_cause cause;
	int rc, status = CLI_OK;
	bool is_left_out = false;

	while (status == CLI_OK && !is_left_out) {
		atomic_store(&plan->is_settled, false);
		rc = cohort_group_run(plan->group, train_worker, plan, &cause);
		if (rc != COHORT_OK && cause.status == COHORT_OK) {
			cli_complain("demo", "%s", cohort_last_error());
			return CLI_FAILED;
		}
		plan_log(plan);
		if (rc == COHORT_OK)
			break;
		record(plan, &cause, result);
		status = go_on(plan, &cause, &is_left_out);
		if (!result->respawned_ns)
			result->respawned_ns = demo_ns();
	}
	return status;
}

void supervise_release(struct plan *plan)
{
	if (!atomic_load(&plan->is_stalled))
		return;
	sem_post(&plan->release);
	sem_wait(&plan->released);
}
