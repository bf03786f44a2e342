/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: reads the dumps of a flight recorder, and prints what they have
 */

#include "cli/trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"
#include "cli/common/symbols.h"
#include "dump/chrome.h"

struct trace_options {
	bool json;
	const char *chrome; /* file to write trace events to, or NULL */
	const char *html;   /* file to write the page to, or NULL */
};

static void print_help(void)
{
	/* clang-format off */
	puts("usage: cohort trace [--json] [--chrome OUT] [--html OUT] FILE...\n"
	     "\n"
	     "Reads one dump of one group (see cohort_dump()) and prints the verdict, the\n"
	     "last collectives of all ranks side by side around the stall, how often each\n"
	     "rank came last and by how much, and how long calls queued, waited for other\n"
	     "ranks and were executed.\n"
	     "\n"
	     "The dump's fr_*_merged.json has all that is shown; fr_*_rank_N.json of every\n"
	     "rank will do, too.  The intact parts of damaged files are read, and what is\n"
	     "missing is named: an operation with a wrong value is left out, any other wrong\n"
	     "value counts as unknown.\n"
	     "\n"
	     "Times are given by kind of call: operation, type, count, number of tensors,\n"
	     "tag and label.  Tags that differ only in their numbers are one kind: \"step 11\"\n"
	     "and \"step 12\" are shown as \"step #\".  A number that all of them have stays.\n"
	     "A dump has the texts of a rank's last 64 tags; calls with older tags count as\n"
	     "calls without a tag.\n"
	     "\n"
	     "  --json        one JSON object instead of text\n"
	     "  --chrome OUT  also write trace events, for Perfetto or chrome://tracing\n"
	     "  --html OUT    also write a page for a browser: the verdict, a timeline of the\n"
	     "                ranks that zooms, and tables of ranks and calls that sort.  It\n"
	     "                is one file, which needs no network\n"
	     "  --help        this text");
	/* clang-format on */
}

/* ---- stacks ----------------------------------------------------------- */

/* Name a frame from the symbol table of its file. */
static void name_from(const struct image *image, struct trace_frame *f)
{
	struct image_function function = { .address = f->offset };
	char name[PLACE_NAME];

	image_find(image, &function, 1);
	if (image_name(image, &function, name, sizeof(name)))
		snprintf(f->function, sizeof(f->function), "%s+0x%" PRIx64,
		         name, f->offset - function.start);
}

static void name_frame(struct trace_frame *f)
{
	struct text t = { f->function, sizeof(f->function) };
	char id[2 * IMAGE_BUILD_ID + 1];
	struct image image;
	int fd = *f->path == '/' ? open(f->path, O_RDONLY | O_CLOEXEC |
	                                                 O_NONBLOCK | O_NOCTTY)
	                         : -1;

	if (fd < 0)
		return;
	if (image_begin(&image, fd, 0)) {
		image_build_id(&image, id);
		f->is_other_build = strcmp(id, f->build_id) != 0;
		if (!f->is_other_build && !symbols_find(f->path, f->offset, &t))
			name_from(&image, f);
	}
	close(fd);
}

/* Name the frames of all stacks from the files on this machine. */
static void name_stacks(struct trace *t)
{
	struct trace_stack *s;
	int i;

	for (s = t->stacks.at; s < t->stacks.at + t->stacks.n; s++)
		for (i = 0; i < s->n; i++)
			name_frame(&s->frames[i]);
}

/* ---- output ----------------------------------------------------------- */

static bool write_chrome(FILE *out, const struct trace_model *m)
{
	struct json json = { .out = out };

	chrome_write(&json, m->flight, SIZE_MAX);
	return true;
}

/* Have @write fill a file, if there is to be one: CLI_OK, or CLI_FAILED after a
 * complaint.  No part of a regular file is left. */
static int write_file(const char *path, const struct trace_model *m,
                      bool (*write)(FILE *out, const struct trace_model *m))
{
	FILE *out = path ? fopen(path, "we") : NULL;
	struct stat made;
	bool ok;

	if (!path)
		return CLI_OK;
	ok = out && write(out, m) && !ferror(out);
	if (out && fclose(out))
		ok = false;
	if (ok)
		return CLI_OK;
	cli_complain("trace", "%s: %s", path, strerror(errno));
	if (out && lstat(path, &made) == 0 && S_ISREG(made.st_mode))
		unlink(path);
	return CLI_FAILED;
}

static int run(const struct trace_options *o, char **files, int n)
{
	static struct trace t;
	struct trace_model m;
	int chrome, html;

	if (trace_read(&t, files, n) != CLI_OK) {
		trace_free(&t);
		return CLI_FAILED;
	}
	name_stacks(&t);
	trace_model(&m, &t);
	if (o->json)
		trace_json(stdout, &m);
	else
		trace_print(&m);
	chrome = write_file(o->chrome, &m, write_chrome);
	html = write_file(o->html, &m, trace_html);
	trace_model_free(&m);
	trace_free(&t);
	return chrome == CLI_OK ? html : chrome;
}

int trace_main(int argc, char **argv)
{
	struct trace_options o = { .json = false };
	const struct cli_option options[] = {
		{ "json", 0, CLI_TRUE, .value = &o.json },
		{ "chrome", 0, CLI_TEXT, .value = &o.chrome },
		{ "html", 0, CLI_TEXT, .value = &o.html },
		{ .kind = CLI_FILES },
	};
	bool help;
	int status =
		cli_options(argv[0], argc, argv, options, print_help, &help);

	if (status != CLI_OK || help)
		return status;
	return run(&o, argv + optind, argc - optind);
}
