/* SPDX-License-Identifier: Apache-2.0 */

/* Cells in which one thread acts for all ranks of a process: opening, calls of
 * the group and respawning. Also cells in which ranks join by id. */

#include "cli/drill/drill.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/util.h"

/* Start an all-reduce on @streams, or on the ranks' own streams if @streams is
 * NULL. */
static int reduce(struct drill_run *run, void *const *streams, uint64_t *ticket)
{
	void *tensors[DRILL_MOST_RANKS];

	for (int r = 0; r < run->own_n; r++)
		tensors[r] = run->ranks[run->first + r].tensors;
	return cohort_group_all_reduce(run->group, (const void *const *)tensors,
	                               tensors, DRILL_COUNT, COHORT_F32,
	                               COHORT_SUM, streams, ticket);
}

/* All-reduce ones over the group's @n ranks in all processes, and check the
 * result. Return false after recording an error. */
static bool sum(struct drill_run *run, int n)
{
	const int own = cohort_group_size(run->group);
	const float one = 1.0f;
	float value = 0.0f;
	uint64_t ticket;
	int rc = COHORT_OK;

	for (int i = 0; i < own && rc == COHORT_OK; i++)
		rc = drill_copy(run->memory->comms[i],
		                run->ranks[run->first + i].tensors, &one,
		                sizeof(one));
	if (rc == COHORT_OK)
		rc = reduce(run, NULL, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_group_wait(run->group, ticket, DRILL_LIMIT_NS);
	for (int i = 0; i < own && rc == COHORT_OK; i++) {
		rc = drill_copy(run->memory->comms[i], &value,
		                run->ranks[run->first + i].tensors,
		                sizeof(value));
		if (rc == COHORT_OK && value != (float)n) {
			drill_record_error(run, "a sum is %g, not %d",
			                   (double)value, n);
			return false;
		}
	}
	return drill_check_ok(run, rc, "a sum");
}

/* Wait until all processes are ready for the fault. */
static bool all_are_ready(struct drill_run *run)
{
	atomic_fetch_add(&run->shared->left, 1);
	return drill_await(run, left, run->options->processes);
}

/* Start an all-reduce in which the victim has a bad stream. The call must be
 * refused. */
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
		drill_record_error(run, "a bad stream was not refused: %s",
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
		drill_record_error(run, "the call returned %s",
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

/* Return whether the last error is the error that this process must get after
 * the fault. */
static bool says_why(const struct drill_run *run)
{
	return (run->trouble == BY_DESCRIPTORS && drill_has_victim(run) &&
	        strstr(cohort_last_error(), "Too many open files")) ||
	       (run->trouble == BY_UNLINK && !drill_has_victim(run) &&
	        strstr(cohort_last_error(), "was removed"));
}

/* Record the result of the open that started at @began_ns. Return whether the
 * group is open. */
static bool is_open(struct drill_run *run, int status, uint64_t began_ns)
{
	static const struct {
		int status;
		int kind;
	} accepted[] = {
		{ COHORT_NCCL, COHORT_VERDICT_NATIVE_ERROR },
		{ COHORT_INIT_TIMEOUT, COHORT_VERDICT_INIT_STUCK },
		{ COHORT_PROCESS_EXITED, COHORT_VERDICT_PROCESS_EXITED },
	};
	struct cohort_cause v = {
		.world_rank = -1,
		.since_ns = began_ns,
		.deadline_ns = run->deadline_ns,
		.time_ns = clock_now(),
	};

	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		if (status != accepted[i].status)
			continue;
		v.kind = accepted[i].kind;
		text_copy(v.details, sizeof(v.details), cohort_last_error());
		drill_record_verdict(run, &v, false);
		return false;
	}
	if (status == COHORT_SYSTEM && says_why(run))
		return false;
	return drill_check_ok(run, status, "open");
}

static void *strike_main(void *arg)
{
	struct drill_run *run = arg;

	drill_delay(run);
	drill_strike(run);
	return NULL;
}

static void strike_later(struct drill_run *run)
{
	pthread_t thread;

	if (thread_start(&thread, strike_main, run, "drill/strike"))
		drill_record_error(run, "a thread could not be started");
	else
		pthread_detach(thread);
}

static void strike_open(struct drill_run *run)
{
	switch (run->trouble) {
	case BY_KILL:
		if (drill_has_victim(run))
			strike_later(run);
		break;
	case BY_UNLINK:
		/* The victim arrives only after the file at which the other
		 * processes wait for it was removed. */
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

static int join(struct drill_rank *k, int which, int nranks)
{
	struct drill_run *run = k->run;
	struct cohort_comm *comm = NULL;
	struct cohort_abort *handle;
	int rc = cohort_comm_join(&run->shared->ids[which], nranks, k->number,
	                          k->number, &run->group_options, &comm);

	if (rc != COHORT_OK)
		return rc;
	/* The join was late. Abort the ranks that are still connected to this
	 * rank. */
	handle = cohort_comm_abort_handle(comm);
	cohort_abort_fire(handle, "joined too late");
	cohort_abort_put(handle);
	cohort_comm_close(comm);
	return COHORT_OK;
}

static void *join_main(void *arg)
{
	struct drill_rank *k = arg;
	struct drill_run *run = k->run;
	bool is_victim = k->number == drill_victim(run);
	uint64_t began;
	int rc;

	if (is_victim && run->trouble == BY_COUNT) {
		drill_await(run, called, run->n - 1);
		drill_delay(run);
		rc = join(k, 0, run->n + 1);
		if (rc != COHORT_INVALID ||
		    !strstr(cohort_last_error(), "nranks is "))
			drill_record_error(
				run, "a different nranks was not refused");
	}
	/* After all other ranks have returned, release the joins that hang. */
	if (is_victim && run->trouble != BY_ORDER) {
		drill_await(run, left, run->n - 1);
		join(k, 0, run->n);
		return NULL;
	}
	began = clock_now();
	atomic_fetch_add(&run->shared->called, 1);
	rc = join(k, is_victim, run->n);
	if (is_open(run, rc, began))
		drill_record_error(run, "rank %d has joined", k->number);
	atomic_fetch_add(&run->shared->left, 1);
	if (run->trouble == BY_ORDER) {
		drill_await(run, left, run->n);
		join(k, !is_victim, run->n);
	}
	return NULL;
}

static void join_all(struct drill_run *run)
{
	const int n = run->process == 0 ? 1 + (run->trouble == BY_ORDER) : 0;

	for (int i = 0; i < n; i++)
		if (!drill_check_ok(run,
		                    cohort_unique_id(COHORT_PLATFORM_AUTO,
		                                     &run->shared->ids[i]),
		                    "an id"))
			return;
	if (run->process == 0)
		atomic_store(&run->shared->has_ids, 1);
	if (!drill_await(run, has_ids, 1))
		return;
	atomic_store(&run->own->began_ns, clock_now());
	if (drill_start(run, join_main))
		drill_join(run);
}

void drill_at_open(struct drill_run *run)
{
	uint64_t began;
	int rc;

	if (run->trouble == BY_ABSENCE || run->trouble == BY_COUNT ||
	    run->trouble == BY_ORDER) {
		join_all(run);
		return;
	}
	began = clock_now();
	atomic_store(&run->own->began_ns, began);
	drill_arm(run);
	strike_open(run);
	rc = drill_open_quietly(run);
	if (!is_open(run, rc, began))
		return;
	sum(run, run->n);
	drill_close(run, COHORT_OK);
}

/* Bind to rank 0 of the earlier generation, and exit once the next generation
 * is open. */
static void *bound_main(void *arg)
{
	struct drill_rank *k = arg;

	drill_check_ok(k->run, cohort_comm_bind(k->comm), "bind");
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
	/* Before the process is stopped, give its earlier generation time to
	 * end. */
	if (drill_has_victim(run) && run->trouble == BY_STOP)
		drill_delay(run);
	if (drill_has_victim(run))
		drill_strike_process(run);
	rc = cohort_group_respawn(run->group, &lost, 1);
	atomic_store(&run->shared->is_closing, 1);
	if (!is_open(run, rc, began))
		return;
	/* Abort the earlier generation once the next generation is open. */
	if (drill_has_victim(run) &&
	    (run->trouble == BY_SIGNAL || run->trouble == BY_TWO_ABORTS))
		drill_fire(run, pthread_self());
	if (run->trouble == BY_EXIT)
		pthread_join(run->ranks[run->first].thread, NULL);
	/* The next generation has no ranks of a killed process. */
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
			drill_check_ok(run,
			               cohort_group_abort(run->group, "drill"),
			               "abort");
		drill_await_cause(run);
		respawn(run);
	}
	drill_close(run, COHORT_OK);
}
