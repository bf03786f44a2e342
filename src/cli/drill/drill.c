/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort drill: injects each fault at each place, each time into a new group
 *
 * This file reads the options, and lists, runs and reports all cells.
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
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"

#define NS_PER_MS UINT64_C(1000000)

/* Largest permitted median of the delays of all detections, as a percentage of
 * slack_ns */
#define MEDIAN_PERCENT 20

/* clang-format off */
static const char help[] =
	"usage: cohort drill [OPTION]...\n"
	"\n"
	"Injects each fault at each place, always into a new group.  Checks that the\n"
	"library's verdict is right and in time, and that nothing is left behind.\n"
	"\n"
	"  --ranks N         2, 4 or 8 (default 4)\n"
	"  --processes N     1, 2 or 4 processes that share out the ranks, at least two\n"
	"                    ranks each (default 1); several processes have more\n"
	"                    faults, such as a process that is killed\n"
	"  --only WHERE[/FAULT]  only these cells, named as in --list\n"
	"  --deadline MS     how long a group waits for what hangs (default 200)\n"
	"  --slack MS        how late a verdict may be (default 50); the median may be\n"
	"                    late by a fifth of that\n"
	"  --platform P      gpu or host (default host).  Faults need simulated devices,\n"
	"                    which gpu has with the drop-in libraries.  With cohort run\n"
	"                    --nccl, cells are left out whose fault only the simulator's\n"
	"                    own NCCL can inject\n"
	"  --list            print the expected outcome of each cell, or why it is\n"
	"                    impossible\n"
	"  --json            one JSON object instead of a table\n"
	"  --help            this text\n"
	"\n"
	"Exit status: 0 if all is as expected.\n";
/* clang-format on */

/* Return whether @text is @name. To avoid quotes in the shell, '-' in @text can
 * stand for ' ' or '/'. */
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
			         drill_place_names[p], drill_trouble_names[t]);
			if (is_name(text, drill_place_names[p]) ||
			    is_name(text, name))
				options->only[p][t] = found = true;
		}
	if (found)
		return CLI_OK;
	return cli_misuse("--only: \"%s\" is not WHERE or WHERE/FAULT; see "
	                  "cohort drill --list",
	                  text);
}

static int check_numbers(const struct drill_options *options)
{
	const int ranks = options->ranks, n = options->processes;

	if (ranks & (ranks - 1))
		return cli_misuse("--ranks: \"%d\" is not 2, 4 or 8", ranks);
	if (n & (n - 1))
		return cli_misuse("--processes: \"%d\" is not 1, 2 or 4", n);
	if (n > 1 && ranks < 2 * n)
		return cli_misuse(
			"--processes: %d processes need at least %d ranks, not "
			"%d",
			n, 2 * n, ranks);
	return CLI_OK;
}

static bool parse(int argc, char **argv, struct drill_options *o,
                  int *status_out)
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

	if (!cli_options("drill", argc, argv, options, help, status_out))
		return false;
	if (!memchr(o->only, true, sizeof(o->only)))
		memset(o->only, true, sizeof(o->only));
	*status_out = check_numbers(o);
	return *status_out == CLI_OK;
}

static void print_name(enum place place, enum trouble trouble)
{
	printf("%-11s%-25s", drill_place_names[place],
	       drill_trouble_names[trouble]);
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
	drill_format_verdict(expected, sizeof(expected), cell->kind,
	                     drill_expected_rank(cell, options->ranks,
	                                         options->processes));
	printf("%s%s", expected, bounds[cell->bound]);
	if (cell->least > options->ranks)
		printf(" (needs %d ranks)", cell->least);
	putchar('\n');
}

struct drill {
	const struct drill_options *options;
	struct drill_memory memory;
	struct json json;
	size_t done;
	size_t left_out;
	size_t wrong;
	size_t timed;
	double late_ms[PLACES * TROUBLES]; /* delays of the detections */
};

/* Return NULL if the cell must run. Otherwise return why it is skipped, or ""
 * if it is impossible or was not selected. */
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

/* Total width of the table's place, fault and verdict columns */
enum { TIMES_COLUMN = 11 + 25 + 31 };

