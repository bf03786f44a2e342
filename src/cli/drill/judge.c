/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decides whether a cell of the drill did what it should
 */

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "cli/common/cli.h"
#include "cli/drill/drill.h"

/* How often the prober asks. */
#define PROBER_MS 50.0

void drill_spell(char *out, size_t size, int kind, int rank)
{
	if (kind == COHORT_VERDICT_NONE)
		snprintf(out, size, "none");
	else if (rank < 0)
		snprintf(out, size, "%s", cohort_verdict_text(kind));
	else
		snprintf(out, size, "%s, rank %d", cohort_verdict_text(kind),
		         rank);
}

/* True if the fault strikes the process as a whole. */
static bool is_struck(const struct drill_run *run, int process)
{
	return run->trouble >= BY_KILL &&
	       process == run->options->processes - 1;
}

/* How one process has noticed the fault. */
struct notice {
	const struct drill_outcome *outcome;
	bool is_timed; /* the following times are set */
	double detected_ms;
	double bound_ms;
};

static struct notice time_it(const struct drill_run *run, int process)
{
	const struct drill_outcome *outcome = &run->shared->outcomes[process];
	const struct drill_verdict *v = &outcome->verdict;
	uint64_t fault = atomic_load(&run->shared->fault_ns);
	struct notice n = { .outcome = outcome };

	/* A process that was stopped hears of it late. */
	if (v->kind == COHORT_VERDICT_NONE || run->cell->bound == NO_BOUND ||
	    is_struck(run, process))
		return n;
	n.is_timed = true;
	if (run->cell->bound != BY_DEADLINE) {
		n.detected_ms = cli_ms_between(fault, v->time_ns);
		n.bound_ms = run->cell->bound == BY_PROBER ? PROBER_MS : 0.0;
		return n;
	}
	/* An end by close has no deadline with a begin of its own. */
	n.detected_ms = cli_ms_between(
		v->since_ns ? v->since_ns : atomic_load(&outcome->began_ns),
		v->time_ns);
	n.bound_ms = (double)run->deadline_ns * 1e-6;
	return n;
}

/* When the first process began: a verdict may be its. */
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

/* What is wrong with the times, or NULL. */
static const char *wrong_time(const struct drill_run *run,
                              const struct notice *n)
{
	const struct drill_verdict *v = &n->outcome->verdict;
	double slack = (double)run->options->slack_ns * 1e-6;

	if (!n->is_timed)
		return NULL;
	if (n->detected_ms > n->bound_ms + slack)
		return "too late";
	if (run->cell->bound != BY_DEADLINE)
		return n->detected_ms < 0 ? "before the fault" : NULL;
	if (n->detected_ms < n->bound_ms)
		return "too early";
	if (v->since_ns && (v->since_ns < first_began(run) ||
	                    v->deadline_ns != run->deadline_ns))
		return "by another deadline";
	return NULL;
}

/* True if a text names ranks and, where ranks call, their calls. */
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
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (strstr(text, calls[i]))
			return true;
	return false;
}

/* True if a text has the stack of the thread that is waited for, or says why not;
 * or if such a stack would not help, or the thread may be another process's or have ended,
 * or the rank that gives up does not wait for one. */
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

/* What is wrong with the text of the verdict, or NULL. */
static const char *wrong_text(const struct drill_run *run,
                              const struct drill_outcome *outcome)
{
	const char *says = run->cell->says, *text = outcome->text;

	if (!says || (strstr(text, says) && names_all(run, text) &&
	              has_stack(run, outcome->verdict.kind, text)))
		return NULL;
	return text;
}

/* Check that exactly one of the handle's firings has ended the group, unless
 * something else has. */
static void check_fires(struct drill_run *run)
{
	int fires = run->trouble == BY_TWO_ABORTS                         ? 2
	            : run->trouble == BY_SIGNAL || run->place == AT_ABORT ? 1
	                                                                  : 0;
	int fired = fires && run->cell->kind == COHORT_VERDICT_ABORTED;

	if (fires && (atomic_load(&run->shared->fires) != fires ||
	              atomic_load(&run->shared->fired) != fired))
		drill_complain(run, "%d of %d aborts have ended the group",
		               atomic_load(&run->shared->fired),
		               atomic_load(&run->shared->fires));
}

/* True if a process needs no verdict of its own: it knows that it was struck; or it was
 * told that the file is gone. */
static bool is_excused(const struct drill_run *run, int process)
{
	/* It is dead; or the others have given up when it goes on. */
	if (run->trouble == BY_KILL ||
	    (run->place == AT_RESPAWN && run->trouble == BY_STOP))
		return is_struck(run, process);
	if (run->shared->outcomes[process].verdict.kind != COHORT_VERDICT_NONE)
		return false;
	return run->place == AT_OPEN &&
	       ((run->trouble == BY_DESCRIPTORS && is_struck(run, process)) ||
	        (run->trouble == BY_UNLINK && !is_struck(run, process)));
}

/* Add what is wrong about @process, each part if there is one. */
static void add_wrong(struct drill_result *result, const struct drill_run *run,
                      int process, const char *got, const char *time,
                      const char *text)
{
	const char *complaint = run->shared->outcomes[process].complaint;
	const size_t used = strlen(result->got);
	struct text t = { result->got + used, sizeof(result->got) - used };

	result->ok = false;
	if (run->options->processes > 1)
		text_add(&t, "%sprocess %d: %s", used ? "; " : "", process,
		         got);
	else
		text_add(&t, "%s", got);
	if (time)
		text_add(&t, "; %s", time);
	if (*complaint)
		text_add(&t, "; %s", complaint);
	if (text)
		text_add(&t, "; does not name it: %.300s", text);
}

/* Judge what @process has noticed.  The first one's becomes the result's, and of times the
 * latest. */
static void judge_process(const struct drill_run *run, int process,
                          struct drill_result *result)
{
	const struct notice n = time_it(run, process);
	const struct drill_verdict *v = &n.outcome->verdict;
	const bool is_free = is_excused(run, process);
	const char *time = wrong_time(run, &n), *text = NULL;
	bool is_right;
	char got[96];

	drill_spell(got, sizeof(got), v->kind, v->rank);
	is_right = is_free || !strcmp(result->expected, got);
	if (is_right && !is_free)
		text = wrong_text(run, n.outcome);
	if (n.is_timed &&
	    (!result->is_timed || n.detected_ms > result->detected_ms)) {
		result->is_timed = true;
		result->detected_ms = n.detected_ms;
		result->bound_ms = n.bound_ms;
	}
	if (!*result->text)
		memcpy(result->text, n.outcome->text, sizeof(result->text));
	if (!is_right || text || time || *n.outcome->complaint)
		add_wrong(result, run, process, got, time, text);
}

void drill_judge(struct drill_run *run, struct drill_result *result)
{
	check_fires(run);
	drill_spell(result->expected, sizeof(result->expected), run->cell->kind,
	            drill_expected_rank(run->cell, run->n,
	                                run->options->processes));
	result->ok = true;
	for (int i = 0; i < run->options->processes; i++)
		judge_process(run, i, result);
	if (result->ok)
		memcpy(result->got, result->expected, sizeof(result->expected));
}
