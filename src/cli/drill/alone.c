/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cells in which one thread acts for all ranks: opening, calls of the group,
 * respawning; and cells in which ranks join by id
 */

#include "cli/drill/drill.h"

#include <string.h>

#include <cohort/sim.h>

#include "base/clock.h"
#include "base/thread.h"

#define TOO_LONG_NS (30 * NS_PER_S)

/* ---- opening ---------------------------------------------------------- */

/* Script the fault that strikes an init. */
static void arm_init(struct drill_run *run, int rank)
{
	switch (run->trouble) {
	case BY_LATE:
		drill_fault(run, rank, 0, COHORT_FAULT_INIT,
		            run->options->deadline_ns / 2);
		break;
	case BY_TOO_LATE:
		drill_fault(run, rank, 0, COHORT_FAULT_INIT, TOO_LONG_NS);
		break;
	default:
		drill_arm_init(run, rank, 0);
	}
}

/* Note what the opening that began at @began_ns has returned; true if the group is
 * open. */
static bool is_open(struct drill_run *run, int status, uint64_t began_ns)
{
	if (status != COHORT_INIT_TIMEOUT && status != COHORT_NCCL)
		return drill_must(run, status, "open");
	drill_note(run,
	           status == COHORT_NCCL ? COHORT_VERDICT_NATIVE_ERROR
	                                 : COHORT_VERDICT_INIT_STUCK,
	           cohort_last_error(), began_ns);
	return false;
}

static void open_all(struct drill_run *run)
{
	struct cohort_comm *comms[DRILL_MOST_RANKS];
	uint64_t began = clock_now();
	int rc;

	atomic_store(&run->began_ns, began);
	arm_init(run, drill_victim(run));
	drill_strike(run);
	rc = cohort_group_open(NULL, run->n, &run->group_options, &run->group);
	if (!is_open(run, rc, began))
		return;
	if (drill_split(run, comms))
		drill_sum(run, comms, run->n);
	drill_close(run, COHORT_OK);
}

/* ---- joining ---------------------------------------------------------- */

/* Two communicators: the one that all ranks should join first, and another one. */
struct joining {
	struct drill_run *run;
	struct cohort_unique_id ids[2];
};

struct joiner {
	struct joining *joining;
	int number;
	pthread_t thread;
};

static int join(struct joiner *k, int which, int nranks)
{
	struct drill_run *run = k->joining->run;
	struct cohort_comm *comm = NULL;
	struct cohort_abort *handle;
	int rc = cohort_comm_join(&k->joining->ids[which], nranks, k->number,
	                          k->number, &run->group_options, &comm);

	if (rc != COHORT_OK)
		return rc;
	/* The join was late: abort the ranks that are still connected with this
	 * one. */
	handle = cohort_comm_abort_handle(comm);
	cohort_abort_fire(handle, "joined too late");
	cohort_abort_put(handle);
	cohort_comm_close(comm);
	return COHORT_OK;
}

static void *join_main(void *arg)
{
	struct joiner *k = arg;
	struct drill_run *run = k->joining->run;
	bool is_victim = k->number == drill_victim(run);
	uint64_t began;
	int rc;

	if (is_victim && run->trouble == BY_COUNT) {
		drill_await_counted(run, &run->called, run->n - 1);
		drill_dawdle(run);
		rc = join(k, 0, run->n + 1);
		if (rc != COHORT_INVALID ||
		    !strstr(cohort_last_error(), "nranks is "))
			drill_complain(run,
			               "a different nranks is not refused");
	}
	/* Release the hanging joins once all ranks have their answers. */
	if (is_victim && run->trouble != BY_ORDER) {
		drill_await_counted(run, &run->left, run->n - 1);
		join(k, 0, run->n);
		return NULL;
	}
	began = clock_now();
	atomic_fetch_add(&run->called, 1);
	rc = join(k, is_victim, run->n);
	if (is_open(run, rc, began))
		drill_complain(run, "rank %d has joined", k->number);
	atomic_fetch_add(&run->left, 1);
	if (run->trouble == BY_ORDER) {
		drill_await_counted(run, &run->left, run->n);
		join(k, !is_victim, run->n);
	}
	return NULL;
}

static void join_all(struct drill_run *run)
{
	struct joiner joiners[DRILL_MOST_RANKS];
	struct joining joining = { .run = run };
	int r, n;

	if (!drill_must(run, cohort_unique_id(&joining.ids[0]), "an id") ||
	    (run->trouble == BY_ORDER &&
	     !drill_must(run, cohort_unique_id(&joining.ids[1]), "an id")))
		return;
	atomic_store(&run->began_ns, clock_now());
	for (n = 0; n < run->n; n++) {
		joiners[n] = (struct joiner){ &joining, n, 0 };
		if (thread_start(&joiners[n].thread, join_main, &joiners[n],
		                 "drill/%d", n)) {
			drill_complain(run, "a thread could not be started");
			break;
		}
	}
	for (r = 0; r < n; r++)
		pthread_join(joiners[r].thread, NULL);
}

