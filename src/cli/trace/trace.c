/* SPDX-License-Identifier: Apache-2.0 */

/* cohort trace: reads dumps of the flight recorder and prints their contents */

#include "cli/trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/util.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"
#include "cli/common/symbols.h"
#include "dump/chrome.h"

/* Defined in page_data.S. */
extern const char fr2pickle_py[] __attribute__((visibility("hidden")));

struct trace_options {
	bool json;
	const char *chrome; /* file to write trace events to, or NULL */
	const char *html;   /* file to write the page to, or NULL */
	const char *pickle; /* folder to write pickles to, or NULL */
};

/* clang-format off */
static const char help[] =
	"usage: cohort trace [OPTION]... FOLDER\n"
	"       cohort trace [OPTION]... FILE...\n"
	"\n"
	"Reads one dump of one group (see cohort_dump()) and prints the verdict, the\n"
	"last collectives of all ranks side by side around the stall, how often each\n"
	"rank called last and by how much, and how long calls were queued, waited for\n"
	"other ranks and ran.\n"
	"\n"
	"FOLDER is where dumps are written; its newest dump is read.  For an older one,\n"
	"give its fr_*_merged.json, or the fr_*_rank_N.json of all ranks.  The intact\n"
	"parts of a damaged file are read, and the report says what is missing:\n"
	"operations with wrong values are left out, and any other wrong value counts as\n"
	"unknown.\n"
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
	"  --pickle OUT  also write a folder of pickles, which PyTorch's torchfrtrace\n"
	"                reads: torchfrtrace OUT --prefix rank_.  Needs python3, and the\n"
	"                files of the ranks\n"
	"  --help        this text\n";
/* clang-format on */

/*
 * The newest merged file determines the group and its generation. Each process
 * of the group writes its own files. Files that the processes wrote within a
 * minute of the newest file belong to the same dump.
 */

struct files {
	char **at; /* paths of the files */
	int n;
};

#define DIGITS "0123456789"

/* Largest difference in age between files of one dump, in seconds */
enum { TOGETHER_S = 60 };

/* The merged file of a process */
struct merged {
	const char *name;  /* fr_NAME_gN_HOST.PID.SERIAL[_MARK]_merged.json */
	size_t generation; /* length of the first part, fr_NAME_gN_ */
	size_t process;    /* length of fr_NAME_gN_HOST.PID.SERIAL */
	struct timespec written;
};

struct folder {
	const char *path;
	struct dirent **entries;
	int n_entries;
	struct merged *dumps; /* merged dumps, newest first */
	int n;
};

/* Add the file @name in @folder, or the path @name if @folder is "". */
static void add_file(struct files *files, const char *folder, const char *name)
{
	char *path;

	if (asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", name) < 0)
		path = NULL;
	files->at = cli_need(realloc(files->at, ((size_t)files->n + 1) *
	                                                sizeof(*files->at)));
	files->at[files->n++] = cli_need(path);
}

static bool starts_with(const char *text, const char *start, size_t n)
{
	return strncmp(text, start, n) == 0;
}

static int is_of_dump(const struct dirent *entry)
{
	return starts_with(entry->d_name, "fr_", 3) &&
	       cli_ends_with(entry->d_name, ".json");
}

static void split_name(struct merged *m)
{
	size_t n = strlen(m->name) - strlen(TRACE_MERGED);
	const char *at = m->name, *dot = memrchr(m->name, '.', n);

	m->process = dot ? (size_t)(dot + 1 - m->name) : n;
	m->process += strspn(m->name + m->process, DIGITS);
	while ((at = strstr(at, "_g"))) {
		at += strlen("_g");
		n = strspn(at, DIGITS);
		if (n && at[n] == '_')
			m->generation = (size_t)(at + n + 1 - m->name);
	}
}

static void add_merged(struct folder *f, const char *name)
{
	struct merged *m = &f->dumps[f->n];
	struct stat file;
	char *path;
	bool is_there;

	cli_need(asprintf(&path, "%s/%s", f->path, name) < 0 ? NULL : path);
	is_there = stat(path, &file) == 0;
	free(path);
	if (!is_there)
		return;
	*m = (struct merged){ .name = name, .written = file.st_mtim };
	split_name(m);
	f->n++;
}

static int newest_first(const void *a, const void *b)
{
	const struct merged *x = a, *y = b;

	if (x->written.tv_sec != y->written.tv_sec)
		return x->written.tv_sec < y->written.tv_sec ? 1 : -1;
	return (x->written.tv_nsec < y->written.tv_nsec) -
	       (x->written.tv_nsec > y->written.tv_nsec);
}

/* Return whether dump @i belongs to the newest dump of the group and is the
 * newest one of its process. */
static bool is_taken(const struct folder *f, int i)
{
	const struct merged *newest = &f->dumps[0], *m = &f->dumps[i];

	if (m->generation != newest->generation ||
	    !starts_with(m->name, newest->name, m->generation) ||
	    newest->written.tv_sec - m->written.tv_sec > TOGETHER_S)
		return false;
	for (int k = 0; k < i; k++)
		if (f->dumps[k].process == m->process &&
		    starts_with(f->dumps[k].name, m->name, m->process))
			return false;
	return true;
}

/* Add the merged file, and the files of its ranks, which have more
 * operations. */
static void add_files(const struct folder *f, const struct merged *m,
                      struct files *files)
{
	size_t n = strlen(m->name) - strlen(TRACE_MERGED);
	const char *name;

	add_file(files, f->path, m->name);
	for (int i = 0; i < f->n_entries; i++) {
		name = f->entries[i]->d_name;
		if (starts_with(name, m->name, n) &&
		    starts_with(name + n, "_rank_", 6))
			add_file(files, f->path, name);
	}
}

static int add_folder(struct files *files, const char *path)
{
	struct folder f = { .path = path };

	f.n_entries = scandir(path, &f.entries, is_of_dump, alphasort);
	if (f.n_entries < 0)
		return cli_fail("%s: %s", path, strerror(errno));
	f.dumps = cli_need(calloc((size_t)f.n_entries + 1, sizeof(*f.dumps)));
	for (int i = 0; i < f.n_entries; i++)
		if (cli_ends_with(f.entries[i]->d_name, TRACE_MERGED))
			add_merged(&f, f.entries[i]->d_name);
	qsort(f.dumps, (size_t)f.n, sizeof(*f.dumps), newest_first);
	for (int i = 0; i < f.n; i++)
		if (is_taken(&f, i))
			add_files(&f, &f.dumps[i], files);
	for (int i = 0; i < f.n_entries; i++)
		free(f.entries[i]);
	free(f.entries);
	free(f.dumps);
	if (f.n)
		return CLI_OK;
	return cli_fail("%s: no dump (fr_*_merged.json) in this folder", path);
}

void trace_name_frame(struct trace_frame *f)
{
	struct text t = { f->function, sizeof(f->function) };
	struct image_function function = { .address = f->offset };
	char id[2 * IMAGE_BUILD_ID + 1], name[PLACE_NAME];
	struct image image;
	int fd = *f->path == '/' ? open(f->path, O_RDONLY | O_CLOEXEC |
	                                                 O_NONBLOCK | O_NOCTTY)
	                         : -1;

	if (fd < 0)
		return;
	if (image_begin(&image, fd, 0)) {
		image_build_id(&image, id);
		f->is_other_build = strcmp(id, f->build_id) != 0;
		if (!f->is_other_build &&
		    !symbols_find(f->path, f->offset, &t)) {
			image_find(&image, &function, 1);
			if (image_name(&image, &function, name, sizeof(name)))
				text_add(&t, "%s+0x%" PRIx64, name,
				         f->offset - function.start);
		}
	}
	close(fd);
}

static bool write_chrome(FILE *out, const struct trace_model *m)
{
	struct json json = { .out = out };

	chrome_write(&json, m->flight, SIZE_MAX);
	return true;
}

/* Write the file @path by calling @write, unless @path is NULL.  Return CLI_OK.
 * On failure, print an error, remove a partly written regular file, and return
 * CLI_FAILED. */
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
	cli_error("%s: %s", path, strerror(errno));
	if (out && lstat(path, &made) == 0 && S_ISREG(made.st_mode))
		unlink(path);
	return CLI_FAILED;
}

