/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort drill: every fault in every place, with a fresh group each
 *
 * This file has the options, and lists, runs and reports all cells.
 */

#include "cli/drill/drill.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"
#include "cli/common/progress.h"

#define NS_PER_MS UINT64_C(1000000)

/* How much of the slack the median of all detections may use. */
#define MEDIAN_PERCENT 20

/* ---- options ---------------------------------------------------------- */

static void print_help(void)
{
	/* clang-format off */
	puts("usage: cohort drill [OPTION]...\n"
	     "\n"
	     "Provokes every fault in every place, each with a fresh group, and checks that\n"
	     "what the library says is right and in time, and that nothing is left behind.\n"
	     "\n"
	     "  --ranks N         2, 4 or 8 (default 4)\n"
	     "  --processes N     1, 2 or 4 processes over which the ranks are spread, two\n"
	     "                    ranks each at least (default 1); more than one has faults\n"
	     "                    of its own, such as a process that is killed\n"
	     "  --only WHERE[/FAULT]  only these cells, as --list spells them\n"
	     "  --deadline MS     how long a group waits for what hangs (default 200)\n"
	     "  --slack MS        how late a verdict may be (default 50); the median may be\n"
	     "                    late by a fifth of that\n"
	     "  --platform P      gpu or host (default host); faults are those of simulated\n"
	     "                    devices, which gpu has with the drop-in libraries.  With\n"
	     "                    cohort run --nccl, cells are left out whose fault only the\n"
	     "                    simulator's own NCCL can be told to have\n"
	     "  --list            print what is expected of each cell, or why it is\n"
	     "                    impossible\n"
	     "  --json            one JSON object instead of a table\n"
	     "  --help            this text\n"
	     "\n"
	     "Exit status: 0 if all is as expected.");
	/* clang-format on */
}

/* True if @text is @name, in which '-' may stand for ' ' and '/' to save
 * quotes. */
static bool is_name(const char *text, const char *name)
{
	for (; *text && *name; text++, name++)
		if (*text != *name &&
		    (*text != '-' || (*name != ' ' && *name != '/')))
			return false;
	return !*text && !*name;
}

static int read_only(const struct cli_option *option, const char *text)
{
	struct drill_options *options = option->value;
	bool found = false;
	char name[80];

	for (int p = 0; p < PLACES; p++)
		for (int t = 0; t < TROUBLES; t++) {
			snprintf(name, sizeof(name), "%s/%s",
			         drill_place_name(p), drill_trouble_name(t));
			if (is_name(text, drill_place_name(p)) ||
			    is_name(text, name))
				options->only[p][t] = found = true;
		}
	options->is_limited |= found;
	if (found)
		return CLI_OK;
	cli_complain("drill",
	             "--only: '%s' is not WHERE or WHERE/FAULT, see "
	             "cohort drill --list",
	             text);
	return CLI_USAGE;
}

/* Check the numbers of ranks and processes. */
static int check_numbers(const struct drill_options *options)
{
	const int ranks = options->ranks, n = options->processes;

	if (ranks & (ranks - 1)) {
		cli_complain("drill", "--ranks: '%d' is not 2, 4 or 8", ranks);
		return CLI_USAGE;
	}
	if (n & (n - 1)) {
		cli_complain("drill", "--processes: '%d' is not 1, 2 or 4", n);
		return CLI_USAGE;
	}
	if (n > 1 && ranks < 2 * n) {
		cli_complain("drill",
		             "--processes: %d of them take %d ranks, not %d", n,
		             2 * n, ranks);
		return CLI_USAGE;
	}
	return CLI_OK;
}

static int parse(int argc, char **argv, struct drill_options *o, bool *help_out)
{
	const uint64_t most = 1000000;
	const struct cli_option options[] = {
		{ "ranks", 0, CLI_INT, &o->ranks, .least = 2,
		  .most = DRILL_MOST_RANKS },
		{ "processes", 0, CLI_INT, &o->processes, .least = 1,
		  .most = DRILL_MOST_RANKS / 2 },
		{ "only", 0, CLI_READ, o, .read = read_only },
		{ "platform", 0, CLI_PLATFORM(&o->platform) },
		{ "deadline", 0, CLI_MS, &o->deadline_ns, .least = 10,
		  .most = most },
		{ "slack", 0, CLI_MS, &o->slack_ns, .least = 0, .most = most },
		{ "list", 0, CLI_TRUE, .value = &o->list },
		{ "json", 0, CLI_TRUE, .value = &o->json },
		{ .kind = CLI_END },
	};
	int status =
		cli_options("drill", argc, argv, options, print_help, help_out);

	if (!o->is_limited)
		memset(o->only, true, sizeof(o->only));
	return status == CLI_OK && !*help_out ? check_numbers(o) : status;
}