static void print_result(enum place place, enum trouble trouble,
                         const struct drill_result *result)
{
	const char *got = result->ok ? result->got : "WRONG";

	print_name(place, trouble);
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

static void json_cell(struct drill *d, enum place place, enum trouble trouble,
                      const struct drill_result *result)
{
	const bool is_timed = result->is_timed;
	struct json *json = &d->json;

	json_open(json, NULL, '{');
	json_string(json, "where", drill_place_names[place]);
	json_string(json, "fault", drill_trouble_names[trouble]);
	json_int(json, "ranks", d->options->ranks);
	json_string(json, "expected", result->expected);
	json_string(json, "got", result->got);
	json_string(json, "text", *result->text ? result->text : NULL);
	json_double(json, "detected_ms", is_timed ? result->detected_ms : NAN);
	json_double(json, "bound_ms", is_timed ? result->bound_ms : NAN);
	json_bool(json, "ok", result->ok);
	json_close(json, '}');
}

static void do_cell(struct drill *d, enum place place, enum trouble trouble)
{
	struct drill_census before = drill_census();
	struct drill_result result;
	char left[80];

	drill_run(d->options, &d->memory, place, trouble, &result);
	d->done++;
	if (drill_is_left(&before, left, sizeof(left))) {
		result.ok = false;
		text_append(result.got, sizeof(result.got), "; %s", left);
	}
	d->wrong += !result.ok;
	if (result.is_timed)
		d->late_ms[d->timed++] = result.detected_ms - result.bound_ms;
	if (d->options->json)
		json_cell(d, place, trouble, &result);
	else
		print_result(place, trouble, &result);
}

/* Run a cell without a fault, which must succeed. The platform keeps resources
 * after its first use, which the census would otherwise report after the first
 * cell. */
static bool warm_up(struct drill *d)
{
	struct drill_result result;

	drill_run(d->options, &d->memory, AT_CALL, BY_NOTHING, &result);
	if (!result.ok)
		cli_error("without any fault: %s", result.got);
	return result.ok;
}

static void do_all(struct drill *d)
{
	const int troubles = drill_troubles(d->options);
	const char *why;

	d->json.out = stdout;
	if (d->options->json) {
		json_open(&d->json, NULL, '{');
		json_open(&d->json, "cells", '[');
	} else {
		printf("%-11s%-25s%-31s%6s%6s\n", "where", "fault", "verdict",
		       "ms", "bound");
	}
	for (int p = 0; p < PLACES; p++)
		for (int t = 0; t < troubles; t++) {
			why = why_not(d->options, p, t);
			if (!why)
				do_cell(d, p, t);
			if (!why || !*why)
				continue;
			d->left_out++;
			if (d->options->json)
				continue;
			print_name(p, t);
			printf("left out: %s\n", why);
		}
}

static int report(struct drill *d, double seconds)
{
	const double most =
		(double)d->options->slack_ns * 1e-6 * MEDIAN_PERCENT / 100;
	const double median =
		d->timed ? cli_quantile(d->late_ms, d->timed, 0.5) : 0.0;

	if (d->options->json) {
		json_close(&d->json, ']');
		json_close(&d->json, '}');
		putchar('\n');
	} else {
		printf("\n%zu cells, %zu right, %zu wrong; %.1f s\n", d->done,
		       d->done - d->wrong, d->wrong, seconds);
		if (d->left_out)
			printf("%zu cells left out, because NVIDIA's NCCL has "
			       "no such "
			       "fault to inject\n",
			       d->left_out);
		if (d->timed)
			printf("verdict after the bound: median %.1f ms, "
			       "maximum %.1f "
			       "ms\n",
			       median, d->late_ms[d->timed - 1]);
	}
	if (d->wrong)
		cli_error("%zu of %zu cells are wrong", d->wrong, d->done);
	else if (median > most)
		cli_error("the median verdict is %.1f ms after its bound; at "
		          "most %.1f ms are allowed",
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

/* Return whether NVIDIA's NCCL is used. Probe in a new process, because this
 * process must not load the platform before it forks. */
static bool is_nvidia(int platform)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	int status = 1; /* a value that is no exit status */
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(cohort_platform_probe(platform, &info) == COHORT_OK &&
		      info.platform == COHORT_PLATFORM_GPU &&
		      info.is_drop_in != 1);
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
	int status;

	if (!parse(argc, argv, &options, &status))
		return status;
	if (options.list) {
		for (int p = 0; p < PLACES; p++)
			for (int t = 0; t < drill_troubles(&options); t++)
				if (options.only[p][t])
					list_cell(&options, p, t);
		return CLI_OK;
	}
	/* Ids are created on the default platform, so change the default. */
	status = cli_setenv("COHORT_PLATFORM",
	                    cli_platform_name(options.platform), true);
	if (status != CLI_OK)
		return status;
	options.is_nvidia = is_nvidia(options.platform);
	return drill(&options);
}
