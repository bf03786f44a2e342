/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decides whether a cell of the drill did what it should
 */

#include <stdio.h>
#include <string.h>

#include "cli/drill/drill.h"

/* How often the prober asks. */
#define PROBER_MS 50.0

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return ((double)to_ns - (double)from_ns) * 1e-6;
}

static void time_it(const struct drill_run *run, struct drill_result *result)
{
	const struct drill_verdict *v = &run->verdict;
	uint64_t fault = atomic_load(&run->fault_ns);

	if (v->kind == COHORT_VERDICT_NONE || run->cell->bound == NO_BOUND)
		return;
	result->is_timed = true;
	if (run->cell->bound != BY_DEADLINE) {
		result->detected_ms = ms_between(fault, v->time_ns);
		result->bound_ms =
			run->cell->bound == BY_PROBER ? PROBER_MS : 0.0;
		return;
	}
	/* An end by close has no deadline with a begin of its own. */
	result->detected_ms = ms_between(
		v->since_ns ? v->since_ns : atomic_load(&run->began_ns),
		v->time_ns);
	result->bound_ms = (double)run->deadline_ns * 1e-6;
}

/* What is wrong with the times, or NULL. */
static const char *wrong_time(const struct drill_run *run,
                              const struct drill_result *result)
{
	const struct drill_verdict *v = &run->verdict;
	double slack = (double)run->options->slack_ns * 1e-6;

	if (!result->is_timed)
		return NULL;
	if (result->detected_ms > result->bound_ms + slack)
		return "too late";
	if (run->cell->bound != BY_DEADLINE)
		return result->detected_ms < 0 ? "before the fault" : NULL;
	if (result->detected_ms < result->bound_ms)
		return "too early";
	if (v->since_ns && (v->since_ns < atomic_load(&run->began_ns) ||
	                    v->deadline_ns != run->deadline_ns))
		return "by another deadline";
	return NULL;
}

/* True if a text names ranks and, where ranks call, their calls. */
static bool names_all(const struct drill_run *run, const char *text)
{
	static const char *const calls[] = { "all_reduce of", "broadcast of",
		                             "batch of",      "send of",
		                             "recv of",       "copy of",
		                             "comm_split" };

	if (!strstr(text, "rank"))
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

/* True if a text has the stack of the thread that is waited for, or says why not;
 * or if such a stack would not help. */
static bool has_stack(const struct drill_run *run, const char *text)
{
	if (run->verdict.kind != COHORT_VERDICT_NOT_STARTED &&
	    run->verdict.kind != COHORT_VERDICT_NEVER_CALLED &&
	    run->verdict.kind != COHORT_VERDICT_OUTSIDE)
		return true;
	return strstr(text, "; its stack: ") ||
	       strstr(text, "; stack unavailable: ");
}

/* What is wrong with the text of the verdict, or NULL. */
static const char *wrong_text(const struct drill_run *run)
{
	const char *says = run->cell->says, *text = run->verdict.text;

	if (!says || (strstr(text, says) && names_all(run, text) &&
	              has_stack(run, text)))
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

	if (fires && (atomic_load(&run->fires) != fires ||
	              atomic_load(&run->fired) != fired))
		drill_complain(run, "%d of %d aborts have ended the group",
		               atomic_load(&run->fired),
		               atomic_load(&run->fires));
}

void drill_judge(struct drill_run *run, struct drill_result *result)
{
	const struct drill_verdict *v = &run->verdict;
	int rank = drill_expected_rank(run->cell, run->n);
	const char *time, *text = NULL;
	size_t used;

	check_fires(run);
	drill_spell(result->expected, sizeof(result->expected), run->cell->kind,
	            rank);
	drill_spell(result->got, sizeof(result->got), v->kind, v->rank);
	memcpy(result->text, v->text, sizeof(result->text));
	time_it(run, result);
	result->ok = !strcmp(result->expected, result->got);
	if (result->ok)
		text = wrong_text(run);
	time = wrong_time(run, result);
	result->ok = result->ok && !text && !time && !*run->complaint;
	if (result->ok)
		return;
	used = strlen(result->got);
	snprintf(result->got + used, sizeof(result->got) - used,
	         "%s%s%s%s%s%.*s", time ? "; " : "", time ? time : "",
	         *run->complaint ? "; " : "", run->complaint,
	         text ? "; does not name it: " : "", 300, text ? text : "");
}