/* ---- what is expected ------------------------------------------------- */

static void print_name(enum place place, enum trouble trouble)
{
	printf("%-11s%-25s", drill_place_name(place),
	       drill_trouble_name(trouble));
}

static void list_cell(const struct drill_options *options, enum place place,
                      enum trouble trouble)
{
	static const char *const bounds[] = {
		[NO_BOUND] = "",
		[BY_DEADLINE] = ", at its deadline",
		[AT_ONCE] = ", at once",
		[BY_PROBER] = ", within 50 ms",
	};
	const struct cell *cell =
		drill_cell(place, trouble, options->processes);
	char expected[96];

	print_name(place, trouble);
	if (cell->impossible) {
		printf("-  %s\n", cell->impossible);
		return;
	}
	drill_spell(expected, sizeof(expected), cell->kind,
	            drill_expected_rank(cell, options->ranks,
	                                options->processes));
	printf("%s%s", expected, bounds[cell->bound]);
	if (cell->least > options->ranks)
		printf(" (takes %d ranks)", cell->least);
	putchar('\n');
}

/* ---- the cells -------------------------------------------------------- */

struct drill {
	const struct drill_options *options;
	struct drill_memory memory;
	struct progress progress;
	size_t total;
	size_t done;
	size_t left_out;
	size_t wrong;
	size_t timed;
	double late_ms[PLACES * TROUBLES]; /* of the timed detections */
	struct drill_result results[PLACES * TROUBLES];
};

/* Return why the cell is left out: "" if it is impossible or was not asked for,
 * NULL if it is run. */
static const char *why_not(const struct drill_options *options,
                           enum place place, enum trouble trouble)
{
	const struct cell *cell =
		drill_cell(place, trouble, options->processes);

	if (!options->only[place][trouble] || cell->impossible ||
	    cell->least > options->ranks)
		return "";
	return options->is_nvidia ? drill_why_not(place, trouble) : NULL;
}

static void draw(struct drill *d, enum place place, enum trouble trouble)
{
	char text[80];

	if (!d->progress.shown)
		return;
	snprintf(text, sizeof(text), "%zu/%zu %s, %s", d->done + 1, d->total,
	         drill_place_name(place), drill_trouble_name(trouble));
	progress_draw(&d->progress, d->done, d->total, text);
}

/* The width of place, fault and verdict. */
enum { TIMES_COLUMN = 11 + 25 + 31 };

static void print_result(const struct drill_result *result)
{
	const char *got = result->ok ? result->got : "WRONG";

	print_name(result->place, result->trouble);
	printf("%-31s", got);
	if (result->is_timed && strlen(got) > 31)
		printf("\n%*s", TIMES_COLUMN, "");
	if (result->is_timed)
		printf("%6.1f%6.0f", result->detected_ms, result->bound_ms);
	putchar('\n');
	if (!result->ok)
		printf("           %s\n           expected: %s\n", result->got,
		       result->expected);
	fflush(stdout);
}

static void do_cell(struct drill *d, enum place place, enum trouble trouble)
{
	struct drill_result *result = &d->results[d->done];
	struct drill_census before = drill_census();
	char left[80];

	draw(d, place, trouble);
	drill_run(d->options, &d->memory, place, trouble, result);
	d->done++;
	if (drill_is_left(&before, left, sizeof(left))) {
		result->ok = false;
		text_append(result->got, sizeof(result->got), "; %s", left);
	}
	d->wrong += !result->ok;
	if (result->is_timed)
		d->late_ms[d->timed++] = result->detected_ms - result->bound_ms;
	if (d->options->json)
		return;
	progress_clear(&d->progress);
	print_result(result);
}

static void leave_out(struct drill *d, enum place place, enum trouble trouble,
                      const char *why)
{
	d->left_out++;
	if (d->options->json)
		return;
	progress_clear(&d->progress);
	print_name(place, trouble);
	printf("left out: %s\n", why);
}

/* Run a cell without a fault, which must succeed.  The platform then has what
 * it keeps after its first use, which would otherwise be left behind by the
 * first cell. */
static bool warm_up(struct drill *d)
{
	struct drill_result *result = &d->results[0];

	drill_run(d->options, &d->memory, AT_CALL, BY_NOTHING, result);
	if (!result->ok)
		cli_complain("drill", "without any fault: %s", result->got);
	return result->ok;
}

