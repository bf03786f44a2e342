/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: what a running group does, again and again
 */

#include "cli/top/top.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"

static void print_help(void)
{
	/* clang-format off */
	puts("usage: cohort top [OPTION]... [FIFO] [DIRECTORY]\n"
	     "\n"
	     "Shows what each rank of a running group does.  The program needs to have a\n"
	     "FIFO for dumps: COHORT_DUMP_FIFO and COHORT_DUMP_DIR in its environment, or\n"
	     "options.dump_fifo and options.dump_directory.  At each refresh the group writes\n"
	     "a dump, which takes a thread of the program some 12 ms a rank.\n"
	     "\n"
	     "FIFO is the program's; without it, the one in DIRECTORY, or the one that\n"
	     "COHORT_DUMP_FIFO names.  DIRECTORY is where dumps are written: without it, what\n"
	     "COHORT_DUMP_DIR names, or else the directory of the FIFO.\n"
	     "\n"
	     "A line for each rank has\n"
	     "  STATE      \"in call\"; \"between\" two calls; \"outside\" the library for a\n"
	     "             second or more, or \"waiting\" as long with operations in flight;\n"
	     "             \"gone\", its thread has ended; \"none\", it has not called;\n"
	     "             \"silent\", its process has not answered this time\n"
	     "  BEHIND     collectives that the foremost rank has called, and it has not\n"
	     "  AGO        how long ago the last call began\n"
	     "  COLL/S     collectives that it called a second, since the refresh before\n"
	     "  BYTES/S    bytes of its calls but copies, a second\n"
	     "  FLIGHT     operations that are not done\n"
	     "  LAST       to how many of the last collectives it came last\n"
	     "  DEV        the device\n"
	     "  LAST CALL  with its bytes, tag and label\n"
	     "\n"
	     "Keys: q quits, space pauses (nothing is asked then), r, l and c sort by rank,\n"
	     "longest since the last call, and lowest rate; j, k, arrows and pages scroll.\n"
	     "When standard output is no terminal, each refresh is a block of text.\n"
	     "\n"
	     "  --interval S  seconds between refreshes, 0.1 to 3600 (default 2)\n"
	     "  --count N     end after N refreshes; implies --plain\n"
	     "  --json        one JSON object for each refresh, on a line\n"
	     "  --plain       blocks of text, also on a terminal\n"
	     "  --sort BY     rank (default), last, or rate\n"
	     "  --group NAME  the group, if several answer\n"
	     "  --pid PID     the group with this process\n"
	     "  --help        this text\n"
	     "\n"
	     "Exit status: 0 also if the group has ended while it was watched, whose cause is\n"
	     "printed; 1 if there is no group, or it has never answered, or one of its\n"
	     "processes is gone without a cause, killed by a signal, say; 2 wrong usage.");
	/* clang-format on */
}

/* ---- options ----------------------------------------------------------- */

static int read_interval(const struct cli_option *option, const char *text)
{
	char *end;
	double seconds;

	errno = 0;
	seconds = strtod(text, &end);
	if (*text < '0' || *text > '9' || *end || errno || !isfinite(seconds) ||
	    seconds < 0.1 || seconds > 3600) {
		cli_complain("top",
		             "--interval: '%s' is not a number of seconds from "
		             "0.1 to 3600",
		             text);
		return CLI_USAGE;
	}
	*(uint64_t *)option->value = (uint64_t)(seconds * 1e9);
	return CLI_OK;
}

/* ---- without a terminal ------------------------------------------------ */

static void put_last_call(struct json *j, const struct top_rank *r)
{
	if (!*r->call) {
		json_null(j, "last_call");
		return;
	}
	json_open(j, "last_call", '{');
	json_string(j, "call", r->call);
	json_uint(j, "bytes", r->bytes);
	json_string(j, "tag", r->tag);
	json_string(j, "label", r->label);
	json_uint(j, "ago_ns", r->ago_ns);
	json_close(j, '}');
}

static void put_rank(struct json *j, const struct top_rank *r)
{
	json_open(j, NULL, '{');
	json_int(j, "rank", r->rank);
	json_int(j, "device", r->device);
	json_int(j, "pid", r->pid);
	json_string(j, "state", top_state_name(r->state));
	put_last_call(j, r);
	json_uint(j, "collectives", r->collectives);
	json_uint(j, "behind", r->behind);
	json_double(j, "collectives_per_second", r->collectives_rate);
	json_double(j, "bytes_per_second", r->bytes_rate);
	json_uint(j, "in_flight", r->in_flight);
	json_bool(j, "in_flight_is_least", r->is_more);
	json_uint(j, "came_last", r->last);
	json_close(j, '}');
}

static void put_cause(struct json *j, const struct cohort_cause *c)
{
	if (c->status == COHORT_OK) {
		json_null(j, "cause");
		return;
	}
	json_open(j, "cause", '{');
	json_string(j, "kind", cohort_verdict_text(c->kind));
	json_int(j, "rank", c->rank);
	json_string(j, "text", c->text);
	json_close(j, '}');
}

