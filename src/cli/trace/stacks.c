/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The stacks in dumps, and their names from the files of this machine
 */

#include "cli/trace/trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
