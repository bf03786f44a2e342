/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a cell of the drill: sets its group's options, runs it at its place, and
 * judges the outcome */

#include "cli/drill/drill.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cohort/sim.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/common/cli.h"

/* A deadline that must not expire */
#define LONG_NS (10 * NS_PER_S)

/* Record a verdict of the group. Called as on_verdict. */
static int keep_verdict(const struct cohort_verdict *verdict, void *user)
{
	struct cohort_cause v = {
		.kind = verdict->kind,
		.world_rank = verdict->world_rank,
		.since_ns = verdict->since_ns,
		.deadline_ns = verdict->deadline_ns,
		.time_ns = verdict->time_ns,
	};
	struct drill_run *run = user;

	if (verdict->stage < COHORT_STAGE_EXPIRED)
		return 0;
	/* Ignore the verdict on generation 1, which a respawn replaces. */
	if (run->place == AT_RESPAWN && verdict->generation == 1)
		return 0;
	if (verdict->kind == COHORT_VERDICT_WEDGED)
		drill_record_error(run, "wedged: %s", verdict->text);
	text_copy(v.details, sizeof(v.details), verdict->text);
	drill_record_verdict(run, &v, false);
	return 0;
}

static bool is_stuck_split(const struct drill_run *run)
{
	return run->place == AT_SPLIT && run->trouble == BY_STUCK;
}

/* Return whether the deadline that must expire is the init deadline with which
 * the group was opened. It also limits first calls that connect ranks. */
static bool opens_by_deadline(const struct drill_run *run)
{
	return run->place == AT_RESPAWN || is_stuck_split(run) ||
	       (run->trouble == BY_REMOTE && !drill_warms_up(run));
}

static void set_deadlines(struct drill_run *run)
{
	struct cohort_deadlines *d = &run->group_options.deadlines;
	const uint64_t usual_ns = run->options->deadline_ns;
	uint64_t ns = run->cell->bound == BY_DEADLINE ||
	                              run->trouble == BY_PAUSED_PARENT
	                      ? run->deadline_ns
	              : run->trouble == BY_LATE ? 5 * usual_ns
	                                        : LONG_NS;

	d->init_ns = d->join_ns = d->exec_ns = LONG_NS;
	d->close_ns = d->abort_ns = LONG_NS;
	if (run->place == AT_OPEN || opens_by_deadline(run))
		d->init_ns = ns;
	if (run->place == AT_CLOSE && run->trouble != BY_STUCK)
		d->close_ns = ns;
	else if (run->place == AT_CLOSE)
		d->exec_ns = ns;
	else if (run->place == AT_ABORT && run->trouble == BY_TOO_LATE)
		d->abort_ns = usual_ns;
	else if (run->place == AT_ABORT && run->trouble == BY_STUCK)
		d->exec_ns = 5 * usual_ns;
	else if (run->place != AT_OPEN && run->place != AT_RESPAWN &&
	         run->place != AT_ABORT && !is_stuck_split(run))
		d->join_ns = d->exec_ns = ns;
	/* The respawn also waits for earlier generations of the process to
	 * end. */
	if (run->place == AT_RESPAWN && run->trouble == BY_STOP) {
		d->abort_ns = usual_ns;
		d->init_ns -= 2 * usual_ns;
	}
}

/* Return zeroed memory that forked processes will share. */
static struct drill_shared *create_shared(unsigned meeting)
{
	struct drill_shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attributes;

	cli_need(shared == MAP_FAILED ? NULL : shared);
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->ready, &attributes, meeting);
	pthread_barrierattr_destroy(&attributes);
	for (int i = 0; i < DRILL_MOST_RANKS; i++)
		shared->outcomes[i].verdict.world_rank = -1;
	return shared;
}

static struct drill_run *create(const struct drill_options *options,
                                enum place place, enum trouble trouble)
{
	struct drill_run *run = cli_need(calloc(1, sizeof(*run)));

	run->shared =
		create_shared((unsigned)(options->ranks + options->processes));
	run->own = &run->shared->outcomes[0];
	run->own_n = options->ranks;
	run->options = options;
	run->cell = drill_cell(place, trouble, options->processes);
	run->place = place;
	run->trouble = trouble;
	run->n = options->ranks;
	run->deadline_ns =
		options->deadline_ns * (opens_by_deadline(run) ? 5 : 1);
	cohort_group_options_init(&run->group_options);
	run->group_options.log = "none";
	run->group_options.name = "drill";
	run->group_options.platform = options->platform;
	run->group_options.on_verdict = keep_verdict;
	run->group_options.user = run;
	run->group_options.stack_signal = CLI_STACK_SIGNAL;
	/* The call in flight at the close must be one in which no rank
	 * waits. */
	if (run->place == AT_CLOSE && run->trouble == BY_ABSENCE)
		run->group_options.launch = COHORT_LAUNCH_AHEAD;
	/* With BY_TIMEOUT, a rank gives up in its wait; a call that waits for
	 * all ranks has no timeout. */
	if (run->trouble == BY_TIMEOUT)
		run->group_options.launch = COHORT_LAUNCH_AHEAD;
	/* Leave all connections to NCCL if a rank uses NCCL's functions
	 * directly, or never joins. */
	if (trouble == BY_REMOTE || place == AT_OPEN)
		run->group_options.connect = COHORT_CONNECT_NONE;
	set_deadlines(run);
	return run;
}