void drill_at_open(struct drill_run *run)
{
	switch (run->trouble) {
	case BY_ABSENCE:
	case BY_COUNT:
	case BY_ORDER:
		join_all(run);
		break;
	default:
		open_all(run);
	}
}

/* ---- calls of the group ----------------------------------------------- */

/* Script the fault that strikes the devices. */
static void arm_call(struct drill_run *run)
{
	int rank = drill_victim(run);

	drill_arm(run, 1);
	switch (run->trouble) {
	case BY_ABSENCE:
	case BY_TWO_ABORTS:
		drill_fault(run, rank, 1, COHORT_FAULT_NEVER, 0);
		break;
	case BY_LATE:
		drill_fault(run, rank, 1, COHORT_FAULT_DELAY,
		            run->options->deadline_ns / 2);
		break;
	case BY_TOO_LATE:
		drill_fault(run, rank, 1, COHORT_FAULT_DELAY, TOO_LONG_NS);
		break;
	default:
		break;
	}
}

static int reduce(struct drill_run *run, uint64_t *ticket)
{
	void *tensors[DRILL_MOST_RANKS];
	int r;

	for (r = 0; r < run->n; r++)
		tensors[r] = run->ranks[r].tensors;
	return cohort_group_all_reduce(run->group, (const void *const *)tensors,
	                               tensors, DRILL_COUNT, COHORT_F32,
	                               COHORT_SUM, NULL, ticket);
}

static void fire(struct drill_run *run)
{
	if (cohort_group_abort(run->group, "drill") == COHORT_OK)
		atomic_fetch_add(&run->fired, 1);
	atomic_fetch_add(&run->fires, 1);
}

static void call_and_wait(struct drill_run *run)
{
	bool peace = run->cell->kind == COHORT_VERDICT_NONE;
	struct cohort_cause cause = { .status = COHORT_OK };
	uint64_t ticket;
	int rc;

	drill_strike(run);
	rc = reduce(run, &ticket);
	if (rc == COHORT_OK && run->trouble == BY_TWO_ABORTS) {
		drill_strike(run);
		fire(run);
		fire(run);
	}
	if (rc == COHORT_OK)
		rc = cohort_group_wait(run->group, ticket, TOO_LONG_NS);
	cohort_group_cause(run->group, &cause);
	if (rc != cause.status || peace != (rc == COHORT_OK))
		drill_complain(run, "the call returned %s",
		               cohort_status_text(rc));
}

void drill_at_group(struct drill_run *run)
{
	uint64_t ticket;
	int rc;

	if (!drill_open(run))
		return;
	arm_call(run);
	rc = reduce(run, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_group_wait(run->group, ticket, TOO_LONG_NS);
	if (drill_must(run, rc, "warm up")) {
		atomic_store(&run->began_ns, clock_now());
		call_and_wait(run);
	}
	drill_keep_cause(run);
	drill_close(run, COHORT_OK);
}

/* ---- respawning ------------------------------------------------------- */

/* A thread that is bound to rank 0 of the earlier generation. */
static void *bound_main(void *arg)
{
	struct drill_rank *k = arg;

	drill_must(k->run, cohort_comm_bind(k->comm), "bind");
	atomic_fetch_add(&k->run->called, 1);
	drill_await(k->run, &k->run->is_closing, "nothing is respawned");
	return NULL;
}

/* Strike the earlier generation once there is the next one. */
static void strike_former(struct drill_run *run)
{
	if (run->trouble == BY_SIGNAL)
		drill_fire_by_signal(run, pthread_self());
	if (run->trouble != BY_TWO_ABORTS)
		return;
	drill_fire(run);
	drill_fire(run);
}

static void respawn(struct drill_run *run)
{
	struct cohort_comm *comms[DRILL_MOST_RANKS];
	int rc, lost = drill_victim(run);
	uint64_t began;

	arm_init(run, 0);
	began = clock_now();
	atomic_store(&run->began_ns, began);
	drill_strike(run);
	rc = cohort_group_respawn(run->group, &lost, 1);
	atomic_store(&run->is_closing, true);
	if (!is_open(run, rc, began))
		return;
	strike_former(run);
	if (run->trouble == BY_EXIT)
		pthread_join(run->ranks[0].thread, NULL);
	if (drill_split(run, comms))
		drill_sum(run, comms, run->n - 1);
	drill_keep_cause(run);
}

void drill_at_respawn(struct drill_run *run)
{
	struct cohort_comm *comms[DRILL_MOST_RANKS];
	struct drill_rank *k = &run->ranks[0];
	bool is_bound = false;

	if (!drill_open(run))
		return;
	if (drill_split(run, comms)) {
		drill_sum(run, comms, run->n);
		k->run = run;
		k->comm = comms[0];
		is_bound = run->trouble == BY_EXIT &&
		           !thread_start(&k->thread, bound_main, k, "drill/0");
		if (is_bound)
			drill_await_counted(run, &run->called, 1);
		drill_must(run, cohort_group_abort(run->group, "drill"),
		           "abort");
		respawn(run);
	}
	drill_close(run, COHORT_OK);
}
