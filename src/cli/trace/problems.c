/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is wrong with the files that cohort trace reads
 */

#ifdef HAVE_JSON_C

#include "cli/trace/read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

void reader_problem(struct reader *r, const char *format, ...)
{
	struct trace *t = r->trace;
	size_t size;
	char line[256], *text;
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	size = strlen(r->file) + strlen(line) + sizeof(": ");
	text = trace_need(malloc(size));
	snprintf(text, size, "%s: %s", r->file, line);
	t->problems =
		trace_need(realloc(t->problems, ((size_t)t->n_problems + 1) *
	                                                sizeof(*t->problems)));
	t->problems[t->n_problems++] = text;
}

const char *trace_plural(size_t n)
{
	return n == 1 ? "" : "s";
}

void reader_tell(struct reader *r)
{
	const struct value_wrong *w = r->values.keys;
	size_t more = r->values.wrong;

	for (; w < r->values.keys + r->values.n; w++) {
		more -= w->n;
		if (w->n > 1)
			reader_problem(r, "%s, and %zu more", w->text,
			               w->n - 1);
		else
			reader_problem(r, "%s", w->text);
	}
	if (more)
		reader_problem(r, "%zu value%s of other keys %s wrong", more,
		               trace_plural(more), more == 1 ? "is" : "are");
	if (r->left_out)
		reader_problem(r,
		               "%zu operation%s with wrong values %s left out",
		               r->left_out, trace_plural(r->left_out),
		               r->left_out == 1 ? "is" : "are");
	if (r->damaged)
		reader_problem(r, "%zu line%s cannot be read", r->damaged,
		               trace_plural(r->damaged));
}

#endif
