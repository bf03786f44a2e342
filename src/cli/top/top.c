/* SPDX-License-Identifier: Apache-2.0 */

/* cohort top: shows periodically what a running group is doing */

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
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"

/* clang-format off */
static const char help[] =
	"usage: cohort top [OPTION]... [FIFO] [DIRECTORY]\n"
	"\n"
	"Shows what each rank of a running group is doing.  The program needs to have a\n"
	"FIFO for dumps: COHORT_DUMP_FIFO and COHORT_DUMP_DIR in its environment, or\n"
	"options.dump_fifo and options.dump_directory.  At each refresh the group writes\n"
	"a dump, which takes a thread of the program about 12 ms per rank.\n"
	"\n"
	"FIFO is the program's; without it, the one in DIRECTORY, or the one that\n"
	"COHORT_DUMP_FIFO names.  DIRECTORY is where dumps are written: without it, what\n"
	"COHORT_DUMP_DIR names, and otherwise the directory of the FIFO.\n"
	"\n"
	"A line for each rank has\n"
	"  STATE      \"in call\"; \"between\" two calls; \"outside\" the library for a\n"
	"             second or more, or \"waiting\" that long with operations in flight;\n"
	"             \"gone\" if its thread has ended; \"none\" if it has not called;\n"
	"             \"silent\" if its process has not answered this time\n"
	"  BEHIND     collectives that the foremost rank has called and this one has not\n"
	"  AGO        time since the last call started\n"
	"  COLL/S     collectives per second, since the previous refresh\n"
	"  BYTES/S    bytes per second of its calls, without copies\n"
	"  LAST       share of the last collectives to which it was the last rank\n"
	"  FLIGHT     operations that are not done\n"
	"  DEV        the device\n"
	"  LAST CALL  with its bytes, tag and label; for a rank that is outside, where\n"
	"             its thread is (if the group has options.stack_signal) and what it\n"
	"             does\n"
	"A narrow terminal leaves out DEV and FLIGHT first.  Its empty rows have a line\n"
	"for each earlier refresh.\n"
	"\n"
	"Keys: q quits; space pauses, and no dump is requested then; r, l and c sort by\n"
	"rank, longest time since the last call, and lowest rate; j, k, arrows and pages\n"
	"scroll.  If standard output is not a terminal, each refresh is a block of text.\n"
	"\n"
	"  --interval S  seconds between refreshes, 0.1 to 3600 (default 2)\n"
	"  --count N     end after N refreshes; implies --plain\n"
	"  --json        one JSON object for each refresh, on a line\n"
	"  --plain       blocks of text, even on a terminal\n"
	"  --group NAME  the group, if several answer\n"
	"  --pid PID     the group with this process\n"
	"  --help        this text\n"
	"\n"
	"Exit status: 0 on success, even if the group ended while it was watched (its\n"
	"cause is printed); 1 if there is no group, if it never answered, or if one of\n"
	"its processes ended without a cause, for example by a signal; 2 for wrong\n"
	"usage.\n";
/* clang-format on */

static int read_interval(const struct cli_option *option, const char *text)
{
	char *end;
	double seconds;

	errno = 0;
	seconds = strtod(text, &end);
	if (*text < '0' || *text > '9' || *end || errno || !isfinite(seconds) ||
	    seconds < 0.1 || seconds > 3600)
		return cli_misuse(
			"--interval: \"%s\" is not a number of seconds from "
			"0.1 to 3600",
			text);
	*(uint64_t *)option->value = (uint64_t)(seconds * 1e9);
	return CLI_OK;
}

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
	json_string(j, "thread", *r->thread ? r->thread : NULL);
	json_string(j, "frame", *r->frame ? r->frame : NULL);
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

static void print_json(const struct top_sample *s, bool has_ended)
{
	struct json json = { .out = stdout }, *j = &json;

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
	for (int i = 0; i < s->n; i++)
		put_rank(j, &s->ranks[i]);
	json_close(j, ']');
	json_close(j, '}');
	putchar('\n');
}

static void print_sample(struct watch *w, bool has_ended)
{
	struct page page = { .has_ended = has_ended };

	if (w->options->is_json) {
		print_json(&w->sample, has_ended);
	} else {
		page_make(&page, &w->sample);
		for (int i = 0; i < page.n; i++)
			puts(page.lines[i].text);
		putchar('\n');
		free(page.lines);
	}
	fflush(stdout);
}

static void warn_of_silence(const struct watch *w)
{
	cli_error("no answer for %s from FIFO '%s'%s: no new dump in "
	          "'%s'%s%s; still trying",
	          page_time(watch_silence(w)).at, w->feed.fifo,
	          w->nobody_ns ? " (no process has it open)" : "",
	          w->feed.directory, *w->feed.problem ? "; " : "",
	          w->feed.problem);
}

/* Watch without a terminal. Return the state that ended the watch, or any other
 * state if all refreshes were printed. */
static enum watch_state watch_plainly(struct watch *w)
{
	enum watch_state state;
	uint64_t made = 0;

	do {
		while ((state = watch_poll(w)) == WATCH_WAITS)
			cli_sleep_until(w->next_ns);
		if (state == WATCH_ANSWERED)
			print_sample(w, false);
		else if (state == WATCH_SILENT)
			warn_of_silence(w);
		else
			break;
	} while (++made != w->options->count && !ferror(stdout));
	return state;
}

static int report_end(struct watch *w, enum watch_state state)
{
	bool is_well;

	switch (state) {
	case WATCH_MANY:
		watch_list(w);
		return CLI_USAGE;
	case WATCH_FAILED:
		return cli_fail("%s: %s", w->failed, strerror(w->error));
	case WATCH_ENDED:
		if (w->sample.n) {
			is_well = watch_find_end(w);
			print_sample(w, true);
			return is_well ? CLI_OK : CLI_FAILED;
		}
		return cli_fail("the group has ended before it answered");
	default:
		break;
	}
	if (w->sample.n || w->options->count == 0)
		return CLI_OK;
	return cli_fail("the group has not answered");
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
		status = report_end(&w, on_terminal ? terminal_watch(&w)
		                                    : watch_plainly(&w));
	feed_close(&w.feed);
	sample_free(&w.sample);
	return status;
}

int top_main(int argc, char **argv)
{
	struct top_options o = { .interval_ns = 2 * NS_PER_S };
	const struct cli_option options[] = {
		{ "interval", 0, CLI_READ, .value = &o.interval_ns,
		  .read = read_interval },
		{ "count", 0, CLI_UINT, .value = &o.count, .least = 1,
		  .most = UINT32_MAX },
		{ "json", 0, CLI_TRUE, .value = &o.is_json },
		{ "plain", 0, CLI_TRUE, .value = &o.is_plain },
		{ "group", 0, CLI_TEXT, .value = &o.group },
		{ "pid", 0, CLI_INT, .value = &o.pid, .least = 1,
		  .most = INT_MAX },
		{ .kind = CLI_REST },
	};
	int status;

	if (!cli_options(argv[0], argc, argv, options, help, &status))
		return status;
	if (!trace_is_able())
		return CLI_FAILED;
	o.is_plain = o.is_plain || o.is_json || o.count;
	return run(&o, argv + optind, argc - optind);
}