/* Print one object, on one line. */
static void print_json(const struct top_sample *s, bool has_ended)
{
	struct json json = { .out = stdout }, *j = &json;
	int i;

	json_open(j, NULL, '{');
	json_string(j, "group", s->group);
	json_int(j, "generation", s->generation);
	json_int(j, "world", s->world);
	json_string(j, "host", s->host);
	json_uint(j, "wall_ns", s->wall_ns);
	json_uint(j, "monotonic_ns", s->time_ns);
	json_bool(j, "ended", has_ended);
	json_string(j, "gone", *s->gone ? s->gone : NULL);
	put_cause(j, &s->cause);
	flight_put_set(j, "missing_ranks", s->missing);
	json_uint(j, "met", s->met);
	json_open(j, "ranks", '[');
	for (i = 0; i < s->n; i++)
		put_rank(j, &s->ranks[i]);
	json_close(j, ']');
	json_close(j, '}');
	putchar('\n');
}

static void print_sample(struct watch *w, bool has_ended)
{
	struct page page = { .sort = w->options->sort, .has_ended = has_ended };
	int i;

	if (w->options->is_json) {
		sample_sort(&w->sample, page.sort);
		print_json(&w->sample, has_ended);
	} else {
		page_make(&page, &w->sample);
		for (i = 0; i < page.n; i++)
			puts(page.lines[i].text);
		putchar('\n');
		free(page.lines);
	}
	fflush(stdout);
}

static void complain_of_silence(const struct watch *w)
{
	cli_complain(
		"top",
		"no answer for %s from FIFO '%s'%s, for dumps in '%s'%s%s: "
		"still trying",
		page_time(watch_silence(w)).at, w->feed.fifo,
		w->nobody_ns ? " (no process has it open)" : "",
		w->feed.directory, *w->feed.problem ? "; " : "",
		w->feed.problem);
}

/* Returns the state in which it ends, another one if all refreshes are made. */
static enum watch_state watch_plainly(struct watch *w)
{
	enum watch_state state;
	uint64_t made = 0;

	do {
		while ((state = watch_look(w)) == WATCH_WAITS)
			cli_sleep_until(w->next_ns);
		if (state == WATCH_ANSWERED)
			print_sample(w, false);
		else if (state == WATCH_SILENT)
			complain_of_silence(w);
		else
			break;
	} while (++made != w->options->count && !ferror(stdout));
	return state;
}

/* ---- the end ----------------------------------------------------------- */

/* Say why the watch is over; returns the exit status. */
static int tell_end(struct watch *w, enum watch_state state)
{
	bool is_well;

	switch (state) {
	case WATCH_MANY:
		watch_list(w);
		return CLI_USAGE;
	case WATCH_FAILED:
		cli_complain("top", "%s: %s", w->failed, strerror(w->error));
		return CLI_FAILED;
	case WATCH_ENDED:
		if (w->sample.n) {
			is_well = watch_find_end(w);
			print_sample(w, true);
			return is_well ? CLI_OK : CLI_FAILED;
		}
		cli_complain("top", "the group has ended before it answered");
		return CLI_FAILED;
	default:
		break;
	}
	if (w->sample.n || w->options->count == 0)
		return CLI_OK;
	cli_complain("top", "the group has not answered");
	return CLI_FAILED;
}

static bool is_terminal(void)
{
	const char *name = getenv("TERM");

	return isatty(STDOUT_FILENO) && name && *name &&
	       strcmp(name, "dumb") != 0;
}

static int run(const struct top_options *o, char *const *operands, int n)
{
	static struct watch w;
	const bool on_terminal = !o->is_plain && is_terminal();
	int status = feed_open(&w.feed, operands, n);

	w.options = o;
	if (status == CLI_OK && on_terminal && !terminal_open())
		status = CLI_FAILED;
	else if (status == CLI_OK)
		status = tell_end(&w, on_terminal ? terminal_watch(&w)
		                                  : watch_plainly(&w));
	feed_close(&w.feed);
	sample_free(&w.sample);
	return status;
}

int top_main(int argc, char **argv)
{
	struct top_options o = { .interval_ns = 2 * NS_PER_S };
	int sort = TOP_BY_RANK;
	const struct cli_option options[] = {
		{ "interval", 0, CLI_READ, .value = &o.interval_ns,
		  .read = read_interval },
		{ "count", 0, CLI_UINT, .value = &o.count, .least = 1,
		  .most = UINT32_MAX },
		{ "json", 0, CLI_TRUE, .value = &o.is_json },
		{ "plain", 0, CLI_TRUE, .value = &o.is_plain },
		{ "sort", 0, CLI_NAME, &sort, .most = TOP_BY_RATE,
		  .name_of = top_sort_name,
		  .says = "is neither rank, last nor rate" },
		{ "group", 0, CLI_TEXT, .value = &o.group },
		{ "pid", 0, CLI_INT, .value = &o.pid, .least = 1,
		  .most = INT_MAX },
		{ .kind = CLI_REST },
	};
	bool help;
	int status =
		cli_options(argv[0], argc, argv, options, print_help, &help);

	if (status != CLI_OK || help)
		return status;
	if (!trace_is_able("top"))
		return CLI_FAILED;
	o.sort = (enum top_sort)sort;
	o.is_plain = o.is_plain || o.is_json || o.count;
	return run(&o, argv + optind, argc - optind);
}