/* Free the run, unless one of its threads still runs. */
static void destroy(struct drill_run *run)
{
	cohort_abort_put(run->handle);
	if (run->is_hung)
		return;
	munmap(run->shared, sizeof(*run->shared));
	free(run);
}

void drill_run_here(struct drill_run *run, const struct drill_memory *memory)
{
	run->memory = memory;
	for (int i = 0; i < run->own_n; i++)
		run->ranks[run->first + i].tensors = memory->tensors[i];
	switch (run->place) {
	case AT_OPEN:
		drill_at_open(run);
		break;
	case AT_GROUP:
		drill_at_group(run);
		break;
	case AT_RESPAWN:
		drill_at_respawn(run);
		break;
	default:
		drill_by_ranks(run);
	}
	cohort_sim_faults_clear();
}

#define PROBER_MS 50.0

/* Return whether the fault affects process @process as a whole. */
static bool is_struck(const struct drill_run *run, int process)
{
	return run->trouble >= BY_KILL &&
	       process == run->options->processes - 1;
}

/* Compute when @process reached its verdict, and the bound on that time, in
 * milliseconds from the bound's start. Return false if the cell has no bound or
 * the process cannot keep it. */
static bool time_verdict(const struct drill_run *run, int process,
                         double *detected_ms, double *bound_ms)
{
	const struct drill_outcome *outcome = &run->shared->outcomes[process];
	const struct cohort_cause *v = &outcome->verdict;
	uint64_t from = atomic_load(&run->shared->fault_ns);

	/* A stopped process cannot detect the fault in time. */
	if (v->kind == COHORT_VERDICT_NONE || run->cell->bound == NO_BOUND ||
	    is_struck(run, process))
		return false;
	*bound_ms = run->cell->bound == BY_PROBER ? PROBER_MS : 0.0;
	if (run->cell->bound == BY_DEADLINE) {
		/* If a close ends the group, the verdict does not say when the
		 * deadline started. */
		from = v->since_ns ? v->since_ns
		                   : atomic_load(&outcome->began_ns);
		*bound_ms = (double)run->deadline_ns * 1e-6;
	}
	*detected_ms = cli_ms_between(from, v->time_ns);
	return true;
}

/* Return the earliest start of the tested call in any process, because any
 * process may reach the verdict. */
static uint64_t first_began(const struct drill_run *run)
{
	uint64_t first = UINT64_MAX, began;

	for (int i = 0; i < run->options->processes; i++) {
		began = atomic_load(&run->shared->outcomes[i].began_ns);
		if (began && began < first)
			first = began;
	}
	return first;
}

static const char *wrong_time(const struct drill_run *run,
                              const struct cohort_cause *v, double detected_ms,
                              double bound_ms)
{
	if (detected_ms > bound_ms + (double)run->options->slack_ns * 1e-6)
		return "too late";
	if (run->cell->bound != BY_DEADLINE)
		return detected_ms < 0 ? "before the fault" : NULL;
	if (detected_ms < bound_ms)
		return "too early";
	if (v->since_ns && (v->since_ns < first_began(run) ||
	                    v->deadline_ns != run->deadline_ns))
		return "by another deadline";
	return NULL;
}

/* Return whether a text names ranks or processes and, if ranks make calls at
 * the place, the calls. */
static bool names_all(const struct drill_run *run, const char *text)
{
	static const char *const calls[] = {
		"all_reduce of", "broadcast of", "batch of",   "send of",
		"recv of",       "copy of",      "comm_split", "has not called"
	};

	if (!strstr(text, "rank") &&
	    (run->options->processes == 1 || !strstr(text, "process")))
		return false;
	/* A failure inside a call names the call by its ticket. */
	if (run->place == AT_OPEN || run->place == AT_RESPAWN ||
	    run->cell->kind == COHORT_VERDICT_NATIVE_ERROR ||
	    strstr(text, ", ticket "))
		return true;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strstr(text, calls[i]))
			return true;
	return false;
}

/* Return whether a text has the stack of the thread to blame, or says why there
 * is no stack. Also return true if no stack is expected: with several
 * processes, if no rank or rank 0 is blamed, if a rank gives up, and for kinds
 * of verdicts where a stack does not help. */
