/* SPDX-License-Identifier: Apache-2.0 */

/* The demo's results, as text and as JSON. */

#include "cli/demo/demo.h"

#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cohort/cohort.h>

#include "base/json.h"
#include "cli/common/cli.h"
#include "cli/demo/digits.h"

/* ---- the clock -------------------------------------------------------- */

uint64_t demo_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

double demo_seconds(void)
{
	return (double)demo_ns() * 1e-9;
}

/* ---- the report ------------------------------------------------------- */

enum { CURVE_COLUMNS = 40, CURVE_LEVELS = 8 };

static const char *const ascii_levels[CURVE_LEVELS] = { "_", ".", "-", "=",
	                                                "+", "*", "%", "#" };
static const char *const block_levels[CURVE_LEVELS] = { "▁", "▂", "▃", "▄",
	                                                "▅", "▆", "▇", "█" };

/* Print devices in rank order with runs joined, as "0-3,5". */
static void print_devices(const int *devices, int n)
{
	for (int first = 0, last; first < n; first = last + 1) {
		last = first;
		while (last + 1 < n && devices[last + 1] == devices[last] + 1)
			last++;
		printf("%s%d", first ? "," : "", devices[first]);
		if (last > first)
			printf("-%d", devices[last]);
	}
}

/* The level of @loss between @low and @high on a logarithmic scale; the highest
 * level for NaN. */
static int curve_level(double loss, double low, double high)
{
	double place;

	if (!(low > 0.0 && high > low && loss > 0.0))
		return loss <= low ? 0 : CURVE_LEVELS - 1;
	place = log(loss / low) / log(high / low);
	return (int)(fmin(fmax(place, 0.0), 1.0) * (CURVE_LEVELS - 1) + 0.5);
}

/* Print one character per epoch, or for the last of each few epochs. */
static void print_curve(const double *curve, size_t n)
{
	bool utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	const char *const *levels = utf8 ? block_levels : ascii_levels;
	size_t columns = n < CURVE_COLUMNS ? n : CURVE_COLUMNS;
	double low = INFINITY, high = 0.0;

	for (size_t i = 0; i < n; i++) {
		if (!isfinite(curve[i]))
			continue;
		low = fmin(low, curve[i]);
		high = fmax(high, curve[i]);
	}
	for (size_t i = 0; i < columns; i++) {
		double loss = curve[(i + 1) * n / columns - 1];

		fputs(levels[curve_level(loss, low, high)], stdout);
	}
}

/* ---- what happened ---------------------------------------------------- */

enum { TEXT_COLUMN = 10 };

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return ((double)to_ns - (double)from_ns) * 1e-6;
}

/* How long after its deadline the cause was set. */
static double overshoot_ms(const struct cohort_cause *cause)
{
	return ms_between(cause->since_ns + cause->deadline_ns, cause->time_ns);
}

static const char *fault_name(enum demo_fault fault)
{
	static const char *const names[] = {
		[FAULT_STALL] = "stall",
		[FAULT_DIE] = "die",
		[FAULT_MISMATCH] = "mismatch",
		[FAULT_KILL] = "kill",
	};

	return fault > FAULT_NONE ? names[fault] : NULL;
}

/* Print one line of what happened, with its time since the start. */
static void print_when(const struct demo_result *result, uint64_t time_ns,
                       const char *text)
{
	printf("%8.3f  ", ms_between(result->start_ns, time_ns) * 1e-3);
	cli_print_wrapped(TEXT_COLUMN, text);
}

static void print_fault(const struct demo_options *options,
                        const struct demo_result *result)
{
	static const char *const did[] = {
		[FAULT_STALL] = "begins to wait in the program",
		[FAULT_DIE] = "lets its thread exit",
		[FAULT_MISMATCH] = "makes another call than the others",
	};
	char text[128];

	if (options->fault == FAULT_KILL)
		snprintf(text, sizeof(text),
		         "process %d is killed, before step %llu of rank %d",
		         options->fault_process,
		         (unsigned long long)options->fault_step,
		         options->fault_rank);
	else
		snprintf(text, sizeof(text), "rank %d %s, at step %llu",
		         options->fault_rank, did[options->fault],
		         (unsigned long long)options->fault_step);
	print_when(result, result->fault_ns, text);
}

static void print_detection(const struct demo_result *result)
{
	const struct cohort_cause *cause = &result->cause;
	char text[128];

	if (cause->deadline_ns)
		snprintf(text, sizeof(text),
		         "the watchdog reports, %.1f ms after the deadline of "
		         "%.0f ms:",
		         overshoot_ms(cause),
		         (double)cause->deadline_ns * 1e-6);
	else if (!result->fault_ns)
		snprintf(text, sizeof(text), "the group ends:");
	else
		snprintf(text, sizeof(text), "the group ends, %.2f ms later:",
		         ms_between(result->fault_ns, cause->time_ns));
	print_when(result, cause->time_ns, text);
	cli_print_block(TEXT_COLUMN, cause->details);
}

static void print_last_answer(const struct demo_result *result)
{
	if (result->unblocked_ns)
		print_when(result, result->unblocked_ns,
		           "the last rank inside the library has its answer");
}

