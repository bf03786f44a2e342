/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The stacks in dumps: named from the files of this machine, and printed
 */

#include "cli/trace/trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/common/symbols.h"

void trace_stacks_free(struct trace_stacks *s)
{
	int i;

	for (i = 0; i < s->n; i++)
		free(s->at[i].frames);
	free(s->at);
	*s = (struct trace_stacks){ .n = 0 };
}

/* ---- names ------------------------------------------------------------ */

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

void trace_stacks_name(struct trace *t)
{
	struct trace_stack *s;
	int i;

	for (s = t->stacks.at; s < t->stacks.at + t->stacks.n; s++)
		for (i = 0; i < s->n; i++)
			name_frame(&s->frames[i]);
}

/* ---- printing --------------------------------------------------------- */

/* Print a path as one word of a shell. */
static void print_quoted(const char *path)
{
	const char *plain = "abcdefghijklmnopqrstuvwxyz"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@";

	if (!path[strspn(path, plain)]) {
		printf("%s", path);
		return;
	}
	putchar('\'');
	for (; *path; path++)
		printf(*path == '\'' ? "'\\''" : "%c", *path);
	putchar('\'');
}

static bool is_unnamed(const struct trace_frame *f)
{
	return !*f->function && *f->path == '/';
}

/* Print the command that names the frames in the same file as frame @i, if that is the
 * first of them. */
static void print_command(const struct trace_stack *s, int i)
{
	const struct trace_frame *f = &s->frames[i];
	int k;

	for (k = 0; k < i; k++)
		if (is_unnamed(&s->frames[k]) &&
		    strcmp(s->frames[k].path, f->path) == 0)
			return;
	printf("   addr2line -e ");
	print_quoted(f->path);
	printf(" -f -C");
	for (; k < s->n; k++)
		if (is_unnamed(&s->frames[k]) &&
		    strcmp(s->frames[k].path, f->path) == 0)
			printf(" 0x%" PRIx64, s->frames[k].offset);
	printf("\n");
	if (f->is_other_build)
		printf("     (with the file of build ID %s: this one is "
		       "another)\n",
		       *f->build_id ? f->build_id : "\"\"");
}

static void print_frame(const struct trace_frame *f)
{
	const char *slash = strrchr(f->path, '/');

	if (*f->function)
		printf("   %s\n", f->function);
	else if (*f->path)
		printf("   %s+0x%" PRIx64 "\n", slash ? slash + 1 : f->path,
		       f->offset);
	else
		printf("   0x%" PRIx64 "\n", f->offset);
}

static void print_stack(const struct trace_stack *s)
{
	int i;

	if (s->rank >= 0)
		printf("\n stack of rank %d, thread %d \"%s\"", s->rank, s->tid,
		       s->thread);
	else
		printf("\n stack of thread %d \"%s\"", s->tid, s->thread);
	printf("%s%s%s\n", *s->state ? ", " : "", s->state,
	       s->holds_python ? "; it holds Python's interpreter lock" : "");
	if (!s->n)
		printf("   %s\n", s->text);
	for (i = 0; i < s->n; i++)
		print_frame(&s->frames[i]);
	for (i = 0; i < s->n; i++)
		if (is_unnamed(&s->frames[i]))
			print_command(s, i);
}

void trace_stacks_print(const struct trace *t)
{
	int i;

	for (i = 0; i < t->stacks.n; i++)
		print_stack(&t->stacks.at[i]);
}

void trace_stacks_json(struct json *j, const struct trace *t)
{
	const struct trace_frame *f;
	const struct trace_stack *s;

	json_open(j, "stacks", '[');
	for (s = t->stacks.at; s < t->stacks.at + t->stacks.n; s++) {
		json_open(j, NULL, '{');
		if (s->rank >= 0)
			json_int(j, "rank", s->rank);
		else
			json_null(j, "rank");
		json_int(j, "tid", s->tid);
		json_string(j, "thread", s->thread);
		json_string(j, "state", s->state);
		json_bool(j, "holds_interpreter_lock", s->holds_python);
		json_string(j, "text", s->text);
		json_open(j, "frames", '[');
		for (f = s->frames; f < s->frames + s->n; f++) {
			json_open(j, NULL, '{');
			json_string(j, "function",
			            *f->function ? f->function : NULL);
			json_string(j, "path", *f->path ? f->path : NULL);
			json_string(j, "build_id",
			            *f->build_id ? f->build_id : NULL);
			json_uint(j, "offset", f->offset);
			json_close(j, '}');
		}
		json_close(j, ']');
		json_close(j, '}');
	}
	json_close(j, ']');
}