static bool has_stack(const struct drill_run *run, int kind, const char *text)
{
	if (run->options->processes > 1 || run->cell->blame == NOBODY ||
	    run->trouble == BY_TIMEOUT || run->cell->blame == FIRST)
		return true;
	if (kind != COHORT_VERDICT_NOT_STARTED &&
	    kind != COHORT_VERDICT_NEVER_CALLED &&
	    kind != COHORT_VERDICT_OUTSIDE)
		return true;
	return strstr(text, "\nwhere  ");
}

static const char *wrong_text(const struct drill_run *run,
                              const struct drill_outcome *outcome)
{
	const char *says = run->cell->says, *text = outcome->verdict.details;

	if (!says || (strstr(text, says) && names_all(run, text) &&
	              has_stack(run, outcome->verdict.kind, text)))
		return NULL;
	return text;
}

/* Check the number of aborts, and that one of them ended the group if the
 * verdict is an abort. */
static void check_fires(struct drill_run *run)
{
	int fires = run->trouble == BY_TWO_ABORTS                         ? 2
	            : run->trouble == BY_SIGNAL || run->place == AT_ABORT ? 1
	                                                                  : 0;
	int fired = fires && run->cell->kind == COHORT_VERDICT_ABORTED;

	if (fires && (atomic_load(&run->shared->fires) != fires ||
	              atomic_load(&run->shared->fired) != fired))
		drill_record_error(run, "%d of %d aborts have ended the group",
		                   atomic_load(&run->shared->fired),
		                   atomic_load(&run->shared->fires));
}

/* Return whether a process may end without a verdict, because the fault struck
 * it or because its open reported the removed file. */
static bool is_excused(const struct drill_run *run, int process)
{
	/* By the time that a stopped process continues, the other processes
	 * have given up. */
	if (run->trouble == BY_KILL ||
	    (run->place == AT_RESPAWN && run->trouble == BY_STOP))
		return is_struck(run, process);
	if (run->shared->outcomes[process].verdict.kind != COHORT_VERDICT_NONE)
		return false;
	return run->place == AT_OPEN &&
	       ((run->trouble == BY_DESCRIPTORS && is_struck(run, process)) ||
	        (run->trouble == BY_UNLINK && !is_struck(run, process)));
}

/* Compare @process's outcome with the expected one. @result gets the first text
 * of any process, the times of the process that detected the fault last, and
 * a line about each process whose outcome is wrong. */
static void judge_process(const struct drill_run *run, int process,
                          struct drill_result *result)
{
	const struct drill_outcome *outcome = &run->shared->outcomes[process];
	const struct cohort_cause *v = &outcome->verdict;
	const size_t used = strlen(result->got);
	struct text t = { result->got + used, sizeof(result->got) - used };
	const char *time = NULL, *text = NULL;
	double detected_ms, bound_ms;
	bool is_right = true;
	char got[96];

	if (time_verdict(run, process, &detected_ms, &bound_ms)) {
		time = wrong_time(run, v, detected_ms, bound_ms);
		if (!result->is_timed || detected_ms > result->detected_ms) {
			result->is_timed = true;
			result->detected_ms = detected_ms;
			result->bound_ms = bound_ms;
		}
	}
	drill_format_verdict(got, sizeof(got), v->kind, v->world_rank);
	if (!is_excused(run, process)) {
		is_right = strcmp(result->expected, got) == 0;
		text = is_right ? wrong_text(run, outcome) : NULL;
	}
	if (!*result->text)
		memcpy(result->text, v->details, sizeof(result->text));
	if (is_right && !text && !time && !*outcome->complaint)
		return;
	result->ok = false;
	if (run->options->processes > 1)
		text_add(&t, "%sprocess %d: ", used ? "; " : "", process);
	text_add(&t, "%s", got);
	if (time)
		text_add(&t, "; %s", time);
	if (*outcome->complaint)
		text_add(&t, "; %s", outcome->complaint);
	if (text)
		text_add(&t, "; without the expected text: %.300s", text);
}

static void judge(struct drill_run *run, struct drill_result *result)
{
	check_fires(run);
	drill_format_verdict(result->expected, sizeof(result->expected),
	                     run->cell->kind,
	                     drill_expected_rank(run->cell, run->n,
	                                         run->options->processes));
	for (int i = 0; i < run->options->processes; i++)
		judge_process(run, i, result);
	if (result->ok)
		memcpy(result->got, result->expected, sizeof(result->expected));
}

void drill_run(const struct drill_options *options,
               const struct drill_memory *memory, enum place place,
               enum trouble trouble, struct drill_result *result)
{
	struct drill_run *run = create(options, place, trouble);
	struct drill_run *warm_up;

	*result = (struct drill_result){ .ok = true };
	if (options->processes > 1) {
		warm_up = create(options, AT_CALL, BY_NOTHING);
		drill_run_forked(run, warm_up);
		destroy(warm_up);
	} else {
		drill_run_here(run, memory);
	}
	judge(run, result);
	destroy(run);
}