/* Run the script that converts the ranks' files to pickles in the folder
 * @out. */
static int write_pickles(const char *out, const struct files *files)
{
	const char *start[] = { "python3", "-I", "-c", fr2pickle_py, out };
	const size_t n = ARRAY_SIZE(start), n_files = (size_t)files->n;
	char **argv = cli_need(calloc(n + n_files + 1, sizeof(*argv)));
	int status = 0;
	pid_t child;

	memcpy(argv, start, sizeof(start));
	memcpy(argv + n, files->at, n_files * sizeof(*argv));
	fflush(stdout);
	child = fork();
	if (!child) {
		execvp(*argv, argv);
		cli_error("--pickle: %s: %s", *argv, strerror(errno));
		_exit(CLI_FAILED);
	}
	free(argv);
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return cli_fail("--pickle: %s", strerror(errno));
	return status ? CLI_FAILED : CLI_OK;
}

static int run(const struct trace_options *o, const struct files *files)
{
	static struct trace t;
	struct trace_stack *s;
	struct trace_model m;
	int status = CLI_OK;

	if (!trace_gather(&t, files->at, files->n, 0)) {
		for (int i = 0; i < t.n_problems; i++)
			cli_error("%s", t.problems[i]);
		status = cli_fail("none of the files has operations of a rank");
		goto free_trace;
	}
	for (s = t.stacks.at; s < t.stacks.at + t.stacks.n; s++)
		for (int i = 0; i < s->n; i++)
			trace_name_frame(&s->frames[i]);
	trace_model(&m, &t);
	if (o->json)
		trace_json(stdout, &m);
	else
		trace_print(&m);
	if (write_file(o->chrome, &m, write_chrome) != CLI_OK)
		status = CLI_FAILED;
	if (write_file(o->html, &m, trace_html) != CLI_OK)
		status = CLI_FAILED;
	if (o->pickle && write_pickles(o->pickle, files) != CLI_OK)
		status = CLI_FAILED;
	trace_model_free(&m);
free_trace:
	trace_free(&t);
	return status;
}

int trace_main(int argc, char **argv)
{
	struct trace_options o = { .json = false };
	const struct cli_option options[] = {
		{ "json", 0, CLI_TRUE, .value = &o.json },
		{ "chrome", 0, CLI_TEXT, .value = &o.chrome },
		{ "html", 0, CLI_TEXT, .value = &o.html },
		{ "pickle", 0, CLI_TEXT, .value = &o.pickle },
		{ .kind = CLI_FILES },
	};
	struct files files = { .n = 0 };
	struct stat file;
	int status;

	if (!cli_options(argv[0], argc, argv, options, help, &status))
		return status;
	if (!trace_is_able())
		return CLI_FAILED;
	for (argv += optind; *argv && status == CLI_OK; argv++)
		if (stat(*argv, &file) == 0 && S_ISDIR(file.st_mode))
			status = add_folder(&files, *argv);
		else
			add_file(&files, "", *argv);
	if (status == CLI_OK)
		status = run(&o, &files);
	while (files.n)
		free(files.at[--files.n]);
	free(files.at);
	return status;
}