static void do_all(struct drill *d)
{
	const int troubles = drill_troubles(d->options);
	const char *why;

	for (int p = 0; p < PLACES; p++)
		for (int t = 0; t < troubles; t++)
			d->total += !why_not(d->options, p, t);
	if (!d->options->json)
		printf("%-11s%-25s%-31s%6s%6s\n", "where", "fault", "verdict",
		       "ms", "bound");
	progress_start(&d->progress);
	for (int p = 0; p < PLACES; p++)
		for (int t = 0; t < troubles; t++) {
			why = why_not(d->options, p, t);
			if (!why)
				do_cell(d, p, t);
			else if (*why)
				leave_out(d, p, t, why);
		}
	progress_erase(&d->progress);
}

/* ---- the report ------------------------------------------------------- */

static void json_cell(struct json *json, const struct drill_result *result)
{
	json_open(json, NULL, '{');
	json_string(json, "where", drill_place_name(result->place));
	json_string(json, "fault", drill_trouble_name(result->trouble));
	json_int(json, "ranks", result->ranks);
	json_string(json, "expected", result->expected);
	json_string(json, "got", result->got);
	json_string(json, "text", *result->text ? result->text : NULL);
	json_double(json, "detected_ms",
	            result->is_timed ? result->detected_ms : NAN);
	json_double(json, "bound_ms",
	            result->is_timed ? result->bound_ms : NAN);
	json_bool(json, "ok", result->ok);
	json_close(json, '}');
}

static void print_json(const struct drill *d)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_open(&json, "cells", '[');
	for (size_t i = 0; i < d->done; i++)
		json_cell(&json, &d->results[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

/* Report all cells, and return the exit status. */
static int report(struct drill *d, double seconds)
{
	const double most =
		(double)d->options->slack_ns * 1e-6 * MEDIAN_PERCENT / 100;
	const double median =
		d->timed ? cli_quantile(d->late_ms, d->timed, 0.5) : 0.0;

	if (d->options->json)
		print_json(d);
	else
		printf("\n%zu cells, %zu right, %zu wrong; %.1f s\n", d->done,
		       d->done - d->wrong, d->wrong, seconds);
	if (!d->options->json && d->left_out)
		printf("%zu cells left out, which NVIDIA's NCCL cannot be made "
		       "to have\n",
		       d->left_out);
	if (!d->options->json && d->timed)
		printf("noticed after the bound: %.1f ms in the median, %.1f "
		       "ms at worst\n",
		       median, d->late_ms[d->timed - 1]);
	if (d->wrong)
		cli_complain("drill", "%zu of %zu cells are wrong", d->wrong,
		             d->done);
	else if (median > most)
		cli_complain("drill",
		             "the median verdict is %.1f ms after its bound, "
		             "more than %.1f",
		             median, most);
	return d->wrong || median > most ? CLI_FAILED : CLI_OK;
}

static int drill(const struct drill_options *options)
{
	static struct drill d;
	uint64_t began = clock_now();
	int status = CLI_FAILED;

	d.options = options;
	if ((options->processes > 1 ||
	     drill_memory_open(&d.memory, options, 0, options->ranks)) &&
	    warm_up(&d)) {
		do_all(&d);
		status = report(&d, (double)(clock_now() - began) * 1e-9);
	}
	drill_memory_close(&d.memory);
	return status;
}

static bool probe_nvidia(int platform)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	return cohort_platform_probe(platform, &info) == COHORT_OK &&
	       info.platform == COHORT_PLATFORM_GPU && info.is_drop_in != 1;
}

/* Probe in a process of its own: this one may be to fork, and then must not
 * have loaded the platform. */
static bool is_nvidia(int platform)
{
	int status = 1; /* no exit status */
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(probe_nvidia(platform));
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

int drill_main(int argc, char **argv)
{
	struct drill_options options = {
		.ranks = 4,
		.processes = 1,
		.platform = COHORT_PLATFORM_HOST,
		.deadline_ns = 200 * NS_PER_MS,
		.slack_ns = 50 * NS_PER_MS,
	};
	bool help;
	int status = parse(argc, argv, &options, &help);

	if (status != CLI_OK || help)
		return status;
	if (options.list) {
		for (int p = 0; p < PLACES; p++)
			for (int t = 0; t < drill_troubles(&options); t++)
				if (options.only[p][t])
					list_cell(&options, p, t);
		return CLI_OK;
	}
	/* Unique ids are made for the default platform. */
	status = cli_setenv("drill", "COHORT_PLATFORM",
	                    cli_platform_name(options.platform), true);
	if (status != CLI_OK)
		return status;
	options.is_nvidia = is_nvidia(options.platform);
	return drill(&options);
}
