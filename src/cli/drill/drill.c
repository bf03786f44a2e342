/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort drill: every fault in every place, with a fresh group each
 *
 * Here are the options, the order of things, and the census: what a cell has begun it
 * must have ended.
 */

#include "cli/drill/drill.h"

#include <dirent.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cli/common/cli.h"
#include "cli/common/progress.h"
#include "sim/strict/census.h"

#define NS_PER_MS UINT64_C(1000000)

/* What a cell leaves may take to go. */
#define GONE_NS (5 * NS_PER_S)

/* That a detection may be later than its bound, in the median. */
#define MEDIAN_PERCENT 20

enum { DEFAULT_HOST_DEVICES = 8 };

/* ---- options ---------------------------------------------------------- */

enum {
	OPTION_RANKS = CLI_LONG_OPTION,
	OPTION_ONLY,
	OPTION_PLATFORM,
	OPTION_DEADLINE,
	OPTION_SLACK,
	OPTION_LIST,
	OPTION_JSON,
};

static const struct option long_options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "ranks", required_argument, NULL, OPTION_RANKS },
	{ "only", required_argument, NULL, OPTION_ONLY },
	{ "platform", required_argument, NULL, OPTION_PLATFORM },
	{ "deadline", required_argument, NULL, OPTION_DEADLINE },
	{ "slack", required_argument, NULL, OPTION_SLACK },
	{ "list", no_argument, NULL, OPTION_LIST },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ 0 },
};

static void print_help(void)
{
	puts("usage: cohort drill [OPTION]...\n"
	     "\n"
	     "Provokes every fault in every place, with a fresh group each, "
	     "and "
	     "checks that\n"
	     "what the library says is right and in time, and that nothing is "
	     "left behind.\n"
	     "\n"
	     "  --ranks N         2, 4 or 8 (default 4)\n"
	     "  --only WHERE[/FAULT]  only those, as --list spells them\n"
	     "  --deadline MS     what is waited for what hangs (default 200)\n"
	     "  --slack MS        how late a verdict may be (default 50), and "
	     "the\n"
	     "                    median a fifth of that\n"
	     "  --platform P      gpu or host (default host); faults are those "
	     "of "
	     "simulated\n"
	     "                    devices, which gpu has on the drop-in "
	     "libraries\n"
	     "  --list            what is expected, or why it cannot be\n"
	     "  --json            one JSON object instead of a table\n"
	     "  --help            this text\n"
	     "\n"
	     "Exit status: 0 if all is as expected.");
}

