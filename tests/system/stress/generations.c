/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs a watchdog with very short deadlines, while ranks push deadlines, pause,
 * call, fail, and continue in the next generation
 *
 * Every round is a group whose workers sum numbers until one of them fails. The
 * others continue without that rank, until two ranks are left. The watchdog
 * only reports. Checks every sum, the rank that the cause names, that the close
 * succeeds, and that the end of each generation is reported once, after all
 * other reports about that generation.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 4
#define CALLS 30
#define US UINT64_C(1000)

/* Written between runs. */
static int mortal;   /* the rank that fails */
static int lifetime; /* number of calls before it fails */

/* Written by one notifier thread after another. */
static int last_ended; /* last generation whose end was reported */
static atomic_ulong recorded_verdicts, ended;

static int on_verdict(const struct cohort_verdict *v, void *user)
{
	(void)user;
	atomic_fetch_add(&recorded_verdicts, 1);
	if (v->rank >= v->size || !v->ranks || !*v->text)
		stress_fail("rank %d of %d: %s", v->rank, v->size, v->text);
	if (v->generation <= last_ended)
		stress_fail("generation %d was over: %s", v->generation,
		            v->text);
	if (v->stage != COHORT_STAGE_ENDED)
		return 0;
	if (v->kind != COHORT_VERDICT_WORKER)
		stress_fail("the end was reported twice: %s", v->text);
	last_ended = v->generation;
	atomic_fetch_add(&ended, 1);
	return 0;
}

/* Make one sum, with pushed deadlines or after a pause. */
static int call(struct cohort_comm *comm, int i, uint64_t *seed)
{
	const struct cohort_deadlines d = {
		.join_ns = (1000 + stress_random(seed) % 200) * US,
		.exec_ns = (1000 + stress_random(seed) % 200) * US,
	};
	uint32_t what = stress_random(seed) % 4;
	int32_t value = i;
	int rc;

	if (what == 0)
		ranks_must(cohort_deadline_push(comm, &d), "push");
	if (what == 1)
		ranks_must(cohort_pause(comm), "pause");
	stress_spin(stress_random(seed) % 20000);
	rc = ranks_sum_wait(comm, &value);
	if (what == 0)
		ranks_must(cohort_deadline_pop(comm), "pop");
	if (what == 1)
		ranks_must(cohort_resume(comm), "resume");
	if (rc == COHORT_OK && value != cohort_comm_size(comm) * i)
		stress_fail("sum %d is %d", i, value);
	return rc;
}

static int worker(struct cohort_comm *comm, void *user)
{
	uint64_t seed = (uint64_t)cohort_comm_rank(comm) + 1;
	int i, rc = COHORT_OK;

	(void)user;
	for (i = 0; i < CALLS && rc == COHORT_OK; i++) {
		if (cohort_comm_rank(comm) == mortal && i == lifetime)
			return 42;
		rc = call(comm, i, &seed);
	}
	return rc;
}

/* Run a round. Return the number of generations that failed. */
static unsigned long one_round(uint64_t *seed)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;
	unsigned long n = 0;

	cohort_group_options_init(&o);
	o.policy = COHORT_POLICY_REPORT;
	o.on_verdict = on_verdict;
	o.deadlines.join_ns = o.deadlines.exec_ns = 1000 * US;
	last_ended = 0;
	group = ranks_open(RANKS, &o);
	while (cohort_group_size(group) > 2) {
		mortal = (int)(stress_random(seed) %
		               (uint32_t)cohort_group_size(group));
		lifetime = (int)(stress_random(seed) % CALLS);
		if (cohort_group_run(group, worker, NULL, &cause) !=
		            COHORT_WORKER ||
		    cause.rank != mortal)
			stress_fail("rank %d failed, not %d: %s", cause.rank,
			            mortal, cause.text);
		ranks_must(cohort_group_respawn(group, &cause.rank, 1),
		           "respawn");
		n++;
	}
	mortal = -1;
	ranks_must(cohort_group_run(group, worker, NULL, NULL), "run");
	ranks_must(cohort_group_close(group), "close");
	return n;
}

int main(int argc, char **argv)
{
	unsigned long rounds, failed = 0;
	uint64_t seed = 5;

	for (rounds = 0; stress_continue(argc, argv); rounds++)
		failed += one_round(&seed);
	printf("%lu rounds, %lu verdicts\n", rounds,
	       atomic_load(&recorded_verdicts));
	if (atomic_load(&ended) != failed)
		stress_fail("%lu ends were reported, not %lu",
		            atomic_load(&ended), failed);
	return 0;
}
