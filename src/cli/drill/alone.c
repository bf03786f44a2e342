/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cells in which one thread acts for all ranks: opening, calls of the group,
 * respawning; and cells in which ranks join by id
 */

#include "cli/drill/drill.h"

#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"

/* ---- calls of the group ----------------------------------------------- */

/* Sum on @streams, or, if that is NULL, on the ranks' own. */
static int reduce(struct drill_run *run, void *const *streams, uint64_t *ticket)
{
	void *tensors[DRILL_MOST_RANKS];

	for (int r = 0; r < run->own_n; r++)
		tensors[r] = run->ranks[run->first + r].tensors;
	return cohort_group_all_reduce(run->group, (const void *const *)tensors,
	                               tensors, DRILL_COUNT, COHORT_F32,
	                               COHORT_SUM, streams, ticket);
}

/* Sum ones over the group, which has @n ranks in all processes, and check the
 * result; false after a complaint. */
static bool sum(struct drill_run *run, int n)
{
	const int own = cohort_group_size(run->group);
	const float one = 1.0f;
	float value = 0.0f;
	uint64_t ticket;
	int i, rc = COHORT_OK;

	for (i = 0; i < own && rc == COHORT_OK; i++)
		rc = drill_copy(run->memory->comms[i],
		                run->ranks[run->first + i].tensors, &one,
		                sizeof(one));
	if (rc == COHORT_OK)
		rc = reduce(run, NULL, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_group_wait(run->group, ticket, DRILL_LIMIT_NS);
	for (i = 0; i < own && rc == COHORT_OK; i++) {
		rc = drill_copy(run->memory->comms[i], &value,
		                run->ranks[run->first + i].tensors,
		                sizeof(value));
		if (rc == COHORT_OK && value != (float)n) {
			drill_complain(run, "a sum is %g, not %d",
			               (double)value, n);
			return false;
		}
	}
	return drill_must(run, rc, "a sum");
}

/* Wait until all processes have done what comes before the fault. */
static bool all_are_ready(struct drill_run *run)
{
	atomic_fetch_add(&run->shared->left, 1);
	return drill_await(run, left, run->options->processes);
}

/* Call with a bad stream for the victim, which must be refused. */
static void call_on_bad_stream(struct drill_run *run)
{
	void *streams[DRILL_MOST_RANKS] = { NULL };
	const int victim = drill_victim(run);
	uint64_t ticket = 0;
	int rc;

	streams[victim - run->first] = drill_bad_stream(run, victim);
	if (!streams[victim - run->first])
		return;
	rc = reduce(run, streams, &ticket);
	if (rc != COHORT_INVALID || ticket)
		drill_complain(run, "a bad stream is not refused: %s",
		               cohort_status_text(rc));
}

static void call_and_wait(struct drill_run *run)
{
	bool peace = run->cell->kind == COHORT_VERDICT_NONE;
	struct cohort_cause cause = { .status = COHORT_OK };
	uint64_t ticket;
	int rc;

	atomic_fetch_add(&run->shared->called, 1);
	if (drill_has_victim(run)) {
		drill_strike(run);
		call_on_bad_stream(run);
	}
	rc = reduce(run, NULL, &ticket);
	if (rc == COHORT_OK && run->trouble == BY_TWO_ABORTS &&
	    drill_has_victim(run)) {
		drill_mark_fault(run);
		drill_fire(run, pthread_self());
	}
	if (rc == COHORT_OK)
		rc = cohort_group_wait(run->group, ticket, DRILL_LIMIT_NS);
	cohort_group_cause(run->group, &cause);
	if (rc != cause.status || peace != (rc == COHORT_OK))
		drill_complain(run, "the call returned %s",
		               cohort_status_text(rc));
}

void drill_at_group(struct drill_run *run)
{
	if (!drill_open(run))
		return;
	drill_arm(run);
	if (sum(run, run->n) && all_are_ready(run)) {
		atomic_store(&run->own->began_ns, clock_now());
		call_and_wait(run);
	}
	drill_keep_cause(run);
	drill_close(run, COHORT_OK);
}

/* ---- opening ---------------------------------------------------------- */

/* True if the error is the one that this process must have for what struck
 * it. */
static bool says_why(const struct drill_run *run)
{
	return (run->trouble == BY_DESCRIPTORS && drill_has_victim(run) &&
	        strstr(cohort_last_error(), "Too many open files")) ||
	       (run->trouble == BY_UNLINK && !drill_has_victim(run) &&
	        strstr(cohort_last_error(), "was removed"));
}

/* Note what the opening that began at @began_ns has returned; true if the group
 * is open. */
static bool is_open(struct drill_run *run, int status, uint64_t began_ns)
{
	static const struct {
		int status;
		int kind;
	} told[] = {
		{ COHORT_NCCL, COHORT_VERDICT_NATIVE_ERROR },
		{ COHORT_INIT_TIMEOUT, COHORT_VERDICT_INIT_STUCK },
		{ COHORT_PROCESS_EXITED, COHORT_VERDICT_PROCESS_EXITED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(told); i++)
		if (status == told[i].status) {
			drill_note(run,
			           (struct drill_verdict){
					   told[i].kind, -1, began_ns,
					   run->deadline_ns, clock_now() },
			           cohort_last_error(), false);
			return false;
		}
	if (status == COHORT_SYSTEM && says_why(run))
		return false;
	return drill_must(run, status, "open");
}

/* A thread that strikes while the main thread opens the group. */
static void *strike_main(void *arg)
{
	struct drill_run *run = arg;

	drill_dawdle(run);
	drill_strike(run);
	return NULL;
}

static void strike_later(struct drill_run *run)
{
	pthread_t thread;

	if (thread_start(&thread, strike_main, run, "drill/strike"))
		drill_complain(run, "a thread could not be started");
	else
		pthread_detach(thread);
}

/* Strike as the cell does before the group is open. */
static void strike_open(struct drill_run *run)
{
	switch (run->trouble) {
	case BY_KILL:
		if (drill_has_victim(run))
			strike_later(run);
		break;
	case BY_UNLINK:
		/* The victim comes when the others' file has no name any
		 * more. */
		if (drill_has_victim(run))
			drill_await(run, is_removed, 1);
		else
			strike_later(run);
		break;
	default:
		if (!drill_has_victim(run))
			break;
		drill_strike(run);
	}
}

static void open_all(struct drill_run *run)
{
	uint64_t began = clock_now();
	int rc;

	atomic_store(&run->own->began_ns, began);
	drill_arm(run);
	strike_open(run);
	rc = drill_open_quietly(run);
	if (!is_open(run, rc, began))
		return;
	sum(run, run->n);
	drill_close(run, COHORT_OK);
}

/* ---- joining ---------------------------------------------------------- */

static int join(struct drill_rank *k, int which, int nranks)
{
	struct drill_run *run = k->run;
	struct cohort_comm *comm = NULL;
	struct cohort_abort *handle;
	int rc = cohort_comm_join(&run->shared->ids[which], nranks, k->number,
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

/* Join as the rank @arg, on its thread. */
static void *join_main(void *arg)
{
	struct drill_rank *k = arg;
	struct drill_run *run = k->run;
	bool is_victim = k->number == drill_victim(run);
	uint64_t began;
	int rc;

	if (is_victim && run->trouble == BY_COUNT) {
		drill_await(run, called, run->n - 1);
		drill_dawdle(run);
		rc = join(k, 0, run->n + 1);
		if (rc != COHORT_INVALID ||
		    !strstr(cohort_last_error(), "nranks is "))
			drill_complain(run,
			               "a different nranks is not refused");
	}
	/* Release the hanging joins once all ranks have their answers. */
	if (is_victim && run->trouble != BY_ORDER) {
		drill_await(run, left, run->n - 1);
		join(k, 0, run->n);
		return NULL;
	}
	began = clock_now();
	atomic_fetch_add(&run->shared->called, 1);
	rc = join(k, is_victim, run->n);
	if (is_open(run, rc, began))
		drill_complain(run, "rank %d has joined", k->number);
	atomic_fetch_add(&run->shared->left, 1);
	if (run->trouble == BY_ORDER) {
		drill_await(run, left, run->n);
		join(k, !is_victim, run->n);
	}
	return NULL;
}

static bool make_ids(struct drill_run *run)
{
	struct cohort_unique_id *ids = run->shared->ids;

	if (!drill_must(run, cohort_unique_id(&ids[0]), "an id") ||
	    (run->trouble == BY_ORDER &&
	     !drill_must(run, cohort_unique_id(&ids[1]), "an id")))
		return false;
	atomic_store(&run->shared->has_ids, 1);
	return true;
}

static void join_all(struct drill_run *run)
{
	if (run->process == 0 && !make_ids(run))
		return;
	if (!drill_await(run, has_ids, 1))
		return;
	atomic_store(&run->own->began_ns, clock_now());
	if (drill_start(run, join_main))
		drill_join(run);
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

/* ---- respawning ------------------------------------------------------- */

/* A thread that is bound to rank 0 of the earlier generation. */
static void *bound_main(void *arg)
{
	struct drill_rank *k = arg;

	drill_must(k->run, cohort_comm_bind(k->comm), "bind");
	atomic_fetch_add(&k->run->shared->called, 1);
	drill_await(k->run, is_closing, 1);
	return NULL;
}

static void respawn(struct drill_run *run)
{
	int rc, lost = drill_victim(run);
	uint64_t began;

	drill_arm(run);
	began = clock_now();
	atomic_store(&run->own->began_ns, began);
	if (drill_has(run, 0))
		drill_mark_fault(run);
	/* Let its former generation end before it is stopped. */
	if (drill_has_victim(run) && run->trouble == BY_STOP)
		drill_dawdle(run);
	if (drill_has_victim(run))
		drill_strike_process(run);
	rc = cohort_group_respawn(run->group, &lost, 1);
	atomic_store(&run->shared->is_closing, 1);
	if (!is_open(run, rc, began))
		return;
	/* Strike the earlier generation once there is the next one. */
	if (drill_has_victim(run) &&
	    (run->trouble == BY_SIGNAL || run->trouble == BY_TWO_ABORTS))
		drill_fire(run, pthread_self());
	if (run->trouble == BY_EXIT)
		pthread_join(run->ranks[run->first].thread, NULL);
	/* A process that was killed has lost all of its ranks. */
	sum(run,
	    run->n - (run->trouble == BY_KILL ? run->n / run->options->processes
	                                      : 1));
	drill_keep_cause(run);
}

void drill_at_respawn(struct drill_run *run)
{
	struct cohort_comm *comms[DRILL_MOST_RANKS];
	struct drill_rank *k = &run->ranks[run->first];
	bool is_bound = false;

	if (!drill_open(run))
		return;
	if (sum(run, run->n) && drill_split(run, comms)) {
		k->run = run;
		k->comm = comms[0];
		is_bound = run->trouble == BY_EXIT &&
		           !thread_start(&k->thread, bound_main, k, "drill/%d",
		                         run->first);
		if (is_bound)
			drill_await(run, called, run->options->processes);
		if (all_are_ready(run) && drill_has(run, 0))
			drill_must(run, cohort_group_abort(run->group, "drill"),
			           "abort");
		drill_await_cause(run);
		respawn(run);
	}
	drill_close(run, COHORT_OK);
}