/* "send-recv" for "send/recv": as one may write it without quotes. */
static bool is_name(const char *text, size_t length, const char *name)
{
	if (strlen(name) != length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (text[i] != name[i] &&
		    (text[i] != '-' || (name[i] != ' ' && name[i] != '/')))
			return false;
	return true;
}

/* The fault behind a place's name, or all of them. */
static bool choose_faults(const char *text, bool only[TROUBLES])
{
	bool found = false;

	for (int t = 0; t < TROUBLES; t++) {
		bool is_it =
			!*text || is_name(text, strlen(text),
		                          drill_trouble_name((enum trouble)t));

		only[t] |= is_it;
		found |= is_it;
	}
	return found;
}

static int parse_only(const char *text, struct drill_options *options)
{
	for (int p = 0; p < PLACES; p++) {
		size_t length = strlen(drill_place_name((enum place)p));

		if (strlen(text) < length ||
		    !is_name(text, length, drill_place_name((enum place)p)) ||
		    (text[length] && text[length] != '/'))
			continue;
		text += length;
		if (choose_faults(text + (*text == '/'), options->only[p]))
			return CLI_OK;
		break;
	}
	cli_complain("drill",
	             "--only: '%s' is no WHERE or WHERE/FAULT, see "
	             "cohort drill --list",
	             optarg);
	return CLI_USAGE;
}

static int parse_ranks(int *ranks_out)
{
	uint64_t ranks;
	int status = cli_number("drill", "ranks", optarg, 2, DRILL_MOST_RANKS,
	                        &ranks);

	if (status != CLI_OK)
		return status;
	if (ranks & (ranks - 1)) {
		cli_complain("drill", "--ranks: '%s' is none of 2, 4 and 8",
		             optarg);
		return CLI_USAGE;
	}
	*ranks_out = (int)ranks;
	return CLI_OK;
}

static int parse_time(const char *option, uint64_t min, uint64_t *ns_out)
{
	uint64_t ms;
	int status = cli_number("drill", option, optarg, min, 1000000, &ms);

	if (status == CLI_OK)
		*ns_out = ms * NS_PER_MS;
	return status;
}

static int parse_option(int c, char **argv, struct drill_options *options)
{
	switch (c) {
	case OPTION_RANKS:
		return parse_ranks(&options->ranks);
	case OPTION_ONLY:
		return parse_only(optarg, options);
	case OPTION_PLATFORM:
		return cli_platform("drill", optarg, &options->platform);
	case OPTION_DEADLINE:
		return parse_time("deadline", 10, &options->deadline_ns);
	case OPTION_SLACK:
		return parse_time("slack", 0, &options->slack_ns);
	case OPTION_LIST:
		options->list = true;
		return CLI_OK;
	case OPTION_JSON:
		options->json = true;
		return CLI_OK;
	}
	cli_bad_option("drill", argv, c);
	return CLI_USAGE;
}

/* ---- the census ------------------------------------------------------- */

/* What threads are called that the simulated devices keep with their streams, for
 * whoever gets these next. */
#define KEPT "stream:"

/* What there is of things that a cell begins. */
struct census {
	size_t threads; /* but for those that are kept */
	int newest;     /* of the threads, as they are numbered */
	size_t memory;
	size_t streams;
	size_t events;
	size_t worlds;
	size_t meetings;
};

static void count_threads(struct census *census)
{
	DIR *tasks = opendir("/proc/self/task");
	char name[THREAD_NAME_SIZE];
	struct dirent *task;

	while (tasks && (task = readdir(tasks))) {
		int tid = atoi(task->d_name);

		if (!tid || !thread_lives(tid, name) ||
		    !strncmp(name, KEPT, sizeof(KEPT) - 1))
			continue;
		census->threads++;
		if (tid > census->newest)
			census->newest = tid;
	}
	if (tasks)
		closedir(tasks);
}

static struct census take_census(void)
{
	struct census census = {
		.memory = memory_live(),
		.streams = stream_live(),
		.events = event_live(),
		.worlds = world_live(),
		.meetings = meeting_live(),
	};

	count_threads(&census);
	return census;
}

/* What there is more of than before, NULL: nothing. */
static const char *excess(const struct census *before, const struct census *now)
{
	return now->threads > before->threads     ? "thread"
	       : now->memory > before->memory     ? "memory of a device"
	       : now->streams > before->streams   ? "stream"
	       : now->events > before->events     ? "event"
	       : now->worlds > before->worlds     ? "native communicator"
	       : now->meetings > before->meetings ? "unique id"
	                                          : NULL;
}

/* What was left behind by a cell, once what ends by itself had its time; false if
 * nothing was. */
static bool has_leavings(const struct census *before, char *out, size_t size)
{
	uint64_t deadline = clock_deadline(GONE_NS);
	char thread[THREAD_NAME_SIZE] = "";
	struct backoff b = BACKOFF;
	struct census now;
	const char *what;

	while ((now = take_census(), what = excess(before, &now)) &&
	       clock_now() < deadline)
		backoff_wait(&b, deadline);
	if (!what)
		return false;
	if (now.threads > before->threads)
		thread_lives(now.newest, thread);
	snprintf(out, size, "left behind: %s%s%s", what, *thread ? " " : "",
	         thread);
	return true;
}

/* ---- the cells -------------------------------------------------------- */

struct drill {
	const struct drill_options *options;
	struct drill_memory memory;
	struct progress progress;
	struct drill_result *results;
	size_t total;
	size_t done;
};

static bool is_chosen(const struct drill_options *options, int place,
                      int trouble)
{
	const struct cell *cell =
		drill_cell((enum place)place, (enum trouble)trouble);

	return options->only[place][trouble] && !cell->impossible &&
	       cell->least <= options->ranks;
}

static void draw(struct drill *d, int place, int trouble)
{
	char text[80];

	if (!d->progress.shown)
		return;
	snprintf(text, sizeof(text), "%zu/%zu %s, %s", d->done + 1, d->total,
	         drill_place_name((enum place)place),
	         drill_trouble_name((enum trouble)trouble));
	progress_draw(&d->progress, d->done, d->total, text);
}

static void do_cell(struct drill *d, int place, int trouble)
{
	struct drill_result *result = &d->results[d->done];
	struct census before = take_census();
	char left[80];
	size_t used;

	draw(d, place, trouble);
	drill_run(d->options, &d->memory, (enum place)place,
	          (enum trouble)trouble, result);
	d->done++;
	if (has_leavings(&before, left, sizeof(left))) {
		result->ok = false;
		used = strlen(result->got);
		snprintf(result->got + used, sizeof(result->got) - used, "; %s",
		         left);
	}
	if (d->options->json)
		return;
	progress_clear(&d->progress);
	drill_print(result);
}

static void do_all(struct drill *d)
{
	for (int p = 0; p < PLACES; p++)
		for (int t = 0; t < TROUBLES; t++)
			if (is_chosen(d->options, p, t))
				do_cell(d, p, t);
}

/* ---- before and after ------------------------------------------------- */

static bool open_memory(struct drill *d)
{
	struct drill_memory *m = &d->memory;
	struct cohort_group_options options;
	int r, n = d->options->ranks, rc;
	void *memory;

	cohort_group_options_init(&options);
	options.name = "keeper";
	options.platform = d->options->platform;
	rc = cohort_group_open(NULL, n, &options, &m->keeper);
	if (rc == COHORT_OK)
		rc = cohort_group_split(m->keeper, m->comms);
	for (r = 0; r < n && rc == COHORT_OK; r++) {
		rc = cohort_alloc(m->comms[r], 2 * DRILL_COUNT * sizeof(float),
		                  &memory);
		if (rc == COHORT_OK)
			m->tensors[r] = memory;
	}
	if (rc != COHORT_OK)
		cli_complain("drill", "%s", cohort_last_error());
	return rc == COHORT_OK;
}

static void close_memory(struct drill *d)
{
	for (int r = 0; r < d->options->ranks; r++)
		if (d->memory.tensors[r])
			cohort_free(d->memory.comms[r], d->memory.tensors[r]);
	cohort_group_close(d->memory.keeper);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void sum_up(const struct drill *d, struct drill_summary *s)
{
	for (size_t i = 0; i < d->done; i++) {
		const struct drill_result *r = &d->results[i];

		s->wrong += !r->ok;
		if (r->is_timed)
			s->late_ms[s->timed++] = r->detected_ms - r->bound_ms;
	}
	s->cells = d->done;
	qsort(s->late_ms, s->timed, sizeof(*s->late_ms), compare);
}

/* An exit status. */
static int judge(const struct drill_options *options,
                 const struct drill_summary *s)
{
	double median = s->timed ? s->late_ms[s->timed / 2] : 0.0;
	double most = (double)options->slack_ns * 1e-6 * MEDIAN_PERCENT / 100;

	if (s->wrong)
		cli_complain("drill", "%zu of %zu cells are wrong", s->wrong,
		             s->cells);
	else if (median > most)
		cli_complain("drill",
		             "in the median %.1f ms after the bound, more than "
		             "%.1f",
		             median, most);
	return s->wrong || median > most ? CLI_FAILED : CLI_OK;
}

static int report(const struct drill *d, double seconds)
{
	struct drill_summary s = { .seconds = seconds };
	int status = CLI_FAILED;

	s.late_ms = calloc(d->done + 1, sizeof(*s.late_ms));
	if (!s.late_ms) {
		cli_complain("drill", "out of memory");
		return status;
	}
	sum_up(d, &s);
	if (d->options->json)
		drill_json(d->results, d->done);
	else
		drill_print_summary(&s);
	status = judge(d->options, &s);
	free(s.late_ms);
	return status;
}

/* What the platform has once it is used is no cell's; and without a fault all has to
 * be well. */
static bool warm_up(struct drill *d)
{
	struct drill_result *result = &d->results[0];

	drill_run(d->options, &d->memory, AT_CALL, BY_NOTHING, result);
	if (!result->ok)
		cli_complain("drill", "without any fault: %s", result->got);
	return result->ok;
}

static int drill(const struct drill_options *options)
{
	struct drill d = { .options = options };
	uint64_t began = clock_now();
	int status = CLI_FAILED;

	for (int p = 0; p < PLACES; p++)
		for (int t = 0; t < TROUBLES; t++)
			d.total += is_chosen(options, p, t);
	d.results = calloc(d.total + 1, sizeof(*d.results));
	if (!d.results) {
		cli_complain("drill", "out of memory");
		return CLI_FAILED;
	}
	if (open_memory(&d) && warm_up(&d)) {
		if (!options->json)
			drill_print_head();
		progress_start(&d.progress);
		do_all(&d);
		progress_erase(&d.progress);
		status = report(&d, (double)(clock_now() - began) * 1e-9);
	}
	close_memory(&d);
	free(d.results);
	return status;
}

/* That number must be set before anything asks the host platform; and ids are of the
 * platform that is the default. */
static int settle_platform(int platform)
{
	setenv("COHORT_PLATFORM", cli_platform_name(platform), 1);
	if (getenv("COHORT_HOST_DEVICES") ||
	    cohort_sim_set_devices(DEFAULT_HOST_DEVICES) == COHORT_OK)
		return CLI_OK;
	cli_complain("drill", "%s", cohort_last_error());
	return CLI_FAILED;
}

int drill_main(int argc, char **argv)
{
	struct drill_options options = {
		.ranks = 4,
		.platform = COHORT_PLATFORM_HOST,
		.deadline_ns = 200 * NS_PER_MS,
		.slack_ns = 50 * NS_PER_MS,
	};
	bool any = false;
	int c, status;

	while ((c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		if (c == 'h') {
			print_help();
			return CLI_OK;
		}
		status = parse_option(c, argv, &options);
		if (status != CLI_OK)
			return status;
		any |= c == OPTION_ONLY;
	}
	if (cli_no_operands("drill", argc, argv) != CLI_OK)
		return CLI_USAGE;
	if (!any)
		memset(options.only, true, sizeof(options.only));
	if (options.list) {
		drill_list(&options);
		return CLI_OK;
	}
	status = settle_platform(options.platform);
	return status == CLI_OK ? drill(&options) : status;
}