static void print_recovery(const struct demo_result *result)
{
	/* The last rank may be another process's. */
	bool last = result->unblocked_ns > result->returned_ns;
	char text[128];

	if (!last)
		print_last_answer(result);
	snprintf(text, sizeof(text), "the run is over; ranks left behind: %d%s",
	         result->abandoned_count,
	         result->abandoned_count ? " (abort deadline 2 s)" : "");
	print_when(result, result->returned_ns, text);
	if (last)
		print_last_answer(result);
	snprintf(text, sizeof(text),
	         "generation 2: %d rank%s from the weights of step %llu",
	         result->resumed_ranks,
	         result->resumed_ranks == 1 ? " goes on" : "s go on",
	         (unsigned long long)result->resumed_step);
	print_when(result, result->respawned_ns, text);
	print_when(result, result->end_ns, "trained to the end");
}

static void print_story(const struct demo_options *options,
                        const struct demo_result *result)
{
	if (result->cause.status == COHORT_OK)
		return;
	printf("verdict   %s\n", cohort_verdict_text(result->cause.kind));
	printf(" seconds\n");
	if (result->fault_ns)
		print_fault(options, result);
	print_detection(result);
	print_recovery(result);
}

/* ---- the whole -------------------------------------------------------- */

void report_print(const struct demo_options *options,
                  const struct demo_result *result)
{
	double loss = result->curve[options->epochs - 1];
	bool one = options->ranks == 1;

	printf("platform  %s, %d rank%s on device%s ",
	       cli_platform_name(result->platform), options->ranks,
	       one ? "" : "s", one ? "" : "s");
	print_devices(result->devices, options->ranks);
	if (options->processes > 1)
		printf(", in %d processes", options->processes);
	printf("\naccuracy  %.4f on %d held-out images\n", result->accuracy,
	       DIGITS_HELD_OUT);
	printf("loss      %.5g after %zu epochs, %llu steps\n", loss,
	       options->epochs, (unsigned long long)result->steps);
	printf("curve     ");
	print_curve(result->curve, options->epochs);
	printf("  log, from %.3g\n", result->curve[0]);
	printf("time      %.2f s: %.2f s in compute, %.2f s in communication\n",
	       ms_between(result->start_ns, result->end_ns) * 1e-3,
	       result->compute_seconds, result->comm_seconds);
	if (options->verify)
		printf("verify    largest difference from a single run: %g\n",
		       result->difference);
	print_story(options, result);
}

/* Write a time since another, or null if it does not apply. */
static void json_ms(struct json *json, const char *key, bool applies,
                    uint64_t from_ns, uint64_t to_ns)
{
	if (applies && from_ns && to_ns)
		json_double(json, key, ms_between(from_ns, to_ns));
	else
		json_null(json, key);
}

/* The ranks are numbered as in the first generation, which has ended. */
static void json_story(struct json *json, const struct demo_options *options,
                       const struct demo_result *result)
{
	const struct cohort_cause *cause = &result->cause;
	bool ended = cause->status != COHORT_OK;

	json_string(json, "fault", fault_name(options->fault));
	if (ended && cause->rank >= 0)
		json_int(json, "stalled_rank", cause->rank);
	else
		json_null(json, "stalled_rank");
	json_string(json, "verdict_kind",
	            ended ? cohort_verdict_text(cause->kind) : NULL);
	json_string(json, "verdict_text", ended ? cause->text : NULL);
	json_uint(json, "join_deadline_ms",
	          options->join_deadline_ns / 1000000);
	json_ms(json, "detected_ms", ended, result->fault_ns, cause->time_ns);
	json_ms(json, "overshoot_ms", ended && cause->deadline_ns,
	        cause->since_ns + cause->deadline_ns, cause->time_ns);
	json_ms(json, "unblock_ms", ended, cause->time_ns,
	        result->unblocked_ns);
	json_int(json, "generations", result->generation_count);
	json_int(json, "final_ranks", result->final_ranks);
	json_open(json, "abandoned", '[');
	for (int i = 0; i < result->abandoned_count; i++)
		json_int(json, NULL, result->abandoned[i]);
	json_close(json, ']');
}

void report_json(const struct demo_options *options,
                 const struct demo_result *result)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_string(&json, "platform", cli_platform_name(result->platform));
	json_int(&json, "ranks", options->ranks);
	json_int(&json, "processes", options->processes);
	json_open(&json, "devices", '[');
	for (int i = 0; i < options->ranks; i++)
		json_int(&json, NULL, result->devices[i]);
	json_close(&json, ']');
	json_uint(&json, "epochs", options->epochs);
	json_uint(&json, "batch", options->batch);
	json_float(&json, "lr", options->lr);
	json_float(&json, "momentum", options->momentum);
	json_uint(&json, "seed", options->seed);
	json_uint(&json, "held_out", DIGITS_HELD_OUT);
	json_double(&json, "accuracy", result->accuracy);
	json_double(&json, "loss", result->curve[options->epochs - 1]);
	json_open(&json, "loss_curve", '[');
	for (size_t i = 0; i < options->epochs; i++)
		json_double(&json, NULL, result->curve[i]);
	json_close(&json, ']');
	json_uint(&json, "steps", result->steps);
	json_double(&json, "seconds",
	            ms_between(result->start_ns, result->end_ns) * 1e-3);
	json_double(&json, "compute_seconds", result->compute_seconds);
	json_double(&json, "comm_seconds", result->comm_seconds);
	if (options->verify)
		json_double(&json, "max_abs_diff_vs_single",
		            result->difference);
	else
		json_null(&json, "max_abs_diff_vs_single");
	json_story(&json, options, result);
	json_close(&json, '}');
	putchar('\n');
}
